//! A disk in memory that can lose power.
//!
//! It keeps apart what programs see (the page cache) and what is durable. At a power cut each page that was written and
//! not synced is, by the seed, kept, lost, or torn between its sectors; names that were not synced come or go.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use seriatim_types::sync::{Mutex, MutexGuard};

use super::{Disk, DiskFile};

const PAGE_BYTES: usize = 4_096;
const SECTOR_BYTES: usize = 512;

/// A disk in memory. Clones are the same disk.
#[derive(Debug, Clone, Default)]
pub struct SimulatedDisk {
    shared: Arc<Mutex<Shared>>,
}

/// What happens to what was not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// The process ends and the machine goes on: nothing is lost. What `kill -9` shows.
    Process,
    /// Power is cut: every unsynced page and name takes its chance, by this seed.
    Power {
        /// Decides for each page and name.
        seed: u64,
    },
    /// Power is cut and nothing that was not synced survives.
    PowerLosesAll,
}

#[derive(Debug, Default)]
struct Shared {
    /// Names as programs see them.
    names: BTreeMap<PathBuf, usize>,
    /// Names as they are after a power cut, at the least.
    durable_names: BTreeMap<PathBuf, usize>,
    /// Folders as programs see them, without the current one and the root.
    directories: BTreeSet<PathBuf>,
    /// Folders whose name is durable. One is there after a power cut only if those that it lies in are.
    durable_directories: BTreeSet<PathBuf>,
    files: Vec<Content>,
    /// Operations that change something, so far.
    operations: u64,
    /// Power goes off instead of the operation with this number, for good.
    power_off_at: Option<u64>,
    /// Fails the next so many syncs, as Linux does: the pages count as clean afterwards and are not durable.
    failing_syncs: u32,
    /// Fails the next so many syncs of folders: nothing is durable by them.
    failing_directory_syncs: u32,
    /// Fails the next so many creations of files.
    failing_creates: u32,
    /// Refuses to reserve space beyond this many bytes in all files.
    capacity: Option<u64>,
}

#[derive(Debug, Default, Clone)]
struct Content {
    seen: Vec<u8>,
    durable: Vec<u8>,
    dirty: BTreeSet<usize>,
}

impl SimulatedDisk {
    /// An empty disk with power.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock()
    }

    /// How many operations have changed something.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.lock().operations
    }

    /// Cuts the power instead of the operation with this number (from 0), counted from the disk's beginning: it and all
    /// later ones fail and change nothing.
    pub fn cut_power_at(&self, operation: u64) {
        self.lock().power_off_at = Some(operation);
    }

    /// Makes the next so many syncs fail the way Linux fails them: an error once, then silence, and nothing durable.
    pub fn fail_syncs(&self, count: u32) {
        self.lock().failing_syncs = count;
    }

    /// Makes the next so many syncs of folders fail: what was created or renamed is seen and not durable.
    pub fn fail_directory_syncs(&self, count: u32) {
        self.lock().failing_directory_syncs = count;
    }

    /// Makes the next so many creations of files fail, though there is room.
    pub fn fail_creates(&self, count: u32) {
        self.lock().failing_creates = count;
    }

    /// Lets files reserve so many bytes in all, or any number.
    pub fn limit_capacity(&self, bytes: Option<u64>) {
        self.lock().capacity = bytes;
    }

    /// Changes bytes of a file behind everybody's back, durably: damage.
    ///
    /// # Panics
    ///
    /// If there is no such file.
    pub fn damage(&self, path: &Path, position: usize, change: impl FnOnce(&mut [u8])) {
        let mut shared = self.lock();
        let id = *shared.names.get(path).expect("a file to damage");
        let content = &mut shared.files[id];
        change(&mut content.seen[position..]);
        content.durable.clone_from(&content.seen);
    }

    /// The disk as it is found when the machine is up again. This one stays as it is.
    #[must_use]
    pub fn after(&self, crash: Crash) -> Self {
        let shared = self.lock();
        let mut random = match crash {
            Crash::Power { seed } => Some(fastrand::Rng::with_seed(seed)),
            Crash::Process | Crash::PowerLosesAll => None,
        };
        let keeps_all = crash == Crash::Process;
        let mut names = shared.durable_names.clone();
        for (name, id) in &shared.names {
            if keeps_all || random.as_mut().is_some_and(fastrand::Rng::bool) {
                names.insert(name.clone(), *id);
            }
        }
        let mut directories = shared.durable_directories.clone();
        for name in &shared.directories {
            if keeps_all || random.as_mut().is_some_and(fastrand::Rng::bool) {
                directories.insert(name.clone());
            }
        }
        if keeps_all {
            names.clone_from(&shared.names);
            directories.clone_from(&shared.directories);
        }
        // In a folder that is lost, all is lost.
        let lost = |path: &Path| path.ancestors().skip(1).any(|above| is_lost(&directories, above));
        names.retain(|name, _| !lost(name));
        let directories: BTreeSet<_> = directories.iter().filter(|path| !lost(path)).cloned().collect();
        let settle = |content: &Content| {
            let mut bytes = if keeps_all { content.seen.clone() } else { content.durable.clone() };
            if let Some(random) = &mut random {
                content.keep_some(&mut bytes, random);
            }
            Content { seen: bytes.clone(), durable: bytes, dirty: BTreeSet::new() }
        };
        let files = shared.files.iter().map(settle).collect();
        let after = Shared {
            durable_names: names.clone(),
            names,
            durable_directories: directories.clone(),
            directories,
            files,
            ..Shared::default()
        };
        Self { shared: Arc::new(Mutex::new(after)) }
    }
}

