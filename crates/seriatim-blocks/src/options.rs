//! Options of an allocator.

use std::time::Duration;

use crate::BlockOptionsError;

/// The default block size: 4,096 numbers. A million numbers take 245 writes, and a crash wastes few.
pub const DEFAULT_BLOCK_SIZE: u64 = 4_096;

/// How many numbers one call can take. A mistyped count must not use up a sequence: of the 2^53 numbers that JSON can
/// represent, one call takes a two-millionth. No program needs more consecutive numbers.
pub const ALLOCATE_MAX: u64 = 1 << 32;

/// How many numbers a block has. A request for more gets a block of its own size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockSize {
    /// Always this many.
    Fixed(u64),
    /// The size follows the rate of use, so that there are at most a given number of durable writes per second, between two
    /// bounds. The upper bound has priority: callers never wait in order to save writes. From `min` it takes a few blocks
    /// to reach the right size.
    Follow {
        /// The largest number of writes per second.
        writes_per_second: u32,
        /// The smallest block, which is also the first.
        min: u64,
        /// The largest block.
        max: u64,
    },
}

impl Default for BlockSize {
    fn default() -> Self {
        Self::Fixed(DEFAULT_BLOCK_SIZE)
    }
}

impl BlockSize {
    pub(crate) fn check(self) -> Result<(), BlockOptionsError> {
        match self {
            Self::Fixed(0) | Self::Follow { min: 0, .. } => Err(BlockOptionsError::ZeroSize),
            Self::Follow { min, max, .. } if max < min => Err(BlockOptionsError::SizesReversed { min, max }),
            Self::Follow { writes_per_second: 0, .. } => Err(BlockOptionsError::ZeroWrites),
            Self::Fixed(_) | Self::Follow { .. } => Ok(()),
        }
    }

    pub(crate) fn smallest(self) -> u64 {
        match self {
            Self::Fixed(size) => size,
            Self::Follow { min, .. } => min,
        }
    }
}

/// Options of a [`BlockAllocator`](crate::BlockAllocator).
///
/// ```
/// use seriatim_blocks::{BlockOptions, BlockSize};
///
/// let options = BlockOptions {
///     name: "orders".to_owned(),
///     size: BlockSize::Follow { writes_per_second: 10, min: 64, max: 1 << 20 },
///     ..BlockOptions::default()
/// };
/// # let _ = options;
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockOptions {
    /// The allocator's name in metrics and log lines.
    pub name: String,
    /// How many numbers a block has.
    pub size: BlockSize,
    /// The pause after a failed reservation, if no caller waits for a block. It is doubled each time, up to
    /// [`BlockOptions::retry_max`]. A caller that needs a block does not wait for it.
    pub retry_first: Duration,
    /// The longest pause.
    pub retry_max: Duration,
}

impl Default for BlockOptions {
    fn default() -> Self {
        Self {
            name: "default".to_owned(),
            size: BlockSize::default(),
            retry_first: Duration::from_millis(100),
            retry_max: Duration::from_secs(5),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_size_of_zero_is_refused() {
        let follow = |writes_per_second, min, max| BlockSize::Follow { writes_per_second, min, max };
        for (size, expected) in [
            (BlockSize::Fixed(0), Err(BlockOptionsError::ZeroSize)),
            (BlockSize::Fixed(1), Ok(())),
            (follow(1, 0, 9), Err(BlockOptionsError::ZeroSize)),
            (follow(1, 9, 8), Err(BlockOptionsError::SizesReversed { min: 9, max: 8 })),
            (follow(0, 9, 9), Err(BlockOptionsError::ZeroWrites)),
            (follow(1, 9, 9), Ok(())),
        ] {
            assert_eq!(size.check(), expected, "{size:?}");
        }
        assert_eq!(BlockSize::default(), BlockSize::Fixed(4_096));
    }
}
