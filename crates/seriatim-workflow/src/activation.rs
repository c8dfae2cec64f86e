//! Activations: what a host tells a run.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::kind::{
    ActivitySeq, ChildWorkflowSeq, ExternalCancelSeq, ExternalSignalSeq, LocalActivitySeq, TimerSeq,
};
use crate::{Failure, Headers, Kind, Payload, RetryPolicy};

/// A time as a run sees it: microseconds since the Unix epoch, in UTC. It does not change within an activation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(u64);

impl Time {
    /// The time that is this many microseconds after the Unix epoch.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Microseconds since the Unix epoch.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// The time `duration` later; stays at the end of the integer rather than wrap.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)))
    }

    /// How long after `earlier` it is; zero if it is before.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

/// Everything that has happened to a run since its last completion. Answered by exactly one
/// [`Completion`](crate::Completion).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Activation {
    /// The run.
    pub run_id: String,
    /// What the run's clock shows until the next activation.
    pub time: Time,
    /// The jobs are known from the history, and so are the commands that will answer them.
    #[serde(default)]
    pub is_replaying: bool,
    /// Events in the run's history so far; a hint for continue-as-new.
    #[serde(default)]
    pub history_length: u32,
    /// The history is so long that the run should continue as new: what
    /// [`Context::continue_as_new_suggested`](crate::Context::continue_as_new_suggested) says. Part of the history.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub continue_as_new_suggested: bool,
    /// What has happened, in order. All are applied before any workflow code runs.
    pub jobs: Vec<Job>,
}

impl Activation {
    /// An activation with these jobs, not replaying, with an unknown history length.
    #[must_use]
    pub fn new(run_id: impl Into<String>, time: Time, jobs: Vec<Job>) -> Self {
        let run_id = run_id.into();
        Self { run_id, time, is_replaying: false, history_length: 0, continue_as_new_suggested: false, jobs }
    }

    /// The same, known from the history or not.
    #[must_use]
    pub fn replaying(mut self, is_replaying: bool) -> Self {
        self.is_replaying = is_replaying;
        self
    }
}

/// One thing that has happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "job", rename_all = "snake_case")]
pub enum Job {
    /// The run begins. First job of the first activation.
    Start(Box<Start>),
    /// A timer has fired.
    FireTimer {
        /// Which.
        seq: TimerSeq,
    },
    /// An activity has ended.
    ResolveActivity {
        /// Which.
        seq: ActivitySeq,
        /// How. [`ActivityResolution::Backoff`] is for local activities only.
        resolution: ActivityResolution,
    },
    /// A local activity has ended, or is to be tried again after a timer.
    ResolveLocalActivity {
        /// Which.
        seq: LocalActivitySeq,
        /// How.
        resolution: ActivityResolution,
    },
    /// First phase of a child workflow: it has been started, or not.
    ResolveChildStart {
        /// Which.
        seq: ChildWorkflowSeq,
        /// How.
        resolution: ChildStartResolution,
    },
    /// Second phase of a child workflow: it has ended.
    ResolveChild {
        /// Which.
        seq: ChildWorkflowSeq,
        /// How.
        resolution: ChildResolution,
    },
    /// A signal to another workflow was delivered, or not.
    ResolveExternalSignal {
        /// Which.
        seq: ExternalSignalSeq,
        /// Why it was not delivered.
        failure: Option<Failure>,
    },
    /// A request to cancel another workflow was delivered, or not.
    ResolveExternalCancel {
        /// Which.
        seq: ExternalCancelSeq,
        /// Why it was not delivered.
        failure: Option<Failure>,
    },
    /// A request to cancel the run.
    Cancel {
        /// Why, for people.
        #[serde(default)]
        reason: String,
    },
    /// A signal has come in.
    Signal {
        /// Its name.
        name: String,
        /// Its arguments.
        #[serde(default)]
        input: Vec<Payload>,
        /// Context that travels with it.
        #[serde(default, skip_serializing_if = "Headers::is_empty")]
        headers: Headers,
        /// Who sent it.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        identity: String,
    },
    /// A query of the run's state. Answered by one `QueryAnswer`; not part of any history.
    Query {
        /// Names the question; its answer carries the same.
        id: String,
        /// What is asked.
        name: String,
        /// Its arguments.
        #[serde(default)]
        input: Vec<Payload>,
        /// Context that travels with it.
        #[serde(default, skip_serializing_if = "Headers::is_empty")]
        headers: Headers,
    },
    /// A request to change the run's state, whose sender waits for the outcome.
    Update {
        /// Names the update for its caller.
        id: String,
        /// Names the conversation with the host; all answers carry it.
        protocol_id: String,
        /// Its name.
        name: String,
        /// Its arguments.
        #[serde(default)]
        input: Vec<Payload>,
        /// Context that travels with it.
        #[serde(default, skip_serializing_if = "Headers::is_empty")]
        headers: Headers,
        /// Who sent it.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        identity: String,
        /// Ask the validator first. Not set on replay: what is in the history was accepted.
        run_validator: bool,
    },
    /// The history has this patch: the code that it guards runs the new way.
    Patch {
        /// The patch.
        id: String,
    },
    /// From here on the run's randomness comes from another seed.
    RandomSeed {
        /// The seed.
        seed: u64,
    },
    /// The host drops the run from memory. Comes alone; the instance is of no further use.
    Evict {
        /// Why, for people.
        #[serde(default)]
        reason: String,
    },
}

