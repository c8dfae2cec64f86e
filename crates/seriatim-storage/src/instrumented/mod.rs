//! Storage that is measured and traced: a wrapper around any backend.
//!
//! Metrics go to whatever recorder the program has installed; [`metrics`] lists their names. Each operation is a
//! `tracing` span at debug level, with an event for its outcome. Neither changes what the backend does.
//!
//! ```
//! use std::sync::Arc;
//! use seriatim_env::Env;
//! use seriatim_storage::{Log, instrumented::InstrumentedLog, memory::MemoryLog};
//!
//! let log = Log::new(InstrumentedLog::new(Arc::new(MemoryLog::new()), &Env::real()));
//! ```

mod log;
pub mod metrics;
mod store;

pub use log::InstrumentedLog;
pub use store::InstrumentedStore;
