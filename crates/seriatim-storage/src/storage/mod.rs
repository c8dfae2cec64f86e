//! An open storage of any kind: a log, a store, and parts that only some kinds have.

mod backup;
mod scratch;

use std::fmt;

use async_trait::async_trait;
use seriatim_types::ErrorKind;

pub use self::backup::{Backup, BackupError, BackupReport, DestinationError};
pub use self::scratch::ScratchStore;
use crate::{Log, LogError, Store, StoreError};

/// An open storage of any kind, as a server uses it. Only the code that opens a storage knows the kinds.
///
/// ```
/// use seriatim_storage::{Storage, memory::MemoryStorage};
///
/// # seriatim_env::simulate(1, |_| async {
/// let storage = Storage::new(MemoryStorage::new());
/// assert!(storage.log().partitions().await?.is_empty());
/// assert!(storage.as_backup().is_none(), "a storage in memory has no backup");
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

    /// The log. The bulletin is next to it.
    #[must_use]
    pub fn log(&self) -> &Log {
        self.0.log()
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Store {
        self.0.store()
    }

    /// The free space on the storage's disk, and how much must stay free. `None` if the storage is not on a disk.
    #[must_use]
    pub fn disk_space(&self) -> Option<DiskSpace> {
        self.0.disk_space()
    }

    /// The storage's backup function, or `None` if this kind has no backups.
    #[must_use]
    pub fn as_backup(&self) -> Option<&dyn Backup> {
        self.0.as_backup()
    }

    /// An empty store next to this storage, for one run of the doctor. There is at most one at a time.
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
    /// [`CloseError`]; everything is closed nevertheless.
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

    /// The free space on the storage's disk; `None` if the storage is not on a disk.
    fn disk_space(&self) -> Option<DiskSpace> {
        None
    }

    /// Itself, if it can be backed up.
    fn as_backup(&self) -> Option<&dyn Backup> {
        None
    }

    /// An empty store next to this storage.
    async fn scratch(&self) -> Result<ScratchStore, StoreError>;

    /// Finishes what is in progress, flushes, and releases everything, also if a step fails.
    async fn close(&self) -> Result<(), CloseError>;
}

/// The free space on a storage's disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskSpace {
    /// Bytes that are free.
    pub free_bytes: u64,
    /// Bytes that must stay free. If fewer are free, writes are refused.
    pub needed_bytes: u64,
}

impl DiskSpace {
    /// Whether writes are refused because too little space is free.
    #[must_use]
    pub fn is_too_low(&self) -> bool {
        self.free_bytes < self.needed_bytes
    }
}

/// What went wrong when a storage was closed. Everything that was acknowledged is in its log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CloseError {
    /// The error of the log.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The error of the store or the cells.
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
