//! A store for as long as something is looked into.

use std::path::{Path, PathBuf};

use seriatim_env::Env;
use seriatim_storage::memory::MemoryStore;
use seriatim_storage::{Store, StoreError};

use crate::{FileStorage, Storage, StoreOptions, TreeStore};

/// Where a storage keeps it.
const SCRATCH: &str = "scratch";

/// An empty store beside a storage, on the same disk; gone when it is closed, or else when the storage is next opened.
#[derive(Debug)]
pub struct ScratchStore {
    env: Env,
    store: Store,
    /// None in memory.
    directory: Option<PathBuf>,
}

impl ScratchStore {
    fn in_memory(env: &Env) -> Self {
        Self { env: env.clone(), store: Store::new(MemoryStore::new()), directory: None }
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Throws it away.
    ///
    /// # Errors
    ///
    /// If its files cannot be removed; the next opening of the storage tries again.
    pub async fn close(self) -> Result<(), StoreError> {
        self.store.close().await?;
        drop(self.store);
        let Some(directory) = self.directory else { return Ok(()) };
        self.env.blocking(move || remove(&directory)).await
    }
}

impl FileStorage {
    /// An empty store beside this storage, for one look of the doctor. There is one at a time.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if there is one already, or if it cannot be made.
    pub async fn scratch(&self) -> Result<ScratchStore, StoreError> {
        let (env, directory) = (self.env().clone(), self.directory().join(SCRATCH));
        let work = move || {
            let fail =
                |error: std::io::Error| StoreError::Unavailable(format!("{}: {error}", directory.display()));
            std::fs::create_dir(&directory).map_err(fail)?;
            let store = TreeStore::open(env.clone(), &directory, StoreOptions::default())?;
            Ok(ScratchStore { env, store: Store::new(store), directory: Some(directory) })
        };
        self.env().blocking(work).await
    }
}

impl Storage {
    /// An empty store beside this storage, for one look of the doctor.
    ///
    /// # Errors
    ///
    /// As [`FileStorage::scratch`].
    pub async fn scratch(&self, env: &Env) -> Result<ScratchStore, StoreError> {
        match self {
            Self::Memory { .. } => Ok(ScratchStore::in_memory(env)),
            Self::File(storage) => storage.scratch().await,
        }
    }
}

/// Removes what a process has left that ended meanwhile.
pub(crate) fn remove_scratch(storage: &Path) -> Result<(), StoreError> {
    remove(&storage.join(SCRATCH))
}

fn remove(directory: &Path) -> Result<(), StoreError> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(StoreError::Unavailable(format!("{}: {error}", directory.display())))
        }
        _ => Ok(()),
    }
}
