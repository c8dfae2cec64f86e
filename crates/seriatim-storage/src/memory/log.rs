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
    ReadEntries, ReadLimit, Taken,
};

/// A log in memory. Clones share it, so that it can be closed and opened again: [`MemoryLog::reopen`].
///
/// The check of epoch and tail is left to the caller's trust level here, so that every level can be tested: an
/// unverified append overwrites what it finds.
#[derive(Debug, Clone, Default)]
pub struct MemoryLog {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug, Default)]
struct Shared {
    partitions: BTreeMap<Partition, Entered>,
    /// What is on the bulletin.
    posted: BTreeMap<String, Bytes>,
    closed: bool,
}

/// What is known of one partition.
#[derive(Debug)]
struct Entered {
    /// `None` until it is taken for the first time.
    epoch: Option<Epoch>,
    entries: Vec<Bytes>,
    /// Told after each append, and dropped at close.
    tail: watch::Sender<PartitionOffset>,
}

impl Default for Entered {
    fn default() -> Self {
        Self { epoch: None, entries: Vec::new(), tail: watch::Sender::new(PartitionOffset::FIRST) }
    }
}

impl Entered {
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

    /// Puts entries at an offset that is not beyond the tail, over what may be there.
    fn put(&mut self, at: PartitionOffset, entries: &Entries) {
        for (index, entry) in (Self::index(at)..).zip(entries.iter()) {
            let bytes = Bytes::copy_from_slice(entry.as_bytes());
            match self.entries.get_mut(index) {
                Some(there) => *there = bytes,
                None => self.entries.push(bytes),
            }
        }
        let tail = PartitionOffset::FIRST.advance(self.entries.len() as u64);
        self.tail.send_replace(tail.expect("memory ends before the offsets do"));
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

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock()
    }

    fn open(&self) -> Result<MutexGuard<'_, Shared>, LogError> {
        let shared = self.lock();
        if shared.closed { Err(LogError::Closed) } else { Ok(shared) }
    }

    fn append_now(&self, append: &Append<'_>) -> Result<(), AppendError> {
        let mut shared = self.open().map_err(|_| AppendError::Closed)?;
        let entered = shared.partitions.entry(append.partition).or_default();
        entered.check(append)?;
        entered.put(append.at, append.entries);
        Ok(())
    }
}

#[async_trait]
impl LogBackend for MemoryLog {
    async fn take(&self, partitions: &[Partition]) -> Result<Vec<Taken>, LogError> {
        let mut shared = self.open()?;
        let take = |partition: &Partition| {
            let entered = shared.partitions.entry(*partition).or_default();
            let epoch = entered.epoch.map_or(Some(Epoch::FIRST), Epoch::next);
            let epoch = epoch.ok_or_else(|| LogError::Internal("the epochs end here".to_owned()))?;
            entered.epoch = Some(epoch);
            Ok(Taken { epoch, tail: entered.tail() })
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
        let shared = self.open()?;
        let mut read = ReadEntries::new(from);
        let entries = shared.partitions.get(&partition).map_or(&[][..], |entered| &entered.entries);
        for bytes in entries.iter().skip(Entered::index(from)) {
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
        let shared = self.open()?;
        Ok(shared.partitions.get(&partition).map_or(PartitionOffset::FIRST, Entered::tail))
    }

    async fn committed(&self, partition: Partition, offset: PartitionOffset) -> Result<(), LogError> {
        let mut tail = self.open()?.partitions.entry(partition).or_default().tail.subscribe();
        let there = tail.wait_for(|tail| *tail > offset).await;
        there.map(|_| ()).map_err(|_| LogError::Closed)
    }

    async fn partitions(&self) -> Result<Vec<Partition>, LogError> {
        let shared = self.open()?;
        let taken = shared.partitions.iter().filter(|(_, entered)| entered.epoch.is_some());
        Ok(taken.map(|(partition, _)| *partition).collect())
    }

    fn bulletin(&self) -> Arc<dyn BulletinBackend> {
        Arc::new(self.clone())
    }

    async fn close(&self) -> Result<(), LogError> {
        let mut shared = self.lock();
        shared.closed = true;
        for entered in shared.partitions.values_mut() {
            // Whoever follows is told by the end of the old channel.
            entered.tail = watch::Sender::new(entered.tail());
        }
        Ok(())
    }
}

#[async_trait]
impl BulletinBackend for MemoryLog {
    async fn get(&self, key: &str) -> Result<Option<Bytes>, BulletinError> {
        let shared = self.open().map_err(|_| BulletinError::Closed)?;
        Ok(shared.posted.get(key).cloned())
    }

    async fn put(&self, key: &str, value: &[u8]) -> Result<(), BulletinError> {
        let mut shared = self.open().map_err(|_| BulletinError::Closed)?;
        shared.posted.insert(key.to_owned(), Bytes::copy_from_slice(value));
        Ok(())
    }
}
