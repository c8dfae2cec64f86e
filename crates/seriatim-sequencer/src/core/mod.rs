//! The pure core: what a group does to the numbers, without await, clock or chance.

mod buffers;
mod phase;
mod state;

pub(crate) use buffers::Buffers;
pub(crate) use phase::Phase;
pub(crate) use state::{Core, Generation, draw, next, raise};
