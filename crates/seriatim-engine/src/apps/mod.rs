//! The applications that are built in, and the handles that they are used by.

pub(crate) mod blocks;
pub(crate) mod hosted;
pub(crate) mod registry;
pub(crate) mod series;
pub(crate) mod tokens;

#[cfg(test)]
mod stored_tests;
