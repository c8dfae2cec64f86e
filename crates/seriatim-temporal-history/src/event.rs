//! The events of a Temporal history, as far as replay and inspection need them.

use std::collections::BTreeMap;
use std::time::Duration;

use seriatim_workflow::{ChildStartFailure, Execution, Failure, Headers, Payload, Start, Time};

/// One event.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryEvent {
    /// Its place in the history, from 1.
    pub id: i64,
    /// When it was written.
    pub time: Time,
    /// What happened.
    pub kind: EventKind,
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "named as Temporal names them; ids are those of the events that they answer")]
pub enum EventKind {
    Started(Box<Start>),
    TaskScheduled,
    TaskStarted,
    /// With the SDK's name and flags, if it is the first task that has them.
    TaskCompleted {
        sdk_name: String,
        lang_flags: Vec<i64>,
    },
    /// A workflow task that ended without commands. After a reset, the run has a new id and with it a new seed.
    TaskFailed {
        new_run_id: String,
    },
    TaskTimedOut,
    ActivityScheduled {
        activity_id: String,
        activity_type: String,
        task_queue: String,
        input: Vec<Payload>,
    },
    ActivityStarted {
        scheduled: i64,
    },
    ActivityCompleted {
        scheduled: i64,
        result: Vec<Payload>,
    },
    ActivityFailed {
        scheduled: i64,
        failure: Box<Failure>,
        retry_state: usize,
    },
    ActivityTimedOut {
        scheduled: i64,
        failure: Box<Failure>,
        retry_state: usize,
    },
    ActivityCancelRequested {
        scheduled: i64,
    },
    ActivityCancelled {
        scheduled: i64,
        details: Vec<Payload>,
    },
    TimerStarted {
        timer_id: String,
        duration: Duration,
    },
    TimerFired {
        started: i64,
    },
    TimerCancelled {
        started: i64,
    },
    CancelRequested {
        reason: String,
    },
    Marker(Marker),
    Signalled {
        name: String,
        input: Vec<Payload>,
        headers: Headers,
        identity: String,
    },
    ExternalCancelInitiated {
        target: Execution,
        reason: String,
        child_only: bool,
    },
    ExternalCancelFailed {
        initiated: i64,
        cause: usize,
    },
    ExternalCancelDelivered {
        initiated: i64,
    },
    ExternalSignalInitiated {
        target: Execution,
        name: String,
        input: Vec<Payload>,
        child_only: bool,
    },
    ExternalSignalFailed {
        initiated: i64,
        cause: usize,
    },
    ExternalSignalDelivered {
        initiated: i64,
    },
    ChildInitiated {
        workflow_id: String,
        workflow_type: String,
        input: Vec<Payload>,
    },
    ChildStartFailed {
        initiated: i64,
        cause: ChildStartFailure,
    },
    ChildStarted {
        initiated: i64,
        run_id: String,
    },
    ChildCompleted {
        initiated: i64,
        result: Vec<Payload>,
    },
    /// The child failed, timed out or was terminated.
    ChildFailed {
        initiated: i64,
        failure: Box<Failure>,
    },
    ChildCancelled {
        initiated: i64,
        details: Vec<Payload>,
    },
    SearchAttributesUpserted {
        attributes: Headers,
    },
    MemoModified {
        memo: Headers,
    },
    /// An update that the server has taken and the run has not seen: after a reset.
    UpdateAdmitted(Box<AcceptedUpdate>),
    UpdateAccepted(Box<AcceptedUpdate>),
    UpdateCompleted {
        accepted: i64,
        update_id: String,
        outcome: Result<Vec<Payload>, Box<Failure>>,
    },
    Completed {
        result: Vec<Payload>,
    },
    Failed {
        failure: Box<Failure>,
    },
    TimedOut,
    Terminated {
        reason: String,
    },
    Cancelled,
    ContinuedAsNew {
        workflow_type: String,
        input: Vec<Payload>,
    },
    /// An event of a Nexus operation, which cannot be replayed here.
    Nexus {
        name: &'static str,
        /// The run has asked for it.
        is_asked: bool,
    },
    /// An event of which nothing is needed here, by the number of its type.
    Other {
        event_type: usize,
    },
}

/// An update that the run has taken.
#[derive(Debug, Clone, PartialEq)]
pub struct AcceptedUpdate {
    /// The protocol id of the update.
    pub protocol_id: String,
    /// Names the update for its caller.
    pub update_id: String,
    /// Its name.
    pub name: String,
    /// Its arguments.
    pub input: Vec<Payload>,
    /// Context that travels with it.
    pub headers: Headers,
    /// Who sent it.
    pub identity: String,
}

/// What a run has noted in its history.
#[derive(Debug, Clone, PartialEq)]
pub enum Marker {
    /// A local activity's end.
    LocalActivity(Box<LocalActivityMarker>),
    /// A patch.
    Patch {
        /// Its id.
        id: String,
        /// Its old code is gone.
        deprecated: bool,
    },
    /// A mark of another SDK.
    Other {
        /// Its name.
        name: String,
        /// Its contents.
        details: BTreeMap<String, Vec<Payload>>,
    },
}

