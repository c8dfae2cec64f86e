//! `seriatim workflow signal`, `query`, `update`, `cancel`, `terminate` and `retry`.

use clap::Args;
use serde_json::Value;
use seriatim_api::WorkflowDelivery;
use seriatim_client::Workflow;

use super::{WorkflowArgs, json};
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
    named: WorkflowArgs,
    /// The signal.
    name: String,
    /// Its argument.
    #[arg(long, value_name = "JSON", value_parser = json)]
    input: Option<Value>,
    #[command(flatten)]
    keyed: KeyArgs,
}

/// Queries the state of a workflow's newest run, and prints the answer as JSON. Nothing is written.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seriatim workflow query order-7 status")]
pub(super) struct Query {
    #[command(flatten)]
    named: WorkflowArgs,
    /// The query.
    name: String,
    /// Its argument.
    #[arg(long, value_name = "JSON", value_parser = json)]
    input: Option<Value>,
    /// The answer is always JSON.
    #[arg(long, hide = true)]
    json: bool,
}

/// Changes the state of a workflow's open run, and prints the answer of its code as JSON.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seriatim workflow update order-7 change_item --input '\"coffee\"'")]
pub(super) struct Update {
    #[command(flatten)]
    named: WorkflowArgs,
    /// The update.
    name: String,
    /// Its argument.
    #[arg(long, value_name = "JSON", value_parser = json)]
    input: Option<Value>,
    /// The idempotency key: the same key gives the same answer.
    #[arg(long, value_name = "IDEMPOTENCY_KEY")]
    key: Option<String>,
    /// The answer is always JSON.
    #[arg(long, hide = true)]
    json: bool,
}

/// Requests the cancellation of a workflow's open run.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seriatim workflow cancel order-7 --reason 'the customer has changed her mind'")]
pub(super) struct Cancel {
    #[command(flatten)]
    stop: StopArgs,
}

/// Ends the open run of a workflow without running its code again. This works for a stuck run too.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seriatim workflow terminate order-7 --reason 'it was a test'")]
pub(super) struct Terminate {
    #[command(flatten)]
    stop: StopArgs,
}

/// Tries a stuck run again. Exit code 3 if it is still stuck.
///
/// If the run is stuck because its code differs from its history, a retry does not help: correct the code, and restart the server.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seriatim workflow retry order-7")]
pub(super) struct Retry {
    #[command(flatten)]
    named: WorkflowArgs,
    /// The server's answer as JSON.
    #[arg(long)]
    json: bool,
}

/// What `cancel` and `terminate` take.
#[derive(Debug, Args)]
struct StopArgs {
    #[command(flatten)]
    named: WorkflowArgs,
    /// Why.
    #[arg(long, default_value = "")]
    reason: String,
    #[command(flatten)]
    keyed: KeyArgs,
}

impl StopArgs {
    fn workflow(&self, context: &Context) -> Result<Workflow, CliError> {
        Ok(with_key(self.named.workflow(context)?, self.keyed.key.as_deref()))
    }
}

#[derive(Debug, Args)]
struct KeyArgs {
    /// The idempotency key: a repeated request with the same key does nothing.
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

/// Prints that the request was carried out.
fn report(what: &str, delivery: &WorkflowDelivery, as_json: bool) -> Result<(), CliError> {
    if as_json {
        let mut output = Output::new();
        output.json(delivery)?;
        return output.flush();
    }
    let before = if delivery.repeated { " earlier, with the same key" } else { "" };
    eprintln!("seriatim: run {} {what}{before}", delivery.run_id);
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
        let delivery = workflow.signal(&self.name, &self.input.unwrap_or_default()).await?;
        report("received the signal", &delivery, self.keyed.json)
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
        let StopArgs { reason, keyed, .. } = &self.stop;
        let sent = self.stop.workflow(context)?.cancel(reason).await?;
        report("received the request to cancel", &sent, keyed.json)
    }
}

impl Terminate {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let StopArgs { reason, keyed, .. } = &self.stop;
        let sent = self.stop.workflow(context)?.terminate(reason).await?;
        report("was terminated", &sent, keyed.json)
    }
}

impl Retry {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let delivery = self.named.workflow(context)?.retry().await?;
        if self.json {
            return report("", &delivery, true);
        }
        let what = if delivery.repeated { "was not stuck" } else { "is tried again" };
        eprintln!("seriatim: run {} {what}", delivery.run_id);
        Ok(())
    }
}