impl Job {
    /// The name that its JSON form has.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Start(_) => "start",
            Self::FireTimer { .. } => "fire_timer",
            Self::ResolveActivity { .. } => "resolve_activity",
            Self::ResolveLocalActivity { .. } => "resolve_local_activity",
            Self::ResolveChildStart { .. } => "resolve_child_start",
            Self::ResolveChild { .. } => "resolve_child",
            Self::ResolveExternalSignal { .. } => "resolve_external_signal",
            Self::ResolveExternalCancel { .. } => "resolve_external_cancel",
            Self::Cancel { .. } => "cancel",
            Self::Signal { .. } => "signal",
            Self::Query { .. } => "query",
            Self::Update { .. } => "update",
            Self::Patch { .. } => "patch",
            Self::RandomSeed { .. } => "random_seed",
            Self::Evict { .. } => "evict",
        }
    }

    /// The operation that this job answers, and which of its answers it is.
    #[must_use]
    pub fn answer(&self) -> Option<(Kind, u32, AnswerPhase)> {
        use AnswerPhase::{ChildStart, Result};
        Some(match self {
            Self::FireTimer { seq } => (Kind::Timer, seq.get(), Result),
            Self::ResolveActivity { seq, .. } => (Kind::Activity, seq.get(), Result),
            Self::ResolveLocalActivity { seq, .. } => (Kind::LocalActivity, seq.get(), Result),
            Self::ResolveChildStart { seq, .. } => (Kind::ChildWorkflow, seq.get(), ChildStart),
            Self::ResolveChild { seq, .. } => (Kind::ChildWorkflow, seq.get(), Result),
            Self::ResolveExternalSignal { seq, .. } => (Kind::ExternalSignal, seq.get(), Result),
            Self::ResolveExternalCancel { seq, .. } => (Kind::ExternalCancel, seq.get(), Result),
            Self::Start(_)
            | Self::Cancel { .. }
            | Self::Signal { .. }
            | Self::Query { .. }
            | Self::Update { .. }
            | Self::Patch { .. }
            | Self::RandomSeed { .. }
            | Self::Evict { .. } => return None,
        })
    }

    /// The operation whose result this is. That a child has started is not its result.
    #[must_use]
    pub fn answers(&self) -> Option<(Kind, u32)> {
        let (kind, seq, phase) = self.answer()?;
        (phase == AnswerPhase::Result).then_some((kind, seq))
    }
}

