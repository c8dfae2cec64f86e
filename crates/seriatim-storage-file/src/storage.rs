//! A folder with a log, a store and cells.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use seriatim_env::Env;
use seriatim_storage::{
    Backup, BackupError, BackupReport, Cells, CloseError, DiskSpace, Log, ScratchStore, StorageBackend,
    Store, StoreError,
};

use crate::backup::backup;
use crate::bulletin::BULLETIN;
use crate::directory::{DirectoryLock, claim, claim_existing, claim_restore, finish_marker, would_create};
use crate::disk::RealDisk;
use crate::identity::IDENTITY;
use crate::local::{LocalOptions, LocalStores, STORE};
use crate::log::OpenMode;
use crate::space::{FreeSpace, SpaceProbe};
use crate::store::discard;
use crate::{FileCells, FileLog, LogOptions, OpenError, StoreOptions};

const LOG: &str = "log";
const CELLS: &str = "cells";

/// Settings of a storage on files.
#[derive(Debug, Clone)]
pub struct FileOptions {
    /// Settings of the log.
    pub log: LogOptions,
    /// Settings of the store.
    pub store: StoreOptions,
    /// Writes are refused while less than this is free on the disk, so that everything that was acknowledged can be kept.
    /// Default 512 MiB: several segments, and space for the store to compact.
    pub free_bytes_min: u64,
}

impl Default for FileOptions {
    fn default() -> Self {
        Self { log: LogOptions::default(), store: StoreOptions::default(), free_bytes_min: 512 << 20 }
    }
}

impl FileOptions {
    /// The same settings for a local directory.
    #[must_use]
    pub fn local(self) -> LocalOptions {
        LocalOptions { store: self.store, free_bytes_min: self.free_bytes_min }
    }
}

/// A storage in a folder. The folder is locked until the storage is closed or dropped.
///
/// ```
/// use seriatim_env::Env;
/// use seriatim_storage_file::{FileOptions, FileStorage};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let directory = directory.path();
/// let storage = FileStorage::open(&Env::real(), directory, FileOptions::default()).await?;
/// assert!(storage.log().partitions().await?.is_empty());
///
/// // It cannot be opened a second time meanwhile.
/// let second = FileStorage::open(&Env::real(), directory, FileOptions::default()).await;
/// assert!(second.unwrap_err().to_string().contains("is in use by process"));
/// storage.close().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct FileStorage {
    env: Env,
    /// The backend of `log`.
    file_log: Arc<FileLog>,
    log: Log,
    stores: LocalStores,
    cells: Cells,
}

impl FileStorage {
    /// Opens the storage in `directory`, or creates one if the folder is empty or missing.
    ///
    /// # Errors
    ///
    /// [`OpenError`] if another process uses the folder, if it is not a storage, newer or damaged, or if there is too little
    /// free space for a new one.
    pub async fn open(env: &Env, directory: &Path, options: FileOptions) -> Result<Self, OpenError> {
        Self::open_with_probe(env, directory, options, FreeSpace::system()).await
    }

    /// As [`FileStorage::open`], with another way to measure the free space: for quotas, and for tests.
    ///
    /// # Errors
    ///
    /// As [`FileStorage::open`].
    pub async fn open_with_probe(
        env: &Env,
        directory: &Path,
        options: FileOptions,
        probe: SpaceProbe,
    ) -> Result<Self, OpenError> {
        let (own, directory) = (env.clone(), directory.to_owned());
        let work = move || {
            if would_create(&directory)? {
                check_space_for_new_storage(&directory, &options, &probe)?;
            }
            let (lock, mode) = claim(&directory)?;
            let storage = Self::open_claimed(&own, &directory, lock, mode, options, probe)?;
            if mode == OpenMode::CreateIfMissing {
                finish_marker(&directory).map_err(|error| OpenError::Unavailable {
                    directory: directory.clone(),
                    reason: error.to_string(),
                })?;
            }
            Ok(storage)
        };
        env.blocking(work).await
    }

    /// Opens an unfinished restore.
    pub(crate) async fn open_restore(
        env: &Env,
        directory: &Path,
        options: FileOptions,
    ) -> Result<Self, OpenError> {
        let (own, directory) = (env.clone(), directory.to_owned());
        let work = move || {
            let lock = claim_restore(&directory)?;
            Self::open_claimed(&own, &directory, lock, OpenMode::MustExist, options, FreeSpace::system())
        };
        env.blocking(work).await
    }

    fn open_claimed(
        env: &Env,
        directory: &Path,
        lock: DirectoryLock,
        mode: OpenMode,
        options: FileOptions,
        probe: SpaceProbe,
    ) -> Result<Self, OpenError> {
        let lock = Arc::new(lock);
        let space = Arc::new(FreeSpace::new(directory, options.free_bytes_min, probe));
        let cells = directory.join(CELLS);
        let stores = LocalStores::open(env, directory, space.clone(), options.store, Some(&cells))?;
        let cells = FileCells::with_space_check(env.clone(), &cells, stores.space_check());
        let (disk, log) = (Arc::new(RealDisk), directory.join(LOG));
        let file_log = FileLog::open(env, disk, &log, options.log, space, mode, Some(lock))?;
        let file_log = Arc::new(file_log);
        let (log, cells) = (Log::from_arc(file_log.clone()), Cells::new(cells));
        Ok(Self { env: env.clone(), file_log, log, stores, cells })
    }

