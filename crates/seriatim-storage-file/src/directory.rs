//! The folder of a storage: what it is, its format, and its lock.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use crate::OpenError;
use crate::disk::{RealDisk, create_directories};
use crate::log::OpenMode;

/// The format of the whole folder: its parts, and how their versions are found.
pub(crate) const FORMAT_VERSION: u32 = 1;

const MARKER: &str = "SERIATIM";
/// The marker while the storage is created: its log has not been opened yet.
const BEGUN_MARKER: &str = "SERIATIM.new";
const MARKER_TITLE: &str = "seriatim storage";
pub(crate) const LOCK: &str = "LOCK";

/// The file that only an unfinished restore has.
const RESTORE_MARKER: &str = "RESTORE";
const RESTORE_TEXT: &str =
    "seriatim restore\nnot finished: remove this folder and restore the backup again\n";

/// The file that only a backup has.
pub(crate) const BACKUP_MARKER: &str = "BACKUP";

/// Locks a folder for one process, until it is dropped or the process ends.
#[derive(Debug)]
pub(crate) struct DirectoryLock {
    _file: File,
}

/// What a folder is, by its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FolderKind {
    /// The folder is empty.
    Nothing,
    /// A storage whose creation was interrupted. It has never been used.
    Begun,
    /// A storage. It has a log.
    Storage,
}

/// Locks the folder, and begins a new storage or checks the marker of an existing one. A new storage must be marked with
/// [`finish_marker`] when its log has been created.
pub(crate) fn claim(directory: &Path) -> Result<(DirectoryLock, OpenMode), OpenError> {
    let unavailable = |error: io::Error| unavailable(directory, &error);
    create_directories(&RealDisk, directory).map_err(unavailable)?;
    check_marker(directory)?;
    let lock = lock(directory)?;
    // The process that held the lock before may have written the marker since.
    let mode = match check_marker(directory)? {
        FolderKind::Storage => OpenMode::MustExist,
        FolderKind::Begun => OpenMode::CreateIfMissing,
        FolderKind::Nothing => {
            begin_marker(directory).map_err(unavailable)?;
            OpenMode::CreateIfMissing
        }
    };
    Ok((lock, mode))
}

/// Whether [`claim`] would create a storage here. Changes nothing.
pub(crate) fn would_create(directory: &Path) -> Result<bool, OpenError> {
    Ok(!directory.exists() || (directory.is_dir() && check_marker(directory)? == FolderKind::Nothing))
}

/// Locks a folder with an unfinished restore.
pub(crate) fn claim_restore(directory: &Path) -> Result<DirectoryLock, OpenError> {
    if !directory.join(RESTORE_MARKER).exists() {
        let reason = format!("it has no file {RESTORE_MARKER}");
        return Err(OpenError::Foreign { directory: directory.to_owned(), reason });
    }
    lock(directory)
}

/// Locks a folder that is a storage. Any other folder is not changed.
pub(crate) fn claim_existing(directory: &Path) -> Result<DirectoryLock, OpenError> {
    if !directory.is_dir() || check_marker(directory)? != FolderKind::Storage {
        let reason = "it is empty or does not exist".to_owned();
        return Err(OpenError::Foreign { directory: directory.to_owned(), reason });
    }
    lock(directory)
}

fn unavailable(directory: &Path, error: &io::Error) -> OpenError {
    OpenError::Unavailable { directory: directory.to_owned(), reason: error.to_string() }
}

pub(crate) fn lock(directory: &Path) -> Result<DirectoryLock, OpenError> {
    let unavailable = |error: io::Error| unavailable(directory, &error);
    let path = directory.join(LOCK);
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
    let mut file = file.map_err(unavailable)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            let _ = file.read_to_string(&mut holder);
            let holder = holder.trim().to_owned();
            return Err(OpenError::Held { directory: directory.to_owned(), holder });
        }
        Err(TryLockError::Error(error)) => return Err(unavailable(error)),
    }
    let holder = format!("process {}\n", std::process::id());
    file.set_len(0).map_err(unavailable)?;
    file.rewind().map_err(unavailable)?;
    file.write_all(holder.as_bytes()).map_err(unavailable)?;
    Ok(DirectoryLock { _file: file })
}

