//! The store: runs in memory, sorted tables on disk, no journal.
//!
//! Everything in a store can be derived from the log, so what a crash loses is read from the log again. A write becomes a
//! sorted run in memory and returns. The runs of all writers together become one ingestion into the tree of tables, in the
//! background or on request; it is durable and atomic. One task compacts. A read uses the runs and tables of one snapshot
//! and never waits for an ingestion or a compaction.

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
#[cfg(test)]
mod many_runs_tests;
mod migrate;
#[cfg(test)]
mod migrate_tests;
mod options;
mod read;
mod run;
mod state;
mod tables;
mod tree;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use seriatim_env::Env;
use seriatim_storage::StoreError;

pub(crate) use discard::{discard, remove_discarded};
pub use options::{SpaceCheck, StoreOptions};

/// A store in a separate directory.
///
/// Dropping it without closing is like a crash: writes that were not synced may be lost. Dropping waits for a step of
/// ingestion or compaction in progress.
///
/// If an ingestion fails, its writes stay in memory and can be read, and it is tried again: with the next sync, with a
/// write that finds too much in memory, and after a short time in the background.
pub struct TreeStore {
    shared: Arc<state::StoreState>,
}

impl TreeStore {
    /// Opens the store in this directory, or creates one. Reads from disk on the calling thread.
    ///
    /// A store of format 1 is migrated to format 2. Its conditional values are then in cells next to it, in a directory with
    /// `-cells` added to its name.
    ///
    /// # Errors
    ///
    /// - [`StoreError::Unavailable`]: another process has it open, or the file system reports an error.
    /// - [`StoreError::Newer`]: a newer Seriatim wrote it.
    /// - [`StoreError::Corrupt`]: the directory is another program's, or damaged.
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
        Ok(Self { shared: state::StoreState::open(env, directory, cells, options)? })
    }
}

impl Drop for TreeStore {
    fn drop(&mut self) {
        self.shared.close_now();
    }
}

impl fmt::Debug for TreeStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TreeStore").field("directory", &self.shared.directory).finish_non_exhaustive()
    }
}
