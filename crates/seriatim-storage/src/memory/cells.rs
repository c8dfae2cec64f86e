//! Cells in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use seriatim_types::sync::{Mutex, MutexGuard};

use crate::{CellsBackend, Key, StoreError, StoreKey};

/// Cells in memory. Clones are the same cells. They can be closed and opened again: [`MemoryCells::reopen`].
#[derive(Debug, Clone, Default)]
pub struct MemoryCells {
    state: Arc<Mutex<CellsState>>,
}

#[derive(Debug, Default)]
struct CellsState {
    values: BTreeMap<StoreKey, Bytes>,
    closed: bool,
}

impl MemoryCells {
    /// Empty cells.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same values, open again after a close.
    #[must_use]
    pub fn reopen(&self) -> Self {
        self.lock().closed = false;
        self.clone()
    }

    fn lock(&self) -> MutexGuard<'_, CellsState> {
        self.state.lock()
    }

    fn open(&self) -> Result<MutexGuard<'_, CellsState>, StoreError> {
        let state = self.lock();
        if state.closed { Err(StoreError::Closed) } else { Ok(state) }
    }
}

#[async_trait]
impl CellsBackend for MemoryCells {
    async fn get(&self, key: Key<'_>) -> Result<Option<Bytes>, StoreError> {
        Ok(self.open()?.values.get(&key.into()).cloned())
    }

    async fn compare_and_set(
        &self,
        key: Key<'_>,
        expected: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<bool, StoreError> {
        let (mut state, key) = (self.open()?, StoreKey::from(key));
        if state.values.get(&key).map(|value| &value[..]) != expected {
            return Ok(false);
        }
        match value {
            Some(value) => state.values.insert(key, Bytes::copy_from_slice(value)),
            None => state.values.remove(&key),
        };
        Ok(true)
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.lock().closed = true;
        Ok(())
    }
}
