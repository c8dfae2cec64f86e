//! Removing a store, so that it is built again from the log.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;

use seriatim_env::Env;
use seriatim_storage::StoreError;

use super::format::LOCK;
use super::{StoreOptions, TreeStore, migrate};

/// The name of a removed store while its files are being deleted.
const DISCARDED: &str = "store.discarded";

/// Removes the store of the storage in `storage`, which the caller has locked. It is renamed in one step and then deleted. If
/// deleting is interrupted, [`remove_discarded`] completes it.
pub(crate) fn discard(env: &Env, storage: &Path, store: &str, cells: &str) -> Result<(), StoreError> {
    let directory = storage.join(store);
    let fail = |error: io::Error| StoreError::Unavailable(format!("{}: {error}", directory.display()));
    remove_discarded(storage)?;
    // From a damaged store nothing can be kept.
    if migrate::is_format_1(&directory).unwrap_or(false) {
        let cells = storage.join(cells);
        drop(TreeStore::open_with_cells(env.clone(), &directory, &cells, StoreOptions::default())?);
    }
    // A process that is ending may still be writing.
    let lock = match File::open(directory.join(LOCK)) {
        Ok(lock) => Some(lock),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(fail(error)),
    };
    match lock.as_ref().map(File::try_lock) {
        None | Some(Ok(())) => {}
        Some(Err(TryLockError::WouldBlock)) => {
            return Err(fail(io::Error::other(
                "it is still in use by another process: wait until that process has ended",
            )));
        }
        Some(Err(TryLockError::Error(error))) => return Err(fail(error)),
    }
    match fs::rename(&directory, storage.join(DISCARDED)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        renamed => renamed.map_err(fail)?,
    }
    File::open(storage).and_then(|storage| storage.sync_all()).map_err(fail)?;
    remove_discarded(storage)
}

/// Deletes the files of a removed store.
pub(crate) fn remove_discarded(storage: &Path) -> Result<(), StoreError> {
    let directory = storage.join(DISCARDED);
    match fs::remove_dir_all(&directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(StoreError::Unavailable(format!("{}: {error}", directory.display())))
        }
        _ => Ok(()),
    }
}
