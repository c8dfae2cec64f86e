//! Named block sequences: unique rising numbers that cost almost nothing and may have gaps.

use std::sync::Arc;

use seriatim_blocks::{AllocateError, BlockAllocator, BlockOptions, BlockSize, OpenError};
use seriatim_types::{ErrorKind, Number};

use super::open_allocators::close;
use super::store::RegistryBlocks;
use crate::apps::registry::{BLOCKS_VIEW, BlocksRow, OWN_NAMES};
use crate::apps::series::check_name;
use crate::command::view::KeyPart;
use crate::engine::Engine;
use crate::error::{RequestError, SubmitError};
use crate::limits::{ALLOCATE_MAX, BLOCK_SIZE_MAX};

/// Block sequences by name.
#[derive(Debug, Clone, Copy)]
pub struct Blocks<'a> {
    engine: &'a Engine,
}

/// Numbers that were allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allocated {
    /// The first of them.
    pub first: u64,
    /// How many, in a row.
    pub count: u64,
}

/// How a block sequence stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlocksState {
    /// Its name.
    pub name: String,
    /// Where it began.
    pub first: u64,
    /// How many numbers are reserved at once.
    pub block_size: u64,
    /// The number that is likely to come next.
    pub next: u64,
    /// Every number before this one is reserved.
    pub reserved: u64,
    /// Numbers that nobody will get, at most: what crashes have left, and the ends of blocks that requests did not fit into
    /// since it was opened last.
    pub wasted: u64,
}

impl Engine {
    /// Block sequences by name.
    #[must_use]
    pub fn blocks(&self) -> Blocks<'_> {
        Blocks { engine: self }
    }
}

fn check(name: &str) -> Result<(), RequestError> {
    check_name("block sequence", name)?;
    if name.starts_with(OWN_NAMES) {
        let text =
            format!("names that begin with {OWN_NAMES} are the engine's own: choose another than {name}");
        return Err(RequestError::Refused(text));
    }
    Ok(())
}

fn check_count(count: u64) -> Result<(), AllocateError> {
    match count {
        0 => Err(AllocateError::Zero),
        1..=ALLOCATE_MAX => Ok(()),
        asked => Err(AllocateError::TooMany { asked }),
    }
}

