//! Whose directory it is, and of which format.
//!
//! The engine has a version marker of its own. Ours is a key in the keyspace `meta`: `format` -> version: u32.

use std::fs;
use std::io;
use std::path::Path;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use seriatim_storage::StoreError;

use super::error;

/// The format that this program writes, and the newest that it reads.
pub(super) const FORMAT_VERSION: u32 = 1;

const META: &str = "meta";
const FORMAT_KEY: &[u8] = b"format";

/// The engine's file that says which format it has: these bytes, then its version.
const ENGINE_MARKER: &str = "version";
const ENGINE_MAGIC: &[u8] = b"FJL";
const ENGINE_VERSION: u8 = 3;
/// Everything that the engine makes before its marker.
const UNFINISHED: [&str; 3] = ["lock", "keyspaces", "0.jnl"];

/// Looks at a directory from outside, before the engine touches it: it may be missing, empty or the engine's.
pub(super) fn check_directory(directory: &Path) -> Result<(), StoreError> {
    let unavailable = |error: io::Error| StoreError::Unavailable(format!("{}: {error}", directory.display()));
    match fs::read(directory.join(ENGINE_MARKER)) {
        Ok(marker) => check_engine_marker(directory, &marker),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let names = match fs::read_dir(directory) {
                Ok(entries) => entries
                    .map(|entry| Ok(entry?.file_name()))
                    .collect::<io::Result<Vec<_>>>()
                    .map_err(unavailable)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(error) => return Err(unavailable(error)),
            };
            if let Some(other) = names.iter().find(|name| !UNFINISHED.iter().any(|ours| name == ours)) {
                return Err(foreign(directory, &format!("it holds {} and no store", other.display())));
            }
            remove_unfinished(directory).map_err(unavailable)
        }
        Err(error) => Err(unavailable(error)),
    }
}

fn check_engine_marker(directory: &Path, marker: &[u8]) -> Result<(), StoreError> {
    match marker.strip_prefix(ENGINE_MAGIC) {
        Some([ENGINE_VERSION]) => Ok(()),
        Some([version]) if *version > ENGINE_VERSION => {
            Err(StoreError::Newer { found: u32::from(*version), known: u32::from(ENGINE_VERSION) })
        }
        _ => Err(foreign(directory, &format!("its {ENGINE_MARKER} file is none of ours"))),
    }
}

/// Clears away what a crash left of the engine's first moments, when nothing could have been stored; the engine would
/// stumble over it.
fn remove_unfinished(directory: &Path) -> io::Result<()> {
    match fs::remove_file(directory.join("0.jnl")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Marks a new database as ours, or checks the mark of an old one; gives the keyspace that has it.
pub(super) fn claim(directory: &Path, database: &Database) -> Result<Keyspace, StoreError> {
    let failed = |error| error::of_open(directory, &error);
    let strangers = database.list_keyspace_names().iter().any(|name| &**name != META);
    if !database.keyspace_exists(META) && strangers {
        return Err(foreign(directory, "another program's database is in it"));
    }
    // A keyspace without the key: made, and then the process ended.
    let meta = database.keyspace(META, KeyspaceCreateOptions::default).map_err(failed)?;
    match meta.get(FORMAT_KEY).map_err(failed)? {
        Some(bytes) => check_version(directory, &bytes)?,
        None if strangers => return Err(foreign(directory, "its format is not told")),
        None => {
            meta.insert(FORMAT_KEY, FORMAT_VERSION.to_be_bytes()).map_err(failed)?;
            database.persist(PersistMode::SyncAll).map_err(failed)?;
            // As long as it is in a memtable, no journal could go.
            meta.rotate_memtable().map_err(failed)?;
            sync_parent(directory).map_err(|error| failed(error.into()))?;
        }
    }
    Ok(meta)
}

fn check_version(directory: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    match bytes.try_into().map(u32::from_be_bytes) {
        Ok(FORMAT_VERSION) => Ok(()),
        Ok(found) if found > FORMAT_VERSION => Err(StoreError::Newer { found, known: FORMAT_VERSION }),
        _ => Err(StoreError::Corrupt(format!("{}: {bytes:02x?} is no format version", directory.display()))),
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
        "{} is not a store of seriatim: {reason}; name an empty directory or one that does not exist",
        directory.display()
    ))
}
