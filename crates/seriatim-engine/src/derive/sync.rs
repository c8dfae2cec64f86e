//! The lock of the overlay. The model of fetching (`tests/model.rs`) compiles the same sources with loom's.

pub(crate) use seriatim_types::sync::{Mutex, MutexGuard};
