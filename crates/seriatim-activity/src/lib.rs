//! Activities: the work that runs do outside of workflow code.
//!
//! An activity is an `async` function over an [`ActivityContext`]. A host makes the context, begins an attempt with
//! [`Activities::attempt`], and decides about time-outs and further attempts; so the same activities run on every host.
#![forbid(unsafe_code)]
#![allow(clippy::result_large_err, reason = "handlers of workflows fail with a whole failure")]

mod activities;
mod context;

pub use activities::{Activities, ActivityFuture};
pub use context::{ActivityContext, ActivityInfo};
