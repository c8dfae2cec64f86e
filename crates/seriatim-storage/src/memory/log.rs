//! The log in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use seriatim_types::sync::{Mutex, MutexGuard};
use seriatim_types::{Epoch, Partition, PartitionOffset};
use tokio::sync::watch;

use crate::{
    Append, AppendError, AppendFuture, BulletinBackend, BulletinError, Entries, LogBackend, LogError,
    ReadEntries, ReadLimit, TakenPartition,
};

/// A log in memory. Clones are the same log. It can be closed and opened again: [`MemoryLog::reopen`].
///
/// An unverified append is not checked here, although the check would cost nothing, so that every trust level can be
/// tested: it overwrites the entries that it finds.
#[derive(Debug, Clone, Default)]
pub struct MemoryLog {
    state: Arc<Mutex<LogState>>,
}

#[derive(Debug, Default)]
struct LogState {
    partitions: BTreeMap<Partition, MemoryPartition>,
    /// The values on the bulletin.
    bulletin: BTreeMap<String, Bytes>,
    closed: bool,
}

/// The state of one partition.
#[derive(Debug)]
struct MemoryPartition {
    /// `None` until the partition is taken for the first time.
    epoch: Option<Epoch>,
    entries: Vec<Bytes>,
    /// Notifies followers after each append. Dropped at close.
    tail: watch::Sender<PartitionOffset>,
}

impl Default for MemoryPartition {
    fn default() -> Self {
        Self { epoch: None, entries: Vec::new(), tail: watch::Sender::new(PartitionOffset::FIRST) }
    }
}

impl MemoryPartition {
    fn tail(&self) -> PartitionOffset {
        *self.tail.borrow()
    }

    /// The index of an offset.
    fn index(offset: PartitionOffset) -> usize {
        usize::try_from(offset.get() - 1).unwrap_or(usize::MAX)
    }

    fn check(&self, append: &Append<'_>) -> Result<(), AppendError> {
        let (partition, at, tail) = (append.partition, append.at, self.tail());
        let current = self.epoch.ok_or(AppendError::Invalid("the partition was never taken"))?;
        if append.verified && current != append.epoch {
            return Err(AppendError::StaleEpoch { partition, held: append.epoch, current });
        }
        if at > tail || (append.verified && at != tail) {
            return Err(AppendError::Conflict { partition, at, tail, found: None });
        }
        Ok(())
    }

    /// Writes entries at an offset that is not after the tail. Overwrites entries that are there.
    fn put(&mut self, at: PartitionOffset, entries: &Entries) {
        for (index, entry) in (Self::index(at)..).zip(entries.iter()) {
            let bytes = Bytes::copy_from_slice(entry.as_bytes());
            match self.entries.get_mut(index) {
                Some(there) => *there = bytes,
                None => self.entries.push(bytes),
            }
        }
        let tail = PartitionOffset::FIRST.advance(self.entries.len() as u64);
        self.tail.send_replace(tail.expect("memory is full before the offsets end"));
    }
}

impl MemoryLog {
    /// An empty log.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same entries, open again after a close.
    #[must_use]
    pub fn reopen(&self) -> Self {
        self.lock().closed = false;
        self.clone()
    }

    fn lock(&self) -> MutexGuard<'_, LogState> {
        self.state.lock()
    }

    fn open(&self) -> Result<MutexGuard<'_, LogState>, LogError> {
        let state = self.lock();
        if state.closed { Err(LogError::Closed) } else { Ok(state) }
    }

    fn append_now(&self, append: &Append<'_>) -> Result<(), AppendError> {
        let mut state = self.open().map_err(|_| AppendError::Closed)?;
        let partition = state.partitions.entry(append.partition).or_default();
        partition.check(append)?;
        partition.put(append.at, append.entries);
        Ok(())
    }
}

#[async_trait]
impl LogBackend for MemoryLog {
    async fn take(&self, partitions: &[Partition]) -> Result<Vec<TakenPartition>, LogError> {
        let mut state = self.open()?;
        let take = |partition: &Partition| {
            let partition = state.partitions.entry(*partition).or_default();
            let epoch = partition.epoch.map_or(Some(Epoch::FIRST), Epoch::next);
            let epoch =
                epoch.ok_or_else(|| LogError::Internal("no epoch is left for this partition".to_owned()))?;
            partition.epoch = Some(epoch);
            Ok(TakenPartition { epoch, tail: partition.tail() })
        };
        partitions.iter().map(take).collect()
    }

    fn append(&self, append: Append<'_>) -> AppendFuture {
        let answer = self.append_now(&append);
        Box::pin(async move { answer })
    }

    async fn read(
        &self,
        partition: Partition,
        from: PartitionOffset,
        limit: ReadLimit,
    ) -> Result<ReadEntries, LogError> {
        let state = self.open()?;
        let mut read = ReadEntries::new(from);
        let entries = state.partitions.get(&partition).map_or(&[][..], |partition| &partition.entries);
        for bytes in entries.iter().skip(MemoryPartition::index(from)) {
            if !limit.admits(&read, bytes.len()) {
                break;
            }
            let offset = read.next();
            let at = |error| LogError::Corrupt(format!("offset {offset} of partition {partition}: {error}"));
            read.push(bytes).map_err(at)?;
        }
        Ok(read)
    }

    async fn tail(&self, partition: Partition) -> Result<PartitionOffset, LogError> {
        let state = self.open()?;
        Ok(state.partitions.get(&partition).map_or(PartitionOffset::FIRST, MemoryPartition::tail))
    }

    async fn committed(&self, partition: Partition, offset: PartitionOffset) -> Result<(), LogError> {
        let mut tail = self.open()?.partitions.entry(partition).or_default().tail.subscribe();
        let there = tail.wait_for(|tail| *tail > offset).await;
        there.map(|_| ()).map_err(|_| LogError::Closed)
    }

    async fn partitions(&self) -> Result<Vec<Partition>, LogError> {
        let state = self.open()?;
        let taken = state.partitions.iter().filter(|(_, partition)| partition.epoch.is_some());
        Ok(taken.map(|(partition, _)| *partition).collect())
    }

    fn bulletin(&self) -> Arc<dyn BulletinBackend> {
        Arc::new(self.clone())
    }

    async fn close(&self) -> Result<(), LogError> {
        let mut state = self.lock();
        state.closed = true;
        for partition in state.partitions.values_mut() {
            // Dropping the old channel wakes every waiting follower with an error.
            partition.tail = watch::Sender::new(partition.tail());
        }
        Ok(())
    }
}

#[async_trait]
impl BulletinBackend for MemoryLog {
    async fn get(&self, key: &str) -> Result<Option<Bytes>, BulletinError> {
        let state = self.open().map_err(|_| BulletinError::Closed)?;
        Ok(state.bulletin.get(key).cloned())
    }

    async fn put(&self, key: &str, value: &[u8]) -> Result<(), BulletinError> {
        let mut state = self.open().map_err(|_| BulletinError::Closed)?;
        state.bulletin.insert(key.to_owned(), Bytes::copy_from_slice(value));
        Ok(())
    }
}
