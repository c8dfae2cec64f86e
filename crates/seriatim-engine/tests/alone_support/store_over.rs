//! A store as a backend, so that faults can be put around any store.

use async_trait::async_trait;
use bytes::Bytes;
use seriatim_storage::{Batch, ClusteringRange, Durability, Key, Pair, Store, StoreBackend, StoreError};

#[derive(Debug)]
pub struct StoreOver(pub Store);

#[async_trait]
impl StoreBackend for StoreOver {
    fn written(&self) -> u64 {
        self.0.written()
    }

    fn durable(&self) -> u64 {
        self.0.durable()
    }

    async fn get(&self, key: Key<'_>) -> Result<Option<Bytes>, StoreError> {
        self.0.get(key).await
    }

    async fn get_many(&self, keys: &[Key<'_>]) -> Result<Vec<Option<Bytes>>, StoreError> {
        self.0.get_many(keys).await
    }

    async fn scan_page(
        &self,
        partition: &[u8],
        range: &ClusteringRange,
        limit: usize,
    ) -> Result<Vec<Pair>, StoreError> {
        self.0.scan(partition, range.clone()).take(limit).await
    }

    async fn write(&self, batch: Batch, durability: Durability) -> Result<(), StoreError> {
        self.0.write(batch, durability).await
    }

    async fn sync(&self) -> Result<(), StoreError> {
        self.0.sync().await
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.0.close().await
    }
}
