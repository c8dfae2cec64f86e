//! A disk in memory whose power can be cut.
//!
//! It keeps two states: the page cache, which programs read, and what is durable. At a power cut each page that was written
//! and not synced is, by the seed, kept, lost, or torn between its sectors. Names that were not synced are kept or lost.

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
    state: Arc<Mutex<DiskState>>,
}

/// What a crash does to data that was not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// The process ends and the machine continues: nothing is lost. This is what `kill -9` does.
    Process,
    /// The power is cut: the seed decides about every unsynced page and name.
    Power {
        /// Decides for each page and name.
        seed: u64,
    },
    /// Power is cut and nothing that was not synced survives.
    PowerLosesAll,
}

#[derive(Debug, Default)]
struct DiskState {
    /// Names as programs read them.
    names: BTreeMap<PathBuf, usize>,
    /// Names that are there after a power cut in any case.
    durable_names: BTreeMap<PathBuf, usize>,
    /// Folders as programs read them, without the current one and the root.
    directories: BTreeSet<PathBuf>,
    /// Folders whose name is durable. After a power cut a folder is there only if all folders above it are.
    durable_directories: BTreeSet<PathBuf>,
    files: Vec<FileContent>,
    /// How many operations have changed something.
    operations: u64,
    /// The power is cut instead of the operation with this number, and stays off.
    power_off_at: Option<u64>,
    /// Fails this many syncs, as Linux does: afterwards the pages count as clean, and are not durable.
    failing_syncs: u32,
    /// Fails this many syncs of folders. They make nothing durable.
    failing_directory_syncs: u32,
    /// Fails this many creations of files.
    failing_creates: u32,
    /// The number of bytes that all files together can reserve.
    capacity: Option<u64>,
}

#[derive(Debug, Default, Clone)]
struct FileContent {
    visible: Vec<u8>,
    durable: Vec<u8>,
    dirty: BTreeSet<usize>,
}

impl SimulatedDisk {
    /// An empty disk. Its power is on.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, DiskState> {
        self.state.lock()
    }

    /// How many operations have changed something.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.lock().operations
    }

    /// Cuts the power instead of the operation with this number. Operations are counted from 0 since the disk was created.
    /// This operation and all later ones fail and change nothing.
    pub fn cut_power_at(&self, operation: u64) {
        self.lock().power_off_at = Some(operation);
    }

    /// Makes this many syncs fail the way Linux fails them: one error, then success, and nothing is durable.
    pub fn fail_syncs(&self, count: u32) {
        self.lock().failing_syncs = count;
    }

    /// Makes this many syncs of folders fail: created and renamed names are visible and not durable.
    pub fn fail_directory_syncs(&self, count: u32) {
        self.lock().failing_directory_syncs = count;
    }

    /// Makes this many creations of files fail, although there is space.
    pub fn fail_creates(&self, count: u32) {
        self.lock().failing_creates = count;
    }

    /// Limits the bytes that all files together can reserve; `None` removes the limit.
    pub fn limit_capacity(&self, bytes: Option<u64>) {
        self.lock().capacity = bytes;
    }

    /// Damages a file: changes its bytes durably, without a write by the program.
    ///
    /// # Panics
    ///
    /// If there is no such file.
    pub fn damage(&self, path: &Path, position: usize, change: impl FnOnce(&mut [u8])) {
        let mut state = self.lock();
        let id = *state.names.get(path).expect("a file to damage");
        let content = &mut state.files[id];
        change(&mut content.visible[position..]);
        content.durable.clone_from(&content.visible);
    }

    /// The disk after a crash and a restart of the machine. This disk does not change.
    #[must_use]
    pub fn after(&self, crash: Crash) -> Self {
        let state = self.lock();
        let mut random = match crash {
            Crash::Power { seed } => Some(fastrand::Rng::with_seed(seed)),
            Crash::Process | Crash::PowerLosesAll => None,
        };
        let keeps_all = crash == Crash::Process;
        let mut names = state.durable_names.clone();
        for (name, id) in &state.names {
            if keeps_all || random.as_mut().is_some_and(fastrand::Rng::bool) {
                names.insert(name.clone(), *id);
            }
        }
        let mut directories = state.durable_directories.clone();
        for name in &state.directories {
            if keeps_all || random.as_mut().is_some_and(fastrand::Rng::bool) {
                directories.insert(name.clone());
            }
        }
        if keeps_all {
            names.clone_from(&state.names);
            directories.clone_from(&state.directories);
        }
        // If a folder is lost, everything in it is lost.
        let lost = |path: &Path| path.ancestors().skip(1).any(|above| is_lost(&directories, above));
        names.retain(|name, _| !lost(name));
        let directories: BTreeSet<_> = directories.iter().filter(|path| !lost(path)).cloned().collect();
        let after_crash = |content: &FileContent| {
            let mut bytes = if keeps_all { content.visible.clone() } else { content.durable.clone() };
            if let Some(random) = &mut random {
                content.keep_some(&mut bytes, random);
            }
            FileContent { visible: bytes.clone(), durable: bytes, dirty: BTreeSet::new() }
        };
        let files = state.files.iter().map(after_crash).collect();
        let after = DiskState {
            durable_names: names.clone(),
            names,
            durable_directories: directories.clone(),
            directories,
            files,
            ..DiskState::default()
        };
        Self { state: Arc::new(Mutex::new(after)) }
    }
}

/// Whether a folder is not one of these. The root and the current folder always exist.
fn is_lost(directories: &BTreeSet<PathBuf>, path: &Path) -> bool {
    path.file_name().is_some() && !directories.contains(path)
}

