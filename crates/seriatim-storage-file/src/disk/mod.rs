//! The disk as the log sees it: few verbs, so that a simulated one can show what a power cut leaves behind.
#![allow(
    clippy::missing_errors_doc,
    reason = "every verb fails as the file system fails, and in no other way"
)]

mod real;
mod simulated;

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

pub use real::RealDisk;
pub use simulated::{Crash, SimulatedDisk};

/// Files and folders. What was written is durable only after [`DiskFile::sync`]; what was created, renamed or removed
/// only after [`Disk::sync_directory`].
pub trait Disk: Send + Sync + fmt::Debug + 'static {
    /// Makes a folder in a folder that is there. One that is there already is an error of the kind `AlreadyExists`.
    fn create_directory(&self, path: &Path) -> io::Result<()>;

    /// Makes a file of `length` zeros with its space reserved; replaces one that is there.
    fn create(&self, path: &Path, length: u64) -> io::Result<Arc<dyn DiskFile>>;

    /// Opens a file for reading and writing.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;

    /// Opens a file for reading only: it may lie where nothing can be written.
    fn open_to_read(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;

    /// The names of the files in a folder, in any order.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;

    /// Gives a file another name, over one that may be there.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes the folder's names durable.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;
}

/// An open file.
pub trait DiskFile: Send + Sync + fmt::Debug + 'static {
    /// How long it is.
    fn length(&self) -> io::Result<u64>;

    /// Reads as much as is there, up to the buffer's length; returns how much that was.
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize>;

    /// Writes all bytes.
    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<()>;

    /// Makes all that was written durable. After an error nothing is known about it, and a second call proves nothing.
    fn sync(&self) -> io::Result<()>;
}

/// Makes a folder and the folders it lies in, durably; one that is there is fine.
///
/// From the top down, each durable before the next. A process that was killed meanwhile may have left one that is not
/// durable, so the name of the first one that is found is synced too.
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

/// Makes the name of a folder durable that was there before.
fn sync_name(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    match parent(path).map_or(Ok(()), |parent| disk.sync_directory(parent)) {
        // Someone else's folder, in which ours was made for us.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        synced => synced,
    }
}

/// The folder in which a path lies; `None` for the root and the current folder.
fn parent(path: &Path) -> Option<&Path> {
    match path.parent() {
        Some(parent) if parent == Path::new("") => (path != Path::new(".")).then_some(Path::new(".")),
        parent => parent,
    }
}