    /// Removes the store of a storage that is not open. The storage then opens with an empty store, and everything derived
    /// is built again from the log. The log and the cells are not changed. From a store of format 1, conditional values are
    /// copied to cells first. If this is interrupted, the storage opens with its old store or with an empty one.
    ///
    /// # Errors
    ///
    /// [`OpenError`] if another process uses the folder, or if it is not a storage or a newer one.
    pub async fn discard_store(env: &Env, directory: &Path) -> Result<(), OpenError> {
        let (own, directory) = (env.clone(), directory.to_owned());
        let work = move || {
            let _lock = claim_existing(&directory)?;
            Ok(discard(&own, &directory, STORE, CELLS)?)
        };
        env.blocking(work).await
    }

    /// The log.
    #[must_use]
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Store {
        self.stores.store()
    }

    /// The cells, for a program that embeds the storage. They are not part of the log or of a backup, and cannot be derived
    /// from the log.
    #[must_use]
    pub fn cells(&self) -> &Cells {
        &self.cells
    }

    /// The free space on the storage's disk, and how much must stay free.
    #[must_use]
    pub fn disk_space(&self) -> DiskSpace {
        self.stores.disk_space()
    }

    pub(crate) fn env(&self) -> &Env {
        &self.env
    }

    pub(crate) fn directory(&self) -> &Path {
        self.stores.directory()
    }

    /// Copies the log with its identity and its bulletin into a folder that is empty or does not exist yet. Appends continue meanwhile. The
    /// store is not copied, because it is derived.
    ///
    /// The backup is one prefix of the committer's order: it has everything that was acknowledged before the call, and if it
    /// has an entry, it has everything that was acknowledged, in any partition, before that entry was appended. It is durable
    /// when this returns. [`restore`](crate::restore()) makes a storage from it. A backup that has begun is completed also
    /// if its future is dropped.
    ///
    /// # Errors
    ///
    /// [`BackupError`]: there is no backup at the destination, and nothing that could be mistaken for one.
    pub async fn backup(&self, destination: &Path) -> Result<BackupReport, BackupError> {
        // The bulletin is copied before the log is cut. So every event that was handed to a projector is in the backup.
        let files = [(BULLETIN, self.file_log.bulletin_copy()), (IDENTITY, self.file_log.identity_copy())];
        let prefix = self.file_log.committed_prefix()?;
        let (env, directory) = (self.env.clone(), self.stores.directory().to_owned());
        let space = self.stores.space().clone();
        let destination = destination.to_owned();
        let work = move || backup(&env, &prefix, &files, &directory, &space, &destination);
        self.env.blocking(work).await
    }

    /// Finishes what is in progress, flushes, and unlocks the folder.
    ///
    /// # Errors
    ///
    /// [`CloseError`] of the log or the store; both are closed nevertheless.
    pub async fn close(self) -> Result<(), CloseError> {
        StorageBackend::close(&self).await
    }
}

#[async_trait]
impl StorageBackend for FileStorage {
    fn log(&self) -> &Log {
        &self.log
    }

    fn store(&self) -> &Store {
        self.stores.store()
    }

    fn disk_space(&self) -> Option<DiskSpace> {
        Some(self.disk_space())
    }

    fn as_backup(&self) -> Option<&dyn Backup> {
        Some(self)
    }

    async fn scratch(&self) -> Result<ScratchStore, StoreError> {
        self.scratch().await
    }

    async fn close(&self) -> Result<(), CloseError> {
        // The log has the folder's lock, so it is closed last.
        let cells = self.cells.close().await;
        let store = self.stores.store().close().await;
        self.log.close().await?;
        cells?;
        store?;
        Ok(())
    }
}

#[async_trait]
impl Backup for FileStorage {
    async fn backup(&self, destination: &Path) -> Result<BackupReport, BackupError> {
        self.backup(destination).await
    }
}

/// Refuses to create a storage that could accept no write, because its first segment leaves too little space free.
fn check_space_for_new_storage(
    directory: &Path,
    options: &FileOptions,
    probe: &SpaceProbe,
) -> Result<(), OpenError> {
    let needed_bytes = options.free_bytes_min.saturating_add(options.log.segment_bytes.into());
    // The folder may be missing, and some above it. The first existing one shows the disk.
    let existing = directory.ancestors().find(|above| above.exists()).unwrap_or(Path::new("."));
    let free_bytes = probe(existing).unwrap_or(u64::MAX);
    if free_bytes < needed_bytes {
        return Err(OpenError::DiskNearlyFull { directory: directory.to_owned(), free_bytes, needed_bytes });
    }
    Ok(())
}
