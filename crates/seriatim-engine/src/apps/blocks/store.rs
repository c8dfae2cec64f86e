//! A block store whose reservations are events of `sys`.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use seriatim_blocks::{Block, BlockStore, BlockStoreError, Demand, LastBlock};
use seriatim_env::Env;
use seriatim_types::sync::Mutex;
use seriatim_types::{ErrorKind, Number};

use crate::apps::registry::{Registry, Released, Reserved};
use crate::command::request::Request;
use crate::engine::running::Running;
use crate::error::SubmitError;

/// One block sequence of the registry.
pub(crate) struct RegistryBlocks {
    env: Env,
    sys: Arc<Running>,
    name: String,
    first: Number,
    /// A reservation without an answer. It is sent again with the same key before any other.
    unsettled: Mutex<Option<Request>>,
    /// Whether this value has reserved nothing yet.
    opening: AtomicBool,
}

impl fmt::Debug for RegistryBlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RegistryBlocks({})", self.name)
    }
}

impl RegistryBlocks {
    pub(crate) fn new(env: Env, sys: Arc<Running>, name: &str, first: Number) -> Self {
        Self {
            env,
            sys,
            name: name.to_owned(),
            first,
            unsettled: Mutex::new(None),
            opening: AtomicBool::new(true),
        }
    }

    fn unsettled(&self) -> Option<Request> {
        self.unsettled.lock().clone()
    }

    fn set_unsettled(&self, request: Option<Request>) {
        *self.unsettled.lock() = request;
    }

    fn error(&self, error: &SubmitError) -> BlockStoreError {
        let (key, reason) = (self.name.clone(), error.to_string());
        match error.kind() {
            ErrorKind::InDoubt => BlockStoreError::InDoubt { key, reason },
            ErrorKind::Corrupt | ErrorKind::NotFound => BlockStoreError::Corrupt { key, reason },
            _ => BlockStoreError::Unavailable { key, reason },
        }
    }

    /// The error for a demand that is larger than what is left.
    async fn exhausted(&self, min: u64) -> BlockStoreError {
        match (Registry { sys: &self.sys }).blocks(&self.name).await {
            Ok(Some(row)) => {
                let left = Number::LAST_IN_JSON.get().saturating_sub(row.next);
                BlockStoreError::Exhausted { key: self.name.clone(), min, left }
            }
            Ok(None) => self.bad("its row is missing"),
            Err(error) => self.error(&error),
        }
    }

    fn bad(&self, reason: &str) -> BlockStoreError {
        BlockStoreError::Corrupt { key: self.name.clone(), reason: reason.to_owned() }
    }

    fn block(&self, base: u64, size: u64) -> Result<Block, BlockStoreError> {
        Block::new(Number::new(base), size).map_err(|error| self.bad(&error.to_string()))
    }
}

#[async_trait::async_trait]
impl BlockStore for RegistryBlocks {
    fn first(&self) -> Number {
        self.first
    }

    async fn last(&self) -> Result<Option<LastBlock>, BlockStoreError> {
        let row = Registry { sys: &self.sys }.blocks(&self.name).await;
        let Some(row) = row.map_err(|error| self.error(&error))? else { return Ok(None) };
        if row.size == 0 {
            if row.next <= self.first.get() {
                return Ok(None);
            }
            // All of the last block was given back: the number before it is the last one that is reserved.
            return Ok(Some(LastBlock { block: self.block(row.next - 1, 1)?, unused: 0 }));
        }
        Ok(Some(LastBlock { block: self.block(row.base, row.size)?, unused: row.unused }))
    }

    async fn reserve(&self, demand: Demand) -> Result<Block, BlockStoreError> {
        let request = self.unsettled().unwrap_or_else(|| {
            let key = format!("{:016x}{:016x}", self.env.random(), self.env.random());
            Registry::reserving(&self.name, demand, self.opening.load(Ordering::Relaxed), key)
        });
        // Kept before it is sent: if this future is dropped, the reservation is in doubt too.
        self.set_unsettled(Some(request.clone()));
        let answer = Registry { sys: &self.sys }.submit(&request).await;
        match answer {
            Ok(answer) => {
                self.set_unsettled(None);
                self.opening.store(false, Ordering::Relaxed);
                let reserved: Reserved = answer.result_as().map_err(|error| self.error(&error))?;
                let block = self.block(reserved.base, reserved.size)?;
                // A repeated reservation of an earlier call may be too small for this call. Its block is wasted, and another
                // one is reserved.
                if block.size() < demand.min { Box::pin(self.reserve(demand)).await } else { Ok(block) }
            }
            Err(error) => {
                if error.kind() != ErrorKind::InDoubt {
                    self.set_unsettled(None);
                }
                if error.kind() == ErrorKind::Invalid {
                    return Err(self.exhausted(demand.min).await);
                }
                Err(self.error(&error))
            }
        }
    }

    async fn release(&self, tail: Block) -> Result<bool, BlockStoreError> {
        let request = Registry::releasing(&self.name, tail.base().get(), tail.size());
        let answer =
            Registry { sys: &self.sys }.submit(&request).await.map_err(|error| self.error(&error))?;
        let released: Released = answer.result_as().map_err(|error| self.error(&error))?;
        Ok(released.released)
    }
}
