//! A directory for what is derived from a log that is stored elsewhere.
//!
//! ```text
//!   seriatim-local/
//!     LOCAL        marks the folder as local state; its format, and the log that it is of
//!     LOCK         locked by the process that uses the folder
//!     store/       sorted tables: everything that is derived
//!     scratch/     while the doctor runs
//! ```
//!
//! Everything in it can be derived from the log again, so the folder can be removed while no process uses it.

mod marker;
mod stores;

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use seriatim_env::Env;
use seriatim_storage::{
    Backup, BackupError, BackupReport, CloseError, DiskSpace, Log, ScratchStore, StorageBackend, Store,
    StoreError,
};

use crate::backup::{backup_beside, is_unfinished};
use crate::directory::DirectoryLock;
use crate::space::FreeSpace;
use crate::store::discard;
use crate::{OpenError, StoreOptions};

pub(crate) use self::stores::{LocalStores, STORE};

/// Settings of a local directory.
#[derive(Debug, Clone)]
pub struct LocalOptions {
    /// Settings of the store.
    pub store: StoreOptions,
    /// The store is not written while less than this is free on the disk.
    pub free_bytes_min: u64,
}

/// A storage whose log is elsewhere, where several processes can share it, and whose derived state is in a local directory. The
/// directory is locked until the storage is closed or dropped.
///
/// ```
/// use seriatim_env::Env;
/// use seriatim_storage::{Log, Storage, memory::MemoryLog};
/// use seriatim_storage_file::{FileOptions, SharedStorage};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let local = directory.path().join("local");
/// let (env, log) = (Env::real(), Log::new(MemoryLog::new()));
/// let storage = SharedStorage::open(&env, log, &local, FileOptions::default().local()).await?;
/// let storage = Storage::new(storage);
/// assert!(storage.disk_space().is_some());
/// storage.close().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SharedStorage {
    env: Env,
    log: Log,
    stores: LocalStores,
    /// Released when the storage is closed.
    lock: seriatim_types::sync::Mutex<Option<Arc<DirectoryLock>>>,
}

impl SharedStorage {
    /// Opens the local directory for a log, or creates it if the folder is empty or missing. What was derived from another log is
    /// removed, with a warning.
    ///
    /// # Errors
    ///
    /// [`OpenError`] if another process uses the folder, if it is something else or newer, or if a restore of the log was not
    /// finished.
    pub async fn open(
        env: &Env,
        log: Log,
        directory: &Path,
        options: LocalOptions,
    ) -> Result<Self, OpenError> {
        if is_unfinished(&log).await? {
            return Err(OpenError::UnfinishedLog);
        }
        Self::open_restored(env, log, directory, options).await
    }

    /// As [`SharedStorage::open`], also of a log whose restore is not finished: to fence it.
    ///
    /// # Errors
    ///
    /// As [`SharedStorage::open`].
    pub async fn open_restored(
        env: &Env,
        log: Log,
        directory: &Path,
        options: LocalOptions,
    ) -> Result<Self, OpenError> {
        let identity = log.identity().await?;
        let (own, directory) = (env.clone(), directory.to_owned());
        let work = move || {
            let (lock, found) = marker::claim(&directory)?;
            if let (Some(found), Some(identity)) = (found, identity)
                && found != identity
            {
                tracing::warn!(
                    directory = %directory.display(),
                    "the local state was derived from another log: it is removed, and derived again from this one"
                );
                discard(&own, &directory, STORE, "cells")?;
            }
            marker::write(&directory, identity.or(found))?;
            let space = FreeSpace::new(&directory, options.free_bytes_min, FreeSpace::system());
            let stores = LocalStores::open(&own, &directory, Arc::new(space), options.store, None)?;
            Ok::<_, OpenError>((stores, lock))
        };
        let (stores, lock) = env.blocking(work).await?;
        Ok(Self {
            env: env.clone(),
            log,
            stores,
            lock: seriatim_types::sync::Mutex::new(Some(Arc::new(lock))),
        })
    }
}

#[async_trait]
impl StorageBackend for SharedStorage {
    fn log(&self) -> &Log {
        &self.log
    }

    fn store(&self) -> &Store {
        self.stores.store()
    }

    fn disk_space(&self) -> Option<DiskSpace> {
        Some(self.stores.disk_space())
    }

    fn as_backup(&self) -> Option<&dyn Backup> {
        Some(self)
    }

    async fn scratch(&self) -> Result<ScratchStore, StoreError> {
        self.stores.scratch().await
    }

    async fn close(&self) -> Result<(), CloseError> {
        // The log may have got its identity while it was used. Without it in the marker, the checkpoints name it.
        if let Ok(Some(identity)) = self.log.identity().await {
            let directory = self.stores.directory().to_owned();
            let written = self.env.blocking(move || marker::write(&directory, Some(identity))).await;
            if let Err(error) = written {
                tracing::warn!(%error, "the marker of the local state was not written");
            }
        }
        let store = self.stores.store().close().await;
        let log = self.log.close().await;
        self.lock.lock().take();
        log?;
        store?;
        Ok(())
    }
}

#[async_trait]
impl Backup for SharedStorage {
    async fn backup(&self, destination: &Path) -> Result<BackupReport, BackupError> {
        let (local, space) = (self.stores.directory(), self.stores.space().clone());
        backup_beside(&self.env, &self.log, destination, Some(local), space).await
    }
}
