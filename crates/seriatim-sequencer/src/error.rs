//! The errors, one enum per operation.

use seriatim_storage::{EntryMark, EntryTooLarge, Held, LogError, StoreError};
use seriatim_types::{ErrorKind, Number, PartitionOffset, SequenceId, WorkspaceId, WorkspaceKind};

use crate::{FoldError, Sealed};

/// What is wrong with a stored value. A damaged value is never treated as a missing one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadValue {
    /// The value has fewer bytes than any valid value.
    #[error("it has {found} bytes, which is not a valid length")]
    Short {
        /// How many bytes there are.
        found: usize,
    },
    /// The checksum does not match the bytes.
    #[error("its checksum does not match")]
    Checksum,
    /// A newer Seriatim wrote it.
    #[error("it has version {found}, and this program reads versions up to {known}: use a newer program")]
    Newer {
        /// The version of the value.
        found: u8,
        /// The newest version that this program reads.
        known: u8,
    },
    /// A field has a value that it cannot have.
    #[error("it has no valid {0}")]
    Field(&'static str),
}

/// Why a sequencer has stopped. An operator has to fix the cause; then it can be opened again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StopReason {
    /// The checkpoint is after the end of the log: the log has lost events.
    #[error(
        "the checkpoint is {checkpoint}, and the log ends at {tail}: the log has lost events; run `seriatim doctor`"
    )]
    CheckpointBeyondTail {
        /// The checkpoint.
        checkpoint: PartitionOffset,
        /// The end of the log.
        tail: PartitionOffset,
    },
    /// The log has another entry before the checkpoint than the one from which the store was derived: the log was cut back and
    /// continued.
    #[error(
        "the checkpoint is {checkpoint} and follows the entry of {expected}, and the log has there {}: the log has lost events; run `seriatim doctor`",
        found.map_or_else(|| "no entry".to_owned(), |found| format!("the entry of {found}"))
    )]
    LogRewound {
        /// The checkpoint.
        checkpoint: PartitionOffset,
        /// The entry before the checkpoint, when the store was derived.
        expected: EntryMark,
        /// The entry before the checkpoint, as the log has it.
        found: Option<EntryMark>,
    },
    /// A stored value includes an event that the log does not have.
    #[error(
        "the numbers of workspace {workspace} include event {folded}, and the log ends at {tail}: the log has lost events; run `seriatim doctor`"
    )]
    FoldedBeyondTail {
        /// The workspace.
        workspace: WorkspaceId,
        /// The last event that is included.
        folded: PartitionOffset,
        /// The end of the log.
        tail: PartitionOffset,
    },
    /// The log ends before the tail that taking the partition returned.
    #[error(
        "the log has no entry at {at}, and its tail was {tail} when it was taken: the log has lost events; run `seriatim doctor`"
    )]
    LogEndsEarly {
        /// The offset without an entry.
        at: PartitionOffset,
        /// The expected end.
        tail: PartitionOffset,
    },
    /// An event does not follow the ones before it.
    #[error(transparent)]
    Fold(#[from] FoldError),
    /// The stored numbers of a workspace are damaged.
    #[error("the stored numbers of workspace {workspace} are damaged: {problem}")]
    BadNumbers {
        /// The workspace.
        workspace: WorkspaceId,
        /// What is wrong.
        problem: BadValue,
    },
    /// The stored checkpoint is damaged.
    #[error("the stored checkpoint cannot be read: {0}")]
    BadCheckpoint(BadValue),
    /// The log does not work.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The store does not work.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Another owner has taken the partition over. This is not a fault: use the other owner.
    #[error("another owner has taken over: {}", .0.take.holder)]
    Deposed(Held),
    /// The log may have events of a later definition than the one that this program has. Numbers that it would not count could be
    /// given out again.
    #[error(
        "application {0} has a later definition than the one that this program has: restart it with the later definition"
    )]
    LaterDefinition(String),
    /// Whether the definition is still the accepted one cannot be said at present.
    #[error("it is not known whether the definition is still the accepted one: {0}")]
    UnknownDefinition(String),
    /// A task of the sequencer has panicked.
    #[error("defect in the sequencer: {0}")]
    Internal(String),
}

