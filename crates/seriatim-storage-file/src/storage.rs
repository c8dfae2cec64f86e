//! A folder with a log and a store.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use seriatim_env::Env;
use seriatim_storage::{
    Backup, BackupError, BackupReport, Cells, CloseError, DiskSpace, Log, ScratchStore, StorageBackend, Store,
    StoreError,
};

use crate::backup::backup;
use crate::directory::{DirectoryLock, claim, claim_existing, claim_restore, finish_marker, is_to_be_made};
use crate::disk::RealDisk;
use crate::log::Before;
use crate::scratch::remove_scratch;
use crate::space::{FreeSpace, NearlyFull, SpaceProbe};
use crate::store::{discard, remove_discarded};
use crate::{FileCells, FileLog, LogOptions, OpenError, StoreOptions, TreeStore};

const LOG: &str = "log";
const STORE: &str = "store";
const CELLS: &str = "cells";

/// Settings of a storage on files.
#[derive(Debug, Clone)]
pub struct FileOptions {
    /// Of the log.
    pub log: LogOptions,
    /// Of the store.
    pub store: StoreOptions,
    /// Writes are refused while less than this is free on the disk, so that what was promised can always be kept.
    /// Default 512 MiB: several segments, and room for the store to compact.
    pub free_bytes_min: u64,
}

impl Default for FileOptions {
    fn default() -> Self {
        Self { log: LogOptions::default(), store: StoreOptions::default(), free_bytes_min: 512 << 20 }
    }
}

/// A storage in a folder, held by this process until it is closed or dropped.
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
/// // Nobody else can use it meanwhile.
/// let second = FileStorage::open(&Env::real(), directory, FileOptions::default()).await;
/// assert!(second.unwrap_err().to_string().contains("is held by process"));
/// storage.close().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct FileStorage {
    env: Env,
    directory: PathBuf,
    space: Arc<FreeSpace>,
    /// What `log` is a port of.
    segments: Arc<FileLog>,
    log: Log,
    store: Store,
    cells: Cells,
}

impl FileStorage {
    /// Opens the storage in `directory`, or makes one there if the folder is empty or missing.
    ///
    /// # Errors
    ///
    /// [`OpenError`] if somebody else holds the folder, if it is foreign, newer or damaged, or if there is too little room
    /// for a new one.
    pub async fn open(env: &Env, directory: &Path, options: FileOptions) -> Result<Self, OpenError> {
        Self::open_with_probe(env, directory, options, FreeSpace::system()).await
    }

