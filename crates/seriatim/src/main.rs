//! The command line.
#![forbid(unsafe_code)]

mod serve;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Numbers that can be trusted: gap-free sequences, ids in blocks, events.
#[derive(Debug, Parser)]
#[command(name = "seriatim", version, about, long_about = None)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the server.
    ///
    /// Example: seriatim serve --storage file:./data --app shop.toml
    Serve(serve::Serve),
}

/// Used wrongly.
const USAGE: u8 = 2;
/// Busy or unavailable.
const UNAVAILABLE: u8 = 3;

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        Command::Serve(serve) => serve.run().await,
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("seriatim: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

/// Why a command of the command line failed.
#[derive(Debug, thiserror::Error)]
enum CliError {
    /// It was used wrongly.
    #[error("{0}")]
    Usage(String),
    /// Something does not work.
    #[error("{0}")]
    Unavailable(String),
}

impl CliError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => USAGE,
            Self::Unavailable(_) => UNAVAILABLE,
        }
    }
}
