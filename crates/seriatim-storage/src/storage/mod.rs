//! An open storage of any kind: a log, a store, and what only some kinds have.

mod backup;
mod scratch;

use std::fmt;

use async_trait::async_trait;
use seriatim_types::ErrorKind;

pub use self::backup::{Backup, BackupError, BackupReport, DestinationError};
pub use self::scratch::ScratchStore;
use crate::{Log, LogError, Store, StoreError};

/// An open storage of any kind, as a server takes it. Which kinds there are is known only to those who open one.
///
/// ```
/// use seriatim_storage::{Storage, memory::MemoryStorage};
///
/// # seriatim_env::simulate(1, |_| async {
/// let storage = Storage::new(MemoryStorage::new());
/// assert!(storage.log().partitions().await?.is_empty());
/// assert!(storage.as_backup().is_none(), "nothing in memory is worth a copy");
/// storage.close().await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct Storage(Box<dyn StorageBackend>);

impl Storage {
    /// A storage of this kind.
    #[must_use]
    pub fn new(backend: impl StorageBackend) -> Self {
        Self(Box::new(backend))
    }

    /// The log. The bulletin is beside it.
    #[must_use]
    pub fn log(&self) -> &Log {
        self.0.log()
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Store {
        self.0.store()
    }

    /// How much room is left on its disk, and how much has to be; none if it is on no disk.
    #[must_use]
    pub fn room(&self) -> Option<Room> {
        self.0.room()
    }

    /// The storage as one that can be backed up; none if it cannot.
    #[must_use]
    pub fn as_backup(&self) -> Option<&dyn Backup> {
        self.0.as_backup()
    }

    /// An empty store beside this storage, for one examination by the doctor. There is one at a time.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if there is one already, or if it cannot be made.
    pub async fn scratch(&self) -> Result<ScratchStore, StoreError> {
        self.0.scratch().await
    }

    /// Finishes what is in progress, flushes, and releases the storage.
    ///
    /// # Errors
    ///
    /// [`CloseError`]; everything is closed all the same.
    pub async fn close(self) -> Result<(), CloseError> {
        self.0.close().await
    }
}

/// One kind of storage. Callers use [`Storage`].
#[async_trait]
pub trait StorageBackend: Send + Sync + fmt::Debug + 'static {
    /// The log.
    fn log(&self) -> &Log;

    /// The store.
    fn store(&self) -> &Store;

    /// The room on its disk; none if it is on no disk.
    fn room(&self) -> Option<Room> {
        None
    }

    /// Itself, if it can be backed up.
    fn as_backup(&self) -> Option<&dyn Backup> {
        None
    }

    /// An empty store beside it.
    async fn scratch(&self) -> Result<ScratchStore, StoreError>;

    /// Finishes what is in progress, flushes, and releases everything, whatever fails.
    async fn close(&self) -> Result<(), CloseError>;
}

/// The room on a storage's disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// What is free.
    pub free_bytes: u64,
    /// What has to stay free: below it, writes are refused.
    pub needed_bytes: u64,
}

impl Room {
    /// Whether writes are refused for lack of it.
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.free_bytes < self.needed_bytes
    }
}

/// Why a storage was closed badly. What was acknowledged is in its log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CloseError {
    /// What the log said.
    #[error(transparent)]
    Log(#[from] LogError),
    /// What the store or the cells said.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl CloseError {
    /// What the caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Log(error) => error.kind(),
            Self::Store(error) => error.kind(),
        }
    }
}
