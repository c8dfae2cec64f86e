//! The disk, reduced to the operations that the log uses, so that a simulated disk can show what a power cut leaves.
#![allow(
    clippy::missing_errors_doc,
    reason = "every operation gives the errors of the file system and no others"
)]

mod real;
mod simulated;
mod whole_file;

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

pub use real::RealDisk;
pub use simulated::{Crash, SimulatedDisk};
pub(crate) use whole_file::{read_whole, replace_whole};

/// Files and folders. Written bytes are durable only after [`DiskFile::sync`]; created, renamed and removed names only after
/// [`Disk::sync_directory`].
pub trait Disk: Send + Sync + fmt::Debug + 'static {
    /// Creates a folder in an existing folder. If it exists already, the error has the kind `AlreadyExists`.
    fn create_directory(&self, path: &Path) -> io::Result<()>;

    /// Creates a file of `length` zeros and reserves its space. Replaces an existing file.
    fn create(&self, path: &Path, length: u64) -> io::Result<Arc<dyn DiskFile>>;

    /// Opens a file for reading and writing.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;

    /// Opens a file for reading only, also on a disk that cannot be written.
    fn open_to_read(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;

    /// The names of the files in a folder, in any order.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;

    /// Renames a file. Replaces an existing file with the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a folder durable.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;
}

/// An open file.
pub trait DiskFile: Send + Sync + fmt::Debug + 'static {
    /// The length of the file.
    fn length(&self) -> io::Result<u64>;

    /// Reads up to the buffer's length, or to the end of the file. Returns how much was read.
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize>;

    /// Writes all bytes.
    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<()>;

    /// Makes all written bytes durable. After an error it is not known which are, and a second call does not show it.
    fn sync(&self) -> io::Result<()>;
}

/// Creates a folder and the folders above it, durably. Existing folders are allowed.
///
/// Folders are created from the top down; each is durable before the next. A killed process may have left a folder that is
/// not durable, so the name of the first existing folder is synced too.
pub(crate) fn create_directories(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    let Some(parent) = parent(path) else { return Ok(()) };
    match disk.create_directory(path) {
        Ok(()) => {
            disk.sync_directory(parent)?;
            sync_name(disk, parent)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => sync_name(disk, path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            create_directories(disk, parent)?;
            disk.create_directory(path)?;
            disk.sync_directory(parent)
        }
        Err(error) => Err(error),
    }
}

/// Makes the name of an existing folder durable.
fn sync_name(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    match parent(path).map_or(Ok(()), |parent| disk.sync_directory(parent)) {
        // The folder above belongs to another user, who created this one.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        synced => synced,
    }
}

/// The folder that contains a path; `None` for the root and the current folder.
fn parent(path: &Path) -> Option<&Path> {
    match path.parent() {
        Some(parent) if parent == Path::new("") => (path != Path::new(".")).then_some(Path::new(".")),
        parent => parent,
    }
}
