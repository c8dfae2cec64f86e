//! Commands: what a run asks its host for.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::kind::{
    ActivitySeq, ChildWorkflowSeq, ExternalCancelSeq, ExternalSignalSeq, LocalActivitySeq, TimerSeq,
};
use crate::{
    ActivityOptions, ChildOptions, ContinueAsNew, Execution, Failure, Headers, Kind, Lineage,
    LocalActivityOptions, Path, Payload,
};

/// One thing that a run asks for, in the order in which it asked.
///
/// Commands that begin an operation carry its number and its lineage; those that end one carry its number and the path
/// of the operation that they end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum Command {
    /// Answer with `FireTimer` after `duration`.
    StartTimer {
        /// Its number.
        seq: TimerSeq,
        /// Where it comes from.
        lineage: Lineage,
        /// How long.
        duration: Duration,
    },
    /// The timer is no longer wanted. There is no answer.
    CancelTimer {
        /// Its number.
        seq: TimerSeq,
        /// The timer's own path.
        path: Path,
    },
    /// Run an activity; answer with `ResolveActivity`.
    ScheduleActivity {
        /// Its number.
        seq: ActivitySeq,
        /// Where it comes from.
        lineage: Lineage,
        /// Name of the activity.
        activity_type: String,
        /// Arguments.
        input: Vec<Payload>,
        /// How.
        options: Box<ActivityOptions>,
    },
    /// Ask an activity to stop.
    CancelActivity {
        /// Its number.
        seq: ActivitySeq,
        /// The activity's own path.
        path: Path,
    },
    /// Run an activity in the worker; answer with `ResolveLocalActivity`.
    ScheduleLocalActivity {
        /// Its number.
        seq: LocalActivitySeq,
        /// Where it comes from.
        lineage: Lineage,
        /// Name of the activity.
        activity_type: String,
        /// Arguments.
        input: Vec<Payload>,
        /// How.
        options: Box<LocalActivityOptions>,
    },
    /// Ask a local activity to stop.
    CancelLocalActivity {
        /// Its number.
        seq: LocalActivitySeq,
        /// The activity's own path.
        path: Path,
    },
    /// Start a child; answer with `ResolveChildStart`, and `ResolveChild` when it has ended.
    StartChild {
        /// Its number.
        seq: ChildWorkflowSeq,
        /// Where it comes from.
        lineage: Lineage,
        /// Name of the child's code.
        workflow_type: String,
        /// Arguments.
        input: Vec<Payload>,
        /// How. The id is never empty.
        options: Box<ChildOptions>,
    },
    /// Ask a child to stop.
    CancelChild {
        /// Its number.
        seq: ChildWorkflowSeq,
        /// The child's own path.
        path: Path,
        /// Why, for people.
        #[serde(default)]
        reason: String,
    },
    /// Send a signal to another workflow; answer with `ResolveExternalSignal`.
    SignalExternal {
        /// Its number.
        seq: ExternalSignalSeq,
        /// Where it comes from.
        lineage: Lineage,
        /// To whom.
        target: SignalTarget,
        /// The signal's name.
        name: String,
        /// Arguments.
        input: Vec<Payload>,
        /// Context that travels with it.
        #[serde(default, skip_serializing_if = "Headers::is_empty")]
        headers: Headers,
    },
    /// A signal that may not have been sent yet is no longer wanted.
    CancelSignal {
        /// Its number.
        seq: ExternalSignalSeq,
        /// The signal's own path.
        path: Path,
    },
    /// Ask another workflow to stop; answer with `ResolveExternalCancel`.
    CancelExternal {
        /// Its number.
        seq: ExternalCancelSeq,
        /// Where it comes from.
        lineage: Lineage,
        /// Which.
        target: Execution,
        /// Why, for people.
        #[serde(default)]
        reason: String,
    },
    /// The code that a patch guards has been reached.
    SetPatch {
        /// The patch.
        id: String,
        /// Its old code is gone.
        deprecated: bool,
        /// Where it was reached first.
        path: Path,
    },
    /// A value that came from outside the rules, kept so that replay finds the same.
    RecordSideEffect {
        /// Where it comes from.
        lineage: Lineage,
        /// The value.
        value: Payload,
    },
    /// Change what the run can be found by.
    UpsertSearchAttributes {
        /// Where it comes from.
        lineage: Lineage,
        /// Attributes to set; `null` removes one.
        attributes: Headers,
    },
    /// Change the notes that travel with the run.
    ModifyMemo {
        /// Where it comes from.
        lineage: Lineage,
        /// Notes to set; `null` removes one.
        memo: Headers,
    },
    /// The run has ended with a result. The last command of a run.
    Complete {
        /// What it returned.
        result: Option<Payload>,
    },
    /// The run has failed. The last command of a run.
    Fail {
        /// Why.
        failure: Failure,
    },
    /// The run has stopped because it was asked to. The last command of a run.
    Cancelled,
    /// The run continues as a new one, with an empty history. The last command of a run.
    ContinueAsNew {
        /// How.
        options: Box<ContinueAsNew>,
    },
    /// The answer to a query. Not part of any history.
    QueryAnswer {
        /// The query's id.
        id: String,
        /// The answer, or why there is none.
        answer: QueryAnswer,
    },
    /// An update has passed its validator, or was accepted in the history.
    UpdateAccepted {
        /// The conversation.
        protocol_id: String,
    },
    /// An update was refused. Nothing has changed, and the history will not have it.
    UpdateRejected {
        /// The conversation.
        protocol_id: String,
        /// Why.
        failure: Failure,
    },
    /// An accepted update has ended.
    UpdateCompleted {
        /// The conversation.
        protocol_id: String,
        /// How.
        outcome: UpdateOutcome,
    },
}

