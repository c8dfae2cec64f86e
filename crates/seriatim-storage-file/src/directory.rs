//! The folder: whose it is, of which format, and who holds it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use crate::OpenError;

/// The format of the folder as a whole: which parts it has and which versions they are read by.
pub(crate) const FORMAT_VERSION: u32 = 1;

const MARKER: &str = "SERIATIM";
const MARKER_TITLE: &str = "seriatim storage";
const LOCK: &str = "LOCK";

/// The file that only a backup has.
pub(crate) const BACKUP_MARKER: &str = "BACKUP";

/// Holds a folder for one process, until it is dropped or the process ends.
#[derive(Debug)]
pub(crate) struct DirectoryLock {
    _file: File,
}

/// Makes the folder ours: locks it, and marks a new one or checks the mark of an old one.
pub(crate) fn claim(directory: &Path) -> Result<DirectoryLock, OpenError> {
    let unavailable = |error: io::Error| OpenError::Unavailable {
        directory: directory.to_owned(),
        reason: error.to_string(),
    };
    std::fs::create_dir_all(directory).map_err(unavailable)?;
    check_marker(directory)?;
    let lock = lock(directory)?;
    // Whoever held it before may have marked it since.
    if !check_marker(directory)? {
        write_marker(directory).map_err(unavailable)?;
    }
    Ok(lock)
}

/// Holds a folder that is a storage already. One that is not is left as it is.
pub(crate) fn claim_existing(directory: &Path) -> Result<DirectoryLock, OpenError> {
    if !directory.is_dir() || !check_marker(directory)? {
        let reason = "there is nothing in it".to_owned();
        return Err(OpenError::Foreign { directory: directory.to_owned(), reason });
    }
    lock(directory)
}

fn lock(directory: &Path) -> Result<DirectoryLock, OpenError> {
    let unavailable = |error: io::Error| OpenError::Unavailable {
        directory: directory.to_owned(),
        reason: error.to_string(),
    };
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

/// Whether the folder bears our mark; an error if it bears another or is somebody else's.
fn check_marker(directory: &Path) -> Result<bool, OpenError> {
    let foreign = |reason: String| OpenError::Foreign { directory: directory.to_owned(), reason };
    let path = directory.join(MARKER);
    match std::fs::read_to_string(&path) {
        Ok(text) => {
            let version =
                text.strip_prefix(MARKER_TITLE).and_then(|rest| rest.trim().strip_prefix("format "));
            let version = version.and_then(|version| version.trim().parse::<u32>().ok());
            let version = version.ok_or_else(|| foreign(format!("{MARKER} does not say what it is")))?;
            if version > FORMAT_VERSION {
                return Err(OpenError::Newer {
                    directory: directory.to_owned(),
                    found: version,
                    known: FORMAT_VERSION,
                });
            }
            Ok(true)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if directory.join(BACKUP_MARKER).exists() {
                return Err(OpenError::Backup { directory: directory.to_owned() });
            }
            let others = others(directory).map_err(|error| foreign(error.to_string()))?;
            match others.first() {
                None => Ok(false),
                Some(other) => Err(foreign(format!("it holds {} and no {MARKER}", other.display()))),
            }
        }
        Err(error) => Err(foreign(format!("{MARKER} cannot be read: {error}"))),
    }
}

/// What lies in the folder besides a lock.
fn others(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let names = std::fs::read_dir(directory)?.map(|entry| Ok(PathBuf::from(entry?.file_name())));
    let names = names.collect::<io::Result<Vec<_>>>()?;
    Ok(names
        .into_iter()
        .filter(|name| name != Path::new(LOCK) && name != Path::new("SERIATIM.new"))
        .collect())
}

/// Marks a folder as a storage, durably.
pub(crate) fn write_marker(directory: &Path) -> io::Result<()> {
    let new = directory.join("SERIATIM.new");
    let mut file = File::create(&new)?;
    writeln!(file, "{MARKER_TITLE}\nformat {FORMAT_VERSION}")?;
    file.sync_all()?;
    std::fs::rename(new, directory.join(MARKER))?;
    File::open(directory)?.sync_all()
}
