//! The Cells port: values by key that are written only if a condition holds.
//!
//! Cells are for data that is neither in the log nor derived from it, and has several writers, such as the block
//! reservations of programs that embed the allocator. There are few keys with small values. Each write is durable when it
//! returns.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use crate::store::check_write;
use crate::{Key, StoreError};

/// What cells are stored in. Backends must pass the conformance suite (`seriatim_storage_testing::cells_conformance!`).
/// Callers use [`Cells`], which checks keys and sizes first.
#[async_trait]
pub trait CellsBackend: Send + Sync + fmt::Debug + 'static {
    /// The value of a key.
    async fn get(&self, key: Key<'_>) -> Result<Option<Bytes>, StoreError>;

    /// If the key's value is `expected` (`None`: it has no value), sets it to `value` (`None`: removes it) and returns
    /// `true`. Otherwise changes nothing and returns `false`. Atomic with respect to every other write. When this returns,
    /// the new value is durable; if the comparison failed, the value that was found is durable.
    async fn compare_and_set(
        &self,
        key: Key<'_>,
        expected: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<bool, StoreError>;

    /// Releases everything. Closing twice is allowed.
    async fn close(&self) -> Result<(), StoreError>;
}

/// Values that are written only if a condition holds. Clones are the same cells.
///
/// A write that returned `true` is durable and took effect exactly once. One that returned `false` changed nothing. After
/// [`StoreError::InDoubt`] a write may have taken effect or not: read the value to find out.
///
/// ```
/// use seriatim_storage::{Cells, Key, memory::MemoryCells};
///
/// # seriatim_env::simulate(1, |_| async {
/// let cells = Cells::new(MemoryCells::new());
/// let lock = Key::new(b"locks", b"import");
/// assert!(cells.insert_if_absent(lock, b"mine").await?);
/// assert!(!cells.insert_if_absent(lock, b"yours").await?);
/// assert!(cells.compare_and_delete(lock, b"mine").await?);
/// # Ok::<(), seriatim_storage::StoreError>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Cells {
    backend: Arc<dyn CellsBackend>,
}

impl Cells {
    /// Cells on this backend.
    #[must_use]
    pub fn new(backend: impl CellsBackend) -> Self {
        Self::from_arc(Arc::new(backend))
    }

    /// Cells on a backend that is shared with others.
    #[must_use]
    pub fn from_arc(backend: Arc<dyn CellsBackend>) -> Self {
        Self { backend }
    }

    /// The value of a key, if there is one.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub async fn get(&self, key: Key<'_>) -> Result<Option<Bytes>, StoreError> {
        key.check()?;
        self.backend.get(key).await
    }

    /// Writes the value if the key has none. Returns whether it did. The result is durable when this returns.
    ///
    /// # Errors
    ///
    /// [`StoreError`]. Nothing was written, unless it is [`StoreError::InDoubt`]: then the value may have been written.
    pub async fn insert_if_absent(&self, key: Key<'_>, value: &[u8]) -> Result<bool, StoreError> {
        check_write(key, value)?;
        self.backend.compare_and_set(key, None, Some(value)).await
    }

    /// Writes the value if the key has the expected one. Returns whether it did. The result is durable when this returns.
    ///
    /// # Errors
    ///
    /// As [`Cells::insert_if_absent`].
    pub async fn compare_and_swap(
        &self,
        key: Key<'_>,
        expected: &[u8],
        value: &[u8],
    ) -> Result<bool, StoreError> {
        check_write(key, value)?;
        self.backend.compare_and_set(key, Some(expected), Some(value)).await
    }

    /// Removes the key if it has the expected value. Returns whether it did. The result is durable when this returns.
    ///
    /// # Errors
    ///
    /// As [`Cells::insert_if_absent`].
    pub async fn compare_and_delete(&self, key: Key<'_>, expected: &[u8]) -> Result<bool, StoreError> {
        key.check()?;
        self.backend.compare_and_set(key, Some(expected), None).await
    }

    /// Releases everything. Later calls give [`StoreError::Closed`].
    ///
    /// # Errors
    ///
    /// [`StoreError`]; the cells are closed nevertheless.
    pub async fn close(&self) -> Result<(), StoreError> {
        self.backend.close().await
    }
}
