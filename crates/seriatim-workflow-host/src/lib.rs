//! Workflows on Seriatim's own log: durable, in one process, without a cluster.
//!
//! A workflow id is a workspace of the built-in application `workflows` ([`app`]); its runs are numbered in it, and its log is their
//! history. A run advances by one event per activation: what has happened to it and what it asks for are written together,
//! and only then carried out. After a crash the host finds in the log what a run has asked for and has not been answered,
//! and continues from there.
//!
//! ```
//! use seriatim_engine::{Engine, Options};
//! use seriatim_storage::{Log, Store, memory::{MemoryLog, MemoryStore}};
//! use seriatim_workflow_host::{HostOptions, StartRequest, WorkflowHost, demo};
//!
//! # seriatim_env::simulate(1, |env| async move {
//! let (log, store) = (Log::new(MemoryLog::new()), Store::new(MemoryStore::new()));
//! let apps = [seriatim_workflow_host::app()?];
//! let engine = Engine::open(env.clone(), log, store, apps, Options::default()).await?;
//! let host = WorkflowHost::open(env, engine.clone(), demo::workflows(), demo::activities(), HostOptions::default());
//! let started = host.start(StartRequest::new("greet").input(&"Ada")?).await?;
//! let ended = host.result::<String>(&started.id).await?;
//! assert_eq!(ended, "Hello, Ada!");
//! host.close().await;
//! engine.close().await;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
#![forbid(unsafe_code)]

mod alarms;
mod application;
mod attempt;
mod cache;
mod calls;
pub mod demo;
mod describe;
mod driver;
mod entry;
mod error;
mod heartbeat;
mod histories;
mod homes;
mod host;
mod inner;
mod inputs;
mod logged;
mod messages;
mod metrics;
mod moving;
mod options;
mod resume;
mod retention;
mod running;
mod size;
mod start;
mod table;
pub mod testing;
mod threads;
mod timeline;
mod workflow;

pub use application::{
    Advance, BadRunStatus, RunRow, RunStatus, Wait, Waiting, WorkflowEvents, Workflows, app,
};
pub use describe::{Description, Listed, PendingOperation};
pub use entry::{Attempted, BadEntry, Begins, Ended, Entry, Next, ParentLink, Retry, Turn};
pub use error::HostError;
pub use host::{Accepted, WorkflowHost};
pub use moving::InMemory;
pub use options::HostOptions;
pub use seriatim_activity::{Activities, ActivityContext, ActivityInfo};
pub use start::{StartRequest, StartSignal, Started};
pub use timeline::{Timeline, TimelineEntry};

/// The guide's examples, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/workflows-testing.md")]
struct Guide;