impl Blocks<'_> {
    /// Creates a block sequence, and says whether it is new. The same again is fine.
    ///
    /// # Errors
    ///
    /// [`SubmitError::Conflict`] if it has other settings.
    pub async fn put(&self, name: &str, first: u64, block_size: u64) -> Result<bool, SubmitError> {
        check(name)?;
        if first >= Number::LAST_IN_JSON.get() {
            let text = format!("\"first\" has to be below {}", Number::LAST_IN_JSON);
            return Err(RequestError::Refused(text).into());
        }
        if !(1..=BLOCK_SIZE_MAX).contains(&block_size) {
            let text = format!("\"block_size\" has to be from 1 to {BLOCK_SIZE_MAX}, not {block_size}");
            return Err(RequestError::Refused(text).into());
        }
        self.engine.registry().define_blocks(name, first, block_size).await
    }

    /// Allocates numbers, in a row. They are never given to anybody else, whatever crashes; there may be gaps before them.
    ///
    /// # Errors
    ///
    /// [`SubmitError::NotFound`] if there is no such block sequence; [`SubmitError::Allocate`] if none or more than
    /// [`ALLOCATE_MAX`] numbers are asked for, or so many are not left.
    pub async fn allocate(&self, name: &str, count: u64) -> Result<Allocated, SubmitError> {
        self.check_open(name)?;
        check_count(count)?;
        let allocator = self.allocator(name).await?;
        match allocator.allocate(count).await {
            Ok(block) => Ok(Allocated { first: block.base().get(), count: block.size() }),
            Err(AllocateError::Closed) => Err(SubmitError::Closed),
            Err(error) => Err(error.into()),
        }
    }

    /// As [`Blocks::allocate`], under an idempotency key: the same key again gives the same numbers again. Each time an event
    /// is written, and the numbers come from behind everything that is reserved, so that later ones without a key may be
    /// smaller.
    ///
    /// # Errors
    ///
    /// [`SubmitError::KeyReused`] if the key was used for another count.
    pub async fn allocate_once(&self, name: &str, count: u64, key: &str) -> Result<Allocated, SubmitError> {
        self.check_open(name)?;
        check_count(count)?;
        let error = match self.engine.registry().take(name, count, key).await {
            Ok(first) => return Ok(Allocated { first, count }),
            Err(error) => error,
        };
        let left = Number::LAST_IN_JSON.get().saturating_sub(self.row(name).await?.next);
        let is_exhausted = error.kind() == ErrorKind::Invalid && count > left;
        Err(if is_exhausted { AllocateError::Exhausted { asked: count, left }.into() } else { error })
    }

    fn check_open(&self, name: &str) -> Result<(), SubmitError> {
        check(name)?;
        if !self.engine.fence_state().admits_blocks(name) {
            return Err(SubmitError::Fenced(format!("numbers of blocks/{name}")));
        }
        Ok(())
    }

    /// The allocator of a block sequence, opened at its first use.
    async fn allocator(&self, name: &str) -> Result<Arc<BlockAllocator>, SubmitError> {
        let open = self.engine.open_allocators();
        if let Some(allocator) = open.find(name)? {
            return Ok(allocator);
        }
        let _turn = open.turn.lock().await;
        if let Some(allocator) = open.find(name)? {
            return Ok(allocator);
        }
        let row = self.row(name).await?;
        for (name, evicted) in open.evict() {
            close(&name, &evicted).await;
        }
        let env = self.engine.env().clone();
        let (first, size) = (row.first, row.block_size);
        let store = RegistryBlocks::new(env.clone(), self.engine.sys().clone(), name, Number::new(first));
        // One name for all of them in metrics: users choose the others.
        let options = BlockOptions {
            name: "named".to_owned(),
            size: BlockSize::Fixed(size),
            ..BlockOptions::default()
        };
        let allocator = BlockAllocator::open(env, Arc::new(store), options).await;
        let allocator = Arc::new(allocator.map_err(|error| match error {
            OpenError::Store(error) if error.kind() == ErrorKind::Corrupt => {
                SubmitError::Allocate(AllocateError::Store(Arc::new(error)))
            }
            other => SubmitError::NotWritten(other.to_string()),
        })?);
        open.insert(name, &allocator)?;
        Ok(allocator)
    }

    async fn row(&self, name: &str) -> Result<BlocksRow, SubmitError> {
        let row = self.engine.registry().blocks(name).await?;
        row.ok_or_else(|| SubmitError::NotFound(format!("block sequence {name} does not exist")))
    }

    /// How a block sequence stands.
    ///
    /// # Errors
    ///
    /// [`SubmitError::NotFound`] if there is none.
    pub async fn state(&self, name: &str) -> Result<BlocksState, SubmitError> {
        check(name)?;
        let row = self.row(name).await?;
        Ok(self.state_of(name, &row))
    }

    fn state_of(&self, name: &str, row: &BlocksRow) -> BlocksState {
        let allocator = self.engine.open_allocators().peek(name);
        let counts = allocator.as_ref().map(|allocator| allocator.counts()).unwrap_or_default();
        let reserved = row.next;
        // An allocator that has reserved nothing yet does not know what was skipped or given back since.
        let peeked = allocator.filter(|_| counts.blocks > 0).map(|allocator| allocator.peek_next().get());
        BlocksState {
            name: name.to_owned(),
            first: row.first,
            block_size: row.block_size,
            next: peeked.unwrap_or(reserved),
            reserved,
            wasted: row.wasted.saturating_add(counts.wasted),
        }
    }

    /// Up to `limit` block sequences behind a name, ascending by name.
    ///
    /// # Errors
    ///
    /// [`SubmitError`].
    pub async fn list(&self, after: Option<&str>, limit: usize) -> Result<Vec<BlocksState>, SubmitError> {
        let mut states = Vec::new();
        let mut after = after.map(str::to_owned);
        // The engine's own take place without being shown.
        while states.len() < limit {
            let key = after.as_deref().map(|after| [KeyPart::from(after)]);
            let key = key.as_ref().map(|key| &key[..]);
            let rows: Vec<(KeyPart, BlocksRow)> =
                self.engine.registry().rows(BLOCKS_VIEW, &[], key, limit).await?;
            let Some((KeyPart::Text(last), _)) = rows.last() else { break };
            after = Some(last.clone());
            for (part, row) in &rows {
                if let KeyPart::Text(name) = part
                    && !name.starts_with(OWN_NAMES)
                {
                    states.push(self.state_of(name, row));
                }
            }
        }
        states.truncate(limit);
        Ok(states)
    }
}
