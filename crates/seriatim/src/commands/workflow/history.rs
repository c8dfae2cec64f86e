//! `seriatim workflow history`.

use clap::Args;
use serde_json::Value;
use seriatim_api::{HistoryEntry, WorkflowHistory};

use super::WorkflowArgs;
use crate::context::Context;
use crate::error::CliError;
use crate::output::{Listing, Output};

/// Events per request.
const PAGE: u32 = 1_000;

/// Shows the history of a run; with --json the whole history, in the form that `seriatim replay` reads.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seriatim workflow history order-7
  seriatim workflow history order-7 --run 2 --json > order-7.json")]
pub(super) struct History {
    #[command(flatten)]
    named: WorkflowArgs,
    /// The number of the run [default: the newest].
    #[arg(long, value_name = "N")]
    run: Option<u64>,
    /// The whole history as one JSON object.
    #[arg(long)]
    json: bool,
}

impl History {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let workflow = self.named.workflow(context)?;
        let history = whole_history(&workflow, self.run).await?;
        if self.json {
            let mut output = Output::new();
            output.json(&history)?;
            return output.flush();
        }
        let mut listing = Listing::new(false, &["event", "at", "what", "operation", "name", "response"]);
        listing.page(&history.entries, row)?;
        listing.end()
    }
}

fn row(entry: &HistoryEntry) -> Vec<String> {
    let operation = match (&entry.kind, entry.number) {
        (Some(kind), Some(number)) => format!("{kind} {number}"),
        _ => "-".to_owned(),
    };
    let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
    let response = entry.answer_event.map(|event| format!("event {event}")).unwrap_or_default();
    let (event, at, what) = (entry.event.to_string(), entry.at.clone(), entry.what.clone());
    vec![event, at, what, operation, or_dash(&entry.name), or_dash(&response)]
}

/// The whole history of a run, read page by page.
async fn whole_history(
    workflow: &seriatim_client::Workflow,
    run: Option<u64>,
) -> Result<WorkflowHistory, CliError> {
    let mut whole = workflow.history(run, None, PAGE).await?;
    // A newer run may start between two requests.
    let run = Some(whole.summary.run);
    while let Some(after) = whole.next.take() {
        let part = workflow.history(run, Some(after), PAGE).await?;
        whole.entries.extend(part.entries);
        if let (Value::Array(steps), Value::Array(more)) = (&mut whole.steps, part.steps) {
            steps.extend(more);
        }
        (whole.summary, whole.next) = (part.summary, part.next);
    }
    Ok(whole)
}
