//! The built-in applications, and the handles through which callers use them.

pub(crate) mod blocks;
pub(crate) mod hosted;
pub(crate) mod registry;
pub(crate) mod series;
pub(crate) mod tokens;

#[cfg(test)]
mod stored_tests;
