//! Seriatim's workflows on a Temporal cluster.
#![forbid(unsafe_code)]

mod connection;
#[cfg(feature = "devserver")]
pub mod devserver;
mod history;

pub use connection::{ClientCertificate, ConnectError, ConnectOptions, Connection, Tls};
pub use history::{FetchError, fetch_history};