/// The end of a local activity.
#[derive(Debug, Clone, PartialEq)]
pub struct LocalActivityMarker {
    /// Its number.
    pub seq: u32,
    /// Name of the activity.
    pub activity_type: String,
    /// The attempt that ended.
    pub attempt: u32,
    /// What it returned.
    pub result: Option<Payload>,
    /// Why it failed.
    pub failure: Option<Failure>,
    /// It is to be tried again after so long.
    pub backoff: Option<Duration>,
    /// When its first attempt was scheduled.
    pub original_schedule_time: Option<Time>,
}

impl EventKind {
    /// Whether the event is a command of the run: it follows the workflow task that issued it.
    #[must_use]
    pub const fn is_command(&self) -> bool {
        matches!(
            self,
            Self::ActivityScheduled { .. }
                | Self::ActivityCancelRequested { .. }
                | Self::TimerStarted { .. }
                | Self::TimerCancelled { .. }
                | Self::Marker(_)
                | Self::ExternalCancelInitiated { .. }
                | Self::ExternalSignalInitiated { .. }
                | Self::ChildInitiated { .. }
                | Self::SearchAttributesUpserted { .. }
                | Self::MemoModified { .. }
                | Self::Nexus { is_asked: true, .. }
                | Self::UpdateAccepted(_)
                | Self::UpdateCompleted { .. }
                | Self::Completed { .. }
                | Self::Failed { .. }
                | Self::Cancelled
                | Self::ContinuedAsNew { .. }
        )
    }

    /// Its name, for people.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Started(_) => "workflow_execution_started",
            Self::TaskScheduled => "workflow_task_scheduled",
            Self::TaskStarted => "workflow_task_started",
            Self::TaskCompleted { .. } => "workflow_task_completed",
            Self::TaskFailed { .. } => "workflow_task_failed",
            Self::TaskTimedOut => "workflow_task_timed_out",
            Self::ActivityScheduled { .. } => "activity_task_scheduled",
            Self::ActivityStarted { .. } => "activity_task_started",
            Self::ActivityCompleted { .. } => "activity_task_completed",
            Self::ActivityFailed { .. } => "activity_task_failed",
            Self::ActivityTimedOut { .. } => "activity_task_timed_out",
            Self::ActivityCancelRequested { .. } => "activity_task_cancel_requested",
            Self::ActivityCancelled { .. } => "activity_task_canceled",
            Self::TimerStarted { .. } => "timer_started",
            Self::TimerFired { .. } => "timer_fired",
            Self::TimerCancelled { .. } => "timer_canceled",
            Self::CancelRequested { .. } => "workflow_execution_cancel_requested",
            Self::Marker(_) => "marker_recorded",
            Self::Signalled { .. } => "workflow_execution_signaled",
            Self::ExternalCancelInitiated { .. } => "request_cancel_external_workflow_execution_initiated",
            Self::ExternalCancelFailed { .. } => "request_cancel_external_workflow_execution_failed",
            Self::ExternalCancelDelivered { .. } => "external_workflow_execution_cancel_requested",
            Self::ExternalSignalInitiated { .. } => "signal_external_workflow_execution_initiated",
            Self::ExternalSignalFailed { .. } => "signal_external_workflow_execution_failed",
            Self::ExternalSignalDelivered { .. } => "external_workflow_execution_signaled",
            Self::ChildInitiated { .. } => "start_child_workflow_execution_initiated",
            Self::ChildStartFailed { .. } => "start_child_workflow_execution_failed",
            Self::ChildStarted { .. } => "child_workflow_execution_started",
            Self::ChildCompleted { .. } => "child_workflow_execution_completed",
            Self::ChildFailed { .. } => "child_workflow_execution_failed",
            Self::ChildCancelled { .. } => "child_workflow_execution_canceled",
            Self::SearchAttributesUpserted { .. } => "upsert_workflow_search_attributes",
            Self::MemoModified { .. } => "workflow_properties_modified",
            Self::UpdateAdmitted(_) => "workflow_execution_update_admitted",
            Self::Nexus { name, .. } => name,
            Self::UpdateAccepted(_) => "workflow_execution_update_accepted",
            Self::UpdateCompleted { .. } => "workflow_execution_update_completed",
            Self::Completed { .. } => "workflow_execution_completed",
            Self::Failed { .. } => "workflow_execution_failed",
            Self::TimedOut => "workflow_execution_timed_out",
            Self::Terminated { .. } => "workflow_execution_terminated",
            Self::Cancelled => "workflow_execution_canceled",
            Self::ContinuedAsNew { .. } => "workflow_execution_continued_as_new",
            Self::Other { .. } => "other",
        }
    }
}
