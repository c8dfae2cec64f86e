//! A deterministic workflow runtime: activations in, commands out.

mod activation;
mod base64;
mod command;
mod completion;
mod context;
mod error;
mod failure;
mod inspect;
pub mod kind;
mod lineage;
mod options;
mod payload;
mod record;
mod registry;
mod replay;
mod runtime;
pub mod temporal_history;

pub use activation::{
    Activation, ActivityResolution, ChildResolution, ChildStartFailure, ChildStartResolution, Execution, Job,
    Start, Time,
};
pub use command::{Command, CommandKind, QueryAnswer, SignalTarget, UpdateOutcome};
pub use completion::{ActivationFailure, Completion, ForeignWait, UnmatchedResponse};
pub use context::{
    Activity, ActivityCall, ActivityFuture, BoxFuture, ChildCall, ChildHandle, ChildWorkflow, Context,
    Either, ExternalFuture, LocalActivityCall, Losers, Race, RaceFuture, SIDE_EFFECT_ACTIVITY, Scope,
    Signals, TaskHandle, TimedOut, TimerFuture,
};
pub use error::{ActivityError, Cancelled, ChildError, Exit, ExternalError, SignalError};
pub use failure::{Failure, FailureInfo, RetryState, TimeoutType};
pub use inspect::{InspectedOperation, Inspection, Mark};
pub use kind::{CommandSeq, Exhausted, Kind};
pub use lineage::{Branch, InputDigest, Lineage, Path, PathError};
pub use options::{
    ActivityOptions, CancellationType, ChildOptions, ContinueAsNew, IdReusePolicy, LocalActivityOptions,
    ParentClosePolicy, RetryPolicy,
};
pub use payload::{Headers, Payload, PayloadError};
pub use record::{CallSite, CommandRecord, Difference, DifferenceKind, Field, Recorded};
pub use registry::Registry;
pub use replay::{History, Report, Step, replay};
pub use runtime::{
    Blocked, Instance, InstanceOptions, Numbering, PendingOperation, Policy, REMEMBERED, Slot, SlotFuture,
    WaitingFor,
};
pub use temporal_history::{HistoryError, TemporalHistory, replay_temporal};
