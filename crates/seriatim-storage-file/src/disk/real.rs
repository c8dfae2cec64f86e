//! The disk of this machine.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use super::{Disk, DiskFile};

/// The file system.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn create_directory(&self, path: &Path) -> io::Result<()> {
        match std::fs::create_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && !path.is_dir() => {
                Err(io::Error::from(io::ErrorKind::NotADirectory))
            }
            // This also covers places where no folder can be created, such as a read-only disk.
            Err(_) if path.is_dir() => Err(io::Error::from(io::ErrorKind::AlreadyExists)),
            made => made,
        }
    }

    fn create(&self, path: &Path, length: u64) -> io::Result<Arc<dyn DiskFile>> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
        // The system call refuses a length of zero.
        if length > 0 {
            reserve(&file, length)?;
        }
        // Size and extents are metadata. Without this sync, the first small syncs would also have to write them.
        file.sync_all()?;
        Ok(Arc::new(file))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(OpenOptions::new().read(true).write(true).open(path)?))
    }

    fn open_to_read(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(File::open(path)?))
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let name =
            |entry: io::Result<std::fs::DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
        std::fs::read_dir(path)?.map(name).collect()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}

/// Reserves space, so that a full disk causes an error here and not in the middle of a frame.
#[cfg(target_os = "linux")]
fn reserve(file: &File, length: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::Errno;

    match fallocate(file, FallocateFlags::empty(), 0, length) {
        Ok(()) => Ok(()),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => reserve_by_writing(file, length),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(target_os = "linux"))]
fn reserve(file: &File, length: u64) -> io::Result<()> {
    reserve_by_writing(file, length)
}

fn reserve_by_writing(file: &File, length: u64) -> io::Result<()> {
    let zeros = vec![0; 1 << 20];
    let mut position = 0;
    while position < length {
        let part = usize::try_from(length - position).unwrap_or(zeros.len()).min(zeros.len());
        file.write_all_at(&zeros[..part], position)?;
        position += part as u64;
    }
    Ok(())
}

impl DiskFile for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let mut read = 0;
        while read < buffer.len() {
            match std::os::unix::fs::FileExt::read_at(self, &mut buffer[read..], position + read as u64) {
                Ok(0) => break,
                Ok(more) => read += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        self.write_all_at(bytes, position)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}
