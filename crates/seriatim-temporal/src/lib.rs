//! Seriatim's workflows on a Temporal cluster.
//!
//! The same workflows and activities that run on Seriatim's own log run here, driven by Temporal's core: a [`Worker`]
//! asks the cluster for work, gives each run's activations to the same runtime, and carries its commands back.
//!
//! ```text
//!            activation.rs                     completion.rs
//! cluster ──► core ──► Activation ──► Instance ──► Completion ──► core ──► cluster
//! ```
//!
//! Payloads are JSON as the other SDKs' default converters write it, so clients in any language can start, signal, query
//! and update these workflows.
//!
//! # What is different here
//!
//! - Operations are numbered as they are issued, and the core compares them with the history: by kind, id and name, not by
//!   input or duration. A difference fails the workflow task, never the worker, and is logged with the line of code that
//!   makes it; `seriatim replay` compares more.
//! - A side effect is a local activity of the name [`SIDE_EFFECT_ACTIVITY`](seriatim_workflow::SIDE_EFFECT_ACTIVITY).
//! - An activity without any time-out gets [`WorkerOptions::activity_timeout`]: Temporal wants one.
//! - Local activities have no heartbeats: the worker that runs them knows that they live.
//!
//! # What is refused
//!
//! By name, in the workflow task that asks for it:
//!
//! - the cancellation type `wait_requested` for an activity, which is for child workflows;
//! - a payload that is stored outside the history;
//! - durations, times and numbers of attempts that do not fit into Temporal's messages;
//! - answers of Nexus operations and versioning overrides of children, which none of our runs asks for.
//!
//! When a worker is made: workflows and activities whose names are Temporal's own (`__temporal_…`) or the runtime's.
//!
//! # What is not carried
//!
//! Who has cancelled or terminated something is not part of our failures, nor are the parts that only failures of Nexus
//! operations have: these keep their message, their cause and the name of their kind. Of an activity that ends as
//! cancelled, Temporal keeps the details and not the message. Priorities, versioning of workers
//! by deployment, and user metadata of commands are not set.
#![forbid(unsafe_code)]
#![allow(clippy::result_large_err, reason = "failures are as large as in seriatim-workflow, and rare")]

mod activation;
mod attempts;
mod completion;
mod connection;
mod core_replay;
#[cfg(feature = "devserver")]
pub mod devserver;
mod error;
mod explain;
mod failure;
mod history;
mod logged;
mod meter;
mod options;
mod payload;
mod runs;
mod untranslatable;
mod wire;
mod worker;

pub use connection::{ClientCertificate, ConnectError, ConnectOptions, Connection, Tls};
pub use core_replay::{CoreReport, replay_on_core};
pub use error::TemporalError;
pub use history::{FetchError, fetch_history};
pub use options::WorkerOptions;
pub use worker::Worker;