/// What the folder is. An error if it is of another kind or another program's.
fn check_marker(directory: &Path) -> Result<FolderKind, OpenError> {
    let foreign = |reason: String| OpenError::Foreign { directory: directory.to_owned(), reason };
    if directory.join(RESTORE_MARKER).exists() {
        return Err(OpenError::UnfinishedRestore { directory: directory.to_owned() });
    }
    match read_marker(directory, MARKER)? {
        Some(true) => return Ok(FolderKind::Storage),
        Some(false) => return Err(foreign(format!("its file {MARKER} is not one of a storage"))),
        None => {}
    }
    if directory.join(BACKUP_MARKER).exists() {
        return Err(OpenError::Backup { directory: directory.to_owned() });
    }
    // This marker is durable before anything else is created in the folder. So if it is incomplete, nothing else is there.
    if read_marker(directory, BEGUN_MARKER)? == Some(true) {
        return Ok(FolderKind::Begun);
    }
    let others = others(directory).map_err(|error| foreign(error.to_string()))?;
    match others.first() {
        None => Ok(FolderKind::Nothing),
        Some(other) => Err(foreign(format!("it contains {} and no {MARKER}", other.display()))),
    }
}

/// Whether this marker says that the folder is a storage; `None` if there is none.
fn read_marker(directory: &Path, name: &str) -> Result<Option<bool>, OpenError> {
    let text = match std::fs::read_to_string(directory.join(name)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            let reason = format!("{name} cannot be read: {error}");
            return Err(OpenError::Foreign { directory: directory.to_owned(), reason });
        }
    };
    let version = text.strip_prefix(MARKER_TITLE).and_then(|rest| rest.trim().strip_prefix("format "));
    match version.and_then(|version| version.trim().parse::<u32>().ok()) {
        None => Ok(Some(false)),
        Some(found) if found > FORMAT_VERSION => {
            Err(OpenError::Newer { directory: directory.to_owned(), found, known: FORMAT_VERSION })
        }
        Some(_) => Ok(Some(true)),
    }
}

/// The names in the folder, without the lock and the marker of a storage that is being created.
fn others(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let names = std::fs::read_dir(directory)?.map(|entry| Ok(PathBuf::from(entry?.file_name())));
    let names = names.collect::<io::Result<Vec<_>>>()?;
    Ok(names.into_iter().filter(|name| name != Path::new(LOCK) && name != Path::new(BEGUN_MARKER)).collect())
}

/// Writes, durably, the marker of a storage that is being created.
fn begin_marker(directory: &Path) -> io::Result<()> {
    let mut file = File::create(directory.join(BEGUN_MARKER))?;
    writeln!(file, "{MARKER_TITLE}\nformat {FORMAT_VERSION}")?;
    file.sync_all()?;
    File::open(directory)?.sync_all()
}

/// Writes the final marker, durably. From now on the storage has a log, and without one it is damaged.
pub(crate) fn finish_marker(directory: &Path) -> io::Result<()> {
    std::fs::rename(directory.join(BEGUN_MARKER), directory.join(MARKER))?;
    File::open(directory)?.sync_all()
}

/// Marks a folder as an unfinished restore, durably, so that it cannot be opened as a storage.
pub(crate) fn begin_restore(directory: &Path) -> io::Result<()> {
    let mut file = File::create(directory.join(RESTORE_MARKER))?;
    file.write_all(RESTORE_TEXT.as_bytes())?;
    file.sync_all()?;
    File::open(directory)?.sync_all()
}

/// Makes an unfinished restore a storage, durably.
pub(crate) fn finish_restore(directory: &Path) -> io::Result<()> {
    begin_marker(directory)?;
    finish_marker(directory)?;
    std::fs::remove_file(directory.join(RESTORE_MARKER))?;
    File::open(directory)?.sync_all()
}
