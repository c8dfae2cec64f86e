//! `seriatim replay`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde_json::json;
use seriatim_workflow::{AnyHistory, Inspection, Policy, Registry, Report, junit};
use seriatim_workflow_host::demo;

use crate::error::CliError;
use crate::output::Output;

/// Replays histories of workflows, and shows the first thing that their code does otherwise today.
///
/// Reads what GET /v1/workflows/{id}/history answers, and Temporal's histories as its UI and CLI write them or in binary.
/// This program has the code of the workflows `greet` and `order`. Histories of other code can be inspected; to replay
/// them, call `seriatim_workflow::AnyHistory` in a test of your own. Exit code 1 if a history and the code differ.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seriatim replay order-1.json
  seriatim replay histories/order-1.json histories/order-2.json --junit replay.xml
  seriatim replay --inspect somebody-elses.json")]
pub(crate) struct Replay {
    /// The histories.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Lists each number with its kind, command and response, without the code.
    #[arg(long)]
    inspect: bool,
    /// Notes every difference and goes on, rather than stop at the first.
    #[arg(long, conflicts_with = "inspect")]
    all: bool,
    /// Also writes a report in JUnit's XML.
    #[arg(long, value_name = "FILE", conflicts_with = "inspect")]
    junit: Option<PathBuf>,
    /// One line of JSON for each history.
    #[arg(long)]
    json: bool,
}

impl Replay {
    pub(crate) fn run(self) -> Result<(), CliError> {
        let mut output = Output::new();
        let histories: Vec<(String, AnyHistory)> =
            self.files.iter().map(|path| read(path)).collect::<Result<_, _>>()?;
        if self.inspect {
            for (name, history) in &histories {
                self.show(&mut output, name, &history.inspect())?;
            }
            return output.flush();
        }
        let registry = Arc::new(demo::workflows());
        let policy = if self.all { Policy::Warn } else { Policy::Fail };
        let mut reports = Vec::with_capacity(histories.len());
        for (name, history) in &histories {
            check_known(&registry, name, history)?;
            let report = history.replay(&registry, policy);
            self.print(&mut output, name, &report)?;
            reports.push((name.as_str(), report));
        }
        if let Some(path) = &self.junit {
            let report = junit(reports.iter().map(|(name, report)| (*name, report)));
            let written = std::fs::write(path, report);
            written.map_err(|error| CliError::unavailable(format!("{}: {error}", path.display())))?;
        }
        output.flush()?;
        if reports.iter().all(|(_, report)| report.is_same()) { Ok(()) } else { Err(CliError::Found) }
    }

    fn print(&self, output: &mut Output, name: &str, report: &Report) -> Result<(), CliError> {
        if self.json {
            return output.json(&json!({"file": name, "report": report.to_json()}));
        }
        output.line(format!("{name}: {report}"))
    }

    fn show(&self, output: &mut Output, name: &str, inspection: &Inspection) -> Result<(), CliError> {
        if self.json {
            return output.json(&json!({"file": name, "inspection": inspection}));
        }
        output.line(format!("{name}: {inspection}"))
    }
}

fn read(path: &Path) -> Result<(String, AnyHistory), CliError> {
    let name = path.display().to_string();
    let bytes = std::fs::read(path).map_err(|error| CliError::usage(format!("{name}: {error}")))?;
    let history = AnyHistory::read(bytes);
    let history = history.map_err(|error| CliError::of(error.kind(), format!("{name}: {error}")))?;
    Ok((name, history))
}

/// Code that is not here is not a difference.
fn check_known(registry: &Registry, name: &str, history: &AnyHistory) -> Result<(), CliError> {
    let workflow_type = history.workflow_type();
    if registry.contains(&workflow_type) {
        return Ok(());
    }
    let known = registry.names().collect::<Vec<_>>().join(", ");
    Err(CliError::usage(format!(
        "{name}: this program has the code of {known}, not of {workflow_type}: look at the history with --inspect, or \
         replay it in a test of your own"
    )))
}
