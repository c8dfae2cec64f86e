//! What a backend of the store must do.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;

use super::{Batch, ClusteringRange, Key, StoreError};

/// When a write may be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// As soon as reads return it. A crash may lose it.
    Buffered,
    /// When it is durable, and with it everything that was written before.
    Synced,
}

/// A clustering key and its value.
pub type Pair = (Bytes, Bytes);

/// What a store is stored in. Backends must pass the conformance suite (`seriatim_storage_testing::store_conformance!`).
/// Callers use [`Store`](super::Store), which checks keys and sizes first.
#[async_trait]
pub trait StoreBackend: Send + Sync + fmt::Debug + 'static {
    /// The value of a key.
    async fn get(&self, key: Key<'_>) -> Result<Option<Bytes>, StoreError>;

    /// The values of many keys, in their order; a key may occur more than once.
    async fn get_many(&self, keys: &[Key<'_>]) -> Result<Vec<Option<Bytes>>, StoreError>;

    /// The first pairs of the range, ascending, of one state of the store: at most `limit`. There are fewer only if the range
    /// has no more or a page is full ([`SCAN_PAGE_PAIRS_MAX`](seriatim_types::limits::SCAN_PAGE_PAIRS_MAX) pairs or
    /// [`SCAN_PAGE_BYTES_MAX`](seriatim_types::limits::SCAN_PAGE_BYTES_MAX) bytes). The page is empty only if the range is.
    async fn scan_page(
        &self,
        partition: &[u8],
        range: &ClusteringRange,
        limit: usize,
    ) -> Result<Vec<Pair>, StoreError>;

    /// Writes a batch of any size, in its order. Readers see all of it or nothing, and after a crash all of it or nothing is
    /// there. Only a crash can lose a write that has returned: a backend that could not store it yet keeps it and retries.
    async fn write(&self, batch: Batch, durability: Durability) -> Result<(), StoreError>;

    /// Makes every write that has returned durable.
    async fn sync(&self) -> Result<(), StoreError>;

    /// How many writes have returned. A write is counted before it returns; see [`StoreBackend::durable`].
    fn written(&self) -> u64 {
        0
    }

    /// How many writes are durable: all writes up to this one. A backend whose writes do not become more durable after they
    /// have returned, such as the one in memory, need not count: both numbers stay 0.
    fn durable(&self) -> u64 {
        0
    }

    /// Flushes, then releases everything. Closing twice is allowed.
    async fn close(&self) -> Result<(), StoreError>;
}