impl StopReason {
    /// What the caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Log(error) => error.kind(),
            Self::Store(error) => error.kind(),
            Self::Deposed(_) | Self::UnknownDefinition(_) => ErrorKind::Unavailable,
            Self::LaterDefinition(_) => ErrorKind::Conflict,
            Self::Internal(_) => ErrorKind::Internal,
            Self::CheckpointBeyondTail { .. }
            | Self::LogRewound { .. }
            | Self::FoldedBeyondTail { .. }
            | Self::LogEndsEarly { .. }
            | Self::Fold(_)
            | Self::BadNumbers { .. }
            | Self::BadCheckpoint(_) => ErrorKind::Corrupt,
        }
    }

    /// Whether the cause may go away: then a recovery waits and tries again instead of stopping.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        !matches!(self, Self::Deposed(_))
            && matches!(self.kind(), ErrorKind::Unavailable | ErrorKind::InDoubt | ErrorKind::Busy)
    }
}

/// Why no group can be opened, or no workspace loaded, at present.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Busy {
    /// The numbers are being derived from the log again.
    #[error("the sequencer is recovering: try again after a short time")]
    Recovering,
    /// Too many values wait to be flushed, or the checkpoint is too far before the end of the log.
    #[error(
        "{unflushed} workspaces wait to be flushed, and the log is {events} events and {bytes} bytes ahead of the \
         checkpoint: try again after a short time"
    )]
    Backlogged {
        /// Workspaces whose numbers are not in the store yet.
        unflushed: usize,
        /// Events between the checkpoint and the end of the log.
        events: u64,
        /// Their bytes.
        bytes: u64,
    },
    /// The outcome of a sealed group is not known yet.
    #[error("a sealed group has no outcome yet: commit, discard or settle it first")]
    Sealed,
    /// A sealed group was dropped without an outcome.
    #[error("a sealed group was dropped without an outcome: take the partition again and recover")]
    InDoubt,
    /// Recovery was not possible.
    #[error("the sequencer has stopped: {0}")]
    Stopped(StopReason),
}

impl Busy {
    /// What the caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Recovering | Self::Backlogged { .. } | Self::Sealed => ErrorKind::Busy,
            Self::InDoubt => ErrorKind::InDoubt,
            Self::Stopped(reason) => reason.kind(),
        }
    }

    /// The reason in one word, for metrics.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Recovering => "recovering",
            Self::Backlogged { .. } => "backlogged",
            Self::Sealed => "sealed",
            Self::InDoubt => "in_doubt",
            Self::Stopped(_) => "stopped",
        }
    }
}

/// Why a workspace could not be loaded. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The sequencer is busy at present.
    #[error(transparent)]
    Busy(#[from] Busy),
    /// The definition does not have this kind.
    #[error("kind {kind} of workspace {workspace} is not defined: add it to the definition")]
    UnknownKind {
        /// The workspace.
        workspace: WorkspaceId,
        /// The requested kind.
        kind: WorkspaceKind,
    },
    /// By its events, the workspace has another kind.
    #[error("workspace {workspace} has kind {found}, and kind {asked} was requested")]
    KindMismatch {
        /// The workspace.
        workspace: WorkspaceId,
        /// The kind of the workspace.
        found: WorkspaceKind,
        /// The requested kind.
        asked: WorkspaceKind,
    },
    /// The stored numbers contradict the log.
    #[error(transparent)]
    Corrupt(StopReason),
    /// The store could not be read.
    #[error("the numbers of workspace {workspace} could not be read: {error}")]
    Store {
        /// The workspace.
        workspace: WorkspaceId,
        /// The error of the store.
        error: StoreError,
    },
}

impl LoadError {
    /// What the caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Busy(busy) => busy.kind(),
            Self::UnknownKind { .. } => ErrorKind::Invalid,
            Self::KindMismatch { .. } => ErrorKind::Conflict,
            Self::Corrupt(_) => ErrorKind::Corrupt,
            Self::Store { error, .. } => error.kind(),
        }
    }
}

