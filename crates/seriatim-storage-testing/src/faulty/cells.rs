//! Cells that fail on demand.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use super::store::{read_error, write_error};
use super::{Faults, Operation};
use seriatim_storage::{CellsBackend, Key, StoreError};

/// Cells around others, with [`Faults`].
#[derive(Debug, Clone)]
pub struct FaultyCells {
    backend: Arc<dyn CellsBackend>,
    faults: Faults,
}

impl FaultyCells {
    /// This backend, controlled by these faults.
    #[must_use]
    pub fn new(backend: Arc<dyn CellsBackend>, faults: &Faults) -> Self {
        Self { backend, faults: faults.clone() }
    }
}

#[async_trait]
impl CellsBackend for FaultyCells {
    async fn get(&self, key: Key<'_>) -> Result<Option<Bytes>, StoreError> {
        self.faults.around(Operation::Get, self.backend.get(key), read_error).await
    }

    async fn compare_and_set(
        &self,
        key: Key<'_>,
        expected: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<bool, StoreError> {
        let set = self.backend.compare_and_set(key, expected, value);
        self.faults.around(Operation::CompareAndSet, set, write_error).await
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.faults.around(Operation::CloseStore, self.backend.close(), read_error).await
    }
}
