//! The commands, one file each.
//!
//! To add a command: a file with a struct that derives [`clap::Args`], has examples as `after_help`, and a method `run`; a line
//! in [`Command`]; a line in [`Command::run`].

mod audit;
mod backup;
mod cluster;
mod completions;
mod config;
mod doctor;
mod export;
mod inspect;
mod next;
mod replay;
mod restore;
mod serve;
mod token;
mod unfence;
mod worker;
mod workflow;
mod workspace;

use clap::Subcommand;

use crate::context::Context;
use crate::error::CliError;

/// The command to run.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(serve::Serve),
    Next(next::Next),
    Audit(audit::Audit),
    Inspect(inspect::Inspect),
    Export(export::Export),
    Doctor(doctor::Doctor),
    Backup(backup::Backup),
    Restore(restore::Restore),
    Unfence(unfence::Unfence),
    Token(token::Token),
    Workflow(workflow::Workflow),
    Worker(worker::Worker),
    Replay(replay::Replay),
    Config(config::Config),
    Completions(completions::Completions),
}

impl Command {
    pub(crate) async fn run(self, context: &Context) -> Result<(), CliError> {
        match self {
            Self::Serve(command) => command.run(context).await,
            Self::Next(command) => command.run(context).await,
            Self::Audit(command) => command.run(context).await,
            Self::Inspect(command) => command.run(context).await,
            Self::Export(command) => command.run(context).await,
            Self::Doctor(command) => command.run(context).await,
            Self::Backup(command) => command.run(context).await,
            Self::Restore(command) => command.run(context).await,
            Self::Unfence(command) => command.run(context).await,
            Self::Token(command) => command.run(context).await,
            Self::Workflow(command) => command.run(context).await,
            Self::Worker(command) => command.run(context).await,
            Self::Replay(command) => command.run(context).await,
            Self::Config(command) => command.run(context),
            Self::Completions(command) => command.run(),
        }
    }
}
