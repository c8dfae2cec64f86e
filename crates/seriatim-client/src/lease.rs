//! Blocks that are leased from a server.

use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use seriatim_blocks::{ALLOCATE_MAX, Block, BlockStore, BlockStoreError, Demand, LastBlock};
use seriatim_types::{ErrorKind, Number};

use crate::blocks::Blocks;
use crate::error::ClientError;

/// Blocks of a server's block sequence, for a [`BlockAllocator`](seriatim_blocks::BlockAllocator) in this process.
///
/// A block that the server has allocated is durable there and is never allocated again. It cannot be given back: the unused
/// rest of a block is wasted.
#[derive(Debug)]
pub struct LeasedBlocks {
    blocks: Blocks,
    first: Number,
    lost: AtomicU64,
}

impl LeasedBlocks {
    /// The blocks of a sequence that exists.
    ///
    /// # Errors
    ///
    /// [`BlockStoreError`] if the sequence does not exist, or the server does not answer.
    pub async fn open(blocks: Blocks) -> Result<Self, BlockStoreError> {
        let state = blocks.state().await.map_err(|error| failed(blocks.name(), 0, &error))?;
        Ok(Self { blocks, first: Number::new(state.first), lost: AtomicU64::new(0) })
    }
}

fn failed(name: &str, min: u64, error: &ClientError) -> BlockStoreError {
    let (key, reason) = (name.to_owned(), error.to_string());
    match error.kind() {
        ErrorKind::Exhausted => BlockStoreError::Exhausted { key, min, left: 0 },
        ErrorKind::InDoubt => BlockStoreError::InDoubt { key, reason },
        ErrorKind::Corrupt => BlockStoreError::Corrupt { key, reason },
        _ => BlockStoreError::Unavailable { key, reason },
    }
}

#[async_trait]
impl BlockStore for LeasedBlocks {
    fn first(&self) -> Number {
        self.first
    }

    async fn last(&self) -> Result<Option<LastBlock>, BlockStoreError> {
        let state = self.blocks.state().await.map_err(|error| failed(self.blocks.name(), 0, &error))?;
        let taken = state.next.saturating_sub(state.first);
        // Everything that the server has allocated, as one block. What the server has only reserved is not counted.
        let block = Block::new(self.first, taken).ok().filter(|block| block.size() > 0);
        Ok(block.map(|block| LastBlock { block, unused: 0 }))
    }

    async fn reserve(&self, demand: Demand) -> Result<Block, BlockStoreError> {
        let name = self.blocks.name();
        let want = demand.want.min(ALLOCATE_MAX).max(demand.min);
        let mut leased = self.blocks.allocate(want).await;
        if want > demand.min && leased.as_ref().is_err_and(|error| error.kind() == ErrorKind::Exhausted) {
            leased = self.blocks.allocate(demand.min).await;
        }
        let leased = leased.map_err(|error| {
            if error.kind() == ErrorKind::InDoubt {
                self.lost.fetch_add(want, Ordering::Relaxed);
            }
            failed(name, demand.min, &error)
        })?;
        Block::new(Number::new(leased.first), leased.count).map_err(|problem| BlockStoreError::Corrupt {
            key: name.to_owned(),
            reason: format!("the server has allocated {} from {}: {problem}", leased.count, leased.first),
        })
    }

    async fn release(&self, _tail: Block) -> Result<bool, BlockStoreError> {
        Ok(false)
    }

    fn lost_max(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}
