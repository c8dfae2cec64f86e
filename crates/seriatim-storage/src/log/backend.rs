//! What a backend of the log must do.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use seriatim_types::{Epoch, Partition, PartitionOffset, limits};

use super::{AppendError, Held, LogError, LogIdentity, Take};
use crate::{BulletinBackend, Entries, ReadEntries};

/// The answer to an append. The append continues whether it is awaited or not.
pub type AppendFuture = Pin<Box<dyn Future<Output = Result<(), AppendError>> + Send>>;

/// The result of taking a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TakenPartition {
    /// The raised epoch.
    pub epoch: Epoch,
    /// The offset that the next append goes to.
    pub tail: PartitionOffset,
}

/// The answer to a take-over of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TakeOver {
    /// The epoch was raised.
    Taken(TakenPartition),
    /// The partition has another epoch than expected, and nothing was changed. The present holder, or `None` if the partition
    /// was never taken.
    Refused(Option<Held>),
}

/// One append, as a backend receives it.
#[derive(Debug, Clone, Copy)]
pub struct Append<'a> {
    /// The partition to append to.
    pub partition: Partition,
    /// The owner's epoch. The append is refused if the partition has another one.
    pub epoch: Epoch,
    /// The offset of the first entry. The append is refused if the partition has another tail.
    pub at: PartitionOffset,
    /// What to append, at least one entry.
    pub entries: &'a Entries,
    /// Whether epoch and tail must be checked even if the check has a cost.
    pub verified: bool,
}

/// How much one read returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadLimit {
    /// The largest number of entries.
    pub entries: usize,
    /// The largest number of bytes. One entry is returned even if it is larger.
    pub bytes: usize,
}

impl ReadLimit {
    /// At most this many entries, and at most [`limits::READ_BYTES_MAX`] bytes.
    #[must_use]
    pub const fn entries(entries: usize) -> Self {
        Self { entries, bytes: limits::READ_BYTES_MAX }
    }

    /// Whether `read` has room for another entry of `size` bytes.
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

/// What a log is stored in. Backends must pass the conformance suite (`seriatim_storage_testing::log_conformance!`).
/// Callers use [`Log`](super::Log).
#[async_trait]
pub trait LogBackend: Send + Sync + fmt::Debug + 'static {
    /// Takes partitions over. Each is decided by itself: its epoch is raised durably if it is the expected one (`None`: the
    /// partition was never taken), and `take` is stored with it. Of many that expect the same epoch, exactly one succeeds. The
    /// answers are in the order of `partitions`.
    ///
    /// If a partition was taken, or was refused because its epoch is *higher* than expected, unanswered appends of the expected
    /// epoch and of earlier ones are either counted in the tail of the answer or never written. A refusal because the epoch is
    /// lower settles nothing.
    ///
    /// After an error each partition may have been taken or not.
    async fn take_over(
        &self,
        partitions: &[(Partition, Option<Epoch>)],
        take: &Take,
    ) -> Result<Vec<TakeOver>, LogError>;

    /// Takes a partition that was never taken, with `epoch` instead of the first epoch. For a restore. It is refused, and changes
    /// nothing, if the partition was taken before; of many, exactly one succeeds.
    ///
    /// Without a method of its own, a backend raises the epoch step by step. After an error the partition may have a lower epoch;
    /// then this call repeated with the same take continues there.
    async fn take_first(
        &self,
        partition: Partition,
        epoch: Epoch,
        take: &Take,
    ) -> Result<TakeOver, LogError> {
        let mut expected = None;
        loop {
            let answers = self.take_over(&[(partition, expected)], take).await?;
            expected = match answers.into_iter().next() {
                Some(TakeOver::Taken(taken)) if taken.epoch < epoch => Some(taken.epoch),
                Some(TakeOver::Refused(Some(held))) if held.take == *take && held.epoch < epoch => {
                    Some(held.epoch)
                }
                Some(answer) => return Ok(answer),
                None => return Err(LogError::Internal("the backend returned no answer".to_owned())),
            };
        }
    }

    /// Who holds a partition; `None` if it was never taken. It settles no append.
    async fn holder(&self, partition: Partition) -> Result<Option<Held>, LogError>;

    /// The identity of the log, if it has one. If it has none and `create` is given, that becomes its identity durably, unless
    /// another one was created first, which is returned then.
    async fn identity(&self, create: Option<LogIdentity>) -> Result<Option<LogIdentity>, LogError>;

    /// Submits an append before it returns; the future waits for the answer. `Ok` means that all entries are durable.
    ///
    /// The append is refused with [`AppendError::StaleEpoch`] if the partition has another epoch. Otherwise it is refused
    /// with [`AppendError::Conflict`] if the tail, including all appends submitted before, is not `at`. Every other reason
    /// to write nothing has its own error. If the append may have been written, the error is [`AppendError::InDoubt`].
    ///
    /// The entries of a restore have append ids of earlier epochs, and several in one append. The id of such an append is that of
    /// its first entry.
    fn append(&self, append: Append<'_>) -> AppendFuture;

    /// Committed entries from `from` on; none at or after the tail. Entries that are not durable are never returned.
    async fn read(
        &self,
        partition: Partition,
        from: PartitionOffset,
        limit: ReadLimit,
    ) -> Result<ReadEntries, LogError>;

    /// The offset after the last committed entry; 1 for an unknown partition. Counts every append that was answered before
    /// the call, by this process or by another one.
    async fn tail(&self, partition: Partition) -> Result<PartitionOffset, LogError>;

    /// Returns when the tail is greater than `offset`, so that the entry at `offset` can be read. It may return late for
    /// appends of other processes. Cancel-safe.
    async fn committed(&self, partition: Partition, offset: PartitionOffset) -> Result<(), LogError>;

    /// Reports that the tail of a partition is probably at least this one. Calls that wait in [`LogBackend::committed`] check
    /// soon whether that is true. A backend that notices every append at once ignores it.
    fn hint_tail(&self, _partition: Partition, _tail: PartitionOffset) {}

    /// The partitions that have been taken at least once, ascending.
    async fn partitions(&self) -> Result<Vec<Partition>, LogError>;

    /// The bulletin next to this log. It is closed with the log. Its values are there when the log is opened again.
    fn bulletin(&self) -> Arc<dyn BulletinBackend>;

    /// Answers what is in progress, then releases everything. Calls that wait in [`LogBackend::committed`] get
    /// [`LogError::Closed`]. Closing twice is allowed.
    async fn close(&self) -> Result<(), LogError>;
}
