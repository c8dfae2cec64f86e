//! Named block sequences. Their commands and rows belong to the registry.

pub(crate) mod handle;
pub(crate) mod open_allocators;
pub(crate) mod store;
