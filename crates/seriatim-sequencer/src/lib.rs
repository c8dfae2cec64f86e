//! Gap-free sequences derived from a log.
#![forbid(unsafe_code)]
