//! The primitives of the fast path. Its model (`tests/model.rs`) compiles the same source with those of loom.

pub(crate) use seriatim_types::sync::{Mutex, MutexGuard};
pub(crate) use std::sync::atomic::AtomicU64;
