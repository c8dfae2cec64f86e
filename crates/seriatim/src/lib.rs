//! Seriatim: numbers that can be trusted.
//!
//! This crate gathers what the others offer under one name; the binary `seriatim` is the command line around it.
#![forbid(unsafe_code)]

pub use seriatim_engine as engine;
pub use seriatim_env as env;
pub use seriatim_server as server;
pub use seriatim_storage as storage;
pub use seriatim_storage_file as storage_file;
pub use seriatim_types as types;
