//! A log and a store in memory.

use async_trait::async_trait;

use super::{MemoryLog, MemoryStore};
use crate::{CloseError, Log, ScratchStore, StorageBackend, Store, StoreError};

/// A storage in memory. It is empty at first and lost when the process ends.
#[derive(Debug)]
pub struct MemoryStorage {
    log: Log,
    store: Store,
}

impl MemoryStorage {
    /// An empty storage.
    #[must_use]
    pub fn new() -> Self {
        Self { log: Log::new(MemoryLog::new()), store: Store::new(MemoryStore::new()) }
    }
}

impl Default for MemoryStorage {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl StorageBackend for MemoryStorage {
    fn log(&self) -> &Log {
        &self.log
    }

    fn store(&self) -> &Store {
        &self.store
    }

    async fn scratch(&self) -> Result<ScratchStore, StoreError> {
        Ok(ScratchStore::new(Store::new(MemoryStore::new()), async || Ok(())))
    }

    async fn close(&self) -> Result<(), CloseError> {
        let closed = self.store.close().await;
        self.log.close().await?;
        Ok(closed?)
    }
}
