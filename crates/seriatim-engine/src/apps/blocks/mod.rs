//! Named block sequences. Their rows and commands are of `sys`: see `registry`.

pub(crate) mod handle;
pub(crate) mod store;
