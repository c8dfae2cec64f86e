//! A run's history, command by command.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::Value;
use seriatim_workflow::{Activation, History, Job, Kind, Time};

use crate::application::RunRow;
use crate::entry::Entry;

/// A run's history, ready to be shown and to be replayed.
#[derive(Debug, Clone, PartialEq)]
pub struct Timeline {
    /// What is kept of the run.
    pub row: RunRow,
    /// The run.
    pub run_id: String,
    /// Each command with its answer, in the order in which they were asked for.
    pub entries: Vec<TimelineEntry>,
    /// The events as they were written, with their places in the workflow's log and their times.
    pub events: Vec<(u64, u64, Entry)>,
    /// Activations of the run before these events.
    pub turns_before: usize,
    /// There are more, after this offset.
    pub next: Option<u64>,
}

impl Timeline {
    /// The history in the form that [`replay`](seriatim_workflow::replay) reads.
    #[must_use]
    pub fn history(&self) -> History {
        let mut history = History::default();
        let turns = self.events.iter().flat_map(|(_, _, entry)| &entry.turns);
        for (place, turn) in turns.enumerate() {
            let mut activation = Activation::new(self.run_id.clone(), turn.time, turn.jobs.clone());
            let place = self.turns_before + place;
            activation.history_length = u32::try_from(place).unwrap_or(u32::MAX);
            activation.continue_as_new_suggested = turn.suggested;
            history.push(activation, turn.commands.clone());
        }
        history
    }
}

/// A command and its answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TimelineEntry {
    /// The name of the command or of the job.
    pub what: String,
    /// The kind of the operation, if it has a number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// Its number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
    /// Where in the run's code it comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Name of the activity, workflow, signal, update.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The event that asked for it.
    pub event: u64,
    /// When it was asked for.
    pub at: Time,
    /// The whole command or job.
    pub details: Value,
    /// When the answer came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered_at: Option<Time>,
    /// The event that has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_event: Option<u64>,
    /// The answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<Value>,
}

/// Each command with its answer.
pub(crate) fn timeline(events: &[(u64, u64, Entry)]) -> Vec<TimelineEntry> {
    let mut entries: Vec<TimelineEntry> = Vec::new();
    let mut open: HashMap<(Kind, u32), usize> = HashMap::new();
    for (event, _, entry) in events {
        for turn in &entry.turns {
            for job in &turn.jobs {
                let json = serde_json::to_value(job).unwrap_or_default();
                let place = job.answers().and_then(|key| open.get(&key).copied());
                match place.and_then(|place| entries.get_mut(place)) {
                    Some(shown) => {
                        (shown.answered_at, shown.answer_event) = (Some(turn.time), Some(*event));
                        shown.answer = Some(json);
                    }
                    None => entries.push(plain(job.name(), job_name(job), *event, turn.time, json)),
                }
            }
            for command in &turn.commands {
                let json = serde_json::to_value(command).unwrap_or_default();
                let mut shown = plain(command.kind().name(), command.name(), *event, turn.time, json);
                shown.path = command.path().map(ToString::to_string);
                if let Some((kind, number)) = command.seq() {
                    (shown.kind, shown.number) = (Some(kind), Some(number));
                    if command.lineage().is_some() {
                        open.insert((kind, number), entries.len());
                    }
                }
                entries.push(shown);
            }
        }
        for retry in &entry.retries {
            let json = serde_json::to_value(retry).unwrap_or_default();
            let mut shown = plain("retry_activity", "", *event, retry.at, json);
            (shown.kind, shown.number) = (Some(Kind::Activity), Some(retry.activity));
            entries.push(shown);
        }
        if let Some(ended) = &entry.ended {
            let json = serde_json::to_value(ended).unwrap_or_default();
            entries.push(plain(ended.status.name(), "", *event, ended.time, json));
        }
    }
    entries
}

fn plain(what: &str, name: &str, event: u64, at: Time, details: Value) -> TimelineEntry {
    TimelineEntry {
        what: what.to_owned(),
        kind: None,
        number: None,
        path: None,
        name: name.to_owned(),
        event,
        at,
        details,
        answered_at: None,
        answer_event: None,
        answer: None,
    }
}

fn job_name(job: &Job) -> &str {
    match job {
        Job::Start(start) => &start.workflow_type,
        Job::Signal { name, .. } | Job::Update { name, .. } | Job::Query { name, .. } => name,
        _ => "",
    }
}
