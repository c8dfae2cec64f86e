//! The store: runs in memory, sorted tables on disk, no journal.
//!
//! Everything in a store follows from the log, so what a crash loses is read from there again. A write becomes a sorted run
//! in memory and returns; runs of all writers together become one ingestion into the tree of tables, in the background or
//! when someone asks for it, and it is durable and atomic. One task compacts. Reads take the runs and the tables of one
//! moment and are never held up by any of it.

mod backend;
mod compact;
mod discard;
mod error;
mod fault;
mod filter;
mod format;
#[cfg(test)]
mod image_tests;
mod ingest;
mod key;
mod layers;
mod migrate;
#[cfg(test)]
mod migrate_tests;
mod options;
mod read;
mod run;
mod shared;
#[cfg(test)]
mod standstill_tests;
mod tables;
mod tree;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use seriatim_env::Env;
use seriatim_storage::StoreError;

pub(crate) use discard::{discard, remove_discarded};
pub use options::{SpaceCheck, StoreOptions};

/// A store in a directory of its own.
///
/// Dropped without being closed, it is as after a crash: what was not synced may be gone. Dropping waits for a step of
/// ingestion or compaction that is under way.
///
/// If an ingestion fails, what was to be written stays in memory and can be read, and it is tried again: with the next sync,
/// with a write that finds too much in memory, and after a while by itself.
pub struct TreeStore {
    shared: Arc<shared::Shared>,
}

impl TreeStore {
    /// Opens the store in this directory, or makes one there. Reads from disk on the calling thread.
    ///
    /// A store of format 1 becomes one of format 2. What was written in it on condition is then in cells beside it, in a
    /// directory with `-cells` added to its name.
    ///
    /// # Errors
    ///
    /// - [`StoreError::Unavailable`]: another process has it open, or the file system refuses.
    /// - [`StoreError::Newer`]: a newer Seriatim wrote it.
    /// - [`StoreError::Corrupt`]: it is somebody else's directory, or damaged.
    pub fn open(env: Env, directory: &Path, options: StoreOptions) -> Result<Self, StoreError> {
        let mut cells = directory.as_os_str().to_owned();
        cells.push("-cells");
        Self::open_with_cells(env, directory, Path::new(&cells), options)
    }

    /// As [`TreeStore::open`], with another directory for cells.
    pub(crate) fn open_with_cells(
        env: Env,
        directory: &Path,
        cells: &Path,
        options: StoreOptions,
    ) -> Result<Self, StoreError> {
        Ok(Self { shared: shared::Shared::open(env, directory, cells, options)? })
    }
}

impl Drop for TreeStore {
    fn drop(&mut self) {
        self.shared.shut();
    }
}

impl fmt::Debug for TreeStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TreeStore").field("directory", &self.shared.directory).finish_non_exhaustive()
    }
}
