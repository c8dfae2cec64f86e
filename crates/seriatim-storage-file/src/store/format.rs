//! The directory of a store: what it is, its format, and its lock.
//!
//! ```text
//! store/
//!   in-use    locked by the process that has the store open
//!   format    "seriatim store", and the version; written last
//!   tree/     lsm-tree
//! ```

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use seriatim_storage::StoreError;

use super::{fault, migrate};

/// The format that this program writes, and the newest that it reads.
pub(super) const FORMAT_VERSION: u32 = 2;

pub(super) const TREE: &str = "tree";
pub(super) const LOCK: &str = "in-use";
const MARKER: &str = "format";
/// The name of the marker while it is being written.
const NEW_MARKER: &str = "format.new";
const MARKER_TITLE: &str = "seriatim store";

/// Everything that is created before the marker, in this format and in format 1.
const UNFINISHED: [&str; 6] = [LOCK, NEW_MARKER, TREE, "lock", "keyspaces", "0.jnl"];

/// A directory that is locked for this process.
#[derive(Debug)]
pub(super) struct Claim {
    directory: PathBuf,
    found: DirectoryKind,
    _lock: File,
}

/// What a directory was when it was locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DirectoryKind {
    /// Empty, or an unfinished store in which nothing was ever stored.
    Nothing,
    /// A store of format 1.
    Format1,
    Store,
}

/// Locks a directory. It must be missing, empty, or a store.
pub(super) fn claim(directory: &Path) -> Result<Claim, StoreError> {
    let unavailable = |error: io::Error| unavailable(directory, &error);
    // Before anything is created in a directory that may be another program's.
    inspect(directory)?;
    fs::create_dir_all(directory).map_err(unavailable)?;
    let lock = OpenOptions::new().write(true).create(true).truncate(false).open(directory.join(LOCK));
    let lock = lock.map_err(unavailable)?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(StoreError::Unavailable(format!(
                "{} is open in another process: stop that process first, or choose another directory",
                directory.display()
            )));
        }
        Err(TryLockError::Error(error)) => return Err(unavailable(error)),
    }
    // The process that held the lock before may have written the marker since.
    let found = inspect(directory)?;
    if found != DirectoryKind::Store {
        // A process that ended before it had finished has left it.
        remove(&directory.join(TREE)).map_err(unavailable)?;
    }
    Ok(Claim { directory: directory.to_owned(), found, _lock: lock })
}

impl Claim {
    /// If a store of format 1 was found, copies what is kept of it into the tree and into cells.
    pub(super) fn migrate(&self, cells: &Path) -> Result<(), StoreError> {
        if self.found == DirectoryKind::Format1 {
            fault::reach(&self.directory, "before the copy")?;
            migrate::copy(&self.directory, &self.directory.join(TREE), cells)?;
            fault::reach(&self.directory, "after the copy")?;
        }
        Ok(())
    }

    /// Writes the marker of a new store, durably, when its tree exists. Removes the files of format 1.
    pub(super) fn finish(self) -> Result<Self, StoreError> {
        let unavailable = |error: io::Error| unavailable(&self.directory, &error);
        if self.found != DirectoryKind::Store {
            write_marker(&self.directory).map_err(unavailable)?;
            fault::reach(&self.directory, "after the mark")?;
        }
        if migrate::is_format_1(&self.directory)? {
            migrate::remove(&self.directory).map_err(unavailable)?;
            tracing::info!(store = %self.directory.display(), "the store was migrated to format {FORMAT_VERSION}");
        }
        Ok(self)
    }
}

/// What the directory is; an error if it is another program's, or newer.
fn inspect(directory: &Path) -> Result<DirectoryKind, StoreError> {
    match fs::read_to_string(directory.join(MARKER)) {
        Ok(text) => return check_marker(directory, &text).map(|()| DirectoryKind::Store),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            return Err(foreign(directory, &format!("its file {MARKER} is not one of a store")));
        }
        Err(error) => return Err(unavailable(directory, &error)),
    }
    if migrate::is_format_1(directory)? {
        return Ok(DirectoryKind::Format1);
    }
    let names = match fs::read_dir(directory) {
        Ok(entries) => entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(DirectoryKind::Nothing),
        Err(error) => Err(error),
    };
    let names = names.map_err(|error| unavailable(directory, &error))?;
    match names.iter().find(|name| !UNFINISHED.iter().any(|ours| name == ours)) {
        Some(other) => Err(foreign(directory, &format!("it contains {} and no {MARKER}", other.display()))),
        None => Ok(DirectoryKind::Nothing),
    }
}

fn check_marker(directory: &Path, text: &str) -> Result<(), StoreError> {
    let version = text.strip_prefix(MARKER_TITLE).and_then(|rest| rest.trim().strip_prefix("format "));
    match version.and_then(|version| version.trim().parse::<u32>().ok()) {
        Some(FORMAT_VERSION) => Ok(()),
        Some(found) if found > FORMAT_VERSION => Err(StoreError::Newer { found, known: FORMAT_VERSION }),
        _ => Err(foreign(directory, &format!("its file {MARKER} is not one of a store"))),
    }
}

fn write_marker(directory: &Path) -> io::Result<()> {
    let (new, marker) = (directory.join(NEW_MARKER), directory.join(MARKER));
    let mut file = File::create(&new)?;
    writeln!(file, "{MARKER_TITLE}\nformat {FORMAT_VERSION}")?;
    file.sync_all()?;
    fs::rename(new, marker)?;
    File::open(directory)?.sync_all()?;
    // Also the name of the directory itself.
    match directory.parent() {
        Some(parent) if parent != Path::new("") => File::open(parent)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}

fn remove(directory: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn unavailable(directory: &Path, error: &io::Error) -> StoreError {
    StoreError::Unavailable(format!("{}: {error}", directory.display()))
}

pub(super) fn foreign(directory: &Path, reason: &str) -> StoreError {
    StoreError::Corrupt(format!(
        "{} is not a store of seriatim: {reason}; choose an empty directory or one that does not exist",
        directory.display()
    ))
}
