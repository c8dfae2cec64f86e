//! The store in memory.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use seriatim_types::limits;
use seriatim_types::sync::{Mutex, MutexGuard};

use crate::{Batch, ClusteringRange, Durability, Key, Pair, StoreBackend, StoreError, Write};

/// A store in memory; batches are atomic. Clones are the same store. It can be closed and opened again:
/// [`MemoryStore::reopen`].
#[derive(Debug, Clone, Default)]
pub struct MemoryStore {
    state: Arc<Mutex<StoreState>>,
}

#[derive(Debug, Default)]
struct StoreState {
    partitions: BTreeMap<Bytes, BTreeMap<Bytes, Bytes>>,
    closed: bool,
}

impl StoreState {
    fn get(&self, key: Key<'_>) -> Option<&Bytes> {
        self.partitions.get(key.partition)?.get(key.clustering)
    }

    fn set(&mut self, write: Write) {
        let Key { partition, clustering } = write.key.as_key();
        let pairs = match self.partitions.get_mut(partition) {
            Some(pairs) => pairs,
            None => self.partitions.entry(Bytes::copy_from_slice(partition)).or_default(),
        };
        match write.value {
            Some(value) => {
                pairs.insert(Bytes::copy_from_slice(clustering), value);
            }
            None => {
                pairs.remove(clustering);
            }
        }
    }
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same values, open again after a close.
    #[must_use]
    pub fn reopen(&self) -> Self {
        self.lock().closed = false;
        self.clone()
    }

    fn lock(&self) -> MutexGuard<'_, StoreState> {
        self.state.lock()
    }

    fn open(&self) -> Result<MutexGuard<'_, StoreState>, StoreError> {
        let state = self.lock();
        if state.closed { Err(StoreError::Closed) } else { Ok(state) }
    }
}

#[async_trait]
impl StoreBackend for MemoryStore {
    async fn get(&self, key: Key<'_>) -> Result<Option<Bytes>, StoreError> {
        Ok(self.open()?.get(key).cloned())
    }

    async fn get_many(&self, keys: &[Key<'_>]) -> Result<Vec<Option<Bytes>>, StoreError> {
        let state = self.open()?;
        Ok(keys.iter().map(|key| state.get(*key).cloned()).collect())
    }

    async fn scan_page(
        &self,
        partition: &[u8],
        range: &ClusteringRange,
        limit: usize,
    ) -> Result<Vec<Pair>, StoreError> {
        let state = self.open()?;
        let mut page: Vec<Pair> = Vec::new();
        let Some(pairs) = state.partitions.get(partition).filter(|_| !range.is_empty()) else {
            return Ok(page);
        };
        let finish = range.finish.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut bytes = 0;
        for (clustering, value) in pairs.range::<[u8], _>((Bound::Included(&range.start[..]), finish)) {
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
        let mut state = self.open()?;
        batch.into_iter().for_each(|write| state.set(write));
        Ok(())
    }

    async fn sync(&self) -> Result<(), StoreError> {
        self.open().map(|_| ())
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.lock().closed = true;
        Ok(())
    }
}
