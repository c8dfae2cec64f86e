//! Storage that does almost nothing, so that only the sequencer is measured.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use seriatim_storage::{
    Append, AppendFuture, Batch, ClusteringRange, Durability, Held, Key, LogBackend, LogError, LogIdentity,
    Pair, ReadEntries, ReadLimit, StoreBackend, StoreError, Take, TakeOver, TakenPartition,
};
use seriatim_types::sync::{Mutex, MutexGuard};
use seriatim_types::{Epoch, Partition, PartitionOffset};

/// A log that confirms appends and stores nothing.
#[derive(Debug)]
pub(super) struct NoLog;

#[async_trait]
impl LogBackend for NoLog {
    async fn take_over(
        &self,
        partitions: &[(Partition, Option<Epoch>)],
        _: &Take,
    ) -> Result<Vec<TakeOver>, LogError> {
        let taken = TakenPartition { epoch: Epoch::FIRST, tail: PartitionOffset::FIRST };
        Ok(vec![TakeOver::Taken(taken); partitions.len()])
    }

    async fn holder(&self, _: Partition) -> Result<Option<Held>, LogError> {
        Ok(None)
    }

    async fn identity(&self, create: Option<LogIdentity>) -> Result<Option<LogIdentity>, LogError> {
        Ok(create)
    }

    fn append(&self, _: Append<'_>) -> AppendFuture {
        Box::pin(std::future::ready(Ok(())))
    }

    async fn read(&self, _: Partition, from: PartitionOffset, _: ReadLimit) -> Result<ReadEntries, LogError> {
        Ok(ReadEntries::new(from))
    }

    async fn tail(&self, _: Partition) -> Result<PartitionOffset, LogError> {
        Ok(PartitionOffset::FIRST)
    }

    async fn committed(&self, _: Partition, _: PartitionOffset) -> Result<(), LogError> {
        Ok(())
    }

    async fn partitions(&self) -> Result<Vec<Partition>, LogError> {
        Ok(Vec::new())
    }

    fn bulletin(&self) -> Arc<dyn seriatim_storage::BulletinBackend> {
        seriatim_storage::memory::MemoryLog::new().bulletin()
    }

    async fn close(&self) -> Result<(), LogError> {
        Ok(())
    }
}

/// A store that is a hash map: the cheapest that keeps values.
#[derive(Debug, Default)]
pub(super) struct HashStore {
    values: Mutex<HashMap<FixedKey, Bytes>>,
}

impl HashStore {
    fn lock(&self) -> MutexGuard<'_, HashMap<FixedKey, Bytes>> {
        self.values.lock()
    }
}

/// A key of the sequencer: its partition part has 14 bytes at most, and its clustering part 2.
type FixedKey = ([u8; 14], [u8; 2]);

fn fixed(key: Key<'_>) -> FixedKey {
    let (mut partition, mut clustering) = ([0; 14], [0; 2]);
    partition[..key.partition.len()].copy_from_slice(key.partition);
    clustering[..key.clustering.len()].copy_from_slice(key.clustering);
    (partition, clustering)
}

#[async_trait]
impl StoreBackend for HashStore {
    async fn get(&self, key: Key<'_>) -> Result<Option<Bytes>, StoreError> {
        Ok(self.lock().get(&fixed(key)).cloned())
    }

    async fn get_many(&self, keys: &[Key<'_>]) -> Result<Vec<Option<Bytes>>, StoreError> {
        let values = self.lock();
        Ok(keys.iter().map(|key| values.get(&fixed(*key)).cloned()).collect())
    }

    async fn scan_page(&self, _: &[u8], _: &ClusteringRange, _: usize) -> Result<Vec<Pair>, StoreError> {
        Ok(Vec::new())
    }

    async fn write(&self, batch: Batch, _: Durability) -> Result<(), StoreError> {
        for write in batch {
            if let Some(value) = write.value {
                // Locked for one value at a time, so that a reader does not wait for a whole batch.
                self.lock().insert(fixed(write.key.as_key()), value);
            }
        }
        Ok(())
    }

    async fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn close(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// A store that keeps nothing, so that the memory of the process is that of the sequencer.
#[derive(Debug)]
pub(super) struct NoStore;

#[async_trait]
impl StoreBackend for NoStore {
    async fn get(&self, _: Key<'_>) -> Result<Option<Bytes>, StoreError> {
        Ok(None)
    }

    async fn get_many(&self, keys: &[Key<'_>]) -> Result<Vec<Option<Bytes>>, StoreError> {
        Ok(vec![None; keys.len()])
    }

    async fn scan_page(&self, _: &[u8], _: &ClusteringRange, _: usize) -> Result<Vec<Pair>, StoreError> {
        Ok(Vec::new())
    }

    async fn write(&self, _: Batch, _: Durability) -> Result<(), StoreError> {
        Ok(())
    }

    async fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn close(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
