//! Blocks in cells, reserved by compare-and-swap.

#[cfg(test)]
mod release_tests;
#[cfg(test)]
mod reserve_tests;
#[cfg(test)]
mod test_world;
mod writer_state;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use seriatim_env::Env;
use seriatim_storage::{Cells, StoreError};
use seriatim_types::Number;
use tokio::sync::Mutex;

use crate::stored_block::{ReservationId, StoredBlock};
use crate::{Block, BlockKey, BlockStore, BlockStoreError, Demand, LastBlock, NumberRange};
use writer_state::WriterState;

/// How many attempts a reservation makes. In each failed attempt another writer got a block; with the pauses this takes
/// seconds.
const ATTEMPTS_MAX: u32 = 64;
/// How many attempts are made without a pause.
const ATTEMPTS_AT_ONCE: u32 = 3;
const PAUSE_FIRST: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(64);

/// A block sequence in one of the [`Cells`]. Any number of processes may share the key: each reservation is one
/// compare-and-swap, so blocks never overlap.
///
/// ```
/// use seriatim_blocks::{BlockKey, BlockStore, Demand, NumberRange, StoredBlocks};
/// use seriatim_storage::{Cells, memory::MemoryCells};
///
/// # seriatim_env::simulate(1, |env| async move {
/// let cells = Cells::new(MemoryCells::new());
/// let key = BlockKey::new(b"ids", b"orders");
/// let here = StoredBlocks::new(env.clone(), cells.clone(), key.clone(), NumberRange::default());
/// let there = StoredBlocks::new(env, cells, key, NumberRange::default());
///
/// let demand = Demand { min: 1, want: 100, unused: 0 };
/// assert_eq!(here.reserve(demand).await?.to_string(), "[0, 100)");
/// assert_eq!(there.reserve(demand).await?.to_string(), "[100, 200)");
/// # Ok::<(), seriatim_blocks::BlockStoreError>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct StoredBlocks {
    env: Env,
    cells: Cells,
    key: BlockKey,
    range: NumberRange,
    adopt_bare: bool,
    /// Held during a reservation, so that there is one at a time. A cancelled reservation stays in doubt, and the next call
    /// determines its outcome.
    writer: Mutex<WriterState>,
    lost_max: AtomicU64,
}

/// A value and its bytes, which the next compare-and-swap has to expect.
#[derive(Debug, Clone)]
struct ReadValue {
    stored: StoredBlock,
    bytes: Bytes,
}

impl StoredBlocks {
    /// The blocks under this key. Reads and writes nothing yet.
    #[must_use]
    pub fn new(env: Env, cells: Cells, key: BlockKey, range: NumberRange) -> Self {
        Self {
            env,
            cells,
            key,
            range,
            adopt_bare: false,
            writer: Mutex::default(),
            lost_max: AtomicU64::new(0),
        }
    }

    /// Accepts a bare block of 16 bytes, as RFC 0002 of OpenData stores it, and continues after it. Such a value has no
    /// checksum, so use this only for a key that is known to have one. The first reservation replaces it. The program that
    /// wrote it must no longer run, because it would overwrite newer values.
    #[must_use]
    pub fn adopting_bare(mut self) -> Self {
        self.adopt_bare = true;
        self
    }

    async fn read(&self) -> Result<Option<ReadValue>, BlockStoreError> {
        let bytes = self.cells.get(self.key.as_key()).await;
        let Some(bytes) = bytes.map_err(|error| self.error(error))? else {
            return Ok(None);
        };
        let stored = match bytes.len() {
            Block::BYTES if self.adopt_bare => StoredBlock::adopt(&bytes),
            _ => StoredBlock::decode(&bytes),
        };
        let stored = stored.map_err(|error| self.corrupt(error.to_string()))?;
        Ok(Some(ReadValue { stored, bytes }))
    }

    async fn swap(&self, expected: Option<&ReadValue>, value: Option<&[u8]>) -> Result<bool, StoreError> {
        let key = self.key.as_key();
        match (expected, value) {
            (None, None) => Ok(true),
            (None, Some(value)) => self.cells.insert_if_absent(key, value).await,
            (Some(read), Some(value)) => self.cells.compare_and_swap(key, &read.bytes, value).await,
            (Some(read), None) => self.cells.compare_and_delete(key, &read.bytes).await,
        }
    }

    fn value(&self, block: Block, unused: u64) -> StoredBlock {
        let id = ReservationId(self.env.random());
        StoredBlock { block, id, unused }
    }

