//! Seriatim: numbers that can be trusted.
//!
//! This crate re-exports the others under one name; the binary `seriatim` is the command line.
//!
//! | module | what it is |
//! |---|---|
//! | [`engine`] | commands become numbered events; series, audits, the doctor |
//! | [`engine::alone`], [`sequencer`] | gap-free sequences derived from a log, without the engine |
//! | [`blocks`] | unique rising ids, leased in blocks |
//! | [`StorageUrl`] | opens a storage of any kind |
//! | [`storage`], [`storage_file`] | the ports Log, Store, Cells and Bulletin, and all of them on local files |
//! | [`storage_testing`] | conformance suites and fault injection, for those who write backends |
//! | [`server`], [`client`], [`api`] | the HTTP API, its client, and the types of its requests and answers |
//! | [`workflow`], [`workflow_host`] | the deterministic workflow runtime, and durable runs on our own log |
//! | [`temporal_history`] | histories as Temporal keeps them: read, inspected, replayed |
//! | `temporal` | the same workflows on a Temporal cluster; with the cargo feature of that name |
//! | [`types`], [`mod@env`] | names and numbers; the door to clock, sleep, spawn and randomness |
#![forbid(unsafe_code)]

mod shared_url;
mod storage_url;

pub use seriatim_api as api;
pub use seriatim_blocks as blocks;
pub use seriatim_client as client;
pub use seriatim_engine as engine;
pub use seriatim_env as env;
pub use seriatim_sequencer as sequencer;
pub use seriatim_server as server;
pub use seriatim_storage as storage;
pub use seriatim_storage_file as storage_file;
pub use seriatim_storage_testing as storage_testing;
#[cfg(feature = "temporal")]
pub use seriatim_temporal as temporal;
pub use seriatim_temporal_history as temporal_history;
pub use seriatim_types as types;
pub use seriatim_workflow as workflow;
pub use seriatim_workflow_host as workflow_host;

pub use shared_url::{OpenLogError, SharedUrl};
pub use storage_url::{OpenStorageError, ParseStorageUrlError, StorageOptions, StorageUrl, redacted};

/// Pages of the documentation whose blocks of Rust are compiled and run.
#[cfg(doctest)]
mod documentation {
    #[doc = include_str!("../../../docs/definitions.md")]
    struct Definitions;
    #[doc = include_str!("../../../docs/workflows.md")]
    struct Workflows;
    #[doc = include_str!("../../../docs/workflows-testing.md")]
    struct WorkflowsTesting;
}
