//! The command line.
#![forbid(unsafe_code)]

mod commands;
mod context;
mod error;
mod local;
mod output;
mod progress;
mod running;
mod settings;
mod target;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use crate::commands::Command;
use crate::context::Context;
use crate::error::CliError;

/// jemalloc, because a command makes many small allocations that another thread frees (ADR 41).
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Numbers that can be trusted: gap-free sequences, ids in blocks, events.
///
/// Data goes to stdout, everything else to stderr. Exit codes: 0 success, 1 a problem was found, 2 wrong usage, 3 busy or
/// unavailable. Settings come from defaults, seriatim.toml, SERIATIM_* variables and flags; the last one wins.
#[derive(Debug, Parser)]
#[command(
    name = "seriatim",
    version,
    max_term_width = 110,
    after_help = "\
Begin with:
  seriatim serve                  run a server, its data in ./seriatim-data
  seriatim next acme.invoices     take the next number of a series
  seriatim help COMMAND           learn about a command"
)]
struct Cli {
    /// The settings file [default: seriatim.toml in the working directory, if it exists].
    #[arg(long, global = true, env = "SERIATIM_CONFIG", value_name = "FILE", hide_env = true)]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[tokio::main]
async fn main() -> ExitCode {
    let Cli { config, command } = Cli::parse();
    let result = command.run(&Context::new(config)).await;
    match &result {
        Ok(()) => return ExitCode::SUCCESS,
        Err(CliError::Failed { message, .. }) => eprintln!("seriatim: {message}"),
        Err(CliError::Found | CliError::Reported(_) | CliError::Unread) => {}
    }
    result.err().map_or(ExitCode::SUCCESS, |error| ExitCode::from(error.exit_code()))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// Splits a line as a shell would. Only quotes are handled: the examples need nothing else.
    fn words(line: &str) -> Vec<String> {
        let mut words = vec![String::new()];
        let mut quote = None;
        for letter in line.chars() {
            match letter {
                '\'' | '"' if quote.is_none() => quote = Some(letter),
                letter if quote == Some(letter) => quote = None,
                ' ' if quote.is_none() => words.push(String::new()),
                letter => words.last_mut().unwrap().push(letter),
            }
        }
        words.retain(|word| !word.is_empty());
        words
    }

    fn check_examples(command: &clap::Command, path: &str) {
        let has_subcommands = command.get_subcommands().any(|command| command.get_name() != "help");
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let examples: Vec<&str> =
            help.lines().map(str::trim).filter(|line| line.starts_with("seriatim ")).collect();
        assert!(has_subcommands || !examples.is_empty(), "`{path} --help` has no example");
        for example in examples {
            // Text after two spaces, a pipe or an arrow is not part of the command.
            let line =
                example.split("  ").next().unwrap().split(" | ").next().unwrap().split(" >").next().unwrap();
            if line.contains("COMMAND") {
                continue;
            }
            if let Err(error) = Cli::try_parse_from(words(line)) {
                panic!("an example of `{path} --help` does not parse: {example}\n{error}");
            }
        }
        for subcommand in command.get_subcommands().filter(|command| command.get_name() != "help") {
            check_examples(subcommand, &format!("{path} {}", subcommand.get_name()));
        }
    }

    #[test]
    fn every_command_has_an_example_that_parses() {
        let mut command = Cli::command();
        command.build();
        command.clone().debug_assert();
        check_examples(&command, "seriatim");
    }
}
