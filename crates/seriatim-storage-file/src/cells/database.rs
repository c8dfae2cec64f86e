//! The database: fjall with one keyspace for cells and one for the format.

use std::fs;
use std::io::{self, ErrorKind};
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use fjall::compaction::Leveled;
use fjall::{
    AbstractTree as _, Error, Keyspace, KeyspaceCreateOptions, LsmError, OwnedWriteBatch, PersistMode,
};
use seriatim_storage::StoreError;

/// The format that this program writes, and the newest that it reads.
const FORMAT_VERSION: u32 = 1;

const CELLS: &str = "cells";
const META: &str = "meta";
const FORMAT_KEY: &[u8] = b"format";

/// The engine's file that says which format it has: these bytes, then its version.
const ENGINE_MARKER: &str = "version";
const ENGINE_MAGIC: &[u8] = b"FJL";
const ENGINE_VERSION: u8 = 3;
/// Everything that the engine makes before its marker.
pub(crate) const UNFINISHED: [&str; 3] = ["lock", "keyspaces", "0.jnl"];

/// When a memtable is written out. What is in it is inserted again when the database is opened.
const MEMTABLE_BYTES: u64 = 4 << 20;
/// Sealed memtables and runs in level 0 from which on the writer does the work of the engine's workers: the engine's own
/// wait for them, at 4 and 30, has no end if they have died.
const SEALED_MAX: usize = 2;
const LEVEL_0_RUNS_MAX: usize = 24;

/// Physical key -> value. Writers come one at a time; readers are not held up.
pub(crate) struct Database {
    database: fjall::Database,
    cells: Keyspace,
}

impl Database {
    /// Opens the database in a directory, or makes one there.
    pub(crate) fn open(directory: &Path) -> Result<Self, StoreError> {
        check_directory(directory)?;
        // Damage makes some parts of the engine panic; that is an answer too.
        let opened = panic::catch_unwind(AssertUnwindSafe(|| Self::open_checked(directory)));
        opened.unwrap_or_else(|_| {
            let reason = "the engine panicked while it opened it";
            Err(StoreError::Corrupt(format!("{}: {reason}", directory.display())))
        })
    }

    fn open_checked(directory: &Path) -> Result<Self, StoreError> {
        let failed = |error| of_open(directory, &error);
        let database = fjall::Database::builder(directory).worker_threads(1).open().map_err(failed)?;
        let strangers = database.list_keyspace_names().iter().any(|name| &**name != META && &**name != CELLS);
        if strangers {
            return Err(foreign(directory, "another database is in it"));
        }
        let meta = database.keyspace(META, KeyspaceCreateOptions::default).map_err(failed)?;
        match meta.get(FORMAT_KEY).map_err(failed)?.map(|bytes| bytes[..].try_into().map(u32::from_be_bytes))
        {
            Some(Ok(FORMAT_VERSION)) => {}
            Some(Ok(found)) if found > FORMAT_VERSION => {
                return Err(StoreError::Newer { found, known: FORMAT_VERSION });
            }
            Some(_) => return Err(foreign(directory, "it has no format version that is one of ours")),
            None => {
                meta.insert(FORMAT_KEY, FORMAT_VERSION.to_be_bytes()).map_err(failed)?;
                database.persist(PersistMode::SyncAll).map_err(failed)?;
                // As long as it is in a memtable, no journal could go.
                meta.rotate_memtable().map_err(failed)?;
            }
        }
        // Each time: the process may have ended before it was done the first time.
        sync_parent(directory).map_err(|error| failed(error.into()))?;
        // Memtables are rotated by us: asked for it after every write to a full one, the engine's worker may fill the
        // queue that it reads.
        let options = || {
            let compaction = Leveled::default().with_table_target_size(MEMTABLE_BYTES).with_l0_threshold(8);
            KeyspaceCreateOptions::default()
                .max_memtable_size(u64::MAX)
                .compaction_strategy(Arc::new(compaction))
        };
        let cells = database.keyspace(CELLS, options).map_err(failed)?;
        Ok(Self { database, cells })
    }

    /// The value of a physical key.
    pub(crate) fn get(&self, physical: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let value = self.cells.get(physical).map_err(|error| of_read(&error))?;
        Ok(value.map(|value| Bytes::copy_from_slice(&value)))
    }

