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
    /// Makes a folder and the folders it lies in; one that is there is fine.
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
