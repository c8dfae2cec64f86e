//! `seriatim replay`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde_json::{Value, json};
use seriatim_temporal_history::AnyHistory;
use seriatim_workflow::{Inspection, Policy, Registry, Report, junit};
use seriatim_workflow_host::demo;

use super::cluster::Cluster;
use crate::context::Context;
use crate::error::CliError;
use crate::output::Output;

/// Replays histories of workflows, and shows the first difference between a history and the current code.
///
/// Reads the output of `seriatim workflow history ID --json`, the answer of GET /v1/workflows/{id}/history, and Temporal's
/// histories as its UI and CLI write them, or in binary form. This program has the code of the workflows `greet`, `order` and
/// `ship`. Histories of other code can be inspected; to replay them, call `seriatim_temporal_history::AnyHistory` in your own
/// test. With --from-temporal a history is fetched from a cluster, which needs the cargo feature `temporal`. Exit code 1 if
/// a history and the code differ, 2 if a file contains only a part of a history.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seriatim replay order-1.json
  seriatim replay histories/order-1.json histories/order-2.json --junit replay.xml
  seriatim replay --inspect somebody-elses.json
  seriatim replay --from-temporal 127.0.0.1:7233 --workflow-id order-1 --save order-1.bin")]
pub(crate) struct Replay {
    /// The histories.
    #[arg(required_unless_present = "url", conflicts_with = "url", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Fetches a history from a Temporal cluster: HOST:PORT, http://HOST:PORT or https://HOST:PORT.
    #[arg(id = "url", long = "from-temporal", value_name = "URL", requires = "workflow_id")]
    url: Option<String>,
    #[command(flatten)]
    fetched: Fetched,
    /// Lists each operation with its kind, number, command and response, without running the code.
    #[arg(long)]
    inspect: bool,
    /// Reports every difference instead of stopping at the first.
    #[arg(long, conflicts_with = "inspect")]
    all: bool,
    /// Also writes a report as JUnit XML.
    #[arg(long, value_name = "FILE", conflicts_with = "inspect")]
    junit: Option<PathBuf>,
    /// One line of JSON for each history.
    #[arg(long)]
    json: bool,
}

/// Histories, each with a name.
type Histories = Vec<(String, AnyHistory)>;

/// Which history to fetch from a cluster.
#[derive(Debug, Args)]
struct Fetched {
    /// The id of the workflow whose history is fetched.
    #[arg(long, value_name = "ID", requires = "url")]
    workflow_id: Option<String>,
    /// Its run [default: the latest].
    #[arg(long, value_name = "ID", requires = "url")]
    run_id: Option<String>,
    /// Also writes the fetched history to a file, in Temporal's binary form.
    #[arg(long, value_name = "FILE", requires = "url")]
    save: Option<PathBuf>,
    #[command(flatten)]
    cluster: Cluster,
}

impl Replay {
    pub(crate) async fn run(self, context: &Context) -> Result<(), CliError> {
        if let Some(url) = &self.url {
            return self.process(&self.fetched.fetch(context, url).await?);
        }
        // A file that cannot be read does not prevent the others from being processed.
        let (mut histories, mut unread) = (Vec::new(), Vec::new());
        for path in &self.files {
            match read(path) {
                Ok((found, parts)) => {
                    histories.extend(found);
                    // A part of a history can be inspected. Replaying a part proves nothing about the rest.
                    unread.extend(parts.into_iter().filter(|_| !self.inspect));
                }
                Err(error) => unread.push(error),
            }
        }
        let processed = if histories.is_empty() { Ok(()) } else { self.process(&histories) };
        match unread.pop() {
            None => processed,
            Some(last) => {
                unread.iter().for_each(|error| eprintln!("seriatim: {error}"));
                Err(last)
            }
        }
    }

