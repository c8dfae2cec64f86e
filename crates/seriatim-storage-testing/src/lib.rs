//! Tests for storage backends, and storage that fails on demand.
//!
//! - [`conformance`]: one suite per port of `seriatim-storage`. A backend that passes them does what the ports promise.
//! - [`faulty`]: wrappers around any backend that fail, wait and count. They test what the users of a backend do when it fails.
#![forbid(unsafe_code)]

pub mod conformance;
pub mod faulty;