/// The workspace was loaded before the last recovery, or by another sequencer: load it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("workspace {workspace} was loaded before the last recovery: load it again")]
pub struct Stale {
    /// The workspace.
    pub workspace: WorkspaceId,
}

impl Stale {
    /// What the caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::Busy
    }
}

/// Why no number was drawn, or no sequence raised. The transaction is unchanged and can continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DrawError {
    /// The workspace's kind does not have the sequence.
    #[error("workspaces of kind {kind} have no sequence {sequence}")]
    UnknownSequence {
        /// The kind.
        kind: WorkspaceKind,
        /// The sequence.
        sequence: SequenceId,
    },
    /// All ranges are used up.
    #[error("sequence {sequence} has no more numbers: widen its ranges")]
    Exhausted {
        /// The sequence.
        sequence: SequenceId,
    },
    /// A sequence can only be raised to a later number.
    #[error("the next number of sequence {sequence} is {next}, so it cannot be raised to {asked}")]
    Backwards {
        /// The sequence.
        sequence: SequenceId,
        /// Its next number.
        next: Number,
        /// The requested number.
        asked: Number,
    },
    /// A sequence can only be raised to a number in its ranges.
    #[error("{asked} is outside the ranges of sequence {sequence}")]
    OutOfRange {
        /// The sequence.
        sequence: SequenceId,
        /// The requested number.
        asked: Number,
    },
}

impl DrawError {
    /// What the caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::UnknownSequence { .. } | Self::Backwards { .. } | Self::OutOfRange { .. } => {
                ErrorKind::Invalid
            }
            Self::Exhausted { .. } => ErrorKind::Exhausted,
        }
    }
}

/// Why a transaction was not staged. The transaction is dropped, and none of its numbers was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StageError {
    /// The event, or the group with it, would exceed a limit.
    #[error(transparent)]
    TooLarge(#[from] EntryTooLarge),
    /// There are no more offsets.
    #[error("no offset is left after this event")]
    Exhausted,
}

impl StageError {
    /// What the caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::TooLarge(_) => ErrorKind::TooLarge,
            Self::Exhausted => ErrorKind::Exhausted,
        }
    }
}

/// A receipt or a group that does not belong to this sequencer. Nothing was changed; the group is returned.
#[derive(Debug, thiserror::Error)]
#[error("{problem}")]
pub struct CommitError<V = ()> {
    /// The unchanged group.
    pub sealed: Sealed<V>,
    /// What does not match.
    pub problem: Mismatch,
}

impl<V> CommitError<V> {
    /// What the caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::Invalid
    }
}

/// What does not match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// The group was sealed by another sequencer, or before a recovery.
    #[error("the group was sealed by another sequencer or before a recovery")]
    Group,
    /// The receipt was made by another log.
    #[error("the receipt was made by another log")]
    Log,
    /// The receipt is for another partition.
    #[error("the receipt is for another partition")]
    Partition,
    /// The receipt is for other offsets.
    #[error("the receipt is for other offsets")]
    Range,
    /// The receipt is for another append.
    #[error("the receipt is for another append")]
    Append,
}

/// Why the outcome of a group could not be determined. The group is returned: settle it again.
#[derive(Debug, thiserror::Error)]
#[error("the group at {} is still in doubt: {error}", sealed.at())]
pub struct SettleError<V = ()> {
    /// The unchanged group.
    pub sealed: Sealed<V>,
    /// What went wrong.
    pub error: SettleProblem,
}

impl<V> SettleError<V> {
    /// What the caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match &self.error {
            SettleProblem::Log(_) => ErrorKind::InDoubt,
            SettleProblem::Mismatch(_) => ErrorKind::Invalid,
        }
    }
}

/// Why a group could not be settled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettleProblem {
    /// The log could not be taken or read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The group or the log does not belong to this sequencer.
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
}
