//! The handle through which callers use named block sequences.

use std::sync::Arc;

use seriatim_blocks::{AllocateError, BlockAllocator, BlockOptions, BlockSize, OpenError};
use seriatim_types::{ErrorKind, Number};

use super::open_allocators::close;
use super::store::RegistryBlocks;
use crate::apps::registry::{self, BLOCKS_VIEW, BlocksRow, OWN_NAMES};
use crate::apps::series::check_name;
use crate::command::view::KeyPart;
use crate::engine::Engine;
use crate::engine::others::{Call, Reply};
use crate::error::{RequestError, SubmitError};
use crate::limits::{ALLOCATE_MAX, BLOCK_SIZE_MAX};

/// Block sequences by name: unique numbers that ascend and may have gaps.
///
/// Most allocations write nothing, because numbers are reserved in blocks. A crash wastes the unused numbers of a block; no
/// number is given out twice.
#[derive(Debug, Clone, Copy)]
pub struct Blocks<'a> {
    engine: &'a Engine,
}

/// Numbers that were allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allocated {
    /// The first number.
    pub first: u64,
    /// How many consecutive numbers.
    pub count: u64,
}

/// The state of a block sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlocksState {
    /// Its name.
    pub name: String,
    /// Its first number.
    pub first: u64,
    /// How many numbers are reserved together.
    pub block_size: u64,
    /// The number that is probably allocated next.
    pub next: u64,
    /// Every number before this one is reserved.
    pub reserved: u64,
    /// The largest possible number of wasted numbers, which are never given out: the unused numbers of crashes, and the ends
    /// of blocks that were too short for a request since the sequence was last opened.
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
        let text = format!(
            "names that begin with {OWN_NAMES} are reserved for the engine: choose another name than {name}"
        );
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
    /// Creates a block sequence, and returns whether it is new. Does nothing if it exists with the same settings.
    ///
    /// # Errors
    ///
    /// [`SubmitError::Conflict`] if it has other settings. It does not change.
    pub async fn put(&self, name: &str, first: u64, block_size: u64) -> Result<bool, SubmitError> {
        check(name)?;
        if first >= Number::LAST_IN_JSON.get() {
            let text = format!("\"first\" must be below {}", Number::LAST_IN_JSON);
            return Err(RequestError::Refused(text).into());
        }
        if !(1..=BLOCK_SIZE_MAX).contains(&block_size) {
            let text = format!("\"block_size\" must be from 1 to {BLOCK_SIZE_MAX}, not {block_size}");
            return Err(RequestError::Refused(text).into());
        }
        self.engine.registry().define_blocks(name, first, block_size).await
    }

    /// Allocates consecutive numbers. They are never given to another caller, also after a crash. There may be a gap before
    /// them.
    ///
    /// # Errors
    ///
    /// [`SubmitError::NotFound`] if there is no such block sequence; [`SubmitError::Allocate`] if `count` is 0 or more than
    /// [`ALLOCATE_MAX`], or if fewer numbers are left. Numbers of a failed call may be wasted.
    pub async fn allocate(&self, name: &str, count: u64) -> Result<Allocated, SubmitError> {
        self.check_open(name)?;
        check_count(count)?;
        self.allocate_at_owner(name, count).await
    }

    /// Allocates: here if this engine owns the registry, else at its owner.
    pub(crate) async fn allocate_at_owner(&self, name: &str, count: u64) -> Result<Allocated, SubmitError> {
        if self.engine.owns_registry() {
            return self.allocate_here(name, count).await;
        }
        let call = Call::Allocate { name: name.to_owned(), count };
        match self.engine.others().call(registry::PARTITION, call).await? {
            Reply::Allocated(allocated) => Ok(allocated),
            _ => Err(Reply::unexpected(registry::PARTITION)),
        }
    }

    pub(crate) async fn allocate_here(&self, name: &str, count: u64) -> Result<Allocated, SubmitError> {
        let allocator = self.allocator(name).await?;
        match allocator.allocate(count).await {
            Ok(block) => Ok(Allocated { first: block.base().get(), count: block.size() }),
            Err(AllocateError::Closed) => Err(SubmitError::Closed),
            Err(error) => Err(error.into()),
        }
    }

    /// As [`Blocks::allocate`], with an idempotency key: the same key again returns the same numbers. Each new key writes an
    /// event. Its numbers follow everything that is reserved, so a later allocation without a key may return lower numbers.
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
        // One name for all of them in metrics, because users choose the names of the sequences.
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

    /// The state of a block sequence.
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
        // An allocator that has reserved nothing yet does not know which numbers were skipped or given back before it.
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

    /// Up to `limit` block sequences after a name, ascending by name.
    ///
    /// # Errors
    ///
    /// [`SubmitError`] if they cannot be read.
    pub async fn list(&self, after: Option<&str>, limit: usize) -> Result<Vec<BlocksState>, SubmitError> {
        let mut states = Vec::new();
        let mut after = after.map(str::to_owned);
        // A page may contain block sequences of the engine, which are not returned.
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
