//! The right to append, and the proof that an append is durable.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use seriatim_types::{AppendId, Epoch, Partition, PartitionOffset};

use super::{Holder, Take, TakenPartition};

/// Identifies a [`Log`](super::Log) within this process.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LogId(u64);

impl LogId {
    pub(super) fn new(id: u64) -> Self {
        Self(id)
    }
}

impl fmt::Debug for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LogId({})", self.0)
    }
}

/// The right to append to a partition, until the partition is taken again. Only a [`Log`](super::Log) makes one.
#[derive(Debug)]
pub struct Owner {
    log: LogId,
    partition: Partition,
    taken: TakenPartition,
    holder: Holder,
    appends: AtomicU64,
}

impl Owner {
    pub(super) fn new(log: LogId, partition: Partition, taken: TakenPartition, take: &Take) -> Self {
        Self { log, partition, taken, holder: take.holder.clone(), appends: AtomicU64::new(0) }
    }

    /// The name under which the partition was taken.
    #[must_use]
    pub fn holder(&self) -> &Holder {
        &self.holder
    }

    /// The log that made the owner.
    #[must_use]
    pub fn log(&self) -> LogId {
        self.log
    }

    /// The partition.
    #[must_use]
    pub fn partition(&self) -> Partition {
        self.partition
    }

    /// The epoch that the partition got when it was taken.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.taken.epoch
    }

    /// The partition's tail when it was taken.
    #[must_use]
    pub fn tail(&self) -> PartitionOffset {
        self.taken.tail
    }

    /// An id for the next append. No two appends have the same id, also after restarts.
    #[must_use]
    pub fn next_append_id(&self) -> AppendId {
        AppendId { epoch: self.taken.epoch, counter: self.appends.fetch_add(1, Ordering::Relaxed) }
    }
}

/// The proof that an append is durable: bound to its log, partition and range. Only a [`Log`](super::Log) makes one.
///
/// ```compile_fail
/// use seriatim_storage::Receipt;
///
/// let forged = Receipt { log: todo!(), partition: todo!(), first: todo!(), next: todo!(), append: todo!() };
/// ```
#[derive(Debug, PartialEq, Eq)]
pub struct Receipt {
    log: LogId,
    partition: Partition,
    first: PartitionOffset,
    next: PartitionOffset,
    append: AppendId,
}

impl Receipt {
    pub(super) fn new(
        log: LogId,
        partition: Partition,
        first: PartitionOffset,
        next: PartitionOffset,
        append: AppendId,
    ) -> Self {
        Self { log, partition, first, next, append }
    }

    /// The log that made the receipt.
    #[must_use]
    pub fn log(&self) -> LogId {
        self.log
    }

    /// The partition.
    #[must_use]
    pub fn partition(&self) -> Partition {
        self.partition
    }

    /// The offset of the first entry.
    #[must_use]
    pub fn first(&self) -> PartitionOffset {
        self.first
    }

    /// The offset after the last entry.
    #[must_use]
    pub fn next(&self) -> PartitionOffset {
        self.next
    }

    /// The id of the append.
    #[must_use]
    pub fn append_id(&self) -> AppendId {
        self.append
    }
}
