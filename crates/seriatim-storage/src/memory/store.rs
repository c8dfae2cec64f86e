//! The store in memory.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use seriatim_env::Env;
use seriatim_types::{Timestamp, limits};

use crate::{Batch, ClusteringRange, Durability, Key, Pair, StoreBackend, StoreError, Write};

/// A store in memory; batches are atomic. Clones share it, so that it can be closed and opened again:
/// [`MemoryStore::reopen`].
#[derive(Debug, Clone)]
pub struct MemoryStore {
    env: Env,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug, Default)]
struct Shared {
    partitions: BTreeMap<Bytes, BTreeMap<Bytes, Stored>>,
    closed: bool,
}

#[derive(Debug)]
struct Stored {
    value: Bytes,
    expires: Option<Timestamp>,
}

impl Stored {
    fn at(&self, now: Timestamp) -> Option<&Bytes> {
        self.expires.is_none_or(|expires| now < expires).then_some(&self.value)
    }
}

impl Shared {
    fn get(&self, key: Key<'_>, now: Timestamp) -> Option<&Bytes> {
        self.partitions.get(key.partition)?.get(key.clustering)?.at(now)
    }

    fn set(&mut self, write: Write, expires: Option<Timestamp>) {
        let Write { partition, clustering, value } = write;
        match value {
            Some(value) => {
                self.partitions.entry(partition).or_default().insert(clustering, Stored { value, expires });
            }
            None => {
                if let Some(pairs) = self.partitions.get_mut(&partition) {
                    pairs.remove(&clustering);
                }
            }
        }
    }
}

impl MemoryStore {
    /// An empty store whose values expire by this environment's clock.
    #[must_use]
    pub fn new(env: Env) -> Self {
        Self { env, shared: Arc::default() }
    }

    /// The same values, open again after a close.
    #[must_use]
    pub fn reopen(&self) -> Self {
        self.lock().closed = false;
        self.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self) -> Result<MutexGuard<'_, Shared>, StoreError> {
        let shared = self.lock();
        if shared.closed { Err(StoreError::Closed) } else { Ok(shared) }
    }
}

#[async_trait]
impl StoreBackend for MemoryStore {
    fn batches_are_atomic(&self) -> bool {
        true
    }

    async fn get(&self, key: Key<'_>) -> Result<Option<Bytes>, StoreError> {
        Ok(self.open()?.get(key, self.env.now()).cloned())
    }

    async fn get_many(&self, keys: &[Key<'_>]) -> Result<Vec<Option<Bytes>>, StoreError> {
        let (shared, now) = (self.open()?, self.env.now());
        Ok(keys.iter().map(|key| shared.get(*key, now).cloned()).collect())
    }

    async fn scan_page(
        &self,
        partition: &[u8],
        range: &ClusteringRange,
        limit: usize,
    ) -> Result<Vec<Pair>, StoreError> {
        let (shared, now) = (self.open()?, self.env.now());
        let mut page: Vec<Pair> = Vec::new();
        let Some(pairs) = shared.partitions.get(partition).filter(|_| !range.is_absurd()) else {
            return Ok(page);
        };
        let finish = range.finish.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut bytes = 0;
        for (clustering, stored) in pairs.range::<[u8], _>((Bound::Included(&range.start[..]), finish)) {
            let Some(value) = stored.at(now) else { continue };
            bytes += clustering.len() + value.len();
            let full = page.len() == limits::SCAN_PAGE_PAIRS_MAX || bytes > limits::SCAN_PAGE_BYTES_MAX;
            if page.len() == limit || (full && !page.is_empty()) {
                break;
            }
            page.push((clustering.clone(), value.clone()));
        }
        Ok(page)
    }

    async fn write(&self, batch: Batch, _durability: Durability) -> Result<(), StoreError> {
        let mut shared = self.open()?;
        batch.into_iter().for_each(|write| shared.set(write, None));
        Ok(())
    }

    async fn compare_and_set(
        &self,
        key: Key<'_>,
        expected: Option<&[u8]>,
        value: Option<&[u8]>,
        ttl: Option<Duration>,
    ) -> Result<bool, StoreError> {
        let (mut shared, now) = (self.open()?, self.env.now());
        if shared.get(key, now).map(|value| &value[..]) != expected {
            return Ok(false);
        }
        let write = Write {
            partition: Bytes::copy_from_slice(key.partition),
            clustering: Bytes::copy_from_slice(key.clustering),
            value: value.map(Bytes::copy_from_slice),
        };
        shared.set(write, ttl.map(|ttl| now.after(ttl)));
        Ok(true)
    }

    async fn sync(&self) -> Result<(), StoreError> {
        self.open().map(|_| ())
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.lock().closed = true;
        Ok(())
    }
}
