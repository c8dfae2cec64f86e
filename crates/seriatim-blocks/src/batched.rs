//! Blocks for callers that write them in their own batch.

use seriatim_env::Env;
use seriatim_storage::Write;
use seriatim_types::Number;

use crate::stored_block::{ReservationId, StoredBlock};
use crate::{
    AllocateError, Block, BlockKey, BlockOptionsError, BlockStoreError, Demand, NumberRange, OpenError,
};

/// Numbers from blocks that the caller writes itself, together with other data, in one batch.
///
/// There are three steps: [`BatchedBlocks::prepare`] gives a write and a [`Claim`]; the caller makes the write durable;
/// [`Claim::confirm`] gives the numbers. No number is visible before that, so none is used that could be given out again
/// after a crash. One claim is open at a time.
///
/// The caller must be the only writer of the key, because its batch is not conditional. If several processes share a key,
/// use [`StoredBlocks`](crate::StoredBlocks). Keep blocks in a separate store: the store of a storage can be deleted,
/// because the engine derives everything in it from the log.
///
/// ```
/// use seriatim_blocks::{BatchedBlocks, BlockKey, DEFAULT_BLOCK_SIZE, NumberRange};
/// use seriatim_storage::{Batch, Durability, Key, Store, memory::MemoryStore};
///
/// # seriatim_env::simulate(1, |env| async move {
/// let store = Store::new(MemoryStore::new());
/// let last = store.get(Key::new(b"ids", b"orders")).await?;
/// let key = BlockKey::new(b"ids", b"orders");
/// let range = NumberRange::default();
/// let mut blocks = BatchedBlocks::open(env, key, last.as_deref(), range, DEFAULT_BLOCK_SIZE)?;
///
/// let (write, claim) = blocks.prepare(3)?;
/// let mut batch = Batch::new();
/// batch.put(Key::new(b"orders", b"audit"), b"three orders are coming");
/// write.into_iter().for_each(|write| batch.push(write));
/// store.write(batch, Durability::Synced).await?;
/// assert_eq!(claim.confirm().to_string(), "[0, 3)");
///
/// // The rest of the block needs no write.
/// let (write, claim) = blocks.prepare(1)?;
/// assert!(write.is_none());
/// assert_eq!(claim.confirm().to_string(), "[3, 4)");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
///
/// A second claim before the first is confirmed or dropped does not compile:
///
/// ```compile_fail
/// # fn two(mut blocks: seriatim_blocks::BatchedBlocks) {
/// let (_, first) = blocks.prepare(1).unwrap();
/// let (_, second) = blocks.prepare(1).unwrap();
/// first.confirm();
/// # }
/// ```
///
/// Nor does a second confirmation:
///
/// ```compile_fail
/// # fn twice(claim: seriatim_blocks::Claim<'_>) {
/// claim.confirm();
/// claim.confirm();
/// # }
/// ```
#[derive(Debug)]
pub struct BatchedBlocks {
    env: Env,
    key: BlockKey,
    range: NumberRange,
    size: u64,
    /// The number after everything that is reserved; `None` if nothing is.
    end: Option<u64>,
    /// The next number of the current block, which ends at `end`.
    next: u64,
}

/// Numbers that belong to the caller after its write is durable. If it is dropped, nothing is taken: after a failed write,
/// and also after one whose outcome is not known.
#[derive(Debug)]
#[must_use = "the numbers are in here"]
pub struct Claim<'a> {
    blocks: &'a mut BatchedBlocks,
    numbers: Block,
    end: u64,
}

impl BatchedBlocks {
    /// Continues after `last`, which is the stored value of the key, if there is one.
    ///
    /// # Errors
    ///
    /// [`OpenError`] if the value is damaged, or the block size 0.
    pub fn open(
        env: Env,
        key: BlockKey,
        last: Option<&[u8]>,
        range: NumberRange,
        size: u64,
    ) -> Result<Self, OpenError> {
        if size == 0 {
            return Err(BlockOptionsError::ZeroSize.into());
        }
        let last = last.map(StoredBlock::decode).transpose();
        let last = last
            .map_err(|error| BlockStoreError::Corrupt { key: key.to_string(), reason: error.to_string() })?;
        let end = last.map(|last| last.block.end().get());
        Ok(Self { env, key, range, size, end, next: end.unwrap_or(0) })
    }

    /// Prepares `count` consecutive numbers. If there is a write, it must be durable before the claim is confirmed. If
    /// there is none, the numbers are in a block that is already durable.
    ///
    /// # Errors
    ///
    /// [`AllocateError`]: nothing was taken.
    pub fn prepare(&mut self, count: u64) -> Result<(Option<Write>, Claim<'_>), AllocateError> {
        AllocateError::check(count)?;
        let rest = self.end.map_or(0, |end| end - self.next);
        if let Some(end) = self.end.filter(|_| count <= rest) {
            let numbers = Block::between(self.next, self.next + count).ok_or(AllocateError::Zero)?;
            return Ok((None, Claim { blocks: self, numbers, end }));
        }
        // The new block follows the rest of the current one, so the numbers continue from one to the other.
        let demand = Demand { min: count - rest, want: self.size, unused: rest };
        let block = self.range.next_block(self.end.map(Number::new), demand);
        let block = block
            .map_err(|left| AllocateError::Exhausted { asked: count, left: left.0.saturating_add(rest) })?;
        let base = if rest > 0 { self.next } else { block.base().get() };
        let numbers = Block::between(base, base + count).ok_or(AllocateError::Zero)?;
        let write = self.write(block, rest + block.size());
        let end = block.end().get();
        Ok((Some(write), Claim { blocks: self, numbers, end }))
    }

    /// The number that would be taken next.
    #[must_use]
    pub fn peek_next(&self) -> Number {
        Number::new(self.next.max(self.range.first().get()))
    }

    /// The write that gives back the unused numbers, for the last batch before a clean stop; `None` if there are none.
    #[must_use]
    pub fn close(self) -> Option<Write> {
        self.end.filter(|end| self.next < *end)?;
        match self.next.checked_sub(1).filter(|_| self.next > self.range.first().get()) {
            Some(last) => Block::between(last, self.next).map(|block| self.write(block, 0)),
            // Nothing was ever taken.
            None => Some(Write { value: None, ..self.key.removal() }),
        }
    }

    fn write(&self, block: Block, unused: u64) -> Write {
        let stored = StoredBlock { block, id: ReservationId(self.env.random()), unused };
        Write { value: Some(stored.encode().to_vec().into()), ..self.key.removal() }
    }
}

impl Claim<'_> {
    /// Takes the numbers. The write must be durable.
    #[must_use]
    pub fn confirm(self) -> Block {
        self.blocks.end = Some(self.end);
        self.blocks.next = self.numbers.end().get();
        self.numbers
    }
}
