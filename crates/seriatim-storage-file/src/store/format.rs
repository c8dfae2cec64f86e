//! Whose directory it is, of which format, and who has it open.
//!
//! ```text
//! store/
//!   lock      held by the process that has it open
//!   format    "seriatim store", and the version; written when all else is there
//!   tree/     lsm-tree
//! ```

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use seriatim_storage::StoreError;

/// The format that this program writes, and the newest that it reads.
pub(super) const FORMAT_VERSION: u32 = 2;

pub(super) const TREE: &str = "tree";
const LOCK: &str = "lock";
const MARKER: &str = "format";
/// The marker while it is being written.
const NEW_MARKER: &str = "format.new";
const MARKER_TITLE: &str = "seriatim store";

/// Everything that is made before the marker.
const UNFINISHED: [&str; 3] = [LOCK, NEW_MARKER, TREE];

/// A directory that no other process has open.
#[derive(Debug)]
pub(super) struct Claim {
    directory: PathBuf,
    /// Whether it has to be marked.
    is_new: bool,
    _lock: File,
}

/// Makes a directory ours: it may be missing, empty, or a store's.
pub(super) fn claim(directory: &Path) -> Result<Claim, StoreError> {
    let unavailable = |error: io::Error| unavailable(directory, &error);
    // Before anything is made in a directory that is someone else's.
    is_marked(directory)?;
    fs::create_dir_all(directory).map_err(unavailable)?;
    let lock = OpenOptions::new().write(true).create(true).truncate(false).open(directory.join(LOCK));
    let lock = lock.map_err(unavailable)?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(StoreError::Unavailable(format!(
                "{} is open in another process: stop that one first, or name another directory",
                directory.display()
            )));
        }
        Err(TryLockError::Error(error)) => return Err(unavailable(error)),
    }
    // The process that held it before may have marked it since.
    let is_new = !is_marked(directory)?;
    if is_new {
        // Of a process that ended before anything could be stored.
        remove(&directory.join(TREE)).map_err(unavailable)?;
    }
    Ok(Claim { directory: directory.to_owned(), is_new, _lock: lock })
}

impl Claim {
    /// Marks a directory that is new, durably: its tree is there.
    pub(super) fn finish(self) -> Result<Self, StoreError> {
        if self.is_new {
            mark(&self.directory).map_err(|error| unavailable(&self.directory, &error))?;
        }
        Ok(Self { is_new: false, ..self })
    }
}

/// Whether the directory has our mark. If not, there is nothing in it that anyone could miss.
fn is_marked(directory: &Path) -> Result<bool, StoreError> {
    match fs::read_to_string(directory.join(MARKER)) {
        Ok(text) => return check_marker(directory, &text).map(|()| true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            return Err(foreign(directory, &format!("its {MARKER} file is none of ours")));
        }
        Err(error) => return Err(unavailable(directory, &error)),
    }
    let names = match fs::read_dir(directory) {
        Ok(entries) => entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => Err(error),
    };
    let names = names.map_err(|error| unavailable(directory, &error))?;
    match names.iter().find(|name| !UNFINISHED.iter().any(|ours| name == ours)) {
        Some(other) => Err(foreign(directory, &format!("it holds {} and no {MARKER}", other.display()))),
        None => Ok(false),
    }
}

fn check_marker(directory: &Path, text: &str) -> Result<(), StoreError> {
    let version = text.strip_prefix(MARKER_TITLE).and_then(|rest| rest.trim().strip_prefix("format "));
    match version.and_then(|version| version.trim().parse::<u32>().ok()) {
        Some(FORMAT_VERSION) => Ok(()),
        Some(found) if found > FORMAT_VERSION => Err(StoreError::Newer { found, known: FORMAT_VERSION }),
        _ => Err(foreign(directory, &format!("its {MARKER} file does not say what it is"))),
    }
}

fn mark(directory: &Path) -> io::Result<()> {
    let (new, marker) = (directory.join(NEW_MARKER), directory.join(MARKER));
    let mut file = File::create(&new)?;
    writeln!(file, "{MARKER_TITLE}\nformat {FORMAT_VERSION}")?;
    file.sync_all()?;
    fs::rename(new, marker)?;
    File::open(directory)?.sync_all()?;
    // And the directory itself.
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

fn foreign(directory: &Path, reason: &str) -> StoreError {
    StoreError::Corrupt(format!(
        "{} is not a store of seriatim: {reason}; name an empty directory or one that does not exist",
        directory.display()
    ))
}