    fn process(&self, histories: &[(String, AnyHistory)]) -> Result<(), CliError> {
        let mut output = Output::new();
        if self.inspect {
            for (name, history) in histories {
                self.show(&mut output, name, &history.inspect())?;
            }
            return output.flush();
        }
        let registry = Arc::new(demo::workflows());
        let policy = if self.all { Policy::Warn } else { Policy::Fail };
        let mut reports = Vec::with_capacity(histories.len());
        let mut unknown = Vec::new();
        for (name, history) in histories {
            if let Err(error) = check_known(&registry, name, history) {
                unknown.push(error);
                continue;
            }
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
        if let Some(last) = unknown.pop() {
            unknown.iter().for_each(|error| eprintln!("seriatim: {error}"));
            return Err(last);
        }
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

impl Fetched {
    #[cfg(not(feature = "temporal"))]
    async fn fetch(&self, _: &Context, _: &str) -> Result<Histories, CliError> {
        Err(super::cluster::absent("`replay --from-temporal`"))
    }

    #[cfg(feature = "temporal")]
    async fn fetch(&self, context: &Context, url: &str) -> Result<Histories, CliError> {
        let connection = self.cluster.connect(&context.env, url).await?;
        let (namespace, id) = (self.cluster.namespace(), self.workflow_id.as_deref().unwrap_or_default());
        let bytes =
            seriatim_temporal::fetch_history(&connection, namespace, id, self.run_id.as_deref()).await?;
        if let Some(path) = &self.save {
            let saved = std::fs::write(path, &bytes);
            saved.map_err(|error| CliError::unavailable(format!("{}: {error}", path.display())))?;
        }
        parse(id.to_owned(), bytes)
    }
}

/// The histories of a file, and an error for each that is only a part of one.
fn read(path: &Path) -> Result<(Histories, Vec<CliError>), CliError> {
    let name = path.display().to_string();
    let bytes = std::fs::read(path).map_err(|error| CliError::usage(format!("{name}: {error}")))?;
    let parts = parts(&name, &bytes);
    Ok((parse(name, bytes)?, parts))
}

/// An error for each history that is only a part: a server answers a long one in pages. Replaying a part proves nothing about the
/// rest.
fn parts(name: &str, bytes: &[u8]) -> Vec<CliError> {
    let Ok(value) = serde_json::from_slice::<Value>(bytes) else { return Vec::new() };
    let histories = match value {
        Value::Array(list) => list,
        one => vec![one],
    };
    let part = |history: &Value| {
        let id = history["id"].as_str().unwrap_or("ID");
        let advice = format!("get all of it with `seriatim workflow history {id} --json`");
        let before = history["steps"][0]["activation"]["history_length"].as_u64().unwrap_or(0);
        let what = match history["next"].as_u64() {
            _ if before > 0 => "its beginning is missing".to_owned(),
            Some(next) => format!("events after {next} are missing"),
            None => return None,
        };
        Some(CliError::usage(format!("{name} is only a part of a history: {what}; {advice}")))
    };
    histories.iter().filter_map(part).collect()
}

fn parse(name: String, bytes: Vec<u8>) -> Result<Histories, CliError> {
    let histories = AnyHistory::read_all(bytes);
    let mut histories = histories.map_err(|error| CliError::of(error.kind(), format!("{name}: {error}")))?;
    if histories.len() == 1 {
        return Ok(histories.pop().map(|history| (name, history)).into_iter().collect());
    }
    // A history of a list is named by the file and its place in the list.
    let numbered = histories.into_iter().enumerate();
    Ok(numbered.map(|(at, history)| (format!("{name}#{}", at + 1), history)).collect())
}

/// A workflow type without code in this program is an error, not a difference.
fn check_known(registry: &Registry, name: &str, history: &AnyHistory) -> Result<(), CliError> {
    let workflow_type = history.workflow_type();
    if registry.contains(&workflow_type) {
        return Ok(());
    }
    let known = registry.names().collect::<Vec<_>>().join(", ");
    Err(CliError::usage(format!(
        "{name}: this program has the code of {known}, not of {workflow_type}: inspect the history with --inspect, or \
         replay it in your own test"
    )))
}
