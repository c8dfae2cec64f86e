//! Tests for storage backends, and storage that fails on demand.
//!
//! - [`conformance`]: one suite per port of `seriatim-storage`. A backend that passes the suites fulfils the ports'
//!   contracts.
//! - [`faulty`]: wrappers around any backend that fail, delay and count. They test how the users of a backend handle its
//!   errors.
#![forbid(unsafe_code)]

pub mod conformance;
pub mod faulty;