/// To whom a signal goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "to", rename_all = "snake_case")]
pub enum SignalTarget {
    /// To any workflow.
    Workflow(Execution),
    /// To a child, whichever of its runs is the present one.
    Child {
        /// The child's workflow id.
        workflow_id: String,
    },
}

/// The answer to a query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum QueryAnswer {
    /// It was answered.
    Answered {
        /// With this.
        result: Payload,
    },
    /// It was not.
    Failed {
        /// Why.
        failure: Failure,
    },
}

/// How an accepted update has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum UpdateOutcome {
    /// With a result.
    Completed {
        /// What its handler returned.
        result: Payload,
    },
    /// With a failure.
    Failed {
        /// Why.
        failure: Failure,
    },
}

/// What a command is, without its contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "named as the commands are")]
pub enum CommandKind {
    StartTimer,
    CancelTimer,
    ScheduleActivity,
    CancelActivity,
    ScheduleLocalActivity,
    CancelLocalActivity,
    StartChild,
    CancelChild,
    SignalExternal,
    CancelSignal,
    CancelExternal,
    SetPatch,
    RecordSideEffect,
    UpsertSearchAttributes,
    ModifyMemo,
    Complete,
    Fail,
    Cancelled,
    ContinueAsNew,
    QueryAnswer,
    UpdateAccepted,
    UpdateRejected,
    UpdateCompleted,
}

impl CommandKind {
    /// The name that its JSON form has.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::StartTimer => "start_timer",
            Self::CancelTimer => "cancel_timer",
            Self::ScheduleActivity => "schedule_activity",
            Self::CancelActivity => "cancel_activity",
            Self::ScheduleLocalActivity => "schedule_local_activity",
            Self::CancelLocalActivity => "cancel_local_activity",
            Self::StartChild => "start_child",
            Self::CancelChild => "cancel_child",
            Self::SignalExternal => "signal_external",
            Self::CancelSignal => "cancel_signal",
            Self::CancelExternal => "cancel_external",
            Self::SetPatch => "set_patch",
            Self::RecordSideEffect => "record_side_effect",
            Self::UpsertSearchAttributes => "upsert_search_attributes",
            Self::ModifyMemo => "modify_memo",
            Self::Complete => "complete",
            Self::Fail => "fail",
            Self::Cancelled => "cancelled",
            Self::ContinueAsNew => "continue_as_new",
            Self::QueryAnswer => "query_answer",
            Self::UpdateAccepted => "update_accepted",
            Self::UpdateRejected => "update_rejected",
            Self::UpdateCompleted => "update_completed",
        }
    }

    /// Whether the run has ended with it.
    #[must_use]
    pub const fn ends_the_run(self) -> bool {
        matches!(self, Self::Complete | Self::Fail | Self::Cancelled | Self::ContinueAsNew)
    }

    /// Whether it belongs into a history. Answers to queries do not, nor do refused updates.
    #[must_use]
    pub const fn is_recorded(self) -> bool {
        !matches!(self, Self::QueryAnswer | Self::UpdateRejected)
    }
}