/// Whether a name is directly in a folder. Both `.` and the empty path are the current folder.
fn is_in(name: &Path, directory: &Path) -> bool {
    let current = |path: &Path| path == Path::new("") || path == Path::new(".");
    name.parent().is_some_and(|parent| parent == directory || (current(parent) && current(directory)))
}

impl FileContent {
    /// Keeps each dirty page as a whole, in part, or not at all.
    fn keep_some(&self, bytes: &mut Vec<u8>, random: &mut fastrand::Rng) {
        bytes.resize(self.visible.len(), 0);
        for &page in &self.dirty {
            let outcome = random.u8(0..3);
            let page_end = self.visible.len().min((page + 1) * PAGE_BYTES);
            for sector in (page * PAGE_BYTES..page_end).step_by(SECTOR_BYTES) {
                if outcome == 0 || (outcome == 1 && random.bool()) {
                    let end = page_end.min(sector + SECTOR_BYTES);
                    bytes[sector..end].copy_from_slice(&self.visible[sector..end]);
                }
            }
        }
    }
}

impl DiskState {
    /// Counts an operation that changes something. An error if the power is off.
    fn operate(&mut self) -> io::Result<()> {
        if self.power_off_at.is_some_and(|at| self.operations >= at) {
            return Err(io::Error::other("the power is off"));
        }
        self.operations += 1;
        Ok(())
    }

    /// An error unless the folder exists.
    fn check_directory(&self, path: &Path) -> io::Result<()> {
        let lost = is_lost(&self.directories, path);
        if lost { Err(io::Error::from(io::ErrorKind::NotFound)) } else { Ok(()) }
    }

    /// An error unless the folder above exists.
    fn check_parent(&self, path: &Path) -> io::Result<()> {
        path.parent().map_or(Ok(()), |parent| self.check_directory(parent))
    }

    fn find(&self, path: &Path) -> io::Result<usize> {
        self.names.get(path).copied().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }
}

impl Disk for SimulatedDisk {
    fn create_directory(&self, path: &Path) -> io::Result<()> {
        let mut state = self.lock();
        if path.file_name().is_none() || state.directories.contains(path) {
            return Err(io::Error::from(io::ErrorKind::AlreadyExists));
        }
        state.check_parent(path)?;
        state.operate()?;
        state.directories.insert(path.to_owned());
        Ok(())
    }

    fn create(&self, path: &Path, length: u64) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.lock();
        state.operate()?;
        state.check_parent(path)?;
        if state.failing_creates > 0 {
            state.failing_creates -= 1;
            return Err(io::Error::other("the disk failed to create a file"));
        }
        let reserved: u64 = state.names.values().map(|id| state.files[*id].visible.len() as u64).sum();
        if state.capacity.is_some_and(|capacity| reserved + length > capacity) {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        let zeros = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
        let content = FileContent { visible: zeros.clone(), durable: zeros, dirty: BTreeSet::new() };
        state.files.push(content);
        let id = state.files.len() - 1;
        state.names.insert(path.to_owned(), id);
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
        let state = self.lock();
        state.check_directory(path)?;
        let inside = state.names.keys().filter(|name| is_in(name, path));
        Ok(inside.filter_map(|name| Some(name.file_name()?.to_string_lossy().into_owned())).collect())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.lock();
        state.operate()?;
        let id = state.find(from)?;
        state.check_parent(to)?;
        state.names.remove(from);
        state.names.insert(to.to_owned(), id);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.lock();
        state.operate()?;
        state.find(path)?;
        state.names.remove(path);
        Ok(())
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        let mut guard = self.lock();
        let state = &mut *guard;
        state.operate()?;
        state.check_directory(path)?;
        if state.failing_directory_syncs > 0 {
            state.failing_directory_syncs -= 1;
            return Err(io::Error::other("the disk failed to sync"));
        }
        state.durable_names.retain(|name, _| !is_in(name, path));
        let names = state.names.iter().filter(|(name, _)| is_in(name, path));
        state.durable_names.extend(names.map(|(name, id)| (name.clone(), *id)));
        let directories = state.directories.iter().filter(|name| is_in(name, path));
        state.durable_directories.extend(directories.cloned());
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
        Ok(self.disk.lock().files[self.id].visible.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let state = self.disk.lock();
        let visible = &state.files[self.id].visible;
        let start = usize::try_from(position).unwrap_or(usize::MAX).min(visible.len());
        let read = buffer.len().min(visible.len() - start);
        buffer[..read].copy_from_slice(&visible[start..start + read]);
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        let mut state = self.disk.lock();
        state.operate()?;
        let content = &mut state.files[self.id];
        let start = usize::try_from(position).map_err(io::Error::other)?;
        let end = start + bytes.len();
        if end > content.visible.len() {
            content.visible.resize(end, 0);
        }
        content.visible[start..end].copy_from_slice(bytes);
        content.dirty.extend(start / PAGE_BYTES..end.div_ceil(PAGE_BYTES));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.lock();
        state.operate()?;
        let failing = state.failing_syncs > 0;
        state.failing_syncs = state.failing_syncs.saturating_sub(1);
        let content = &mut state.files[self.id];
        let dirty = std::mem::take(&mut content.dirty);
        if failing {
            return Err(io::Error::other("the disk failed to sync"));
        }
        content.durable.resize(content.visible.len(), 0);
        for page in dirty {
            let end = content.visible.len().min((page + 1) * PAGE_BYTES);
            let start = page * PAGE_BYTES;
            content.durable[start..end].copy_from_slice(&content.visible[start..end]);
        }
        Ok(())
    }
}