    /// Writes, not yet durably.
    pub(crate) fn write<'a>(
        &self,
        writes: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
    ) -> Result<(), StoreError> {
        let mut batch = OwnedWriteBatch::with_capacity(self.database.clone(), writes.size_hint().0)
            .durability(Some(PersistMode::Buffer));
        for (physical, value) in writes {
            match value {
                Some(value) => batch.insert(&self.cells, physical, value),
                None => batch.remove(&self.cells, physical),
            }
        }
        batch.commit().map_err(|error| of_write(&error))
    }

    /// Makes everything durable that was written.
    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        let persisted = self.database.persist(PersistMode::SyncData);
        // A worker's own sync may have failed just before and taken the error with it; it has poisoned the engine by
        // now, and asking again shows it.
        let persisted = persisted.and_then(|()| self.database.persist(PersistMode::Buffer));
        persisted.map_err(|error| of_write(&error))
    }

    /// Keeps memtables and runs few. Called by the writer, between two groups.
    pub(crate) fn tidy(&self) -> Result<(), StoreError> {
        let failed = |error: Error| of_write(&error);
        let tree = &self.cells.tree;
        if tree.active_memtable().size() >= MEMTABLE_BYTES {
            self.cells.rotate_memtable().map_err(failed)?;
        }
        let oldest = || self.database.supervisor.snapshot_tracker.get_seqno_safe_to_gc();
        if tree.sealed_memtable_count() >= SEALED_MAX {
            tree.flush(&tree.get_flush_lock(), oldest()).map_err(|error| failed(error.into()))?;
        }
        if tree.l0_run_count() >= LEVEL_0_RUNS_MAX {
            let strategy = self.cells.config.compaction_strategy.clone();
            tree.compact(strategy, oldest()).map_err(|error| failed(error.into()))?;
        }
        Ok(())
    }
}

/// Whether a directory holds a database of the engine. One of a newer engine is refused.
pub(crate) fn is_database(directory: &Path) -> Result<bool, StoreError> {
    let marker = match fs::read(directory.join(ENGINE_MARKER)) {
        Ok(marker) => marker,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(StoreError::Unavailable(format!("{}: {error}", directory.display()))),
    };
    match marker.strip_prefix(ENGINE_MAGIC) {
        Some([ENGINE_VERSION]) => Ok(true),
        Some([version]) if *version > ENGINE_VERSION => {
            Err(StoreError::Newer { found: u32::from(*version), known: u32::from(ENGINE_VERSION) })
        }
        _ => Err(foreign(directory, &format!("its {ENGINE_MARKER} file is none of ours"))),
    }
}

/// Looks at a directory from outside, before the engine touches it: it may be missing, empty or the engine's.
fn check_directory(directory: &Path) -> Result<(), StoreError> {
    let unavailable = |error: io::Error| StoreError::Unavailable(format!("{}: {error}", directory.display()));
    if is_database(directory)? {
        return Ok(());
    }
    let names = match fs::read_dir(directory) {
        Ok(entries) => entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>(),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => Err(error),
    };
    let names = names.map_err(unavailable)?;
    if let Some(other) = names.iter().find(|name| !UNFINISHED.iter().any(|ours| name == ours)) {
        return Err(foreign(directory, &format!("it holds {} and no cells", other.display())));
    }
    // Of the engine's first moments, when nothing could have been stored; the engine would stumble over it.
    match fs::remove_file(directory.join("0.jnl")) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(unavailable(error)),
        _ => Ok(()),
    }
}

/// Makes the directory itself durable: the engine syncs what is in it.
fn sync_parent(directory: &Path) -> io::Result<()> {
    match directory.parent() {
        Some(parent) if parent != Path::new("") => fs::File::open(parent)?.sync_all(),
        _ => fs::File::open(".")?.sync_all(),
    }
}

fn foreign(directory: &Path, reason: &str) -> StoreError {
    StoreError::Corrupt(format!(
        "{} does not hold cells of seriatim: {reason}; name an empty directory or one that does not exist",
        directory.display()
    ))
}

fn of_open(directory: &Path, error: &Error) -> StoreError {
    let directory = directory.display();
    match error {
        Error::Locked => StoreError::Unavailable(format!(
            "{directory} is open in another process: stop that one first, or name another directory"
        )),
        _ if is_damage(error) => StoreError::Corrupt(format!("{directory}: {}", text(error))),
        _ => StoreError::Unavailable(format!("{directory}: {}", text(error))),
    }
}

fn of_read(error: &Error) -> StoreError {
    if is_damage(error) { StoreError::Corrupt(text(error)) } else { StoreError::Unavailable(text(error)) }
}

/// The engine looks whether it is poisoned before it writes; all else may have reached the journal, and shows only when it
/// is opened again.
fn of_write(error: &Error) -> StoreError {
    match error {
        Error::Poisoned => StoreError::Unavailable(text(error)),
        _ => StoreError::InDoubt(format!("{}; read it back", text(error))),
    }
}

fn is_damage(error: &Error) -> bool {
    match error {
        Error::Io(error) | Error::Storage(LsmError::Io(error)) => matches!(
            error.kind(),
            ErrorKind::UnexpectedEof | ErrorKind::NotFound | ErrorKind::InvalidData | ErrorKind::InvalidInput
        ),
        Error::Locked | Error::Poisoned | Error::KeyspaceDeleted => false,
        _ => true,
    }
}

/// For messages.
pub(crate) fn text(error: &Error) -> String {
    match error {
        Error::Io(error) | Error::Storage(LsmError::Io(error)) => error.to_string(),
        Error::Poisoned => "an earlier write or sync failed: try again".to_owned(),
        Error::JournalRecovery(error) => format!("the journal cannot be replayed ({error:?})"),
        other => format!("the database underneath reports {other:?}"),
    }
}
