//! A store that is removed when it is closed.

use std::path::Path;

use seriatim_env::Env;
use seriatim_storage::{ScratchStore, Store, StoreError};

use crate::{FileStorage, StoreOptions, TreeStore};

/// The folder's name in a storage.
const SCRATCH: &str = "scratch";

impl FileStorage {
    /// An empty store next to this storage, on the same disk, for one run of the doctor. There is at most one at a time. It
    /// is removed when it is closed, or else when the storage is opened next.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if there is one already, or if it cannot be made.
    pub async fn scratch(&self) -> Result<ScratchStore, StoreError> {
        open_scratch(self.env(), self.directory()).await
    }
}

/// An empty store in the folder of a storage.
pub(crate) async fn open_scratch(env: &Env, storage: &Path) -> Result<ScratchStore, StoreError> {
    let (own, directory) = (env.clone(), storage.join(SCRATCH));
    let work = move || {
        let fail =
            |error: std::io::Error| StoreError::Unavailable(format!("{}: {error}", directory.display()));
        std::fs::create_dir(&directory).map_err(fail)?;
        let store = TreeStore::open(own.clone(), &directory, StoreOptions::default())?;
        let remove = async move || own.blocking(move || remove(&directory)).await;
        Ok(ScratchStore::new(Store::new(store), remove))
    };
    env.blocking(work).await
}

/// Removes the scratch store of a process that ended before it closed it.
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
