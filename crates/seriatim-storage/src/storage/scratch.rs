//! A store for as long as something is examined.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use crate::{Store, StoreError};

type Removed = Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send>>;

/// An empty store beside a storage, where the doctor builds what it compares with. Closing it removes it.
pub struct ScratchStore {
    store: Store,
    remove: Box<dyn FnOnce() -> Removed + Send + Sync>,
}

impl ScratchStore {
    /// A scratch store; `remove` removes what is left of it once it is closed.
    #[must_use]
    pub fn new<F>(store: Store, remove: impl FnOnce() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), StoreError>> + Send + 'static,
    {
        Self { store, remove: Box::new(move || Box::pin(remove())) }
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Closes and removes it.
    ///
    /// # Errors
    ///
    /// If it cannot be closed or removed. What is left of it is removed when the storage is next opened.
    pub async fn close(self) -> Result<(), StoreError> {
        self.store.close().await?;
        drop(self.store);
        (self.remove)().await
    }
}

impl fmt::Debug for ScratchStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScratchStore").field("store", &self.store).finish_non_exhaustive()
    }
}
