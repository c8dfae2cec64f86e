//! A folder that gets its final name when it is finished.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use seriatim_env::Env;
use seriatim_storage::DestinationError;

use super::error::unavailable;
use crate::disk::{RealDisk, create_directories};
use crate::space::{FreeSpace, NearlyFull};

/// A folder next to its destination, under another name. It is removed when it is dropped unfinished.
#[derive(Debug)]
pub(super) struct UnfinishedFolder {
    path: PathBuf,
    parent: PathBuf,
    destination: PathBuf,
    finished: bool,
}

impl UnfinishedFolder {
    /// Makes the folder, if the destination is empty or missing and is not inside `outside`.
    pub(super) fn create(
        env: &Env,
        destination: &Path,
        outside: Option<&Path>,
    ) -> Result<Self, DestinationError> {
        let fail = |error: io::Error| unavailable(destination.to_owned(), &error);
        let unusable = |reason: &str| DestinationError::Unusable {
            destination: destination.to_owned(),
            reason: reason.to_owned(),
        };
        let exists = fs::symlink_metadata(destination).is_ok();
        let resolved =
            if exists { fs::canonicalize(destination).map_err(fail)? } else { destination.to_owned() };
        let name =
            resolved.file_name().ok_or_else(|| unusable("it has no name: choose a folder with a name"))?;
        let parent = match resolved.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        create_directories(&RealDisk, parent).map_err(fail)?;
        let parent = fs::canonicalize(parent).map_err(fail)?;
        if let Some(outside) = outside
            && fs::canonicalize(outside).is_ok_and(|outside| parent.starts_with(outside))
        {
            return Err(unusable(&format!("it is inside {}: choose a folder outside", outside.display())));
        }
        let destination = parent.join(name);
        if exists {
            check_empty(&parent, &destination)?;
        }
        let mut unfinished = name.to_owned();
        unfinished.push(format!(".unfinished-{:016x}", env.random()));
        let path = parent.join(unfinished);
        fs::create_dir(&path).map_err(fail)?;
        Ok(Self { path, parent, destination, finished: false })
    }

    /// The folder's path until it is finished.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// An error unless there is room for so many bytes.
    pub(super) fn check_room(&self, space: &FreeSpace, bytes: u64) -> Result<(), DestinationError> {
        let room = space.check_room(&self.parent, bytes);
        room.map_err(|NearlyFull { free_bytes, needed_bytes }| {
            let destination = self.destination.clone();
            DestinationError::NoRoom { destination, free_bytes, needed_bytes }
        })
    }

    /// The error for a failed operation of the file system in the folder.
    pub(super) fn refused(&self, error: &io::Error) -> DestinationError {
        unavailable(self.path.clone(), error)
    }

    /// Gives the folder its final name, durably. All files and folders in it must be durable already.
    pub(super) fn finish(mut self) -> Result<(), DestinationError> {
        let sync = |path: &Path| {
            let synced = File::open(path).and_then(|folder| folder.sync_all());
            synced.map_err(|error| unavailable(path.to_owned(), &error))
        };
        sync(&self.path)?;
        let renamed = fs::rename(&self.path, &self.destination);
        renamed.map_err(|error| match error.kind() {
            // Something was written there meanwhile.
            io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists => {
                DestinationError::NotEmpty { destination: self.destination.clone() }
            }
            _ => unavailable(self.destination.clone(), &error),
        })?;
        self.finished = true;
        sync(&self.parent)
    }
}

impl Drop for UnfinishedFolder {
    fn drop(&mut self) {
        if !self.finished
            && let Err(error) = fs::remove_dir_all(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "an unfinished folder could not be removed");
        }
    }
}

fn check_empty(parent: &Path, destination: &Path) -> Result<(), DestinationError> {
    let fail = |error: io::Error| unavailable(destination.to_owned(), &error);
    let unusable = |reason: &str| DestinationError::Unusable {
        destination: destination.to_owned(),
        reason: reason.to_owned(),
    };
    let metadata = fs::metadata(destination).map_err(fail)?;
    if !metadata.is_dir() {
        return Err(unusable("it is not a folder: choose a folder"));
    }
    if fs::read_dir(destination).map_err(fail)?.next().is_some() {
        return Err(DestinationError::NotEmpty { destination: destination.to_owned() });
    }
    // A folder that is a mount point cannot be replaced by renaming another one.
    if fs::metadata(parent).map_err(fail)?.dev() != metadata.dev() {
        return Err(unusable("it is a mount point: choose a folder inside it"));
    }
    Ok(())
}
