//! Backups: the log up to one committed frame, its identity, and the bulletin.
//!
//! ```text
//!   backup/
//!     BACKUP                  marks the folder as a backup; its format, and where its log ends
//!     log/0000000001.segment  as in the storage, without reserved bytes that are not written
//!     log/bulletin            as it was before the log was cut
//!     log/identity            as in the storage
//! ```
//!
//! A backup is made under another name and gets its own name when it is complete and durable. So a folder with that name is a
//! backup, and a folder `….unfinished-…` next to it was left by a crash and can be removed.
//!
//! A backup cannot be opened as a storage: a storage that continues from it would give out numbers again that were given out
//! after the backup was made. A restored backup is fenced for that reason.

mod destination;
mod error;
mod into_log;
mod manifest;
mod of_log;
mod restore;

use std::path::Path;

use seriatim_env::Env;
use seriatim_storage::{BackupError, BackupReport, DestinationError};

use self::destination::UnfinishedFolder;
pub use self::error::RestoreError;
pub(crate) use self::into_log::is_unfinished;
pub use self::into_log::{RestoredLog, restore_log};
use self::manifest::Manifest;
pub(crate) use self::of_log::backup_beside;
pub use self::of_log::backup_log;
pub use self::restore::{StagedRestore, restore, stage_restore};
use crate::disk::{RealDisk, replace_whole};
use crate::log::{CopiedLog, LogPrefix, Purpose};
use crate::space::FreeSpace;

/// The folder of the segments, the same in a backup and in a storage.
const LOG: &str = "log";

impl From<CopiedLog> for BackupReport {
    fn from(CopiedLog { frames, entries, bytes, tails }: CopiedLog) -> Self {
        Self { bytes, frames, entries, tails: tails.into_iter().collect() }
    }
}

/// Makes a backup of these frames of the storage in `directory`, and of these files next to them, by name.
pub(crate) fn backup(
    env: &Env,
    prefix: &LogPrefix,
    files: &[(&str, Option<Vec<u8>>)],
    directory: &Path,
    space: &FreeSpace,
    destination: &Path,
) -> Result<BackupReport, BackupError> {
    let folder = UnfinishedFolder::create(env, destination, Some(directory))?;
    folder.check_room(space, prefix.bytes_max()?)?;
    let copied = prefix.copy(&folder.path().join(LOG), Purpose::Keep)?;
    write_files(&folder, files)?;
    let manifest = Manifest { end: prefix.end(), frames: copied.frames, entries: copied.entries };
    manifest.write(folder.path()).map_err(|error| folder.refused(&error))?;
    folder.finish()?;
    Ok(copied.into())
}

/// Writes files next to the segments of a backup, durably. Those without bytes are left out.
fn write_files(folder: &UnfinishedFolder, files: &[(&str, Option<Vec<u8>>)]) -> Result<(), DestinationError> {
    for (name, bytes) in files.iter().filter_map(|(name, bytes)| Some((name, bytes.as_deref()?))) {
        let written = replace_whole(&RealDisk, &folder.path().join(LOG), name, bytes);
        written.map_err(|error| folder.refused(&error))?;
    }
    Ok(())
}
