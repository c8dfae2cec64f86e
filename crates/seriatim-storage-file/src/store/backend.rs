//! The port on the engine.

use async_trait::async_trait;
use bytes::Bytes;
use fjall::{Readable as _, Snapshot};
use seriatim_storage::{Batch, ClusteringRange, Durability, Key, Pair, StoreBackend, StoreError};
use seriatim_types::limits;

use super::conditional::{self, Request};
use super::engine::{Commit, Engine};
use super::{FjallStore, close, error, key, reopen, value};

/// Up to how many keys or pairs a read stays on the caller's thread: far less than a millisecond when
/// blocks are cached.
const INLINE_MAX: usize = 64;

#[async_trait]
impl StoreBackend for FjallStore {
    /// A batch is one checksummed record of the engine's journal, whatever its size.
    fn batches_are_atomic(&self) -> bool {
        true
    }

    async fn get(&self, key: Key<'_>) -> Result<Option<Bytes>, StoreError> {
        self.shared.engine(|engine| read(engine, &engine.snapshot(), &key::encode(key)))
    }

    async fn get_many(&self, keys: &[Key<'_>]) -> Result<Vec<Option<Bytes>>, StoreError> {
        let physical: Vec<_> = keys.iter().map(|key| key::encode(*key)).collect();
        let read_all = move |engine: &Engine| {
            let snapshot = engine.snapshot();
            physical.iter().map(|physical| read(engine, &snapshot, physical)).collect()
        };
        if keys.len() <= INLINE_MAX {
            self.shared.engine(read_all)
        } else {
            self.shared.blocking(read_all).await
        }
    }

    async fn scan_page(
        &self,
        partition: &[u8],
        range: &ClusteringRange,
        limit: usize,
    ) -> Result<Vec<Pair>, StoreError> {
        let range = key::range(partition, range);
        let page = move |engine: &Engine| read_page(engine, range, limit);
        if limit <= INLINE_MAX { self.shared.engine(page) } else { self.shared.blocking(page).await }
    }

    async fn write(&self, batch: Batch, durability: Durability) -> Result<(), StoreError> {
        let commit = self.shared.write(move |engine| write(engine, &batch)).await?;
        match durability {
            Durability::Buffered => Ok(()),
            Durability::Synced => self.shared.sync(commit).await,
        }
    }

    async fn compare_and_set(
        &self,
        key: Key<'_>,
        expected: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<bool, StoreError> {
        let request = Request {
            physical: key::encode(key),
            expected: expected.map(<[u8]>::to_vec),
            value: value.map(<[u8]>::to_vec),
        };
        conditional::compare_and_set(&self.shared, request).await
    }

    async fn sync(&self) -> Result<(), StoreError> {
        self.shared.blocking(|engine| engine.sync(engine.last_commit())).await
    }

    fn generation(&self) -> u64 {
        self.shared.generation()
    }

    async fn reopen(&self) -> Result<u64, StoreError> {
        reopen::reopen(&self.shared).await
    }

    async fn close(&self) -> Result<(), StoreError> {
        close::close(&self.shared).await
    }
}

fn read(engine: &Engine, snapshot: &Snapshot, physical: &[u8]) -> Result<Option<Bytes>, StoreError> {
    let bytes = snapshot.get(&engine.pairs, physical).map_err(|error| error::of_read(&error))?;
    // Copied: the engine's slices keep a whole block in memory.
    Ok(bytes.as_deref().map(value::decode).transpose()?.map(Bytes::copy_from_slice))
}

fn read_page(
    engine: &Engine,
    range: std::ops::Range<Vec<u8>>,
    limit: usize,
) -> Result<Vec<Pair>, StoreError> {
    let limit = limit.min(limits::SCAN_PAGE_PAIRS_MAX);
    let (mut page, mut bytes) = (Vec::new(), 0);
    if range.is_empty() || limit == 0 {
        return Ok(page);
    }
    for entry in engine.snapshot().range(&engine.pairs, range) {
        let (physical, value) = entry.into_inner().map_err(|error| error::of_read(&error))?;
        let value = value::decode(&value)?;
        let Key { clustering, .. } = key::decode(&physical)
            .ok_or_else(|| StoreError::Corrupt(format!("{physical:02x?} is no physical key")))?;
        bytes += clustering.len() + value.len();
        if bytes > limits::SCAN_PAGE_BYTES_MAX && !page.is_empty() {
            break;
        }
        page.push((Bytes::copy_from_slice(clustering), Bytes::copy_from_slice(value)));
        if page.len() == limit {
            break;
        }
    }
    Ok(page)
}

fn write(engine: &Engine, batch: &Batch) -> Result<Commit, StoreError> {
    batch.check_generation(engine.generation())?;
    if batch.is_empty() {
        return Ok(engine.last_commit());
    }
    // Of two writes to one key in one record the engine keeps the later one.
    let mut record = engine.batch(batch.len());
    for write in batch.iter() {
        let physical = key::encode(write.key());
        match &write.value {
            Some(value) => record.insert(&engine.pairs, physical, value::encode(value)),
            None => record.remove(&engine.pairs, physical),
        }
    }
    engine.commit(record)
}
