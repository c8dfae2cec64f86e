//! A deterministic workflow runtime: activations in, commands out.

mod activation;
mod base64;
mod command;
mod completion;
mod failure;
pub mod kind;
mod lineage;
mod options;
mod payload;
mod record;

pub use activation::{
    Activation, ActivityResolution, ChildResolution, ChildStartFailure, ChildStartResolution, Execution, Job,
    Start, Time,
};
pub use command::{Command, CommandKind, QueryAnswer, SignalTarget, UpdateOutcome};
pub use completion::{ActivationFailure, Completion, ForeignWait, UnmatchedResponse};
pub use failure::{Failure, FailureInfo, RetryState, TimeoutType};
pub use kind::{CommandSeq, Exhausted, Kind};
pub use lineage::{Branch, InputDigest, Lineage, Path, PathError};
pub use options::{
    ActivityOptions, CancellationType, ChildOptions, ContinueAsNew, IdReusePolicy, LocalActivityOptions,
    ParentClosePolicy, RetryPolicy,
};
pub use payload::{Headers, Payload, PayloadError};
pub use record::{CallSite, CommandRecord, Difference, DifferenceKind, Field, Recorded};