    /// As [`FileStorage::open`], with another way to tell how much room is left: for quotas, and for tests.
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
            if is_to_be_made(&directory)? {
                refuse_without_room(&directory, &options, &probe)?;
            }
            let (lock, before) = claim(&directory)?;
            let storage = Self::open_claimed(&own, &directory, lock, before, options, probe)?;
            if before == Before::Nothing {
                finish_marker(&directory).map_err(|error| OpenError::Unavailable {
                    directory: directory.clone(),
                    reason: error.to_string(),
                })?;
            }
            Ok(storage)
        };
        env.blocking(work).await
    }

    /// Opens a restore that is not finished.
    pub(crate) async fn open_restore(
        env: &Env,
        directory: &Path,
        options: FileOptions,
    ) -> Result<Self, OpenError> {
        let (own, directory) = (env.clone(), directory.to_owned());
        let work = move || {
            let lock = claim_restore(&directory)?;
            Self::open_claimed(&own, &directory, lock, Before::Log, options, FreeSpace::system())
        };
        env.blocking(work).await
    }

    fn open_claimed(
        env: &Env,
        directory: &Path,
        lock: DirectoryLock,
        before: Before,
        options: FileOptions,
        probe: SpaceProbe,
    ) -> Result<Self, OpenError> {
        let lock = Arc::new(lock);
        let space = Arc::new(FreeSpace::new(directory, options.free_bytes_min, probe));
        let mut store = options.store;
        if store.space_check.is_none() {
            let space = space.clone();
            store.space_check = Some(Arc::new(move || {
                space.check().map_err(|NearlyFull { free_bytes, needed_bytes }| (free_bytes, needed_bytes))
            }));
        }
        remove_discarded(directory)?;
        remove_scratch(directory)?;
        let cells_directory = directory.join(CELLS);
        let cells = FileCells::with_space_check(env.clone(), &cells_directory, store.space_check.clone());
        let store = TreeStore::open_with_cells(env.clone(), &directory.join(STORE), &cells_directory, store)?;
        let (disk, log) = (Arc::new(RealDisk), directory.join(LOG));
        let segments = FileLog::open(env, disk, &log, options.log, space.clone(), before, Some(lock))?;
        let segments = Arc::new(segments);
        let (log, store, cells) = (Log::from_arc(segments.clone()), Store::new(store), Cells::new(cells));
        Ok(Self { env: env.clone(), directory: directory.to_owned(), space, segments, log, store, cells })
    }

    /// Throws away the store of a storage that nobody holds, so that it opens with an empty one and everything derived is
    /// made anew from the log. The log and the cells are not touched; of a store of format 1, what was written on condition
    /// becomes cells first. If this is cut short, the storage opens with its old store or
    /// with an empty one.
    ///
    /// # Errors
    ///
    /// [`OpenError`] if somebody holds the folder, or if it is no storage or a newer one.
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
        &self.store
    }

    /// The cells: for a program that embeds the storage. They are no part of the log, of a backup, or of what is made anew
    /// from the log.
    #[must_use]
    pub fn cells(&self) -> &Cells {
        &self.cells
    }

    /// How much room is left on its disk, and how much has to be.
    #[must_use]
    pub fn disk_space(&self) -> DiskSpace {
        let NearlyFull { free_bytes, needed_bytes } = self.space.measure();
        DiskSpace { free_bytes, needed_bytes }
    }

    pub(crate) fn env(&self) -> &Env {
        &self.env
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Copies the log and the bulletin into a folder of their own, which must be empty or missing, while appends go on.
    /// The store is not copied: it is derived.
    ///
    /// The backup is one prefix of the committer's order: it has all that was acknowledged before the call, and if it has
    /// an entry, it has all that was acknowledged, in any partition, before that entry was appended. It is durable when
    /// this returns. [`restore`](crate::restore()) makes a storage of it. Once begun, it goes on to its end, also if
    /// nobody waits for it any more.
    ///
    /// # Errors
    ///
    /// [`BackupError`]: there is no backup at the destination, and nothing that looks like one.
    pub async fn backup(&self, destination: &Path) -> Result<BackupReport, BackupError> {
        // Before the log is cut: what the backup says was handed to a projector is then in the backup.
        let bulletin = self.segments.bulletin_copy();
        let prefix = self.segments.committed_prefix()?;
        let (env, directory, space) = (self.env.clone(), self.directory.clone(), self.space.clone());
        let destination = destination.to_owned();
        let work = move || backup(&env, &prefix, bulletin.as_deref(), &directory, &space, &destination);
        self.env.blocking(work).await
    }

    /// Finishes what is under way, flushes, and lets go of the folder.
    ///
    /// # Errors
    ///
    /// [`CloseError`] with what the log or the store said; both are closed all the same.
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
        &self.store
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
        // The log holds the folder's lock, so it goes last.
        let cells = self.cells.close().await;
        let store = self.store.close().await;
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

/// Refuses to make a storage that could take no write: its first segment alone may leave less than has to stay free.
fn refuse_without_room(directory: &Path, options: &FileOptions, probe: &SpaceProbe) -> Result<(), OpenError> {
    let needed_bytes = options.free_bytes_min.saturating_add(options.log.segment_bytes.into());
    // The folder may be missing, and some of those above it: the one that is there tells which disk it will be.
    let there = directory.ancestors().find(|above| above.exists()).unwrap_or(Path::new("."));
    let free_bytes = probe(there).unwrap_or(u64::MAX);
    if free_bytes < needed_bytes {
        return Err(OpenError::DiskNearlyFull { directory: directory.to_owned(), free_bytes, needed_bytes });
    }
    Ok(())
}