/// Whether a folder is none of these. The root and the current folder are always there.
fn is_lost(directories: &BTreeSet<PathBuf>, path: &Path) -> bool {
    path.file_name().is_some() && !directories.contains(path)
}

/// Whether a name lies in a folder; both `.` and nothing are the current one.
fn lies_in(name: &Path, directory: &Path) -> bool {
    let current = |path: &Path| path == Path::new("") || path == Path::new(".");
    name.parent().is_some_and(|parent| parent == directory || (current(parent) && current(directory)))
}

impl Content {
    /// Lets each dirty page survive whole, in part, or not at all.
    fn keep_some(&self, bytes: &mut Vec<u8>, random: &mut fastrand::Rng) {
        bytes.resize(self.seen.len(), 0);
        for &page in &self.dirty {
            let fate = random.u8(0..3);
            let page_end = self.seen.len().min((page + 1) * PAGE_BYTES);
            for sector in (page * PAGE_BYTES..page_end).step_by(SECTOR_BYTES) {
                if fate == 0 || (fate == 1 && random.bool()) {
                    let end = page_end.min(sector + SECTOR_BYTES);
                    bytes[sector..end].copy_from_slice(&self.seen[sector..end]);
                }
            }
        }
    }
}

impl Shared {
    /// Counts an operation that changes something, unless the power is off.
    fn operate(&mut self) -> io::Result<()> {
        if self.power_off_at.is_some_and(|at| self.operations >= at) {
            return Err(io::Error::other("the power is off"));
        }
        self.operations += 1;
        Ok(())
    }

    /// An error unless the folder is there.
    fn check_directory(&self, path: &Path) -> io::Result<()> {
        let lost = is_lost(&self.directories, path);
        if lost { Err(io::Error::from(io::ErrorKind::NotFound)) } else { Ok(()) }
    }

    /// An error unless the folder that it lies in is there.
    fn check_parent(&self, path: &Path) -> io::Result<()> {
        path.parent().map_or(Ok(()), |parent| self.check_directory(parent))
    }

    fn find(&self, path: &Path) -> io::Result<usize> {
        self.names.get(path).copied().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }
}

impl Disk for SimulatedDisk {
    fn create_directory(&self, path: &Path) -> io::Result<()> {
        let mut shared = self.lock();
        if path.file_name().is_none() || shared.directories.contains(path) {
            return Err(io::Error::from(io::ErrorKind::AlreadyExists));
        }
        shared.check_parent(path)?;
        shared.operate()?;
        shared.directories.insert(path.to_owned());
        Ok(())
    }

