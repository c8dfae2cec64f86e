//! The server over real sockets: access, limits, errors and failures.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod admin;
mod busy;
mod document;
mod health;
mod limits;
mod problems;
mod routes;
mod server;
mod streams;
mod tls;
mod tokens;
mod wording;
