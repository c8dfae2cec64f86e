//! What an engine keeps in memory of the registry: tokens and the fence. It follows the log, also for events that another engine wrote.

use std::sync::Arc;

use bytes::Bytes;
use seriatim_types::PartitionOffset;
use seriatim_types::sync::Mutex;

use super::{FENCE_VIEW, Registry};
use crate::apps::tokens::{TOKENS_VIEW, TokenTable};
use crate::command::view::{KeyPart, ViewKeys, decode_row};
use crate::derive::keys::StoreKey;
use crate::derive::{Observer, REMOVED};
use crate::error::SubmitError;
use crate::operate::fence::{Fence, FenceState};

/// Tokens and the fence of an engine, as of the events of the registry that are applied.
#[derive(Debug)]
pub(crate) struct RegistryMemory {
    pub(crate) tokens: TokenTable,
    pub(crate) fence: Arc<Fence>,
    tokens_view: ViewKeys,
    fence_view: ViewKeys,
    /// The offset of the event that changed the fence last. A recovery publishes earlier states again.
    fenced_at: Mutex<u64>,
}

impl RegistryMemory {
    pub(crate) fn new(fence: Arc<Fence>) -> Self {
        Self {
            tokens: TokenTable::default(),
            fence,
            tokens_view: Registry::view(TOKENS_VIEW),
            fence_view: Registry::view(FENCE_VIEW),
            fenced_at: Mutex::default(),
        }
    }

    /// Reads the fence from the store, when an engine opens.
    pub(crate) async fn read_fence(&self, registry: &Registry<'_>) -> Result<(), SubmitError> {
        let state = registry.fence_state().await?;
        // An event that was applied meanwhile is newer than what was read.
        if *self.fenced_at.lock() == 0 {
            self.fence.set(state);
        }
        Ok(())
    }

    fn change_fence(&self, value: &Bytes) {
        // A row that cannot be read stops the command that reads it. Memory keeps the state before.
        let Ok((folded, row)) = decode_row(value) else { return };
        let mut fenced_at = self.fenced_at.lock();
        if folded.get() < *fenced_at {
            return;
        }
        *fenced_at = folded.get();
        let state = row.and_then(|row| serde_json::from_value::<FenceState>(row).ok());
        self.fence.set(state.unwrap_or_default());
    }

    fn change_token(&self, id: &str, value: &Bytes) {
        if *value == REMOVED {
            return self.tokens.revoked(id);
        }
        match decode_row(value) {
            Ok((folded, Some(row))) => self.tokens.created(id, folded, row),
            Ok((_, None)) => self.tokens.revoked(id),
            Err(problem) => tracing::error!(id, %problem, "the row of a token cannot be read"),
        }
    }
}

impl Observer for RegistryMemory {
    fn published(&self, key: &StoreKey, value: &Bytes) {
        if let Some(parts) = self.tokens_view.parts(key) {
            if let [KeyPart::Text(id)] = &parts[..] {
                self.change_token(id, value);
            }
        } else if self.fence_view.parts(key).is_some() {
            self.change_fence(value);
        }
    }

    fn reached(&self, next: PartitionOffset) {
        self.tokens.reached(next);
    }
}
