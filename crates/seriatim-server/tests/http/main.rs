//! The server over real sockets: who is let in, what is refused, and how it fails.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod admin;
mod busy;
mod document;
mod health;
mod limits;
mod problems;
mod server;
mod streams;
mod tls;
mod tokens;
mod wording;
