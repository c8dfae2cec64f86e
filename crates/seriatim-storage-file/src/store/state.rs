//! The state of an open store, shared by its callers and its background tasks.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use lsm_tree::Cache;
use seriatim_env::{Env, Shutdown};
use seriatim_storage::StoreError;
use seriatim_types::sync::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::sync::{Mutex as AsyncMutex, Notify};

use super::compact::Compaction;
use super::format::Claim;
use super::ingest::LastIngestion;
use super::layers::{Layers, Limits};
use super::tree::SortedTree;
use super::{StoreOptions, format};

pub(super) struct StoreState {
    pub(super) env: Env,
    /// The directory of the tree.
    pub(super) directory: PathBuf,
    pub(super) options: StoreOptions,
    pub(super) cache: Arc<Cache>,
    pub(super) layers: Layers,
    /// `None` when the store is closed. An ingestion and a compaction lock it for reading; opening the tree again and
    /// closing it lock it for writing. Readers of the store do not lock it.
    tree: RwLock<Option<SortedTree>>,
    /// Held by the writer that adds its run.
    pub(super) pushing: AsyncMutex<()>,
    /// Held by the ingestion in progress.
    pub(super) ingestion: Arc<AsyncMutex<LastIngestion>>,
    /// How many ingestions have ended.
    pub(super) ingestions: AtomicU64,
    pub(super) compaction: Compaction,
    /// Wakes the task that ingests gathered runs.
    pub(super) ingest_wakeup: Notify,
    /// Cancelled when the store is closed or dropped.
    pub(super) stop: Shutdown,
    /// The lock of the directory.
    claim: Mutex<Option<Claim>>,
}

impl StoreState {
    pub(super) fn open(
        env: Env,
        directory: &Path,
        cells: &Path,
        options: StoreOptions,
    ) -> Result<Arc<Self>, StoreError> {
        let claim = format::claim(directory)?;
        claim.migrate(cells)?;
        let cache = Arc::new(Cache::with_capacity_bytes(options.cache_bytes));
        let tree_directory = directory.join(format::TREE);
        let tree = SortedTree::open(&tree_directory, &cache)?;
        let claim = claim.finish()?;
        let limits = Limits {
            gather_bytes: options.gather_bytes.max(1),
            memory_bytes: options.gather_bytes.max(1).saturating_mul(2),
            gather_time: options.gather_time,
        };
        Ok(Arc::new(Self {
            env,
            directory: tree_directory,
            options,
            cache,
            layers: Layers::new(tree.tables()?, limits),
            tree: RwLock::new(Some(tree)),
            pushing: AsyncMutex::default(),
            ingestion: Arc::default(),
            ingestions: AtomicU64::new(0),
            compaction: Compaction::default(),
            ingest_wakeup: Notify::new(),
            stop: Shutdown::new(),
            claim: Mutex::new(Some(claim)),
        }))
    }

    pub(super) fn check_space(&self) -> Result<(), StoreError> {
        match &self.options.space_check {
            Some(check) => check().map_err(|(free_bytes, needed_bytes)| StoreError::DiskNearlyFull {
                free_bytes,
                needed_bytes,
            }),
            None => Ok(()),
        }
    }

    /// The tree, which stays open for as long as this is held.
    pub(super) fn tree(&self) -> Result<OpenTree<'_>, StoreError> {
        let tree = self.tree.read();
        if tree.is_some() { Ok(OpenTree(tree)) } else { Err(StoreError::Closed) }
    }

    /// The tree, when nothing else uses it.
    pub(super) fn tree_mut(&self) -> RwLockWriteGuard<'_, Option<SortedTree>> {
        self.tree.write()
    }

    /// Closes everything at once: data that is only in memory is lost. Waits for an ingestion or a compaction in progress.
    pub(super) fn close_now(&self) {
        self.stop.cancel();
        self.layers.close();
        drop(self.tree_mut().take());
        drop(self.claim.lock().take());
    }
}

/// A tree that is open.
pub(super) struct OpenTree<'a>(RwLockReadGuard<'a, Option<SortedTree>>);

impl std::ops::Deref for OpenTree<'_> {
    type Target = SortedTree;

    fn deref(&self) -> &SortedTree {
        self.0.as_ref().expect("checked when it was taken")
    }
}
