//! The tree of sorted tables: lsm-tree without its memtable.
//!
//! It is written only by ingestions: sorted keys become tables, and a new version of the tree has them. This is one step,
//! and is durable when it returns. After any failure, the tree on disk may be newer than the one in memory (the file that
//! names the current version may have been replaced). So the tree must be opened again before it is written again. That
//! also removes tables that no version has.

use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lsm_tree::compaction::Leveled;
use lsm_tree::{AbstractTree as _, AnyTree, Cache, Config, SequenceNumberCounter};
use seriatim_storage::StoreError;

use super::error;
use super::run::Entry;
use super::tables::Tables;

/// The size of a table, which bounds the work of one compaction. As much as is gathered for one ingestion.
const TABLE_BYTES: u64 = 16 << 20;

/// The number of runs in level 0 from which on they are merged into the next level. That level may have this many tables.
const LEVEL_0_RUNS: u8 = 8;

/// The number of runs in level 0 from which on an ingestion waits for compaction, because every look-up reads each of them.
pub(super) const LEVEL_0_RUNS_MAX: usize = 24;

/// An open tree.
pub(super) struct SortedTree {
    tree: AnyTree,
    seqno: SequenceNumberCounter,
    /// How many trees were opened in this directory before this one.
    opening: u64,
    table_bytes: u64,
    /// Whether something has failed. Then the tree must be opened again before it is written again.
    failed: AtomicBool,
}

impl SortedTree {
    /// Opens the tree in a directory, or creates one.
    pub(super) fn open(directory: &Path, cache: &Arc<Cache>) -> Result<Self, StoreError> {
        Self::open_after(directory, cache, None)
    }

    /// Opens the tree again after a failure of `before`.
    pub(super) fn open_again(
        directory: &Path,
        cache: &Arc<Cache>,
        before: &Self,
    ) -> Result<Self, StoreError> {
        Self::open_after(directory, cache, Some(before))
    }

    fn open_after(directory: &Path, cache: &Arc<Cache>, before: Option<&Self>) -> Result<Self, StoreError> {
        let opened = caught(|| {
            let (seqno, visible) = (SequenceNumberCounter::default(), SequenceNumberCounter::default());
            let config = Config::new(directory, seqno.clone(), visible.clone()).use_cache(cache.clone());
            let tree = config.open()?;
            // The next ingestion must be newer than every table.
            let next = tree.get_highest_seqno().map_or(0, |highest| highest + 1);
            seqno.set(next);
            visible.set(next);
            Ok((tree, seqno))
        });
        let (tree, seqno) = opened.map_err(|failure| failure.of_open(directory))?;
        let opening = before.map_or(0, |before| before.opening + 1);
        let opened = Self { tree, seqno, opening, table_bytes: TABLE_BYTES, failed: AtomicBool::new(false) };
        if let Some(before) = before {
            // Readers of the previous tree may still have a table that is marked for removal by its number. No new table
            // may get such a number.
            opened.standard().table_id_counter.fetch_max(before.standard().table_id_counter.get());
        }
        Ok(opened)
    }

    /// Uses tables of another size, so that a test needs little data for many tables.
    #[cfg(test)]
    pub(super) fn with_table_bytes(self, table_bytes: u64) -> Self {
        Self { table_bytes, ..self }
    }

    fn standard(&self) -> &lsm_tree::Tree {
        match &self.tree {
            AnyTree::Standard(tree) => tree,
            AnyTree::Blob(_) => {
                unreachable!("the tree is configured to store values with their keys")
            }
        }
    }

    /// The current tables.
    pub(super) fn tables(&self) -> Result<Tables, StoreError> {
        caught(|| Ok(Tables::of(self.standard(), self.opening))).map_err(|failure| self.fail(&failure))
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    fn fail(&self, failure: &Failure) -> StoreError {
        self.failed.store(true, Ordering::Release);
        failure.of_write()
    }

    /// Writes entries, sorted by key and each key once: all or nothing, durable when this returns.
    pub(super) fn ingest<'a>(&self, entries: impl Iterator<Item = &'a Entry>) -> Result<(), StoreError> {
        let ingested = caught(|| {
            let mut ingestion = self.tree.ingestion()?;
            for entry in entries {
                let key = entry.key.as_bytes();
                match &entry.value {
                    Some(value) => ingestion.write(key, &value[..])?,
                    None => ingestion.write_tombstone(key)?,
                }
            }
            ingestion.finish()?;
            Ok(())
        });
        ingested.map_err(|failure| self.fail(&failure))
    }

    /// Removes all versions except the newest, and their files. Tables that readers use stay.
    pub(super) fn forget_versions(&self) {
        let forgotten = caught(|| {
            let path = &self.tree.tree_config().path;
            self.tree.get_version_history_lock().maintenance(path, lsm_tree::SeqNo::MAX)
        });
        if let Err(failure) = forgotten {
            tracing::warn!(error = %self.fail(&failure), "the store's tree could not remove an old version");
        }
    }

    /// One step of compaction. Returns whether the tree has changed.
    ///
    /// The tree must not be dropped meanwhile: lsm-tree would stop the compaction and install an incomplete result.
    pub(super) fn compact(&self) -> Result<bool, StoreError> {
        let compacted = caught(|| {
            let before = self.tree.current_version().id();
            let leveled =
                Leveled::default().with_table_target_size(self.table_bytes).with_l0_threshold(LEVEL_0_RUNS);
            self.tree.compact(Arc::new(leveled), self.seqno.get())?;
            Ok(self.tree.current_version().id() != before)
        });
        compacted.map_err(|failure| self.fail(&failure))
    }
}

/// Why a call of lsm-tree failed.
pub(super) enum Failure {
    Error(lsm_tree::Error),
    /// Damage makes some parts of lsm-tree panic.
    Panic,
}

impl Failure {
    fn of_open(&self, directory: &Path) -> StoreError {
        match self {
            Self::Error(failed) => error::of_open(directory, failed),
            Self::Panic => StoreError::Corrupt(format!("{}: {}", directory.display(), error::PANICKED)),
        }
    }

    fn of_write(&self) -> StoreError {
        match self {
            Self::Error(failed) => error::of_write(failed),
            Self::Panic => StoreError::Unavailable(error::PANICKED.to_owned()),
        }
    }

    pub(super) fn of_read(&self) -> StoreError {
        match self {
            Self::Error(failed) => error::of_read(failed),
            Self::Panic => StoreError::Corrupt(error::PANICKED.to_owned()),
        }
    }
}

/// Calls lsm-tree, and returns its panics as failures.
pub(super) fn caught<T>(work: impl FnOnce() -> lsm_tree::Result<T>) -> Result<T, Failure> {
    match panic::catch_unwind(AssertUnwindSafe(work)) {
        Ok(done) => done.map_err(Failure::Error),
        Err(_) => Err(Failure::Panic),
    }
}
