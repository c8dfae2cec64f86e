//! What a backend of the log has to do.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use seriatim_types::{Epoch, Partition, PartitionOffset, limits};

use super::{AppendError, LogError};
use crate::{BulletinBackend, Entries, ReadEntries};

/// The answer to an append, to be awaited or not: the append goes on without it.
pub type AppendFuture = Pin<Box<dyn Future<Output = Result<(), AppendError>> + Send>>;

/// What taking a partition gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// The raised epoch.
    pub epoch: Epoch,
    /// The offset that the next append goes to.
    pub tail: PartitionOffset,
}

/// One append, as the backend sees it.
#[derive(Debug, Clone, Copy)]
pub struct Append<'a> {
    /// Where it goes.
    pub partition: Partition,
    /// The owner's epoch; another current epoch refuses the append.
    pub epoch: Epoch,
    /// The offset of the first entry; another tail refuses the append.
    pub at: PartitionOffset,
    /// What to append, at least one entry.
    pub entries: &'a Entries,
    /// Whether epoch and tail must be checked even where that costs.
    pub verified: bool,
}

/// How much to read at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadLimit {
    /// At most so many entries.
    pub entries: usize,
    /// At most so many bytes, but at least one entry.
    pub bytes: usize,
}

impl ReadLimit {
    /// At most so many entries, and [`limits::READ_BYTES_MAX`].
    #[must_use]
    pub const fn entries(entries: usize) -> Self {
        Self { entries, bytes: limits::READ_BYTES_MAX }
    }

    /// Whether something with so many entries and bytes has room for another entry of `size` bytes.
    #[must_use]
    pub fn admits(self, read: &ReadEntries, size: usize) -> bool {
        let bytes = self.bytes.min(limits::READ_BYTES_MAX);
        read.len() < self.entries && (read.is_empty() || read.as_bytes().len() + size <= bytes)
    }
}

impl Default for ReadLimit {
    fn default() -> Self {
        Self::entries(usize::MAX)
    }
}

/// Where a log lives. Implementors run the conformance suite (`seriatim_storage_testing::log_conformance!`); callers use
/// [`Log`](super::Log).
#[async_trait]
pub trait LogBackend: Send + Sync + fmt::Debug + 'static {
    /// Raises the epoch of each partition, durably, and says where each ends; in the order of `partitions`. Appends of
    /// earlier epochs that are not answered yet are either counted in the tail or refused, never written later.
    async fn take(&self, partitions: &[Partition]) -> Result<Vec<Taken>, LogError>;

    /// Submits an append before it returns; the future waits for the answer. All entries or none, durable before `Ok`.
    ///
    /// Refused with [`AppendError::StaleEpoch`] if the partition has another epoch, else with [`AppendError::Conflict`]
    /// if its tail (with what is submitted before) is not `at`. Everything else that keeps the append from being written
    /// is refused by its own name; what may have been written is [`AppendError::InDoubt`].
    fn append(&self, append: Append<'_>) -> AppendFuture;

    /// Committed entries from `from` on; none at or beyond the tail. Never shows what is not durable.
    async fn read(
        &self,
        partition: Partition,
        from: PartitionOffset,
        limit: ReadLimit,
    ) -> Result<ReadEntries, LogError>;

    /// One behind the last committed entry; 1 for an unknown partition.
    async fn tail(&self, partition: Partition) -> Result<PartitionOffset, LogError>;

    /// Returns when the tail is beyond `offset`: when the entry at `offset` can be read. Cancel-safe.
    async fn committed(&self, partition: Partition, offset: PartitionOffset) -> Result<(), LogError>;

    /// The partitions that have been taken at least once, ascending.
    async fn partitions(&self) -> Result<Vec<Partition>, LogError>;

    /// The bulletin beside this log. It is closed with it, and what is on it is there when it is opened again.
    fn bulletin(&self) -> Arc<dyn BulletinBackend>;

    /// Answers what is under way, then releases everything. Whoever waits in [`LogBackend::committed`] gets
    /// [`LogError::Closed`]. Closing twice is fine.
    async fn close(&self) -> Result<(), LogError>;
}
