//! What can go wrong.

use std::sync::Arc;

use seriatim_types::{ErrorKind, Number};

use crate::options::ALLOCATE_MAX;

/// Why a [`BlockStore`](crate::BlockStore) did not do what it was asked to. Nothing was reserved or given back, unless
/// it is in doubt.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BlockStoreError {
    /// The storage underneath does not work.
    #[error("the blocks of {key} are unavailable: {reason}")]
    Unavailable {
        /// Whose blocks.
        key: String,
        /// What the storage says.
        reason: String,
    },
    /// The write may have happened and it may not, and reading it back did not tell. The next call settles it first.
    #[error("a write to the blocks of {key} is in doubt: {reason}")]
    InDoubt {
        /// Whose blocks.
        key: String,
        /// What the storage says.
        reason: String,
    },
    /// What is stored is not a block of ours, or has moved backwards. It is never taken for a fresh start.
    #[error("the blocks of {key} are damaged: {reason}")]
    Corrupt {
        /// Whose blocks.
        key: String,
        /// What is wrong.
        reason: String,
    },
    /// Fewer numbers are left than were asked for.
    #[error(
        "{min} consecutive numbers were asked for, and {left} are left behind the last block of {key}: widen the range"
    )]
    Exhausted {
        /// Whose blocks.
        key: String,
        /// How many it had to be.
        min: u64,
        /// How many are left that are in no block.
        left: u64,
    },
    /// Other writers were faster every time.
    #[error("{attempts} attempts to reserve a block of {key} lost against other writers: try again")]
    Contended {
        /// Whose blocks.
        key: String,
        /// How often it was tried.
        attempts: u32,
    },
    /// The storage has been closed.
    #[error("the store that holds the blocks of {key} is closed")]
    Closed {
        /// Whose blocks.
        key: String,
    },
}

impl BlockStoreError {
    /// What the caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Unavailable { .. } => ErrorKind::Unavailable,
            Self::InDoubt { .. } => ErrorKind::InDoubt,
            Self::Corrupt { .. } => ErrorKind::Corrupt,
            Self::Exhausted { .. } => ErrorKind::Exhausted,
            Self::Contended { .. } => ErrorKind::Busy,
            Self::Closed { .. } => ErrorKind::Closed,
        }
    }
}

/// Why no numbers were allocated. Whatever it is, the caller has none, and none was taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AllocateError {
    /// Nothing was asked for.
    #[error("0 numbers were asked for: ask for 1 or more")]
    Zero,
    /// More were asked for than one call may take.
    #[error(
        "{asked} numbers were asked for, and one call takes at most {max}: ask for fewer at a time",
        max = ALLOCATE_MAX
    )]
    TooMany {
        /// How many were asked for.
        asked: u64,
    },
    /// So many consecutive numbers are not left.
    #[error(
        "{asked} consecutive numbers were asked for, and at most {left} are left: ask for fewer or widen the range"
    )]
    Exhausted {
        /// How many were asked for.
        asked: u64,
        /// How many were left then.
        left: u64,
    },
    /// No block could be reserved. Everybody who waited for it gets the same error.
    #[error(transparent)]
    Store(Arc<BlockStoreError>),
    /// The allocator has been closed.
    #[error("the allocator is closed")]
    Closed,
}

impl AllocateError {
    /// Refuses a count that no call may ask for.
    #[inline]
    pub(crate) fn check(count: u64) -> Result<(), Self> {
        match count {
            0 => Err(Self::Zero),
            1..=ALLOCATE_MAX => Ok(()),
            asked => Err(Self::TooMany { asked }),
        }
    }

    /// What the caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Zero | Self::TooMany { .. } => ErrorKind::Invalid,
            Self::Exhausted { .. } => ErrorKind::Exhausted,
            Self::Store(error) => match **error {
                // What is in doubt is the block, which nobody has seen. The caller has no number for certain.
                BlockStoreError::InDoubt { .. } => ErrorKind::Unavailable,
                _ => error.kind(),
            },
            Self::Closed => ErrorKind::Closed,
        }
    }
}

/// Why an allocator could not be opened. Nothing was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The options cannot be used.
    #[error(transparent)]
    Options(#[from] BlockOptionsError),
    /// The last block could not be read.
    #[error(transparent)]
    Store(#[from] BlockStoreError),
}

impl OpenError {
    /// What the caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Options(error) => error.kind(),
            Self::Store(error) => error.kind(),
        }
    }
}

/// Why options cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BlockOptionsError {
    /// A block has to hold something.
    #[error("a block size of 0 holds no numbers: choose 1 or more")]
    ZeroSize,
    /// The bounds of a size that follows the rate are the wrong way round.
    #[error("the smallest block size is {min}, and the largest {max}: the smallest comes first")]
    SizesReversed {
        /// The lower bound.
        min: u64,
        /// The upper bound.
        max: u64,
    },
    /// A size that follows the rate needs some writes.
    #[error("0 writes a second allow no blocks: choose 1 or more")]
    ZeroWrites,
    /// There is nothing between the first and the last number.
    #[error("the first number is {first}, and the last {last}: the first comes first")]
    NumbersReversed {
        /// The first number.
        first: Number,
        /// The last number.
        last: Number,
    },
}

impl BlockOptionsError {
    /// What the caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::Invalid
    }
}
