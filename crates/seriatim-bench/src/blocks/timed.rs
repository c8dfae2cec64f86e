//! A block store that measures its writes.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use seriatim_blocks::{Block, BlockStore, BlockStoreError, Demand, LastBlock, StoredBlocks};
use seriatim_types::Number;
use seriatim_types::sync::Mutex;

/// Measures how long each durable write of a block takes.
#[derive(Debug)]
pub(super) struct TimedBlocks {
    blocks: StoredBlocks,
    times: Mutex<Vec<Duration>>,
}

impl TimedBlocks {
    pub(super) fn new(blocks: StoredBlocks) -> Self {
        Self { blocks, times: Mutex::default() }
    }

    /// The durations of the writes since the last call.
    pub(super) fn times(&self) -> Vec<Duration> {
        std::mem::take(&mut *self.times.lock())
    }
}

#[async_trait]
impl BlockStore for TimedBlocks {
    fn first(&self) -> Number {
        self.blocks.first()
    }

    async fn last(&self) -> Result<Option<LastBlock>, BlockStoreError> {
        self.blocks.last().await
    }

    async fn reserve(&self, demand: Demand) -> Result<Block, BlockStoreError> {
        let started = Instant::now();
        let block = self.blocks.reserve(demand).await?;
        self.times.lock().push(started.elapsed());
        Ok(block)
    }

    async fn release(&self, tail: Block) -> Result<bool, BlockStoreError> {
        self.blocks.release(tail).await
    }
}
