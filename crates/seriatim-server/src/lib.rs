//! The HTTP API of Seriatim: applications, workspaces, commands, events, records, views, sequences, series and blocks.
//!
//! [`Server`] runs the API on a listener that the caller has bound, until the caller stops it. Every error is a problem document
//! (RFC 9457) with `code`, `detail` and `retryable`.
#![forbid(unsafe_code)]

mod accept;
mod access;
mod console;
mod extract;
mod local;
mod metrics;
mod middleware;
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
