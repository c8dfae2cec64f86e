//! `seriatim workflow signal`, `query`, `update`, `cancel`, `terminate` and `retry`.

use clap::Args;
use serde_json::Value;
use seriatim_api::ToldWorkflow;
use seriatim_client::Workflow;

use super::{Named, json};
use crate::context::Context;
use crate::error::CliError;
use crate::output::Output;

/// Sends a signal to the open run of a workflow. It is on disk when this ends.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seriatim workflow signal order-7 approve --input '{\"by\": \"Ada\"}'")]
pub(super) struct Signal {
    #[command(flatten)]
    named: Named,
    /// The signal.
    name: String,
    /// Its argument.
    #[arg(long, value_name = "JSON", value_parser = json)]
    input: Option<Value>,
    #[command(flatten)]
    keyed: Keyed,
}

/// Asks a workflow's newest run about its state, and prints the answer as JSON. Nothing is written.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seriatim workflow query order-7 status")]
pub(super) struct Query {
    #[command(flatten)]
    named: Named,
    /// The query.
    name: String,
    /// Its argument.
    #[arg(long, value_name = "JSON", value_parser = json)]
    input: Option<Value>,
    /// The answer is JSON always.
    #[arg(long, hide = true)]
    json: bool,
}

/// Changes the state of a workflow's open run, and prints what its code answers as JSON.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seriatim workflow update order-7 change_item --input '\"coffee\"'")]
pub(super) struct Update {
    #[command(flatten)]
    named: Named,
    /// The update.
    name: String,
    /// Its argument.
    #[arg(long, value_name = "JSON", value_parser = json)]
    input: Option<Value>,
    /// The idempotency key: the same key gives the same answer.
    #[arg(long, value_name = "IDEMPOTENCY_KEY")]
    key: Option<String>,
    /// The answer is JSON always.
    #[arg(long, hide = true)]
    json: bool,
}

/// Asks the open run of a workflow to stop.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seriatim workflow cancel order-7 --reason 'the customer has changed her mind'")]
pub(super) struct Cancel {
    #[command(flatten)]
    named: Named,
    /// Why.
    #[arg(long, default_value = "")]
    reason: String,
    #[command(flatten)]
    keyed: Keyed,
}

/// Ends the open run of a workflow without asking it, also one that is stuck.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seriatim workflow terminate order-7 --reason 'it was a test'")]
pub(super) struct Terminate {
    #[command(flatten)]
    named: Named,
    /// Why.
    #[arg(long, default_value = "")]
    reason: String,
    #[command(flatten)]
    keyed: Keyed,
}

/// Tries a stuck run again. Exit code 3 if it is still stuck.
///
/// Code that does something else than the run's history says is the same after a retry: put it right, and start the
/// server again.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seriatim workflow retry order-7")]
pub(super) struct Retry {
    #[command(flatten)]
    named: Named,
    /// The server's answer as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Keyed {
    /// The idempotency key: the same key does nothing the second time.
    #[arg(long, value_name = "IDEMPOTENCY_KEY")]
    key: Option<String>,
    /// The server's answer as JSON.
    #[arg(long)]
    json: bool,
}

fn with_key(workflow: Workflow, key: Option<&str>) -> Workflow {
    match key {
        Some(key) => workflow.with_key(key),
        None => workflow,
    }
}

/// Says that it was done.
fn done(what: &str, told: &ToldWorkflow, as_json: bool) -> Result<(), CliError> {
    if as_json {
        let mut output = Output::new();
        output.json(told)?;
        return output.flush();
    }
    let before = if told.repeated { " before, with the same key" } else { "" };
    eprintln!("seriatim: run {} {what}{before}", told.run_id);
    Ok(())
}

fn print(answer: &Value) -> Result<(), CliError> {
    let mut output = Output::new();
    output.json(answer)?;
    output.flush()
}

impl Signal {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let workflow = with_key(self.named.workflow(context)?, self.keyed.key.as_deref());
        let told = workflow.signal(&self.name, &self.input.unwrap_or_default()).await?;
        done("got the signal", &told, self.keyed.json)
    }
}

impl Query {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let workflow = self.named.workflow(context)?;
        print(&workflow.query(&self.name, &self.input.unwrap_or_default()).await?)
    }
}

impl Update {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let workflow = with_key(self.named.workflow(context)?, self.key.as_deref());
        print(&workflow.update(&self.name, &self.input.unwrap_or_default()).await?)
    }
}

impl Cancel {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let workflow = with_key(self.named.workflow(context)?, self.keyed.key.as_deref());
        done("was asked to stop", &workflow.cancel(&self.reason).await?, self.keyed.json)
    }
}

impl Terminate {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let workflow = with_key(self.named.workflow(context)?, self.keyed.key.as_deref());
        done("was terminated", &workflow.terminate(&self.reason).await?, self.keyed.json)
    }
}

impl Retry {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let told = self.named.workflow(context)?.retry().await?;
        if self.json {
            return done("", &told, true);
        }
        let what = if told.repeated { "was not stuck" } else { "is tried again" };
        eprintln!("seriatim: run {} {what}", told.run_id);
        Ok(())
    }
}
