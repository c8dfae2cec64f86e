//! How much space is free on the disk.

use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Returns how many bytes are free on the disk of a folder.
pub type SpaceProbe = Box<dyn Fn(&Path) -> io::Result<u64> + Send + Sync>;

/// How many bytes are free and how many must stay free. As an error: too few are free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NearlyFull {
    pub(crate) free_bytes: u64,
    pub(crate) needed_bytes: u64,
}

/// Refuses writes while less than `needed_bytes` are free, so that a full disk never prevents the storage from keeping what
/// it has acknowledged.
pub(crate) struct FreeSpace {
    directory: PathBuf,
    needed_bytes: u64,
    probe: SpaceProbe,
    nearly_full: AtomicBool,
}

impl FreeSpace {
    pub(crate) fn new(directory: &Path, needed_bytes: u64, probe: SpaceProbe) -> Self {
        let space = Self {
            directory: directory.to_owned(),
            needed_bytes,
            probe,
            nearly_full: AtomicBool::new(false),
        };
        space.refresh();
        space
    }

    /// The real free space, from the file system.
    pub(crate) fn system() -> SpaceProbe {
        Box::new(|directory| {
            let stats = rustix::fs::statvfs(directory)?;
            Ok(stats.f_bavail.saturating_mul(stats.f_frsize))
        })
    }

    /// An error if too little is free. Free of cost while enough is free; measures again while there is not.
    pub(crate) fn check(&self) -> Result<(), NearlyFull> {
        if self.nearly_full.load(Ordering::Relaxed) && self.refresh() {
            return Err(self.measure());
        }
        Ok(())
    }

    /// Measures again. Returns whether the disk is nearly full. If the disk cannot be measured, this is `false`: then the
    /// write itself fails.
    pub(crate) fn refresh(&self) -> bool {
        let NearlyFull { free_bytes, needed_bytes } = self.measure();
        let nearly_full = free_bytes < needed_bytes;
        self.nearly_full.store(nearly_full, Ordering::Relaxed);
        nearly_full
    }

    /// An error if `bytes` cannot be written to the disk of `directory`. On the storage's own disk, the bytes that must
    /// stay free are added.
    pub(crate) fn check_room(&self, directory: &Path, bytes: u64) -> Result<(), NearlyFull> {
        let device = |path: &Path| std::fs::metadata(path).map(|metadata| metadata.dev()).ok();
        let same = device(directory) == device(&self.directory);
        let needed_bytes = bytes.saturating_add(if same { self.needed_bytes } else { 0 });
        let free_bytes = (self.probe)(directory).unwrap_or(u64::MAX);
        if free_bytes < needed_bytes { Err(NearlyFull { free_bytes, needed_bytes }) } else { Ok(()) }
    }

    /// How many bytes are free and how many must be.
    pub(crate) fn measure(&self) -> NearlyFull {
        let free_bytes = (self.probe)(&self.directory).unwrap_or(u64::MAX);
        NearlyFull { free_bytes, needed_bytes: self.needed_bytes }
    }
}

impl fmt::Debug for FreeSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FreeSpace").field("directory", &self.directory).finish_non_exhaustive()
    }
}
