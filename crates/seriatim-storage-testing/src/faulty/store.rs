//! A store that fails on demand.

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
    /// This backend, controlled by these faults.
    #[must_use]
    pub fn new(backend: Arc<dyn StoreBackend>, faults: &Faults) -> Self {
        Self { backend, faults: faults.clone() }
    }
}

/// The error of an operation that only reads.
pub(super) fn read_error(fault: Fault) -> StoreError {
    StoreError::Unavailable(fault.reason().to_owned())
}

/// The error of an operation that changes the store.
pub(super) fn write_error(fault: Fault) -> StoreError {
    if fault.is_definite() { read_error(fault) } else { StoreError::InDoubt(fault.reason().to_owned()) }
}

#[async_trait]
impl StoreBackend for FaultyStore {
    async fn get(&self, key: Key<'_>) -> Result<Option<Bytes>, StoreError> {
        self.faults.around(Operation::Get, self.backend.get(key), read_error).await
    }

    async fn get_many(&self, keys: &[Key<'_>]) -> Result<Vec<Option<Bytes>>, StoreError> {
        self.faults.around(Operation::GetMany, self.backend.get_many(keys), read_error).await
    }

    async fn scan_page(
        &self,
        partition: &[u8],
        range: &ClusteringRange,
        limit: usize,
    ) -> Result<Vec<Pair>, StoreError> {
        let page = self.backend.scan_page(partition, range, limit);
        self.faults.around(Operation::ScanPage, page, read_error).await
    }

    async fn write(&self, batch: Batch, durability: Durability) -> Result<(), StoreError> {
        self.faults.around(Operation::Write, self.backend.write(batch, durability), write_error).await
    }

    async fn sync(&self) -> Result<(), StoreError> {
        self.faults.around(Operation::Sync, self.backend.sync(), write_error).await
    }

    fn written(&self) -> u64 {
        self.backend.written()
    }

    fn durable(&self) -> u64 {
        self.backend.durable()
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.faults.around(Operation::CloseStore, self.backend.close(), read_error).await
    }
}
