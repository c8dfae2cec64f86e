//! The one door to clock, sleep, spawn and randomness.
//!
//! Everything in Seriatim that needs one of these takes an [`Env`]; `clippy.toml` forbids the other ways. In production
//! that is [`Env::real`]. In a simulation ([`simulate`]) the clock is virtual, tasks share one thread, and every choice
//! comes from the seed: the same seed gives the same order of events.
//!
//! ```
//! use std::time::Duration;
//! use seriatim_env::simulate;
//!
//! // A day passes in no time.
//! let elapsed = simulate(7, |env| async move {
//!     let start = env.instant();
//!     env.sleep(Duration::from_secs(86_400)).await;
//!     env.instant() - start
//! });
//! assert_eq!(elapsed, Duration::from_secs(86_400));
//! ```
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "this crate is the door that the lint sends everybody else to")]

mod env;
mod interleave;
mod simulation;
mod task;

pub use env::{Elapsed, Env, Instant};
pub use simulation::{SIMULATION_START, simulate};
pub use task::{Task, TaskError};
/// Tells tasks to stop: cloned to whoever has to listen, requested once.
pub use tokio_util::sync::CancellationToken as Shutdown;