    fn create(&self, path: &Path, length: u64) -> io::Result<Arc<dyn DiskFile>> {
        let mut shared = self.lock();
        shared.operate()?;
        shared.check_parent(path)?;
        if shared.failing_creates > 0 {
            shared.failing_creates -= 1;
            return Err(io::Error::other("the disk failed to make a file"));
        }
        let reserved: u64 = shared.names.values().map(|id| shared.files[*id].seen.len() as u64).sum();
        if shared.capacity.is_some_and(|capacity| reserved + length > capacity) {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        let zeros = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
        let content = Content { seen: zeros.clone(), durable: zeros, dirty: BTreeSet::new() };
        shared.files.push(content);
        let id = shared.files.len() - 1;
        shared.names.insert(path.to_owned(), id);
        Ok(Arc::new(SimulatedFile { disk: self.clone(), id }))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let id = self.lock().find(path)?;
        Ok(Arc::new(SimulatedFile { disk: self.clone(), id }))
    }

    fn open_to_read(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.open(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let shared = self.lock();
        shared.check_directory(path)?;
        let inside = shared.names.keys().filter(|name| lies_in(name, path));
        Ok(inside.filter_map(|name| Some(name.file_name()?.to_string_lossy().into_owned())).collect())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut shared = self.lock();
        shared.operate()?;
        let id = shared.find(from)?;
        shared.check_parent(to)?;
        shared.names.remove(from);
        shared.names.insert(to.to_owned(), id);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut shared = self.lock();
        shared.operate()?;
        shared.find(path)?;
        shared.names.remove(path);
        Ok(())
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        let mut guard = self.lock();
        let shared = &mut *guard;
        shared.operate()?;
        shared.check_directory(path)?;
        if shared.failing_directory_syncs > 0 {
            shared.failing_directory_syncs -= 1;
            return Err(io::Error::other("the disk failed to sync"));
        }
        shared.durable_names.retain(|name, _| !lies_in(name, path));
        let names = shared.names.iter().filter(|(name, _)| lies_in(name, path));
        shared.durable_names.extend(names.map(|(name, id)| (name.clone(), *id)));
        let directories = shared.directories.iter().filter(|name| lies_in(name, path));
        shared.durable_directories.extend(directories.cloned());
        Ok(())
    }
}

#[derive(Debug)]
struct SimulatedFile {
    disk: SimulatedDisk,
    id: usize,
}

impl DiskFile for SimulatedFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.disk.lock().files[self.id].seen.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let shared = self.disk.lock();
        let seen = &shared.files[self.id].seen;
        let start = usize::try_from(position).unwrap_or(usize::MAX).min(seen.len());
        let read = buffer.len().min(seen.len() - start);
        buffer[..read].copy_from_slice(&seen[start..start + read]);
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        let mut shared = self.disk.lock();
        shared.operate()?;
        let content = &mut shared.files[self.id];
        let start = usize::try_from(position).map_err(io::Error::other)?;
        let end = start + bytes.len();
        if end > content.seen.len() {
            content.seen.resize(end, 0);
        }
        content.seen[start..end].copy_from_slice(bytes);
        content.dirty.extend(start / PAGE_BYTES..end.div_ceil(PAGE_BYTES));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut shared = self.disk.lock();
        shared.operate()?;
        let failing = shared.failing_syncs > 0;
        shared.failing_syncs = shared.failing_syncs.saturating_sub(1);
        let content = &mut shared.files[self.id];
        let dirty = std::mem::take(&mut content.dirty);
        if failing {
            return Err(io::Error::other("the disk failed to sync"));
        }
        content.durable.resize(content.seen.len(), 0);
        for page in dirty {
            let end = content.seen.len().min((page + 1) * PAGE_BYTES);
            let start = page * PAGE_BYTES;
            content.durable[start..end].copy_from_slice(&content.seen[start..end]);
        }
        Ok(())
    }
}
