//! What can go wrong with a log.

use seriatim_types::{AppendId, Epoch, ErrorKind, Partition, PartitionOffset};

/// Why a log could not be taken, read or closed. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// The storage underneath does not work.
    #[error("the log is unavailable: {0}")]
    Unavailable(String),
    /// What is stored is damaged, foreign or contradicts itself.
    #[error("the log is damaged: {0}")]
    Corrupt(String),
    /// A newer Seriatim wrote it.
    #[error("the log has format version {found}, and this program reads up to {known}: use a newer one")]
    Newer {
        /// The version that it has.
        found: u32,
        /// The newest version that this program knows.
        known: u32,
    },
    /// It has been closed.
    #[error("the log is closed")]
    Closed,
    /// A defect of the backend.
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

/// Why an append has no receipt. All but [`AppendError::InDoubt`] mean that nothing was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// Somebody took the partition since: this owner is out.
    #[error("partition {partition} has epoch {current}, and its owner came with {held}: take it again")]
    StaleEpoch {
        /// The partition.
        partition: Partition,
        /// The epoch that the append came with.
        held: Epoch,
        /// The epoch that the partition has.
        current: Epoch,
    },
    /// The partition's tail is not where the owner thought, and what is at `at` is not this append.
    #[error("partition {partition} ends at {tail}, so nothing can be appended at {at}{}", found_there(found.as_ref()))]
    Conflict {
        /// The partition.
        partition: Partition,
        /// Where the append was to go.
        at: PartitionOffset,
        /// Where it would have to go.
        tail: PartitionOffset,
        /// The append that the entry at `at` came with, if there is one.
        found: Option<AppendId>,
    },
    /// Too much waits to be written already.
    #[error("the log's queue is full: {queued_bytes} bytes wait; try again after a moment")]
    QueueFull {
        /// Bytes that wait.
        queued_bytes: usize,
    },
    /// Larger than an append may be.
    #[error("an append may have {max} bytes, this one has {found}: send less at once")]
    TooLarge {
        /// How much is allowed.
        max: usize,
        /// How much it was.
        found: usize,
    },
    /// Less space is left than the threshold that keeps the disk from filling up.
    #[error(
        "{free_bytes} bytes are free on the log's disk, and {needed_bytes} must stay free (free_bytes_min): make room"
    )]
    DiskNearlyFull {
        /// What is free.
        free_bytes: u64,
        /// What has to stay free.
        needed_bytes: u64,
    },
    /// The storage underneath refused, for this reason. The log takes appends again when it no longer does.
    #[error("the log is unavailable: {0}")]
    Unavailable(String),
    /// The call itself is wrong.
    #[error("{0}")]
    Invalid(&'static str),
    /// The log takes no appends any more; what it covered by a failed sync is not trusted. Open it again.
    #[error("the log has stopped: {0}")]
    Stopped(String),
    /// It has been closed.
    #[error("the log is closed")]
    Closed,
    /// It may be written and it may not. Take the partition again, read at `at`, and compare append ids.
    #[error("the append at {at} of partition {partition} is in doubt: {reason}")]
    InDoubt {
        /// The partition.
        partition: Partition,
        /// Where the append was to go.
        at: PartitionOffset,
        /// What happened.
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
