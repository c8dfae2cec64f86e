//! Both storage ports on local files.
#![forbid(unsafe_code)]
