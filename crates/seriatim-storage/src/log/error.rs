//! Errors of a log.

use seriatim_types::{AppendId, Epoch, ErrorKind, Partition, PartitionOffset};

use super::Held;

/// Why a log could not be taken, read or closed. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// The storage below does not work. An operator has to fix the cause; then open the log again.
    #[error("the log is unavailable: {0}")]
    Unavailable(String),
    /// The stored data is damaged, of another kind, or contradicts itself. Run `seriatim doctor`, or restore a backup.
    #[error("the log is damaged: {0}")]
    Corrupt(String),
    /// A newer Seriatim wrote the log. Use a program of that version.
    #[error(
        "the log has format version {found}, and this program reads versions up to {known}: use a newer program"
    )]
    Newer {
        /// The version of the log.
        found: u32,
        /// The newest version that this program reads.
        known: u32,
    },
    /// The log has been closed. Open it again.
    #[error("the log is closed: open it again")]
    Closed,
    /// A defect of the backend. Please report it.
    #[error("defect in the log: {0}")]
    Internal(String),
}

impl LogError {
    /// What the caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Unavailable(_) => ErrorKind::Unavailable,
            Self::Corrupt(_) | Self::Newer { .. } => ErrorKind::Corrupt,
            Self::Closed => ErrorKind::Closed,
            Self::Internal(_) => ErrorKind::Internal,
        }
    }
}

/// Why a partition was not taken over.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TakeOverError {
    /// The partition has a higher epoch than expected: another owner has taken it over. Nothing was changed. Every append of
    /// the expected epoch is decided: the entry at its offset can be read.
    #[error("another owner has taken over partition {partition}: {held}")]
    Deposed {
        /// The partition.
        partition: Partition,
        /// Its present holder.
        held: Held,
    },
    /// The partition has a lower epoch than expected, or was never taken. Nothing was changed, and nothing is settled. The log
    /// is not the one that the expected epoch was read from, or has lost events.
    #[error(
        "partition {partition} has an epoch lower than {expected}, which was expected: the log was replaced or has lost events"
    )]
    Rewound {
        /// The partition.
        partition: Partition,
        /// The epoch that was expected.
        expected: Epoch,
    },
    /// The log did not answer. The partition may have been taken over. Take it over again with the same epoch and the same
    /// [`Take`](super::Take).
    #[error(transparent)]
    Log(#[from] LogError),
}

impl TakeOverError {
    /// What the caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Deposed { .. } => ErrorKind::Unavailable,
            Self::Rewound { .. } => ErrorKind::Corrupt,
            Self::Log(error) => error.kind(),
        }
    }
}

/// Why an append has no receipt. All but [`AppendError::InDoubt`] mean that nothing was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// The partition was taken again, so this owner can no longer append. Take the partition to become its owner again.
    #[error(
        "partition {partition} was taken again: it has epoch {current}, and this owner has {held}; take it again"
    )]
    StaleEpoch {
        /// The partition.
        partition: Partition,
        /// The epoch of the owner that appended.
        held: Epoch,
        /// The epoch that the partition has.
        current: Epoch,
    },
    /// The partition's tail is not the offset that the owner gave, and the entry at `at` is not of this append.
    #[error("partition {partition} ends at {tail}, so nothing can be appended at {at}{}", found_there(found.as_ref()))]
    Conflict {
        /// The partition.
        partition: Partition,
        /// The offset that the append was to be written at.
        at: PartitionOffset,
        /// The partition's tail: the only offset that can be appended at.
        tail: PartitionOffset,
        /// The id of the append that wrote the entry at `at`, if there is an entry.
        found: Option<AppendId>,
    },
    /// Too many bytes already wait to be written. Try again after a short time.
    #[error("the log's queue is full: {queued_bytes} bytes wait to be written; try again after a short time")]
    QueueFull {
        /// Bytes that wait.
        queued_bytes: usize,
    },
    /// Larger than an append may be.
    #[error("an append may have {max} bytes, and this one has {found}: append less at once")]
    TooLarge {
        /// How much is allowed.
        max: usize,
        /// How much it was.
        found: usize,
    },
    /// Less disk space is free than must stay free, so that the disk does not fill up. Free some space.
    #[error(
        "{free_bytes} bytes are free on the log's disk, and {needed_bytes} must stay free (free_bytes_min): free some disk space"
    )]
    DiskNearlyFull {
        /// Bytes that are free.
        free_bytes: u64,
        /// Bytes that must stay free.
        needed_bytes: u64,
    },
    /// The storage below refused the write. The log accepts appends again as soon as the storage does.
    #[error("the log is unavailable: {0}")]
    Unavailable(String),
    /// The call itself is wrong. The text says how to correct it.
    #[error("{0}")]
    Invalid(&'static str),
    /// The log accepts no more appends, because a sync failed and its data cannot be trusted. Open the log again.
    #[error("the log has stopped: {0}; open it again to append")]
    Stopped(String),
    /// The log has been closed. Open it again.
    #[error("the log is closed: open it again")]
    Closed,
    /// The append may have been written or not. Take the partition over with the owner's epoch; then read at `at`, and compare
    /// append ids. A read alone does not settle it.
    #[error("the append at {at} of partition {partition} is in doubt: {reason}")]
    InDoubt {
        /// The partition.
        partition: Partition,
        /// Where the append was to go.
        at: PartitionOffset,
        /// Why the outcome is not known.
        reason: String,
    },
}

fn found_there(found: Option<&AppendId>) -> String {
    found.map(|id| format!(", where append {id} is")).unwrap_or_default()
}

impl AppendError {
    /// Whether it is certain that nothing was written. Otherwise the outcome is in doubt.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.kind() != ErrorKind::InDoubt
    }

    /// What the caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::StaleEpoch { .. } | Self::Conflict { .. } => ErrorKind::Conflict,
            Self::QueueFull { .. } => ErrorKind::Busy,
            Self::TooLarge { .. } => ErrorKind::TooLarge,
            Self::DiskNearlyFull { .. } | Self::Unavailable(_) | Self::Stopped(_) => ErrorKind::Unavailable,
            Self::Invalid(_) => ErrorKind::Invalid,
            Self::Closed => ErrorKind::Closed,
            Self::InDoubt { .. } => ErrorKind::InDoubt,
        }
    }
}