/// Which of the answers of an operation a job is. Only a child workflow has two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AnswerPhase {
    /// The child has started, or could not be started.
    ChildStart,
    /// The result.
    Result,
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How a run begins.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Start {
    /// Name of the workflow's code in the registry.
    pub workflow_type: String,
    /// The workflow's id, the same for all of its runs.
    pub workflow_id: String,
    /// Arguments.
    pub input: Vec<Payload>,
    /// Where the run's randomness comes from.
    pub random_seed: u64,
    /// Context that travels with it.
    pub headers: Headers,
    /// Notes that travel with it.
    pub memo: Headers,
    /// What it can be found by.
    pub search_attributes: Headers,
    /// Which attempt it is, from 1.
    pub attempt: u32,
    /// Who started it.
    pub identity: String,
    /// Where its activities go unless they say otherwise.
    pub task_queue: String,
    /// Where it lives.
    pub namespace: String,
    /// When it was started.
    pub start_time: Time,
    /// The workflow of which it is a child.
    pub parent: Option<Execution>,
    /// The run that continued as this one.
    pub continued_from: Option<String>,
    /// The first of the runs that continued as one another.
    pub first_run_id: String,
    /// Why the run before it ended, if it failed.
    pub last_failure: Option<Failure>,
    /// The result of the run before it, if it completed.
    pub last_result: Option<Payload>,
    /// How often it runs by itself.
    pub cron_schedule: String,
    /// How it is tried again as a whole.
    pub retry_policy: Option<RetryPolicy>,
    /// From the first run's start to the last one's end.
    pub execution_timeout: Option<Duration>,
    /// From this run's start to its end.
    pub run_timeout: Option<Duration>,
    /// How long the run may think about one activation.
    pub task_timeout: Option<Duration>,
    /// The rules that the run is played by, to its end: see [`Start::RULES`].
    #[serde(skip_serializing_if = "is_zero")]
    pub rules: u32,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
const fn is_zero(rules: &u32) -> bool {
    *rules == 0
}

impl Start {
    /// The rules for new runs. A run keeps the rules that it began with, so that it replays as it was recorded.
    ///
    /// | rules | |
    /// |---|---|
    /// | 0 | what a start without the field has: all updates of an activation are validated and accepted before any of their handlers runs |
    /// | 1 | updates take their turn among the jobs: each is validated, accepted and polled once before the next is taken. Waits for conditions and slots end with their scope. Signals of the wrong type are skipped |
    pub const RULES: u32 = 1;
    /// The flag by which a worker on a Temporal cluster notes in a run's history that it plays by [`Self::RULES`]. The
    /// number is ours: other SDKs count theirs from 1.
    pub const RULES_FLAG: u32 = 7_301;

    /// A first attempt of this workflow with these arguments, by the newest rules.
    #[must_use]
    pub fn new(
        workflow_type: impl Into<String>,
        workflow_id: impl Into<String>,
        input: Vec<Payload>,
    ) -> Self {
        Self {
            workflow_type: workflow_type.into(),
            workflow_id: workflow_id.into(),
            input,
            attempt: 1,
            rules: Self::RULES,
            ..Self::default()
        }
    }
}

/// A workflow's id and, where it matters, which of its runs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Execution {
    /// Where it lives; empty is the run's own.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The workflow's id.
    pub workflow_id: String,
    /// The run; empty is the present one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub run_id: String,
}

/// How an activity has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum ActivityResolution {
    /// With a result.
    Completed {
        /// What it returned.
        result: Option<Payload>,
    },
    /// With a failure, after all its attempts.
    Failed {
        /// Why.
        failure: Failure,
    },
    /// It was cancelled.
    Cancelled {
        /// What it said to that.
        failure: Failure,
    },
    /// A local activity failed and waits so long for its next attempt that the run has to keep a timer for it.
    Backoff {
        /// The attempt to make.
        attempt: u32,
        /// After how long.
        delay: Duration,
        /// When the first attempt was scheduled.
        original_schedule_time: Option<Time>,
    },
}

/// How a child's first phase has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum ChildStartResolution {
    /// It runs.
    Started {
        /// Its first run.
        run_id: String,
    },
    /// It was refused.
    Failed {
        /// Why.
        cause: ChildStartFailure,
        /// Its id.
        #[serde(default)]
        workflow_id: String,
        /// Its type.
        #[serde(default)]
        workflow_type: String,
    },
    /// It was cancelled before it began.
    Cancelled {
        /// Why.
        failure: Failure,
    },
}

/// Why a child was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildStartFailure {
    /// Not said.
    Unspecified,
    /// A workflow with its id exists.
    AlreadyExists,
    /// Its namespace does not exist.
    NamespaceNotFound,
    /// Its type is not registered.
    UnknownType,
}

/// How a child has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum ChildResolution {
    /// With a result.
    Completed {
        /// What it returned.
        result: Option<Payload>,
    },
    /// With a failure.
    Failed {
        /// Why.
        failure: Failure,
    },
    /// It was cancelled.
    Cancelled {
        /// What it said to that.
        failure: Failure,
    },
}
