//! A history without its code: each number with its kind, its command, its response, and what never got an answer.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{ChildStartResolution, Command, History, Job, Kind, Path};

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

/// The operations of an [`Inspection`] that is being made, found by what their responses name.
#[derive(Debug)]
pub struct Operations<K> {
    operations: Vec<InspectedOperation>,
    by: BTreeMap<K, usize>,
}

impl<K: Ord> Operations<K> {
    /// None yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { operations: Vec::new(), by: BTreeMap::new() }
    }

    /// Adds an operation. Its responses name `key`.
    pub fn begin(&mut self, key: K, operation: InspectedOperation) {
        self.by.insert(key, self.operations.len());
        self.operations.push(operation);
    }

    /// Adds what followed, if an operation has this key.
    pub fn follow(&mut self, key: &K, mark: Mark, is_answer: bool) {
        if let Some(operation) = self.by.get(key).and_then(|index| self.operations.get_mut(*index)) {
            operation.followed_by.push(mark);
            operation.is_answered |= is_answer;
        }
    }

    /// The operations, in the order of their commands.
    #[must_use]
    pub fn into_list(self) -> Vec<InspectedOperation> {
        self.operations
    }
}

impl<K: Ord> Default for Operations<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl InspectedOperation {
    /// An operation that nothing has followed yet, and whose place in the code is not known.
    #[must_use]
    pub fn new(kind: Kind, seq: u32, name: &str, command: Mark) -> Self {
        let (path, followed_by) = (None, Vec::new());
        Self { kind, seq, name: name.to_owned(), path, command, followed_by, is_answered: false }
    }
}

impl Mark {
    /// Something, at a place.
    #[must_use]
    pub fn new(at: u64, what: &str) -> Self {
        Self { at, what: what.to_owned() }
    }
}

impl History {
    /// Each number with its kind, command and response.
    #[must_use]
    pub fn inspect(&self) -> Inspection {
        let mut found = Operations::new();
        let (mut outcome, mut workflow_id) = (None, String::new());
        for (step, at) in self.steps.iter().zip(1..) {
            for job in &step.activation.jobs {
                if let Job::Start(start) = job {
                    workflow_id.clone_from(&start.workflow_id);
                }
                if let Some((key, is_answer)) = answers(job) {
                    found.follow(&key, Mark::new(at, job.name()), is_answer);
                }
            }
            for command in step.commands.iter().flatten() {
                let what = command.kind().name();
                if command.kind().ends_the_run() {
                    outcome = Some(what.to_owned());
                }
                match (command.seq(), command.lineage()) {
                    (Some((kind, seq)), Some(lineage)) => {
                        let operation =
                            InspectedOperation::new(kind, seq, command.name(), Mark::new(at, what));
                        found.begin(
                            (kind, seq),
                            InspectedOperation { path: Some(lineage.path.clone()), ..operation },
                        );
                    }
                    (Some(key), None) => {
                        let is_answer = matches!(command, Command::CancelTimer { .. });
                        found.follow(&key, Mark::new(at, what), is_answer);
                    }
                    (None, _) => {}
                }
            }
        }
        let run_id = self.steps.first().map(|step| step.activation.run_id.clone()).unwrap_or_default();
        let workflow_type = self.workflow_type().to_owned();
        Inspection { workflow_type, workflow_id, run_id, outcome, operations: found.into_list() }
    }
}

/// The operation that a job answers, and whether that is its last answer.
fn answers(job: &Job) -> Option<((Kind, u32), bool)> {
    let (kind, seq, _) = job.answer()?;
    // A child that has started answers once more.
    let is_last =
        !matches!(job, Job::ResolveChildStart { resolution: ChildStartResolution::Started { .. }, .. });
    Some(((kind, seq), is_last))
}
