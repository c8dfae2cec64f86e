//! A history without its code: each number with its kind, its command, its response, and what never got an answer.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::temporal_history::{EventKind, Marker, TemporalHistory};
use crate::{Command, History, Job, Kind, Path};

/// What a history says about its run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inspection {
    /// Name of the workflow's code.
    pub workflow_type: String,
    /// The workflow's id.
    pub workflow_id: String,
    /// The run.
    pub run_id: String,
    /// How the run ended; none if it has not.
    pub outcome: Option<String>,
    /// Its operations, in the order of their commands.
    pub operations: Vec<InspectedOperation>,
}

/// One operation of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InspectedOperation {
    /// Its kind.
    pub kind: Kind,
    /// Its number.
    pub seq: u32,
    /// The name of what was asked for.
    pub name: String,
    /// Where in the code it comes from, if the history knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Path>,
    /// The command.
    pub command: Mark,
    /// What followed: its start, a request to cancel it, its end.
    pub followed_by: Vec<Mark>,
    /// Whether it has had its last response.
    pub is_answered: bool,
}

/// Something that a history has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Where: the number of the activation, or of the event.
    pub at: u64,
    /// What.
    pub what: String,
}

impl Inspection {
    /// The operations that never got an answer.
    pub fn unanswered(&self) -> impl Iterator<Item = &InspectedOperation> {
        self.operations.iter().filter(|operation| !operation.is_answered)
    }
}

impl fmt::Display for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcome = self.outcome.as_deref().unwrap_or("open");
        writeln!(f, "{} {} {}: {outcome}", self.workflow_type, self.workflow_id, self.run_id)?;
        for operation in &self.operations {
            let InspectedOperation { kind, seq, name, command, followed_by, .. } = operation;
            write!(f, "{kind} {seq} {name}: {}", command)?;
            followed_by.iter().try_for_each(|mark| write!(f, ", {mark}"))?;
            writeln!(f, "{}", if operation.is_answered { "" } else { ", NO ANSWER" })?;
        }
        write!(f, "{} operations, {} without an answer", self.operations.len(), self.unanswered().count())
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.what, self.at)
    }
}

/// Operations on their way into an inspection, found by what their responses name.
struct Found<K> {
    operations: Vec<InspectedOperation>,
    by: BTreeMap<K, usize>,
}

impl<K: Ord> Found<K> {
    fn new() -> Self {
        Self { operations: Vec::new(), by: BTreeMap::new() }
    }

    fn begin(&mut self, key: K, operation: InspectedOperation) {
        self.by.insert(key, self.operations.len());
        self.operations.push(operation);
    }

    fn follow(&mut self, key: &K, at: u64, what: &str, is_answer: bool) {
        if let Some(operation) = self.by.get(key).and_then(|index| self.operations.get_mut(*index)) {
            operation.followed_by.push(Mark { at, what: what.to_owned() });
            operation.is_answered |= is_answer;
        }
    }
}

fn begun(kind: Kind, seq: u32, name: &str, at: u64, what: &str) -> InspectedOperation {
    let command = Mark { at, what: what.to_owned() };
    InspectedOperation {
        kind,
        seq,
        name: name.to_owned(),
        path: None,
        command,
        followed_by: Vec::new(),
        is_answered: false,
    }
}

impl History {
    /// Each number with its kind, command and response.
    #[must_use]
    pub fn inspect(&self) -> Inspection {
        let mut found = Found::new();
        let (mut outcome, mut workflow_id) = (None, String::new());
        for (step, at) in self.steps.iter().zip(1..) {
            for job in &step.activation.jobs {
                if let Job::Start(start) = job {
                    workflow_id.clone_from(&start.workflow_id);
                }
                if let Some((key, is_answer)) = answers(job) {
                    found.follow(&key, at, job.name(), is_answer);
                }
            }
            for command in step.commands.iter().flatten() {
                let what = command.kind().name();
                if command.kind().ends_the_run() {
                    outcome = Some(what.to_owned());
                }
                match (command.seq(), command.lineage()) {
                    (Some((kind, seq)), Some(lineage)) => {
                        let operation = begun(kind, seq, command.name(), at, what);
                        found.begin(
                            (kind, seq),
                            InspectedOperation { path: Some(lineage.path.clone()), ..operation },
                        );
                    }
                    (Some(key), None) => {
                        found.follow(&key, at, what, matches!(command, Command::CancelTimer { .. }));
                    }
                    (None, _) => {}
                }
            }
        }
        let run_id = self.steps.first().map(|step| step.activation.run_id.clone()).unwrap_or_default();
        let workflow_type = self.workflow_type().to_owned();
        Inspection { workflow_type, workflow_id, run_id, outcome, operations: found.operations }
    }
}

