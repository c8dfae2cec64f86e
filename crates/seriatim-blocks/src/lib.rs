//! Block allocation.
#![forbid(unsafe_code)]
