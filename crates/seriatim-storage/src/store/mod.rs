//! The Store port: an ordered, partitioned key-value store for everything that is derived from the log.
//!
//! A key is a pair of byte strings. Values with the same partition key are stored together; the clustering key orders them.
//! `("ab", "c")` and `("a", "bc")` are different keys. An empty clustering key is a key like any other, and an empty value is
//! a value.

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
/// Reads return every write that has returned. A write without [`Durability::Synced`] is *buffered*: a crash of the machine
/// or the process may lose it. A batch is never lost in part.
///
/// After an error other than [`StoreError::InDoubt`], nothing was written.
///
/// ```
/// use seriatim_storage::{Batch, ClusteringRange, Durability, Key, Store, memory::MemoryStore};
///
/// # seriatim_env::simulate(1, |_| async {
/// let store = Store::new(MemoryStore::new());
/// let mut batch = Batch::new();
/// batch.put(Key::new(b"fruit", b"apple"), b"3");
/// batch.put(Key::new(b"fruit", b"pear"), b"5");
/// store.write(batch, Durability::Synced).await?;
///
/// assert_eq!(store.get(Key::new(b"fruit", b"pear")).await?.as_deref(), Some(&b"5"[..]));
/// let pairs = store.scan(b"fruit", ClusteringRange::prefix(b"a")).all().await?;
/// assert_eq!(pairs, [("apple".into(), "3".into())]);
/// # Ok::<(), seriatim_storage::StoreError>(())
/// # }).unwrap();
/// ```
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

    /// A store on a backend that is shared with other users, such as a test that inspects it.
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

    /// The values of many keys, in the order of the keys. A key may occur more than once.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub async fn get_many(&self, keys: &[Key<'_>]) -> Result<Vec<Option<Bytes>>, StoreError> {
        keys.iter().try_for_each(Key::check)?;
        self.backend.get_many(keys).await
    }

    /// The pairs of one partition whose clustering key is in the range, ascending by bytes. Pages are read when they are
    /// needed; drop the scan to stop early.
    ///
    /// Each page shows one state of the store; writes between two pages may be visible. A key that exists during the whole
    /// scan is returned exactly once.
    #[must_use]
    pub fn scan(&self, partition: &[u8], range: ClusteringRange) -> Scan {
        Scan::new(self.backend.clone(), partition, range)
    }

    /// Writes one value, buffered.
    ///
    /// # Errors
    ///
    /// [`StoreError`]. Nothing was written, unless it is [`StoreError::InDoubt`]: then the value may have been written.
    pub async fn put(&self, key: Key<'_>, value: &[u8]) -> Result<(), StoreError> {
        let mut batch = Batch::new();
        batch.put(key, value);
        self.write(batch, Durability::Buffered).await
    }

    /// Writes a batch of any size to any number of partitions. Of several writes to one key, the last one counts. Readers
    /// see all of it or nothing, and after a crash all of it or nothing is there.
    ///
    /// # Errors
    ///
    /// [`StoreError`]. Nothing was written, unless it is [`StoreError::InDoubt`]: then the batch may have been written.
    pub async fn write(&self, batch: Batch, durability: Durability) -> Result<(), StoreError> {
        batch.check()?;
        self.backend.write(batch, durability).await
    }

    /// Makes every write that has returned durable.
    ///
    /// # Errors
    ///
    /// [`StoreError`]. Then no buffered write can be assumed to be durable.
    pub async fn sync(&self) -> Result<(), StoreError> {
        self.backend.sync().await
    }

    /// How many writes have returned. A write is counted before it returns.
    ///
    /// Always 0 for a store whose writes do not become more durable after they have returned.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.backend.written()
    }

    /// How many writes are durable: all of the first ones, up to this number. See [`Store::written`].
    #[must_use]
    pub fn durable(&self) -> u64 {
        self.backend.durable()
    }

    /// Flushes, then releases everything. Later calls give [`StoreError::Closed`].
    ///
    /// # Errors
    ///
    /// [`StoreError`]; the store is closed nevertheless.
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
