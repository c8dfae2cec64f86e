//! A store that fails as it is told to.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use super::{Fault, Faults, Operation};
use seriatim_storage::{Batch, ClusteringRange, Durability, Key, Pair, StoreBackend, StoreError};

/// A store around another one, with [`Faults`].
#[derive(Debug, Clone)]
pub struct FaultyStore {
    backend: Arc<dyn StoreBackend>,
    faults: Faults,
}

impl FaultyStore {
    /// This backend, steered by these faults.
    #[must_use]
    pub fn new(backend: Arc<dyn StoreBackend>, faults: &Faults) -> Self {
        Self { backend, faults: faults.clone() }
    }
}

/// The error of something that only looked.
pub(super) fn unread(fault: Fault) -> StoreError {
    StoreError::Unavailable(fault.reason().to_owned())
}

/// The error of something that changes the store.
pub(super) fn unwritten(fault: Fault) -> StoreError {
    if fault.is_definite() { unread(fault) } else { StoreError::InDoubt(fault.reason().to_owned()) }
}

#[async_trait]
impl StoreBackend for FaultyStore {
    async fn get(&self, key: Key<'_>) -> Result<Option<Bytes>, StoreError> {
        self.faults.around(Operation::Get, self.backend.get(key), unread).await
    }

    async fn get_many(&self, keys: &[Key<'_>]) -> Result<Vec<Option<Bytes>>, StoreError> {
        self.faults.around(Operation::GetMany, self.backend.get_many(keys), unread).await
    }

    async fn scan_page(
        &self,
        partition: &[u8],
        range: &ClusteringRange,
        limit: usize,
    ) -> Result<Vec<Pair>, StoreError> {
        let page = self.backend.scan_page(partition, range, limit);
        self.faults.around(Operation::ScanPage, page, unread).await
    }

    async fn write(&self, batch: Batch, durability: Durability) -> Result<(), StoreError> {
        self.faults.around(Operation::Write, self.backend.write(batch, durability), unwritten).await
    }

    async fn sync(&self) -> Result<(), StoreError> {
        self.faults.around(Operation::Sync, self.backend.sync(), unwritten).await
    }

    fn written(&self) -> u64 {
        self.backend.written()
    }

    fn durable(&self) -> u64 {
        self.backend.durable()
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.faults.around(Operation::CloseStore, self.backend.close(), unread).await
    }
}
