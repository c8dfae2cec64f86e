//! The Cells port: values by key that are written on condition.
//!
//! For what is neither in the log nor derived from it, and has several writers, such as block reservations of programs that
//! embed the allocator. Few keys, small values, each write durable when it returns.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use crate::store::check_write;
use crate::{Key, StoreError};

/// Where cells live. Implementors run the conformance suite (`seriatim_storage_testing::cells_conformance!`); callers use [`Cells`], which
/// checks keys and sizes first.
#[async_trait]
pub trait CellsBackend: Send + Sync + fmt::Debug + 'static {
    /// The value of a key.
    async fn get(&self, key: Key<'_>) -> Result<Option<Bytes>, StoreError>;

    /// If the key's value is `expected` (`None`: it has none), makes it `value` (`None`: removes it) and says `true`;
    /// else changes nothing and says `false`. Atomic against every other write; durable when it returns, and so is what
    /// a comparison that failed has seen.
    async fn compare_and_set(
        &self,
        key: Key<'_>,
        expected: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<bool, StoreError>;

    /// Releases everything. Closing twice is fine.
    async fn close(&self) -> Result<(), StoreError>;
}

/// Values that are written on condition. Clones are the same cells.
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

    /// Writes the value if the key has none; says whether it did. Durable when it returns.
    ///
    /// # Errors
    ///
    /// [`StoreError`]; the write may have happened if the kind is in doubt.
    pub async fn insert_if_absent(&self, key: Key<'_>, value: &[u8]) -> Result<bool, StoreError> {
        check_write(key, value)?;
        self.backend.compare_and_set(key, None, Some(value)).await
    }

    /// Writes the value if the key has the expected one; says whether it did. Durable when it returns.
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

    /// Removes the key if it has the expected value; says whether it did. Durable when it returns.
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
    /// [`StoreError`]; they are closed all the same.
    pub async fn close(&self) -> Result<(), StoreError> {
        self.backend.close().await
    }
}
