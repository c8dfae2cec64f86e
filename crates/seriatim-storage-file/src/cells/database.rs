//! The fjall database of the cells: one keyspace for the values and one for the format.

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

/// The file of fjall that has its format: these bytes, then a version.
const FJALL_MARKER: &str = "version";
const FJALL_MAGIC: &[u8] = b"FJL";
const FJALL_VERSION: u8 = 3;
/// Everything that fjall creates before that file.
pub(crate) const UNFINISHED: [&str; 3] = ["lock", "keyspaces", "0.jnl"];

/// When a memtable is written to a table. Its content is inserted again from the journal when the database is opened.
const MEMTABLE_BYTES: u64 = 4 << 20;
/// The number of sealed memtables and of runs in level 0 from which on the writer does the work of fjall's workers. Fjall
/// would wait for its workers at 4 and 30, and would wait without end if they have died.
const SEALED_MAX: usize = 2;
const LEVEL_0_RUNS_MAX: usize = 24;

/// The value of each physical key. Only one writer at a time; readers do not wait.
pub(crate) struct Database {
    database: fjall::Database,
    cells: Keyspace,
}

impl Database {
    /// Opens the database in a directory, or creates it.
    pub(crate) fn open(directory: &Path) -> Result<Self, StoreError> {
        check_directory(directory)?;
        // Damage makes some parts of fjall panic. That is reported as damage.
        let opened = panic::catch_unwind(AssertUnwindSafe(|| Self::open_checked(directory)));
        opened.unwrap_or_else(|_| {
            let reason = "the database is damaged (fjall panicked when it opened it)";
            Err(StoreError::Corrupt(format!("{}: {reason}", directory.display())))
        })
    }

    fn open_checked(directory: &Path) -> Result<Self, StoreError> {
        let failed = |error| of_open(directory, &error);
        let database = fjall::Database::builder(directory).worker_threads(1).open().map_err(failed)?;
        let has_other_keyspaces =
            database.list_keyspace_names().iter().any(|name| &**name != META && &**name != CELLS);
        if has_other_keyspaces {
            return Err(foreign(directory, "it has keyspaces of another program"));
        }
        let meta = database.keyspace(META, KeyspaceCreateOptions::default).map_err(failed)?;
        match meta.get(FORMAT_KEY).map_err(failed)?.map(|bytes| bytes[..].try_into().map(u32::from_be_bytes))
        {
            Some(Ok(FORMAT_VERSION)) => {}
            Some(Ok(found)) if found > FORMAT_VERSION => {
                return Err(StoreError::Newer { found, known: FORMAT_VERSION });
            }
            Some(_) => return Err(foreign(directory, "its format version is not one of seriatim")),
            None => {
                meta.insert(FORMAT_KEY, FORMAT_VERSION.to_be_bytes()).map_err(failed)?;
                database.persist(PersistMode::SyncAll).map_err(failed)?;
                // While the format is in a memtable, no journal can be removed.
                meta.rotate_memtable().map_err(failed)?;
            }
        }
        // Every time, because the process may have ended before the first sync.
        sync_parent(directory).map_err(|error| failed(error.into()))?;
        // This code rotates memtables itself. If fjall did it after every write to a full memtable, its worker could fill the
        // queue that it reads from.
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

    /// Writes values. They are not durable before [`Database::sync`].
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

    /// Makes all writes durable.
    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        let persisted = self.database.persist(PersistMode::SyncData);
        // A sync by a worker of fjall may have failed just before and consumed the error. Then the database is poisoned,
        // and a second call reports it.
        let persisted = persisted.and_then(|()| self.database.persist(PersistMode::Buffer));
        persisted.map_err(|error| of_write(&error))
    }

    /// Keeps the number of memtables and runs small. The writer calls it between two groups.
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

/// Whether a directory has a fjall database. A database of a newer fjall is refused.
pub(crate) fn is_database(directory: &Path) -> Result<bool, StoreError> {
    let marker = match fs::read(directory.join(FJALL_MARKER)) {
        Ok(marker) => marker,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(StoreError::Unavailable(format!("{}: {error}", directory.display()))),
    };
    match marker.strip_prefix(FJALL_MAGIC) {
        Some([FJALL_VERSION]) => Ok(true),
        Some([version]) if *version > FJALL_VERSION => {
            Err(StoreError::Newer { found: u32::from(*version), known: u32::from(FJALL_VERSION) })
        }
        _ => Err(foreign(directory, &format!("its file {FJALL_MARKER} is not one of fjall"))),
    }
}

/// Checks a directory before fjall changes anything in it: it must be missing, empty, or a fjall database.
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
        return Err(foreign(directory, &format!("it contains {} and no cells", other.display())));
    }
    // A database whose creation was interrupted has stored nothing. Fjall could not open it with this file.
    match fs::remove_file(directory.join("0.jnl")) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(unavailable(error)),
        _ => Ok(()),
    }
}

/// Makes the name of the directory durable. Fjall syncs what is inside.
fn sync_parent(directory: &Path) -> io::Result<()> {
    match directory.parent() {
        Some(parent) if parent != Path::new("") => fs::File::open(parent)?.sync_all(),
        _ => fs::File::open(".")?.sync_all(),
    }
}

fn foreign(directory: &Path, reason: &str) -> StoreError {
    StoreError::Corrupt(format!(
        "{} does not contain cells of seriatim: {reason}; choose an empty directory or one that does not exist",
        directory.display()
    ))
}

fn of_open(directory: &Path, error: &Error) -> StoreError {
    let directory = directory.display();
    match error {
        Error::Locked => StoreError::Unavailable(format!(
            "{directory} is open in another process: stop that process first, or choose another directory"
        )),
        _ if is_damage(error) => StoreError::Corrupt(format!("{directory}: {}", text(error))),
        _ => StoreError::Unavailable(format!("{directory}: {}", text(error))),
    }
}

fn of_read(error: &Error) -> StoreError {
    if is_damage(error) { StoreError::Corrupt(text(error)) } else { StoreError::Unavailable(text(error)) }
}

/// Fjall checks whether it is poisoned before it writes. After any other error the write may be in the journal, and is
/// visible only when the database is opened again.
fn of_write(error: &Error) -> StoreError {
    match error {
        Error::Poisoned => StoreError::Unavailable(text(error)),
        _ => StoreError::InDoubt(format!("{}; read the value to find out", text(error))),
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

/// The text for error messages.
pub(crate) fn text(error: &Error) -> String {
    match error {
        Error::Io(error) | Error::Storage(LsmError::Io(error)) => error.to_string(),
        Error::Poisoned => {
            "an earlier write or sync failed, and the database is opened again: try again".to_owned()
        }
        Error::JournalRecovery(error) => format!("the journal cannot be replayed ({error:?})"),
        other => format!("fjall reports {other:?}"),
    }
}
