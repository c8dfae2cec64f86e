//! Making a storage from a backup.

use std::io;
use std::path::Path;

use seriatim_env::Env;
use seriatim_storage::BackupReport;

use super::destination::UnfinishedFolder;
use super::manifest::{BACKUP_VERSION, BadManifest, Manifest};
use super::{LOG, RestoreError, write_files};
use crate::bulletin::{self, BULLETIN};
use crate::directory::{BACKUP_MARKER, begin_restore, finish_restore};
use crate::disk::{RealDisk, read_whole};
use crate::identity::{self, IDENTITY};
use crate::log::{LogPrefix, Purpose};
use crate::space::FreeSpace;
use crate::{FileOptions, FileStorage, OpenError};

/// Copies a backup into a new storage with an empty store. Every frame is verified.
///
/// The copy may give out numbers again that were given out after the backup was made. To fence it before it can be opened,
/// use [`stage_restore`].
///
/// # Errors
///
/// [`RestoreError`]: there is no storage at the destination, and nothing that could be mistaken for one.
///
/// ```
/// use seriatim_env::Env;
/// use seriatim_storage_file::{FileOptions, FileStorage, restore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let directory = directory.path();
/// let env = Env::real();
/// let storage = FileStorage::open(&env, &directory.join("data"), FileOptions::default()).await?;
/// let report = storage.backup(&directory.join("backup")).await?;
/// storage.close().await?;
///
/// assert_eq!(restore(&env, &directory.join("backup"), &directory.join("again")).await?, report);
/// FileStorage::open(&env, &directory.join("again"), FileOptions::default()).await?.close().await?;
/// # Ok(())
/// # }
/// ```
pub async fn restore(env: &Env, backup: &Path, destination: &Path) -> Result<BackupReport, RestoreError> {
    stage_restore(env, backup, destination).await?.finish().await
}

/// As [`restore`], without the last step: the storage has another name until [`StagedRestore::finish`]. Until then only
/// [`StagedRestore::open`] can open it, so that it can be fenced and closed.
///
/// # Errors
///
/// As [`restore`].
pub async fn stage_restore(
    env: &Env,
    backup: &Path,
    destination: &Path,
) -> Result<StagedRestore, RestoreError> {
    let (own, backup, destination) = (env.clone(), backup.to_owned(), destination.to_owned());
    env.blocking(move || stage(&own, &backup, &destination)).await
}

/// A storage that was copied from a backup and does not have its final name yet. It is removed when it is dropped. A crash
/// leaves it under the name `….unfinished-…`; opening it is refused with [`OpenError::UnfinishedRestore`].
#[derive(Debug)]
pub struct StagedRestore {
    env: Env,
    folder: UnfinishedFolder,
    report: BackupReport,
}

impl StagedRestore {
    /// Opens the storage before it is finished, to fence it. Close it before [`StagedRestore::finish`].
    ///
    /// # Errors
    ///
    /// As [`FileStorage::open`].
    pub async fn open(&self, options: FileOptions) -> Result<FileStorage, OpenError> {
        FileStorage::open_restore(&self.env, self.directory(), options).await
    }

    /// The storage's folder until it is finished.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.folder.path()
    }

    /// What the backup contains.
    #[must_use]
    pub fn report(&self) -> &BackupReport {
        &self.report
    }

    /// Makes the copy a storage that can be opened, and gives it the name of the destination, durably.
    ///
    /// # Errors
    ///
    /// [`RestoreError::Destination`] if something was written there meanwhile, or the file system reports an error.
    pub async fn finish(self) -> Result<BackupReport, RestoreError> {
        let Self { env, folder, report } = self;
        let finish = move || {
            finish_restore(folder.path()).map_err(|error| folder.refused(&error))?;
            folder.finish()
        };
        env.blocking(finish).await?;
        Ok(report)
    }
}

fn stage(env: &Env, backup: &Path, destination: &Path) -> Result<StagedRestore, RestoreError> {
    let manifest = read_manifest(backup)?;
    let of_log = |error| RestoreError::of_log(backup.to_owned(), error);
    let folder = UnfinishedFolder::create(env, destination, Some(backup))?;
    begin_restore(folder.path()).map_err(|error| folder.refused(&error))?;
    let prefix = LogPrefix::stored(env, &backup.join(LOG), manifest.end);
    let space = FreeSpace::new(folder.path(), 0, FreeSpace::system());
    folder.check_room(&space, prefix.bytes_max().map_err(of_log)?)?;
    let copied = prefix.copy(&folder.path().join(LOG), Purpose::Use);
    let copied = copied.map_err(|error| RestoreError::of_copy(backup.to_owned(), error))?;
    check_counts(backup, &manifest, copied.frames, copied.entries)?;
    // A backup that an earlier program made has neither.
    let values = read_file(backup, BULLETIN, bulletin::decode)?;
    let identity = read_file(backup, IDENTITY, identity::decode)?;
    let files =
        [(BULLETIN, values.as_ref().map(bulletin::encode)), (IDENTITY, identity.map(identity::encode))];
    write_files(&folder, &files)?;
    Ok(StagedRestore { env: env.clone(), folder, report: copied.into() })
}

/// An error if a backup contains another number of frames or entries than its marker says.
pub(super) fn check_counts(
    backup: &Path,
    manifest: &Manifest,
    frames: u64,
    entries: u64,
) -> Result<(), RestoreError> {
    if (frames, entries) == (manifest.frames, manifest.entries) {
        return Ok(());
    }
    Err(RestoreError::Damaged {
        backup: backup.to_owned(),
        reason: format!(
            "{BACKUP_MARKER} says {} frames with {} entries, and the log has {frames} with {entries}",
            manifest.frames, manifest.entries
        ),
    })
}

/// What a file next to the log contains, if the backup has it.
pub(super) fn read_file<T>(
    backup: &Path,
    name: &str,
    decode: fn(&[u8]) -> Result<T, String>,
) -> Result<Option<T>, RestoreError> {
    let bytes = read_whole(&RealDisk, &backup.join(LOG).join(name));
    let bytes = bytes.map_err(|error| RestoreError::Unreadable {
        backup: backup.to_owned(),
        reason: format!("{LOG}/{name}: {error}"),
    })?;
    let Some(bytes) = bytes else { return Ok(None) };
    let without = match name {
        BULLETIN => "every asynchronous projector begins at the first event",
        _ => "the restored log gets another identity",
    };
    let decoded = decode(&bytes).map_err(|problem| RestoreError::Damaged {
        backup: backup.to_owned(),
        reason: format!("{LOG}/{name}: {problem}; without that file {without}"),
    })?;
    Ok(Some(decoded))
}

pub(super) fn read_manifest(backup: &Path) -> Result<Manifest, RestoreError> {
    let not_a_backup = |reason: String| RestoreError::NotABackup { backup: backup.to_owned(), reason };
    let manifest = Manifest::read(backup).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            not_a_backup(format!("it has no file {BACKUP_MARKER}"))
        }
        _ => RestoreError::Unreadable { backup: backup.to_owned(), reason: error.to_string() },
    })?;
    manifest.map_err(|bad| match bad {
        BadManifest::Foreign => not_a_backup(format!("its file {BACKUP_MARKER} is not one of a backup")),
        BadManifest::Newer(found) => {
            RestoreError::Newer { backup: backup.to_owned(), found, known: BACKUP_VERSION }
        }
        BadManifest::Damaged(what) => {
            RestoreError::Damaged { backup: backup.to_owned(), reason: format!("{BACKUP_MARKER}: {what}") }
        }
    })
}