/// The operation that a job answers, and whether that is its last answer.
fn answers(job: &Job) -> Option<((Kind, u32), bool)> {
    if let Job::ResolveChildStart { seq, resolution } = job {
        let is_last = !matches!(resolution, crate::ChildStartResolution::Started { .. });
        return Some(((Kind::ChildWorkflow, seq.get()), is_last));
    }
    job.answers().map(|key| (key, true))
}

impl TemporalHistory {
    /// Each number with its kind, command and response. The number is the id on the wire where that is one, and else
    /// the place among the operations of its kind.
    #[must_use]
    pub fn inspect(&self) -> Inspection {
        let mut found = Found::new();
        let mut counts: BTreeMap<Kind, u32> = BTreeMap::new();
        let mut outcome = None;
        for event in self.events() {
            let (at, what) = (u64::try_from(event.id).unwrap_or(0), event.kind.name());
            let mut begin = |kind: Kind, id: &str, name: &str| {
                let count = counts.entry(kind).or_default();
                *count += 1;
                found.begin(event.id, begun(kind, id.parse().unwrap_or(*count), name, at, what));
            };
            match &event.kind {
                EventKind::TimerStarted { timer_id, .. } => begin(Kind::Timer, timer_id, ""),
                EventKind::ActivityScheduled { activity_id, activity_type, .. } => {
                    begin(Kind::Activity, activity_id, activity_type);
                }
                EventKind::ChildInitiated { workflow_type, .. } => {
                    begin(Kind::ChildWorkflow, "", workflow_type);
                }
                EventKind::ExternalSignalInitiated { name, .. } => begin(Kind::ExternalSignal, "", name),
                EventKind::ExternalCancelInitiated { target, .. } => {
                    begin(Kind::ExternalCancel, "", &target.workflow_id);
                }
                EventKind::Marker(Marker::LocalActivity(marker)) => {
                    begin(Kind::LocalActivity, &marker.seq.to_string(), &marker.activity_type);
                    found.follow(&event.id, at, "ended", true);
                }
                EventKind::Completed { .. }
                | EventKind::Failed { .. }
                | EventKind::TimedOut
                | EventKind::Terminated { .. }
                | EventKind::Cancelled
                | EventKind::ContinuedAsNew { .. } => outcome = Some(what.to_owned()),
                kind => {
                    if let Some((began, is_answer)) = answered_event(kind) {
                        found.follow(&began, at, what, is_answer);
                    }
                }
            }
        }
        let start = self.start();
        Inspection {
            workflow_type: start.workflow_type,
            workflow_id: start.workflow_id,
            run_id: self.run_id().to_owned(),
            outcome,
            operations: found.operations,
        }
    }
}

/// The event that began what this one is about, and whether this is its last answer.
fn answered_event(kind: &EventKind) -> Option<(i64, bool)> {
    Some(match kind {
        EventKind::TimerFired { started: id }
        | EventKind::TimerCancelled { started: id }
        | EventKind::ActivityCompleted { scheduled: id, .. }
        | EventKind::ActivityFailed { scheduled: id, .. }
        | EventKind::ActivityTimedOut { scheduled: id, .. }
        | EventKind::ActivityCancelled { scheduled: id, .. }
        | EventKind::ExternalCancelFailed { initiated: id, .. }
        | EventKind::ExternalCancelDelivered { initiated: id }
        | EventKind::ExternalSignalFailed { initiated: id, .. }
        | EventKind::ExternalSignalDelivered { initiated: id }
        | EventKind::ChildStartFailed { initiated: id, .. }
        | EventKind::ChildCompleted { initiated: id, .. }
        | EventKind::ChildFailed { initiated: id, .. }
        | EventKind::ChildCancelled { initiated: id, .. } => (*id, true),
        EventKind::ActivityStarted { scheduled: id }
        | EventKind::ActivityCancelRequested { scheduled: id }
        | EventKind::ChildStarted { initiated: id, .. } => (*id, false),
        _ => return None,
    })
}
