//! `seriatim completions`.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use crate::Cli;
use crate::error::CliError;
use crate::output::Output;

/// Prints completions for a shell.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seriatim completions bash > ~/.local/share/bash-completion/completions/seriatim
  seriatim completions zsh > ~/.zfunc/_seriatim
  seriatim completions fish > ~/.config/fish/completions/seriatim.fish")]
pub(crate) struct Completions {
    /// The shell.
    #[arg(value_parser = clap::builder::EnumValueParser::<Shell>::new())]
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self) -> Result<(), CliError> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "seriatim", &mut script);
        let mut output = Output::new();
        output.text(&String::from_utf8_lossy(&script))?;
        output.flush()
    }
}
