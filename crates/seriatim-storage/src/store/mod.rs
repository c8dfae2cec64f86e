//! The Store port: an ordered, partitioned key-value store for everything derived.
//!
//! A key is a pair of byte strings: the partition key says which values lie together, the clustering key orders them.
//! `("ab", "c")` and `("a", "bc")` never meet; an empty clustering key is a key like any other, and an empty value is
//! not absence.

mod backend;
mod batch;
mod error;
mod key;
mod scan;
mod store_key;

use std::sync::Arc;

use bytes::Bytes;
use seriatim_types::limits;

pub use backend::{Durability, Pair, StoreBackend};
pub use batch::{Batch, Write};
pub use error::StoreError;
pub use key::{ClusteringRange, Key};
pub use scan::Scan;
pub use store_key::StoreKey;

/// A store. Clones are the same store.
///
/// Reads see every write that has returned. A write without [`Durability::Synced`] is *buffered*: it may be lost in a
/// crash of the machine or of the process, but never in the middle of what the backend calls atomic.
#[derive(Clone, Debug)]
pub struct Store {
    backend: Arc<dyn StoreBackend>,
}

impl Store {
    /// A store on this backend.
    #[must_use]
    pub fn new(backend: impl StoreBackend) -> Self {
        Self::from_arc(Arc::new(backend))
    }

    /// A store on a backend that is shared with others, such as a test that looks inside.
    #[must_use]
    pub fn from_arc(backend: Arc<dyn StoreBackend>) -> Self {
        Self { backend }
    }

    /// For the conformance suites, which also check what callers cannot see.
    #[doc(hidden)]
    #[must_use]
    pub fn backend(&self) -> &dyn StoreBackend {
        &*self.backend
    }

    /// The value of a key, if there is one.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub async fn get(&self, key: Key<'_>) -> Result<Option<Bytes>, StoreError> {
        key.check()?;
        self.backend.get(key).await
    }

    /// The values of many keys, in the order of the keys, which may repeat.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub async fn get_many(&self, keys: &[Key<'_>]) -> Result<Vec<Option<Bytes>>, StoreError> {
        keys.iter().try_for_each(Key::check)?;
        self.backend.get_many(keys).await
    }

    /// The pairs of one partition whose clustering key lies in the range, ascending by bytes, read page by page as
    /// they are asked for: stop early by dropping the scan.
    ///
    /// Each page is one moment of the store; writes between two pages may show. A key that is there all the while
    /// comes exactly once.
    #[must_use]
    pub fn scan(&self, partition: &[u8], range: ClusteringRange) -> Scan {
        Scan::new(self.backend.clone(), partition, range)
    }

    /// Writes one value, buffered.
    ///
    /// # Errors
    ///
    /// [`StoreError`]; the write may have happened if the kind is in doubt.
    pub async fn put(&self, key: Key<'_>, value: &[u8]) -> Result<(), StoreError> {
        let mut batch = Batch::new();
        batch.put(key, value);
        self.write(batch, Durability::Buffered).await
    }

    /// Writes a batch over any number of partitions, of any size; later writes to the same key win. All of
    /// it is there or nothing, for readers and after a crash.
    ///
    /// # Errors
    ///
    /// [`StoreError`]; the batch may have been written if the kind is in doubt.
    pub async fn write(&self, batch: Batch, durability: Durability) -> Result<(), StoreError> {
        batch.check()?;
        self.backend.write(batch, durability).await
    }

    /// Makes every write that has returned durable.
    ///
    /// # Errors
    ///
    /// [`StoreError`]; nothing buffered can be trusted to be durable then.
    pub async fn sync(&self) -> Result<(), StoreError> {
        self.backend.sync().await
    }

    /// How many writes have returned. What was written is counted before its write returns.
    ///
    /// Always 0 for a store whose writes are as durable as they will ever be when they return.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.backend.written()
    }

    /// How many of the first [`Store::written`] writes are durable: all of them up to this number.
    #[must_use]
    pub fn durable(&self) -> u64 {
        self.backend.durable()
    }

    /// Flushes, then releases everything. Later calls give [`StoreError::Closed`].
    ///
    /// # Errors
    ///
    /// [`StoreError`]; it is closed all the same.
    pub async fn close(&self) -> Result<(), StoreError> {
        self.backend.close().await
    }
}

pub(crate) fn check_write(key: Key<'_>, value: &[u8]) -> Result<(), StoreError> {
    key.check()?;
    check_size("value", limits::VALUE_BYTES_MAX, value.len())
}

fn check_size(what: &'static str, max: usize, found: usize) -> Result<(), StoreError> {
    if found > max { Err(StoreError::TooLarge { what, max, found }) } else { Ok(()) }
}