    async fn pause(&self, attempt: u32) {
        if let Some(doublings) = attempt.checked_sub(ATTEMPTS_AT_ONCE) {
            let pause = PAUSE_FIRST * 2_u32.saturating_pow(doublings.min(16));
            self.env.sleep(self.env.jitter(pause.min(PAUSE_MAX))).await;
        }
    }

    fn error(&self, error: StoreError) -> BlockStoreError {
        let key = self.key.to_string();
        match error {
            StoreError::InDoubt(reason) => BlockStoreError::InDoubt { key, reason },
            StoreError::Corrupt(reason) => BlockStoreError::Corrupt { key, reason },
            StoreError::Closed => BlockStoreError::Closed { key },
            StoreError::Newer { .. } => self.corrupt(error.to_string()),
            StoreError::Unavailable(reason) => BlockStoreError::Unavailable { key, reason },
            StoreError::TooLarge { .. } | StoreError::DiskNearlyFull { .. } => {
                BlockStoreError::Unavailable { key, reason: error.to_string() }
            }
        }
    }

    fn corrupt(&self, reason: String) -> BlockStoreError {
        let key = self.key.to_string();
        BlockStoreError::Corrupt { key, reason }
    }
}

#[async_trait]
impl BlockStore for StoredBlocks {
    fn first(&self) -> Number {
        self.range.first()
    }

    async fn last(&self) -> Result<Option<LastBlock>, BlockStoreError> {
        let read = self.read().await?;
        Ok(read.map(|ReadValue { stored, .. }| LastBlock { block: stored.block, unused: stored.unused }))
    }

    async fn reserve(&self, demand: Demand) -> Result<Block, BlockStoreError> {
        let mut writer = self.writer.lock().await;
        for attempt in 0..ATTEMPTS_MAX {
            self.pause(attempt).await;
            let read = match writer.take_read() {
                Some(read) => read,
                None => self.read().await?,
            };
            writer.check(read.as_ref(), self.range).map_err(|reason| self.corrupt(reason))?;
            let mine = writer.settle(read.as_ref());
            if let Some(mine) = mine.filter(|mine| mine.block.size() >= demand.min) {
                self.count_lost(writer.own(mine));
                return Ok(mine.block);
            }
            // A block of this writer of which no number was given out yet is replaced as a whole.
            let taken = mine.map(|mine| mine.block.base());
            let taken = taken.or_else(|| read.as_ref().map(|read| read.stored.block.end()));
            let block = self.range.next_block(taken, demand);
            let block = block.map_err(|left| left.into_error(self.key.to_string(), demand.min))?;
            let value = self.value(block, demand.unused.saturating_add(block.size()));
            writer.doubt(value);
            match self.swap(read.as_ref(), Some(&value.encode())).await {
                Ok(true) => {
                    self.count_lost(writer.own(value));
                    return Ok(block);
                }
                Ok(false) => writer.refuse(value.id),
                // Read the value in the next attempt to find out.
                Err(StoreError::InDoubt(_)) => {}
                Err(error) => return Err(self.error(error)),
            }
        }
        Err(BlockStoreError::Contended { key: self.key.to_string(), attempts: ATTEMPTS_MAX })
    }

    async fn release(&self, tail: Block) -> Result<bool, BlockStoreError> {
        let mut writer = self.writer.lock().await;
        let Some(own) = writer.release_own(tail) else {
            return Ok(false);
        };
        let bytes = Bytes::copy_from_slice(&own.encode());
        let read = ReadValue { stored: own, bytes };
        // The rest of the last block. If there is none, a block of the one number before the tail marks everything before
        // it as taken.
        let (base, end) = (own.block.base().get(), tail.base().get());
        let rest = Block::between(if base < end { base } else { end.saturating_sub(1) }, end);
        let rest = rest.filter(|_| tail.base() > self.range.first());
        let rest = rest.map(|rest| self.value(rest, 0));
        let value = rest.map(|rest| rest.encode());
        match self.swap(Some(&read), value.as_ref().map(|value| &value[..])).await {
            Ok(given_back) => Ok(given_back),
            Err(StoreError::InDoubt(_)) => {
                let now = self.read().await?;
                Ok(now.map(|now| now.stored.id) == rest.map(|rest| rest.id))
            }
            Err(error) => Err(self.error(error)),
        }
    }

    fn lost_max(&self) -> u64 {
        self.lost_max.load(Ordering::Relaxed)
    }
}

impl StoredBlocks {
    fn count_lost(&self, numbers: u64) {
        self.lost_max.fetch_add(numbers, Ordering::Relaxed);
    }
}
