//! The HTTP API of Seriatim: applications, workspaces, commands, events, records, views, sequences, series and blocks.
//!
//! [`serve`] runs it on a listener that the caller has bound, until it is told to stop. Every error is a problem document
//! (RFC 9457) with a `code`, a `detail` and whether it helps to try again.
#![forbid(unsafe_code)]

mod access;
mod extract;
mod local;
mod openapi;
mod problem;
mod routes;
mod server;
mod stream;
mod wire;

pub use local::LocalApi;
pub use problem::Problem;
pub use server::{ServerOptions, serve};
