//! `seriatim workflow show` and `seriatim workflow wait`.

use clap::Args;
use serde_json::Value;
use seriatim_api::Workflow;
use seriatim_client::ClientError;

use super::WorkflowArgs;
use crate::context::Context;
use crate::error::{CliError, Exit};
use crate::output::Output;

/// Shows the state of a workflow's newest run: its result or failure, and what it waits for.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seriatim workflow show order-7
  seriatim workflow show order-7 --json")]
pub(super) struct Show {
    #[command(flatten)]
    named: WorkflowArgs,
    /// All of it as JSON.
    #[arg(long)]
    json: bool,
}

/// Waits until a workflow has ended, and prints its result as JSON. Exit code 1 if it ended without one.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seriatim workflow wait order-7")]
pub(super) struct Wait {
    #[command(flatten)]
    named: WorkflowArgs,
    /// The result is always JSON.
    #[arg(long, hide = true)]
    json: bool,
}

impl Show {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let found = self.named.workflow(context)?.describe().await?;
        let mut output = Output::new();
        if self.json {
            output.json(&found)?;
        } else {
            print(&mut output, &found)?;
        }
        output.flush()
    }
}

fn print(output: &mut Output, found: &Workflow) -> Result<(), CliError> {
    let summary = &found.summary;
    let mut line = |name: &str, value: &str| output.line(format!("{name:<9}{value}"));
    line("workflow", &summary.id)?;
    line("run", &format!("{} ({})", summary.run, summary.run_id))?;
    line("type", &summary.workflow_type)?;
    line("status", &summary.status)?;
    line("started", &summary.started)?;
    if let Some(ended) = &summary.ended {
        line("ended", ended)?;
    }
    line("input", &found.input.to_string())?;
    for (name, note) in &found.memo {
        line("memo", &format!("{name}: {note}"))?;
    }
    match &found.failure {
        Some(failure) => line("failure", failure["message"].as_str().unwrap_or_default())?,
        None if summary.status == "completed" => line("result", &found.result.to_string())?,
        None => {}
    }
    if let Some(reason) = &found.stuck {
        line("stuck", reason)?;
    }
    for branch in &found.blocked {
        let waits = Value::from(branch.waits.clone());
        line("waits", &format!("branch {} for {waits}", branch.branch))?;
    }
    found.warnings.iter().try_for_each(|warning| line("warning", warning))
}

impl Wait {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let result = self.named.workflow(context)?.result::<Value>().await;
        let result = result.map_err(|error| match error {
            ended @ ClientError::Ended { .. } => {
                CliError::Failed { exit: Exit::Problem, message: ended.to_string() }
            }
            other => other.into(),
        })?;
        let mut output = Output::new();
        output.json(&result)?;
        output.flush()
    }
}
