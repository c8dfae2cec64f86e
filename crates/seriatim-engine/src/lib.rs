//! Commands become numbered events.
//!
//! The partition log is the truth; records, views, the workspace log and numbers are derived from it.
#![forbid(unsafe_code)]

pub mod definition;
