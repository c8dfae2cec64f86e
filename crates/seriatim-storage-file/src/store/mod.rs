//! The store, on fjall.
//!
//! Two keyspaces: `pairs` (physical key -> stored value) and `meta` (the format).
//! Writes are buffered; a sync makes the engine's journal durable. One writer at a time; reads are never held up.
//! Batches are atomic, whatever their size.

mod backend;
mod close;
mod conditional;
mod discard;
mod engine;
mod error;
mod format;
mod key;
mod options;
mod reopen;
mod shared;
#[cfg(test)]
mod standstill_tests;
mod value;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use seriatim_env::Env;
use seriatim_storage::StoreError;

pub(crate) use discard::{discard, remove_discarded};
pub use options::{SpaceCheck, StoreOptions};

/// A store in a directory of its own.
///
/// Dropped without being closed, it is as after a crash: nothing that was written is lost, and opening it again takes
/// longer.
///
/// After a failed write or sync it reads, and refuses writes, until it is opened again:
/// [`reopen`](seriatim_storage::StoreBackend::reopen) does so in place.
pub struct FjallStore {
    shared: Arc<shared::Shared>,
}

impl FjallStore {
    /// Opens the store in this directory, or makes one there. Reads from disk on the calling thread; replays what a
    /// crash has left.
    ///
    /// # Errors
    ///
    /// - [`StoreError::Unavailable`]: another process has it open, or the file system refuses.
    /// - [`StoreError::Newer`]: a newer Seriatim, or a newer engine, wrote it.
    /// - [`StoreError::Corrupt`]: it is somebody else's directory, or damaged.
    pub fn open(env: Env, directory: &Path, options: StoreOptions) -> Result<Self, StoreError> {
        Ok(Self { shared: shared::Shared::open(env, directory.to_owned(), options)? })
    }
}

impl Drop for FjallStore {
    fn drop(&mut self) {
        self.shared.stop.cancel();
    }
}

impl fmt::Debug for FjallStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FjallStore").field("directory", &self.shared.directory).finish_non_exhaustive()
    }
}
