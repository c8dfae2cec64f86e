//! What a backend of the store has to do.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;

use super::{Batch, ClusteringRange, Key, StoreError};

/// When a write may be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// As soon as reads see it. A crash may lose it.
    Buffered,
    /// When it is durable, and with it everything that was written before.
    Synced,
}

/// A clustering key and its value.
pub type Pair = (Bytes, Bytes);

/// Where a store lives. Implementors run the conformance suite (`seriatim_storage_testing::store_conformance!`); callers use
/// [`Store`](super::Store), which checks keys and sizes first.
#[async_trait]
pub trait StoreBackend: Send + Sync + fmt::Debug + 'static {
    /// The value of a key.
    async fn get(&self, key: Key<'_>) -> Result<Option<Bytes>, StoreError>;

    /// The values of many keys, in their order; keys may repeat.
    async fn get_many(&self, keys: &[Key<'_>]) -> Result<Vec<Option<Bytes>>, StoreError>;

    /// The first pairs of the range, ascending, as of one moment: at most `limit`, and fewer only if there are no more
    /// or a page is full ([`SCAN_PAGE_PAIRS_MAX`](seriatim_types::limits::SCAN_PAGE_PAIRS_MAX) pairs or
    /// [`SCAN_PAGE_BYTES_MAX`](seriatim_types::limits::SCAN_PAGE_BYTES_MAX) bytes). Empty only if nothing is left.
    async fn scan_page(
        &self,
        partition: &[u8],
        range: &ClusteringRange,
        limit: usize,
    ) -> Result<Vec<Pair>, StoreError>;

    /// Writes a batch, in its order, however large. Reads and a crash find all of it or nothing. What has returned is lost
    /// by nothing but a crash: a backend that could not store it yet keeps it, and tries again.
    async fn write(&self, batch: Batch, durability: Durability) -> Result<(), StoreError>;

    /// Makes every write that has returned durable.
    async fn sync(&self) -> Result<(), StoreError>;

    /// How many writes have returned, counted before they return; see [`StoreBackend::durable`].
    fn written(&self) -> u64 {
        0
    }

    /// The number of writes that are durable: all up to this one. A buffered write that is as durable as it will ever be
    /// when it returns, as in memory, need not be counted: both stay 0.
    fn durable(&self) -> u64 {
        0
    }

    /// Flushes, then releases everything. Closing twice is fine.
    async fn close(&self) -> Result<(), StoreError>;
}
