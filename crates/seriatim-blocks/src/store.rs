//! Where blocks come from.

use std::fmt;

use async_trait::async_trait;
use seriatim_types::Number;

use crate::{Block, BlockStoreError};

/// How large a block should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Demand {
    /// The block must hold so many.
    pub min: u64,
    /// And should hold so many, if that is more and they are left.
    pub want: u64,
    /// How many numbers the caller holds already and has not handed out. Written beside the block, so that whoever
    /// comes after a crash can say how many were wasted at most.
    pub unused: u64,
}

/// The last block of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastBlock {
    /// The block. Every number before its end is taken.
    pub block: Block,
    /// How many of the numbers before its end its writer may never have handed out.
    pub unused: u64,
}

/// One block sequence, durable: reserves runs of numbers that never overlap, whoever else reserves from it.
#[async_trait]
pub trait BlockStore: Send + Sync + fmt::Debug + 'static {
    /// The first number of the first block.
    fn first(&self) -> Number;

    /// Reads the last block that anybody reserved; `None` if nobody has.
    async fn last(&self) -> Result<Option<LastBlock>, BlockStoreError>;

    /// Reserves a block behind the last one: durable before it returns, and never part of another block.
    ///
    /// After any error the caller has nothing. If the write was in doubt, the next call settles it before it reserves
    /// anything, and hands out the same numbers if they turn out to be reserved by it. A dropped future is in doubt too.
    async fn reserve(&self, demand: Demand) -> Result<Block, BlockStoreError>;

    /// Gives back `tail`, the end of what was reserved here, if nobody reserved after it: `true` if it was given back,
    /// `false` if it stays taken. The caller must not have handed out any of it, and must not do so afterwards,
    /// whatever the answer.
    async fn release(&self, tail: Block) -> Result<bool, BlockStoreError>;

    /// How many numbers may have been reserved here and lost since, because an answer was lost and somebody else had
    /// reserved behind them before they could be found.
    fn lost_max(&self) -> u64 {
        0
    }
}
