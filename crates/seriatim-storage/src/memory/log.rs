//! The log in memory.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::{Either, select};
use seriatim_env::watch;
use seriatim_types::sync::{Mutex, MutexGuard};
use seriatim_types::{Epoch, Partition, PartitionOffset};

use crate::{
    Append, AppendError, AppendFuture, BulletinBackend, BulletinError, Entries, Held, LogBackend, LogError,
    LogIdentity, ReadEntries, ReadLimit, Take, TakeOver, TakenPartition,
};

/// A log in memory. Clones are the same handle on it. [`MemoryLog::reopen`] makes another handle on the same entries: several
/// can be open at the same time, like those of several processes on a shared log, and each is closed by itself.
///
/// An unverified append is not checked here, although the check would cost nothing, so that every trust level can be
/// tested: it overwrites the entries that it finds.
#[derive(Debug, Clone, Default)]
pub struct MemoryLog {
    state: Arc<Mutex<LogState>>,
    /// Whether this handle is closed.
    closed: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct LogState {
    partitions: BTreeMap<Partition, MemoryPartition>,
    /// The values on the bulletin.
    bulletin: BTreeMap<String, Bytes>,
    identity: Option<LogIdentity>,
}

/// The state of one partition.
#[derive(Debug)]
struct MemoryPartition {
    /// `None` until the partition is taken for the first time.
    taken: Option<(Epoch, Take)>,
    entries: Vec<Bytes>,
    /// Notifies followers after each append.
    tail: watch::Sender<PartitionOffset>,
}

impl Default for MemoryPartition {
    fn default() -> Self {
        Self { taken: None, entries: Vec::new(), tail: watch::Sender::new(PartitionOffset::FIRST) }
    }
}

impl MemoryPartition {
    fn tail(&self) -> PartitionOffset {
        *self.tail.borrow()
    }

    fn epoch(&self) -> Option<Epoch> {
        self.taken.as_ref().map(|(epoch, _)| *epoch)
    }

    fn held(&self) -> Option<Held> {
        let (epoch, take) = self.taken.clone()?;
        Some(Held { epoch, take, tail: self.tail() })
    }

    fn take_over(&mut self, expected: Option<Epoch>, take: &Take) -> Result<TakeOver, LogError> {
        if self.epoch() != expected {
            return Ok(TakeOver::Refused(self.held()));
        }
        let epoch = expected.map_or(Some(Epoch::FIRST), Epoch::next);
        let epoch =
            epoch.ok_or_else(|| LogError::Internal("no epoch is left for this partition".to_owned()))?;
        self.taken = Some((epoch, take.clone()));
        Ok(TakeOver::Taken(TakenPartition { epoch, tail: self.tail() }))
    }

    /// The index of an offset.
    fn index(offset: PartitionOffset) -> usize {
        usize::try_from(offset.get() - 1).unwrap_or(usize::MAX)
    }

    fn check(&self, append: &Append<'_>) -> Result<(), AppendError> {
        let (partition, at, tail) = (append.partition, append.at, self.tail());
        let current = self.epoch().ok_or(AppendError::Invalid("the partition was never taken"))?;
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

    /// Another handle on the same entries. It is open, whether or not this one is closed.
    #[must_use]
    pub fn reopen(&self) -> Self {
        Self { state: self.state.clone(), closed: watch::Sender::new(false) }
    }

    /// Another log with the same contents: entries, epochs, bulletin and identity. As if a backup of this one were restored
    /// elsewhere.
    #[must_use]
    pub fn copy(&self) -> Self {
        let state = self.state.lock();
        let partition = |(partition, there): (&Partition, &MemoryPartition)| {
            let (taken, entries) = (there.taken.clone(), there.entries.clone());
            (*partition, MemoryPartition { taken, entries, tail: watch::Sender::new(there.tail()) })
        };
        let partitions = state.partitions.iter().map(partition).collect();
        let copy = LogState { partitions, bulletin: state.bulletin.clone(), identity: state.identity };
        Self { state: Arc::new(Mutex::new(copy)), closed: watch::Sender::new(false) }
    }

    fn open(&self) -> Result<MutexGuard<'_, LogState>, LogError> {
        // Checked with the lock, so that nothing is written through a handle after its close has returned.
        let state = self.state.lock();
        if *self.closed.borrow() { Err(LogError::Closed) } else { Ok(state) }
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
    async fn take_over(
        &self,
        partitions: &[(Partition, Option<Epoch>)],
        take: &Take,
    ) -> Result<Vec<TakeOver>, LogError> {
        let mut state = self.open()?;
        let each = partitions.iter().map(|(partition, expected)| {
            state.partitions.entry(*partition).or_default().take_over(*expected, take)
        });
        each.collect()
    }

    async fn holder(&self, partition: Partition) -> Result<Option<Held>, LogError> {
        Ok(self.open()?.partitions.get(&partition).and_then(MemoryPartition::held))
    }

    async fn identity(&self, create: Option<LogIdentity>) -> Result<Option<LogIdentity>, LogError> {
        let mut state = self.open()?;
        state.identity = state.identity.or(create);
        Ok(state.identity)
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
        let mut closed = self.closed.subscribe();
        let (there, closed) =
            (pin!(tail.wait_for(|tail| *tail > offset)), pin!(closed.wait_for(|closed| *closed)));
        match select(there, closed).await {
            Either::Left((Ok(_), _)) => Ok(()),
            Either::Left((Err(_), _)) | Either::Right(_) => Err(LogError::Closed),
        }
    }

    async fn partitions(&self) -> Result<Vec<Partition>, LogError> {
        let state = self.open()?;
        let taken = state.partitions.iter().filter(|(_, partition)| partition.taken.is_some());
        Ok(taken.map(|(partition, _)| *partition).collect())
    }

    fn bulletin(&self) -> Arc<dyn BulletinBackend> {
        Arc::new(self.clone())
    }

    async fn close(&self) -> Result<(), LogError> {
        let _state = self.state.lock();
        self.closed.send_replace(true);
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

    async fn list(&self, prefix: &str) -> Result<Vec<(String, Bytes)>, BulletinError> {
        let state = self.open().map_err(|_| BulletinError::Closed)?;
        let from = state.bulletin.range(prefix.to_owned()..);
        let listed = from.take_while(|(key, _)| key.starts_with(prefix));
        Ok(listed.map(|(key, value)| (key.clone(), value.clone())).collect())
    }

    async fn remove(&self, key: &str) -> Result<(), BulletinError> {
        let mut state = self.open().map_err(|_| BulletinError::Closed)?;
        state.bulletin.remove(key);
        Ok(())
    }
}
