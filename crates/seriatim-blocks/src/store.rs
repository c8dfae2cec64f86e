//! The store that blocks are reserved in.

use std::fmt;

use async_trait::async_trait;
use seriatim_types::Number;

use crate::{Block, BlockStoreError};

/// How large a block should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Demand {
    /// The block must have this many numbers.
    pub min: u64,
    /// The block should have this many numbers, if that is more and they are left.
    pub want: u64,
    /// How many numbers the caller has reserved and not given out. Stored with the block, so that after a crash the
    /// next writer can say how many were wasted at most.
    pub unused: u64,
}

/// The last block of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastBlock {
    /// The block. Every number before its end is taken.
    pub block: Block,
    /// How many of the numbers before its end its writer may never have given out.
    pub unused: u64,
}

/// A durable block sequence. Reserved blocks never overlap, however many processes reserve.
#[async_trait]
pub trait BlockStore: Send + Sync + fmt::Debug + 'static {
    /// The first number of the first block.
    fn first(&self) -> Number;

    /// Reads the last block that any process reserved; `None` if there is none.
    async fn last(&self) -> Result<Option<LastBlock>, BlockStoreError>;

    /// Reserves a block after the last one. It is durable before this returns, and overlaps no other block.
    ///
    /// After any error the caller has no block. If the write was in doubt, the next call determines its outcome before it
    /// reserves anything, and returns the same numbers if they were reserved. A dropped future is in doubt too.
    async fn reserve(&self, demand: Demand) -> Result<Block, BlockStoreError>;

    /// Gives back `tail`, the end of what was reserved here, unless another process has reserved after it. Returns `true`
    /// if it was given back and `false` if it stays taken. The caller must not have given out any of its numbers, and must
    /// not do so afterwards, whatever the answer is.
    async fn release(&self, tail: Block) -> Result<bool, BlockStoreError>;

    /// How many numbers may have been reserved here and lost, because an answer was lost and another process had reserved
    /// after them before they could be found.
    fn lost_max(&self) -> u64 {
        0
    }
}
