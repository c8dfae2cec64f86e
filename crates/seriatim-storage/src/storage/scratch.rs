//! A store that is removed when it is closed.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use crate::{Store, StoreError};

type Removal = Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send>>;

/// An empty store next to a storage. The doctor builds in it what it compares with. Closing it removes it.
pub struct ScratchStore {
    store: Store,
    remove: Box<dyn FnOnce() -> Removal + Send + Sync>,
}

impl ScratchStore {
    /// A scratch store. `remove` is called after the store is closed, and removes its files.
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

    /// Closes the store and removes it.
    ///
    /// # Errors
    ///
    /// If it cannot be closed or removed. Its remains are removed when the storage is opened next.
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
