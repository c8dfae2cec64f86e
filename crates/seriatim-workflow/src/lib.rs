//! A deterministic workflow runtime: activations in, commands out.
//!
//! A workflow is an `async` function over a [`Context`]. It asks for things by commands, each with a number of its kind;
//! the answers come back by these numbers, and wake exactly the branches that wait for them. Its jobs and its
//! commands are its history, and from that a run can be rebuilt, because its code does the same again.
//!
//! ```text
//!              jobs                       slots                    commands
//! Activation ───────► pending tables ───────────► ready branches ───────────► Completion
//!                     by kind and number          first come, first served     one for each activation
//! ```
//!
//! This crate decides and does nothing else: it has no clock, no I/O, no threads. A host carries out the commands.
//!
//! ```
//! use seriatim_workflow::*;
//! use std::time::Duration;
//!
//! async fn remind(ctx: Context, who: String) -> Result<u32, Exit> {
//!     let mut reminders = 0;
//!     loop {
//!         let answered = ctx
//!             .race2(
//!                 |ctx| async move { ctx.signals::<()>("answer").next().await },
//!                 |ctx| async move { ctx.timer(Duration::from_secs(86_400)).await },
//!             )
//!             .await;
//!         match answered {
//!             Either::Left(answer) => return answer.map(|()| reminders).map_err(Into::into),
//!             Either::Right(passed) => passed?,
//!         }
//!         ctx.activity::<_, ()>("send_mail", &who).await?;
//!         reminders += 1;
//!     }
//! }
//!
//! // What a host does with it.
//! let registry = Registry::new().workflow("remind", remind);
//! let mut run = Instance::new(registry.into(), InstanceOptions::default());
//! let mut send = |job| run.activate(Activation::new("run-1", Time::default(), vec![job])).outcome;
//!
//! let start = Start::new("remind", "remind-ada", vec![Payload::json("ada")?]);
//! let commands = send(Job::Start(start.into()))?;
//! let [Command::StartTimer { seq, .. }] = commands[..] else { panic!("{commands:?}") };
//!
//! let commands = send(Job::FireTimer { seq })?;
//! assert_eq!(commands[0].name(), "send_mail");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Where to look: [`Context`] is what workflow code sees; [`Job`] and [`Command`] are the conversation with a host;
//! [`Instance`] is a run in memory; [`Path`] and [`Recorded`] are how a history is compared; [`replay`](replay()) tests
//! code against histories.

#![forbid(unsafe_code)]
#![allow(
    clippy::result_large_err,
    clippy::large_enum_variant,
    reason = "failures are rare, and their authors should not have to box them"
)]

mod activation;
mod arguments;
mod base64;
mod command;
mod completion;
mod context;
mod difference;
mod error;
mod failure;
mod inspect;
pub mod kind;
mod lineage;
mod meaning;
mod metadata;
mod name;
mod options;
mod payload;
mod record;
mod registry;
mod replay;
mod runtime;
mod warning;

pub use activation::{
    Activation, ActivityResolution, AnswerPhase, ChildResolution, ChildStartFailure, ChildStartResolution,
    Execution, Job, Start, Time,
};
pub use arguments::{Args, Arguments, args};
pub use command::{Command, CommandKind, QueryAnswer, SignalTarget, UpdateOutcome};
pub use completion::{ActivationFailure, Completion, ForeignWait, UnmatchedResponse};
pub use context::{
    ActivityCall, ActivityFuture, BoxFuture, ChildCall, ChildHandle, ConditionFuture, Context, Either,
    ExternalFuture, LocalActivityCall, LogLevel, LogLine, Losers, Mutex, MutexGuard, Permit, Race,
    RaceFuture, Receiver, SIDE_EFFECT_ACTIVITY, Scope, Semaphore, Sender, Signals, TaskHandle, TimedOut,
    TimerFuture, WorkflowState,
};
pub use difference::{CallSite, Difference, DifferenceKind};
pub use error::{ActivityError, Cancelled, ChildError, Exit, ExternalError, SignalError};
pub use failure::{Failure, FailureInfo, RetryState, TimeoutType};
pub use inspect::{InspectedOperation, Inspection, Mark, Operations};
pub use kind::{CommandSeq, Exhausted, Kind};
pub use lineage::{Branch, InputDigest, Lineage, Path, PathError};
pub use meaning::ValueDifference;
pub use metadata::Metadata;
pub use name::{Activity, Name, Query, Signal, Update, Workflow};
pub use options::{
    ActivityOptions, CancellationType, ChildOptions, ContinueAsNew, IdReusePolicy, LocalActivityOptions,
    ParentClosePolicy, RetryPolicy,
};
pub use payload::{Headers, Payload, PayloadError};
pub use record::{CommandRecord, Field, Recorded};
pub use registry::{Registry, list_names};
pub use replay::{History, Report, Step, junit, replay};
pub use runtime::{
    Blocked, Instance, InstanceOptions, Numbering, PendingOperation, Policy, REMEMBERED, Slot, SlotFuture,
    WaitingFor, Watch,
};
pub use warning::Warning;

/// The guide's examples, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/workflows.md")]
struct Guide;
