//! The file that marks a folder as local state.
//!
//! ```text
//! seriatim local state
//! format 1
//! log 0123456789abcdef0123456789abcdef
//! ```
//!
//! The last line is missing until the log has an identity.

use std::io;
use std::path::Path;

use seriatim_storage::LogIdentity;

use crate::OpenError;
use crate::directory::{DirectoryLock, LOCK, lock};
use crate::disk::{RealDisk, create_directories, read_whole, replace_whole};

const MARKER: &str = "LOCAL";
const TITLE: &str = "seriatim local state";

/// The format of the whole folder.
const VERSION: u32 = 1;

/// Locks a folder for local state. Returns the log that its content was derived from, if it is known. A folder that is not empty
/// and not local state is not changed.
pub(super) fn claim(directory: &Path) -> Result<(DirectoryLock, Option<LogIdentity>), OpenError> {
    let fail = |error: io::Error| unavailable(directory, &error);
    if directory.exists() {
        read(directory)?;
    }
    create_directories(&RealDisk, directory).map_err(fail)?;
    let lock = lock(directory)?;
    // The process that held the lock before may have written the marker since.
    Ok((lock, read(directory)?))
}

/// Writes the marker, durably.
pub(super) fn write(directory: &Path, identity: Option<LogIdentity>) -> Result<(), OpenError> {
    let log = identity.map(|identity| format!("log {identity}\n")).unwrap_or_default();
    let text = format!("{TITLE}\nformat {VERSION}\n{log}");
    let written = match read_whole(&RealDisk, &directory.join(MARKER)) {
        Ok(Some(present)) if present == text.as_bytes() => Ok(()),
        _ => replace_whole(&RealDisk, directory, MARKER, text.as_bytes()),
    };
    written.map_err(|error| unavailable(directory, &error))
}

fn read(directory: &Path) -> Result<Option<LogIdentity>, OpenError> {
    let foreign = |reason: String| OpenError::ForeignLocal { directory: directory.to_owned(), reason };
    let bytes =
        read_whole(&RealDisk, &directory.join(MARKER)).map_err(|error| unavailable(directory, &error))?;
    let Some(bytes) = bytes else {
        let names = std::fs::read_dir(directory).map_err(|error| unavailable(directory, &error))?;
        let mut names = names.flatten().map(|entry| entry.file_name());
        let new = format!("{MARKER}.new");
        return match names.find(|name| name != LOCK && *name != *new) {
            None => Ok(None),
            Some(name) => Err(foreign(format!("it contains {} and no {MARKER}", name.display()))),
        };
    };
    let text = String::from_utf8_lossy(&bytes);
    let mut lines = text.strip_prefix(TITLE).map(|rest| rest.trim_start().lines());
    let version = lines.as_mut().and_then(|lines| lines.next()?.strip_prefix("format ")?.parse::<u32>().ok());
    match version {
        None => Err(foreign(format!("its file {MARKER} is not one of local state"))),
        Some(found) if found > VERSION => {
            Err(OpenError::Newer { directory: directory.to_owned(), found, known: VERSION })
        }
        Some(_) => Ok(lines.and_then(|mut lines| identity(lines.next()?.strip_prefix("log ")?))),
    }
}

fn identity(text: &str) -> Option<LogIdentity> {
    Some(LogIdentity::from_bytes(u128::from_str_radix(text.trim(), 16).ok()?.to_be_bytes()))
}

fn unavailable(directory: &Path, error: &io::Error) -> OpenError {
    OpenError::Unavailable { directory: directory.to_owned(), reason: error.to_string() }
}
