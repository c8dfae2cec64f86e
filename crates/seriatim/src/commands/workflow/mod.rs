//! `seriatim workflow`.

mod history;
mod list;
mod show;
mod start;
mod tell;

use clap::{Args, Subcommand};
use serde_json::Value;
use seriatim_client::Client;

use crate::context::Context;
use crate::error::CliError;
use crate::target::ServerTarget;

/// Starts workflows on a running server, sends them signals, queries and updates, and shows their state.
///
/// Inputs, answers and results are JSON: text needs its own quotes ('"Ada"').
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seriatim workflow start greet --id first --input '\"Ada\"'
  seriatim workflow wait first
  seriatim workflow list --status stuck
  seriatim workflow retry order-7")]
pub(crate) struct Workflow {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Start(Box<start::Start>),
    List(list::List),
    Show(show::Show),
    Wait(show::Wait),
    Signal(tell::Signal),
    Query(tell::Query),
    Update(tell::Update),
    Cancel(tell::Cancel),
    Terminate(tell::Terminate),
    Retry(tell::Retry),
    History(history::History),
}

impl Workflow {
    pub(crate) async fn run(self, context: &Context) -> Result<(), CliError> {
        match self.action {
            Action::Start(start) => start.run(context).await,
            Action::List(list) => list.run(context).await,
            Action::Show(show) => show.run(context).await,
            Action::Wait(wait) => wait.run(context).await,
            Action::Signal(signal) => signal.run(context).await,
            Action::Query(query) => query.run(context).await,
            Action::Update(update) => update.run(context).await,
            Action::Cancel(cancel) => cancel.run(context).await,
            Action::Terminate(terminate) => terminate.run(context).await,
            Action::Retry(retry) => retry.run(context).await,
            Action::History(history) => history.run(context).await,
        }
    }
}

/// A workflow of a server, by its id.
#[derive(Debug, Args)]
struct WorkflowArgs {
    /// The workflow's id.
    id: String,
    #[command(flatten)]
    server: ServerTarget,
}

impl WorkflowArgs {
    fn workflow(&self, context: &Context) -> Result<seriatim_client::Workflow, CliError> {
        Ok(self.client(context)?.workflow(&self.id))
    }

    fn client(&self, context: &Context) -> Result<Client, CliError> {
        self.server.client(context)
    }
}

/// A value on the command line.
fn json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text)
        .map_err(|error| format!("{text:?} is not JSON ({error}): quote text twice, '\"Ada\"'"))
}
