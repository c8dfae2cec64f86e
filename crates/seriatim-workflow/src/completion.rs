//! The answer to an activation.

use serde::{Deserialize, Serialize};
use seriatim_types::ErrorKind;
use thiserror::Error;

use crate::kind::Exhausted;
use crate::{Command, Difference, Kind};

/// The one answer to an [`Activation`](crate::Activation).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Completion {
    /// The run.
    pub run_id: String,
    /// What the run asks for, or why it could not say. After a failure nothing of this activation is to be carried out:
    /// drop the instance, and rebuild the run from its history when the cause has been fixed.
    pub outcome: Result<Vec<Command>, ActivationFailure>,
}

/// Why an activation could not be answered. It says nothing about the run's outcome: the run is where it was before.
#[derive(Debug, Clone, PartialEq, Error, Serialize, Deserialize)]
#[serde(tag = "failure", rename_all = "snake_case")]
pub enum ActivationFailure {
    /// The code does not do what the history says it did.
    #[error("the code does not do what the history says: {difference}")]
    Nondeterminism {
        /// The first difference.
        difference: Box<Difference>,
    },
    /// Workflow code panicked.
    #[error("branch {branch} panicked: {message}; the run stands where it stood")]
    Panicked {
        /// The branch.
        branch: String,
        /// What the panic said.
        message: String,
    },
    /// A response fits no operation.
    #[error("{0}")]
    Unmatched(#[from] UnmatchedResponse),
    /// A run's code waits for something that no activation can bring.
    #[error("{0}")]
    Foreign(#[from] ForeignWait),
    /// The numbers of a kind are used up.
    #[error("{0}")]
    Exhausted(#[from] Exhausted),
    /// The registry does not have the workflow's code.
    #[error("no workflow {workflow_type:?} is registered here; known: {known}")]
    UnknownWorkflow {
        /// What was asked for.
        workflow_type: String,
        /// What there is, separated by commas.
        known: String,
    },
    /// The host has broken a rule of the conversation.
    #[error("{reason}")]
    Protocol {
        /// Which.
        reason: String,
    },
    /// An earlier activation of this instance has failed.
    #[error(
        "an earlier activation of this instance failed: {first}; drop it and build the run anew from its history"
    )]
    Poisoned {
        /// How it failed.
        first: String,
    },
}

impl ActivationFailure {
    /// What a caller can do about it.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Nondeterminism { .. } => ErrorKind::Conflict,
            Self::Panicked { .. } | Self::Foreign(_) | Self::Protocol { .. } => ErrorKind::Invalid,
            Self::Unmatched(_) => ErrorKind::Conflict,
            Self::Exhausted(_) => ErrorKind::Exhausted,
            Self::UnknownWorkflow { .. } => ErrorKind::NotFound,
            Self::Poisoned { .. } => ErrorKind::Closed,
        }
    }

    /// Whether code and history disagree.
    #[must_use]
    pub const fn is_nondeterminism(&self) -> bool {
        matches!(self, Self::Nondeterminism { .. })
    }
}

/// A response whose number fits no operation that waits for it.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
#[serde(tag = "unmatched", rename_all = "snake_case")]
pub enum UnmatchedResponse {
    /// The number was never given out.
    #[error("{job} for {kind} {seq}, which was never issued; the next number is {next}")]
    NeverIssued {
        /// The job.
        job: String,
        /// The kind.
        kind: Kind,
        /// The number.
        seq: u32,
        /// The number that will be given out next.
        next: u32,
    },
    /// It has had its response.
    #[error("{job} for {kind} {seq}, which was resolved before: the response has come twice")]
    Repeated {
        /// The job.
        job: String,
        /// The kind.
        kind: Kind,
        /// The number.
        seq: u32,
    },
    /// An operation of another kind with this number waits for a response.
    #[error(
        "{job} for {kind} {seq}, which is not pending, while {other} {seq} is: the response was filed under the wrong kind"
    )]
    WrongKind {
        /// The job.
        job: String,
        /// The kind.
        kind: Kind,
        /// The number.
        seq: u32,
        /// The kind that waits.
        other: Kind,
    },
    /// It is not pending, and why is no longer known.
    #[error(
        "{job} for {kind} {seq}, which is not pending and not among the last {remembered} that were settled"
    )]
    Forgotten {
        /// The job.
        job: String,
        /// The kind.
        kind: Kind,
        /// The number.
        seq: u32,
        /// How many are remembered.
        remembered: usize,
    },
    /// The second phase of a child came before the first.
    #[error("resolve_child for child workflow {seq}, which has not been started yet")]
    ResultBeforeStart {
        /// The number.
        seq: u32,
    },
    /// The first phase of a child was answered twice.
    #[error(
        "resolve_child_start for child workflow {seq}, whose start was resolved before: the response has come twice"
    )]
    StartedTwice {
        /// The number.
        seq: u32,
    },
    /// Only a local activity can have the answer to wait for its next attempt.
    #[error("a backoff for activity {seq}: only local activities have one")]
    BackoffForActivity {
        /// The number.
        seq: u32,
    },
}

/// Workflow code that waits for, or was woken by, something that is not an operation of its context.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
#[serde(tag = "foreign", rename_all = "snake_case")]
pub enum ForeignWait {
    /// A task is blocked, and nothing of the context will wake it.
    #[error(
        "branch {branch} waits for something that is not of its context: a runtime's timer, a lock, a channel, a socket, a thread; use `ctx.timer`, `ctx.mutex`, `ctx.semaphore`, `ctx.channel` or `ctx.slot`, or an activity"
    )]
    Blocked {
        /// The branch.
        branch: String,
    },
    /// A task was woken from another thread, or while no activation was under way.
    #[error(
        "branch {branch} was woken from outside an activation: it waits for a runtime's timer, a lock, a channel, a socket or a thread; use `ctx.timer`, `ctx.mutex`, `ctx.semaphore`, `ctx.channel` or `ctx.slot`, or an activity"
    )]
    Woken {
        /// The branch.
        branch: String,
    },
    /// A context was used from another thread, or while no activation was under way.
    #[error(
        "the run's context was used outside an activation: keep it in workflow code, and out of threads and runtimes of its own"
    )]
    Called,
    /// A task wakes itself again and again without getting anywhere.
    #[error("branch {branch} has woken itself {polls} times in one activation without blocking: it spins")]
    Spinning {
        /// The branch.
        branch: String,
        /// How often it was run.
        polls: u64,
    },
}
