//! What can go wrong, one enum per operation.

use seriatim_storage::{EntryTooLarge, LogError, StoreError};
use seriatim_types::{ErrorKind, Number, PartitionOffset, SequenceId, WorkspaceId, WorkspaceKind};

use crate::{FoldError, Sealed};

/// What is wrong with a stored value. It is never read as "nothing there".
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadValue {
    /// There are fewer bytes than the shortest value has.
    #[error("{found} bytes are too few or too many")]
    Short {
        /// Bytes that there are.
        found: usize,
    },
    /// The checksum does not fit the bytes.
    #[error("its checksum does not fit")]
    Checksum,
    /// A newer Seriatim wrote it.
    #[error("it has version {found}, and this program reads up to {known}: use a newer one")]
    Newer {
        /// The version that it has.
        found: u8,
        /// The newest version that this program knows.
        known: u8,
    },
    /// A field has a value that it cannot have.
    #[error("it has no valid {0}")]
    Field(&'static str),
}

/// Why a sequencer has stopped for good: somebody has to look, and to open it again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StopReason {
    /// The checkpoint is beyond the end of the log: the log has lost something.
    #[error("the checkpoint is {checkpoint}, and the log ends at {tail}: the log has lost events")]
    CheckpointBeyondTail {
        /// The checkpoint.
        checkpoint: PartitionOffset,
        /// The end of the log.
        tail: PartitionOffset,
    },
    /// A stored value has seen an event that the log does not have.
    #[error(
        "workspace {workspace} has seen event {folded}, and the log ends at {tail}: the log has lost events"
    )]
    FoldedBeyondTail {
        /// The workspace.
        workspace: WorkspaceId,
        /// The event folded in last.
        folded: PartitionOffset,
        /// The end of the log.
        tail: PartitionOffset,
    },
    /// The log ends before the place that taking it named.
    #[error("the log gives nothing at {at}, and taking it said that it ends at {tail}")]
    LogEndsEarly {
        /// Where nothing was found.
        at: PartitionOffset,
        /// Where it should end.
        tail: PartitionOffset,
    },
    /// An event that cannot follow those before it.
    #[error(transparent)]
    Fold(#[from] FoldError),
    /// The numbers of a workspace cannot be read.
    #[error("the stored numbers of workspace {workspace} are damaged: {problem}")]
    BadNumbers {
        /// The workspace.
        workspace: WorkspaceId,
        /// What is wrong.
        problem: BadValue,
    },
    /// The checkpoint cannot be read.
    #[error("the stored checkpoint cannot be read: {0}")]
    BadCheckpoint(BadValue),
    /// The log does not work any more.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The store does not work any more.
    #[error(transparent)]
    Store(#[from] StoreError),
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
            Self::Internal(_) => ErrorKind::Internal,
            Self::CheckpointBeyondTail { .. }
            | Self::FoldedBeyondTail { .. }
            | Self::LogEndsEarly { .. }
            | Self::Fold(_)
            | Self::BadNumbers { .. }
            | Self::BadCheckpoint(_) => ErrorKind::Corrupt,
        }
    }

    /// Whether storage may work again: a recovery waits and tries once more instead of stopping.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        matches!(self.kind(), ErrorKind::Unavailable | ErrorKind::InDoubt | ErrorKind::Busy)
    }
}

/// Why no group can be opened, or no workspace loaded, just now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Busy {
    /// The numbers are being made to agree with the log.
    #[error("the sequencer is recovering: try again after a moment")]
    Recovering,
    /// Too much waits to be flushed, or the log is too far ahead of the checkpoint.
    #[error(
        "{unflushed} workspaces wait to be flushed, and the log is {events} events and {bytes} bytes ahead of the \
         checkpoint: try again after a moment"
    )]
    Backlogged {
        /// Workspaces whose numbers are not in the store yet.
        unflushed: usize,
        /// Events between the checkpoint and the end of the log.
        events: u64,
        /// Their bytes.
        bytes: u64,
    },
    /// A sealed group has no outcome yet.
    #[error("a sealed group has no outcome yet: commit, discard or settle it first")]
    Sealed,
    /// A sealed group was dropped without an outcome.
    #[error("a sealed group was dropped without an outcome: take the partition again and recover")]
    InDoubt,
    /// Recovery has found something that it cannot go on from.
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

    /// Why, in one word, for metrics.
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
    /// Not just now.
    #[error(transparent)]
    Busy(#[from] Busy),
    /// The definition does not have this kind.
    #[error("kind {kind} of workspace {workspace} is not defined")]
    UnknownKind {
        /// The workspace.
        workspace: WorkspaceId,
        /// The kind asked for.
        kind: WorkspaceKind,
    },
    /// The workspace's events say that it has another kind.
    #[error("workspace {workspace} has kind {found}, not {asked}")]
    KindMismatch {
        /// The workspace.
        workspace: WorkspaceId,
        /// The kind that it has.
        found: WorkspaceKind,
        /// The kind asked for.
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
        /// What the store said.
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

/// Why no number was drawn, or no sequence raised. The transaction goes on as if it had not been asked.
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
    /// The last range is used up.
    #[error("sequence {sequence} has no more numbers: widen its ranges")]
    Exhausted {
        /// The sequence.
        sequence: SequenceId,
    },
    /// A sequence cannot be raised to where it has been.
    #[error("sequence {sequence} stands at {next}, so it cannot be raised to {asked}")]
    Backwards {
        /// The sequence.
        sequence: SequenceId,
        /// Where it stands.
        next: Number,
        /// Where it was to go.
        asked: Number,
    },
    /// A sequence can be raised into its ranges only.
    #[error("{asked} is outside the ranges of sequence {sequence}")]
    OutOfRange {
        /// The sequence.
        sequence: SequenceId,
        /// Where it was to go.
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

/// Why a transaction was not staged. It is dropped, and has used no number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StageError {
    /// The event, or the group with it, would pass a limit.
    #[error(transparent)]
    TooLarge(#[from] EntryTooLarge),
    /// There are no more offsets.
    #[error("the offsets end here")]
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

/// A receipt, or a group, that does not belong here. Nothing was changed; the group comes back.
#[derive(Debug, thiserror::Error)]
#[error("{problem}")]
pub struct CommitError<V = ()> {
    /// The group, as it was.
    pub sealed: Sealed<V>,
    /// What does not fit.
    pub problem: Mismatch,
}

impl<V> CommitError<V> {
    /// What the caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::Invalid
    }
}

/// What does not fit.
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

/// Why the outcome of a group could not be found out. The group comes back: settle it again.
#[derive(Debug, thiserror::Error)]
#[error("the group at {} is still in doubt: {error}", sealed.at())]
pub struct SettleError<V = ()> {
    /// The group, as it was.
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

/// What kept a group from being settled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettleProblem {
    /// The log could not be asked.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The group or the log does not belong here.
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
}
