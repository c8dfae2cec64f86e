//! Errors.

use std::sync::Arc;

use seriatim_types::{ErrorKind, Number};

use crate::options::ALLOCATE_MAX;

/// Why a [`BlockStore`](crate::BlockStore) did not reserve or give back. Nothing was reserved or given back, unless the
/// error is `InDoubt`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BlockStoreError {
    /// The storage below does not work. An operator has to fix the cause.
    #[error("the blocks of {key} are unavailable: {reason}")]
    Unavailable {
        /// The key of the blocks.
        key: String,
        /// The error of the storage.
        reason: String,
    },
    /// The write may have been done or not, and reading the value did not show which. The next call determines it first.
    #[error("a write to the blocks of {key} is in doubt: {reason}")]
    InDoubt {
        /// The key of the blocks.
        key: String,
        /// The error of the storage.
        reason: String,
    },
    /// The stored value is not a block, or an older one than before. It is never treated as a missing value.
    #[error("the blocks of {key} are damaged: {reason}")]
    Corrupt {
        /// The key of the blocks.
        key: String,
        /// What is wrong.
        reason: String,
    },
    /// Fewer numbers are left than were requested.
    #[error(
        "{min} consecutive numbers were requested, and {left} are left after the last block of {key}: widen the range"
    )]
    Exhausted {
        /// The key of the blocks.
        key: String,
        /// How many numbers were needed.
        min: u64,
        /// How many numbers are left that are in no block.
        left: u64,
    },
    /// Other writers were faster in every attempt.
    #[error(
        "no block of {key} could be reserved in {attempts} attempts, because other writers were faster: try again"
    )]
    Contended {
        /// The key of the blocks.
        key: String,
        /// The number of attempts.
        attempts: u32,
    },
    /// The storage has been closed.
    #[error("the store with the blocks of {key} is closed: open it again")]
    Closed {
        /// The key of the blocks.
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

/// Why no numbers were allocated. The caller got no number, and none was taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AllocateError {
    /// 0 numbers were requested.
    #[error("0 numbers were requested: request 1 or more")]
    Zero,
    /// More numbers were requested than one call may take.
    #[error(
        "{asked} numbers were requested, and one call takes at most {max}: request fewer in one call",
        max = ALLOCATE_MAX
    )]
    TooMany {
        /// How many were requested.
        asked: u64,
    },
    /// So many consecutive numbers are not left.
    #[error(
        "{asked} consecutive numbers were requested, and at most {left} are left: request fewer or widen the range"
    )]
    Exhausted {
        /// How many were requested.
        asked: u64,
        /// How many were left.
        left: u64,
    },
    /// No block could be reserved. All callers that waited for it get the same error.
    #[error(transparent)]
    Store(Arc<BlockStoreError>),
    /// The allocator has been closed. Open it again.
    #[error("the allocator is closed: open it again")]
    Closed,
}

impl AllocateError {
    /// Refuses a count that no call may request.
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
                // The block is in doubt, and none of its numbers was given out. It is certain that the caller has no number.
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
    /// The block size is 0.
    #[error("a block of size 0 has no numbers: choose a size of 1 or more")]
    ZeroSize,
    /// The smallest size is greater than the largest one.
    #[error("the smallest block size is {min}, and the largest is {max}: exchange them")]
    SizesReversed {
        /// The lower bound.
        min: u64,
        /// The upper bound.
        max: u64,
    },
    /// No writes are allowed for a size that follows the rate.
    #[error("with 0 writes per second no block can be reserved: choose 1 or more")]
    ZeroWrites,
    /// The first number is greater than the last one.
    #[error("the first number is {first}, and the last is {last}: exchange them")]
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
