//! The HTTP API of Seriatim: applications, workspaces, commands, events, records, views, sequences, series and blocks.
//!
//! [`Server`] runs it on a listener that the caller has bound, until it is told to stop. Every error is a problem document
//! (RFC 9457) with a `code`, a `detail` and whether it helps to try again.
#![forbid(unsafe_code)]

mod accept;
mod access;
mod console;
mod extract;
mod front;
mod local;
mod metrics;
mod openapi;
mod options;
mod problem;
mod routes;
mod server;
mod stream;
mod stuck;
mod tls;
mod wire;

pub use local::LocalApi;
pub use options::{ServerOptions, TlsFiles};
pub use problem::Problem;
pub use routes::doctor_report;
pub use server::{Server, serve};