impl fmt::Display for CommandKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Command {
    /// What it is.
    #[must_use]
    pub const fn kind(&self) -> CommandKind {
        match self {
            Self::StartTimer { .. } => CommandKind::StartTimer,
            Self::CancelTimer { .. } => CommandKind::CancelTimer,
            Self::ScheduleActivity { .. } => CommandKind::ScheduleActivity,
            Self::CancelActivity { .. } => CommandKind::CancelActivity,
            Self::ScheduleLocalActivity { .. } => CommandKind::ScheduleLocalActivity,
            Self::CancelLocalActivity { .. } => CommandKind::CancelLocalActivity,
            Self::StartChild { .. } => CommandKind::StartChild,
            Self::CancelChild { .. } => CommandKind::CancelChild,
            Self::SignalExternal { .. } => CommandKind::SignalExternal,
            Self::CancelSignal { .. } => CommandKind::CancelSignal,
            Self::CancelExternal { .. } => CommandKind::CancelExternal,
            Self::SetPatch { .. } => CommandKind::SetPatch,
            Self::RecordSideEffect { .. } => CommandKind::RecordSideEffect,
            Self::UpsertSearchAttributes { .. } => CommandKind::UpsertSearchAttributes,
            Self::ModifyMemo { .. } => CommandKind::ModifyMemo,
            Self::Complete { .. } => CommandKind::Complete,
            Self::Fail { .. } => CommandKind::Fail,
            Self::Cancelled => CommandKind::Cancelled,
            Self::ContinueAsNew { .. } => CommandKind::ContinueAsNew,
            Self::QueryAnswer { .. } => CommandKind::QueryAnswer,
            Self::UpdateAccepted { .. } => CommandKind::UpdateAccepted,
            Self::UpdateRejected { .. } => CommandKind::UpdateRejected,
            Self::UpdateCompleted { .. } => CommandKind::UpdateCompleted,
        }
    }

    /// Kind and number of the operation that it begins or ends, if it has one.
    #[must_use]
    pub const fn seq(&self) -> Option<(Kind, u32)> {
        Some(match self {
            Self::StartTimer { seq, .. } | Self::CancelTimer { seq, .. } => (Kind::Timer, seq.get()),
            Self::ScheduleActivity { seq, .. } | Self::CancelActivity { seq, .. } => {
                (Kind::Activity, seq.get())
            }
            Self::ScheduleLocalActivity { seq, .. } | Self::CancelLocalActivity { seq, .. } => {
                (Kind::LocalActivity, seq.get())
            }
            Self::StartChild { seq, .. } | Self::CancelChild { seq, .. } => (Kind::ChildWorkflow, seq.get()),
            Self::SignalExternal { seq, .. } | Self::CancelSignal { seq, .. } => {
                (Kind::ExternalSignal, seq.get())
            }
            Self::CancelExternal { seq, .. } => (Kind::ExternalCancel, seq.get()),
            _ => return None,
        })
    }

    /// Where it comes from, if it begins something.
    #[must_use]
    pub const fn lineage(&self) -> Option<&Lineage> {
        match self {
            Self::StartTimer { lineage, .. }
            | Self::ScheduleActivity { lineage, .. }
            | Self::ScheduleLocalActivity { lineage, .. }
            | Self::StartChild { lineage, .. }
            | Self::SignalExternal { lineage, .. }
            | Self::CancelExternal { lineage, .. }
            | Self::RecordSideEffect { lineage, .. }
            | Self::UpsertSearchAttributes { lineage, .. }
            | Self::ModifyMemo { lineage, .. } => Some(lineage),
            _ => None,
        }
    }

    /// Its own path, or that of the operation that it ends.
    #[must_use]
    pub const fn path(&self) -> Option<&Path> {
        match self {
            Self::CancelTimer { path, .. }
            | Self::CancelActivity { path, .. }
            | Self::CancelLocalActivity { path, .. }
            | Self::CancelChild { path, .. }
            | Self::CancelSignal { path, .. }
            | Self::SetPatch { path, .. } => Some(path),
            _ => match self.lineage() {
                Some(lineage) => Some(&lineage.path),
                None => None,
            },
        }
    }

    /// The name of what is asked for: activity, workflow type, signal, patch; empty where there is none.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::ScheduleActivity { activity_type, .. }
            | Self::ScheduleLocalActivity { activity_type, .. } => activity_type,
            Self::StartChild { workflow_type, .. } => workflow_type,
            Self::SignalExternal { name, .. } => name,
            Self::SetPatch { id, .. } => id,
            Self::ContinueAsNew { options } => &options.workflow_type,
            _ => "",
        }
    }
}
