//! Block sequences.

use std::sync::Arc;

use seriatim_api::{Allocate, Allocated, BlockSequence, PutBlocks};
use seriatim_blocks::{BlockAllocator, BlockOptions, OpenError};

use crate::call::Call;
use crate::client::Client;
use crate::error::ClientError;
use crate::lease::LeasedBlocks;
use crate::url::escape;

/// A block sequence: unique rising ids that may have gaps.
#[derive(Debug, Clone)]
pub struct Blocks {
    client: Client,
    name: String,
    path: String,
}

impl Blocks {
    pub(crate) fn new(client: Client, name: &str) -> Self {
        Self { client, name: name.to_owned(), path: format!("/v1/blocks/{}", escape(name)) }
    }

    /// Creates it. Repeating the call with the same settings changes nothing; other settings are a conflict.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn put(&self, settings: &PutBlocks) -> Result<BlockSequence, ClientError> {
        Call::put(&self.path).body(settings).send(&self.client).await
    }

    /// Allocates consecutive ids. If an answer is lost, the client repeats the call, and the ids of the first call are wasted.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn allocate(&self, count: u64) -> Result<Allocated, ClientError> {
        let call = Call::post(format!("{}/allocate", self.path)).body(&Allocate { count });
        call.repeatable().send(&self.client).await
    }

    /// Its state.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn state(&self) -> Result<BlockSequence, ClientError> {
        Call::get(&self.path).send(&self.client).await
    }

    /// An allocator that leases blocks from the server and gives out their ids from memory. It makes one request per block, before
    /// the current block ends. Ids that it has not given out when it is dropped are wasted.
    ///
    /// # Errors
    ///
    /// [`OpenError`] if the sequence does not exist or the server does not answer.
    pub async fn lease(&self, options: BlockOptions) -> Result<BlockAllocator, OpenError> {
        let env = self.client.env().clone();
        let store = LeasedBlocks::open(self.clone()).await?;
        BlockAllocator::open(env, Arc::new(store), options).await
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}
