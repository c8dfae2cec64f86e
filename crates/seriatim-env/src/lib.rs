//! Clock, sleep, spawn and randomness: the only crate that calls them.
//!
//! Everything in Seriatim that needs one of these uses an [`Env`]; `clippy.toml` forbids all other ways. A production
//! program uses [`Env::real`]. In a simulation ([`simulate`]) the clock is virtual, tasks share one thread, and every
//! random choice comes from the seed: the same seed gives the same order of events.
//!
//! ```
//! use std::time::Duration;
//! use seriatim_env::simulate;
//!
//! // The virtual clock jumps over a day at once.
//! let elapsed = simulate(7, |env| async move {
//!     let start = env.instant();
//!     env.sleep(Duration::from_secs(86_400)).await;
//!     env.instant() - start
//! });
//! assert_eq!(elapsed, Duration::from_secs(86_400));
//! ```
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "this is the crate that all others must use for these")]

mod env;
mod interleave;
mod simulation;
mod task;
pub mod watch;

pub use env::{Elapsed, Env, Instant};
pub use simulation::{SIMULATION_START, simulate};
pub use task::{Task, TaskError};
/// A stop signal. Each task that must stop gets a clone; one call requests the stop.
pub use tokio_util::sync::CancellationToken as Shutdown;
