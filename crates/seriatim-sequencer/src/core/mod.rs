//! The pure core: what a group changes in the numbers. It never waits, reads no clock and uses no randomness.

mod buffers;
mod phase;
mod state;

pub(crate) use buffers::Buffers;
pub(crate) use phase::Phase;
pub(crate) use state::{Core, Generation, draw, next, raise};
