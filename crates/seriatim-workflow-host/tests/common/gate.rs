//! A log whose reads are counted, and can be held or refused, one partition of workflows at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use seriatim_env::watch;
use seriatim_storage::memory::MemoryLog;
use seriatim_storage::{
    Append, AppendFuture, BulletinBackend, Held, LogBackend, LogError, LogIdentity, ReadEntries, ReadLimit,
    Take, TakeOver,
};
use seriatim_types::{Epoch, Partition, PartitionId, PartitionOffset};

/// The application `workflows`.
const WORKFLOWS: u32 = 3;

/// What reads of a partition do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reads {
    Pass,
    Wait(PartitionId),
    Corrupt(PartitionId),
    Refuse(PartitionId),
}

/// The log. Clones share everything.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    log: MemoryLog,
    reads: watch::Sender<Reads>,
    read: Arc<AtomicUsize>,
}

impl Gate {
    pub(crate) fn new() -> Self {
        Self { log: MemoryLog::new(), reads: watch::Sender::new(Reads::Pass), read: Arc::default() }
    }

    pub(crate) fn set(&self, reads: Reads) {
        self.reads.send_replace(reads);
    }

    /// Events of workflows that were read since this was called last.
    pub(crate) fn take_count(&self) -> usize {
        self.read.swap(0, Ordering::Relaxed)
    }
}

#[async_trait]
impl LogBackend for Gate {
    async fn take_over(
        &self,
        partitions: &[(Partition, Option<Epoch>)],
        take: &Take,
    ) -> Result<Vec<TakeOver>, LogError> {
        self.log.take_over(partitions, take).await
    }

    async fn holder(&self, partition: Partition) -> Result<Option<Held>, LogError> {
        self.log.holder(partition).await
    }

    async fn identity(&self, create: Option<LogIdentity>) -> Result<Option<LogIdentity>, LogError> {
        self.log.identity(create).await
    }

    fn append(&self, append: Append<'_>) -> AppendFuture {
        self.log.append(append)
    }

    async fn read(
        &self,
        partition: Partition,
        from: PartitionOffset,
        limit: ReadLimit,
    ) -> Result<ReadEntries, LogError> {
        if partition.application.get() != WORKFLOWS {
            return self.log.read(partition, from, limit).await;
        }
        let passes = |reads: &Reads| *reads != Reads::Wait(partition.id);
        let reads = *self.reads.subscribe().wait_for(passes).await.unwrap();
        if reads == Reads::Corrupt(partition.id) {
            return Err(LogError::Corrupt("as it was told".to_owned()));
        }
        if reads == Reads::Refuse(partition.id) {
            return Err(LogError::Unavailable("as it was told".to_owned()));
        }
        let read = self.log.read(partition, from, limit).await?;
        self.read.fetch_add(read.iter().count(), Ordering::Relaxed);
        Ok(read)
    }

    async fn tail(&self, partition: Partition) -> Result<PartitionOffset, LogError> {
        self.log.tail(partition).await
    }

    async fn committed(&self, partition: Partition, offset: PartitionOffset) -> Result<(), LogError> {
        self.log.committed(partition, offset).await
    }

    async fn partitions(&self) -> Result<Vec<Partition>, LogError> {
        self.log.partitions().await
    }

    fn bulletin(&self) -> Arc<dyn BulletinBackend> {
        self.log.bulletin()
    }

    async fn close(&self) -> Result<(), LogError> {
        self.log.close().await
    }
}
