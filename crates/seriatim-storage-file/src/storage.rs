//! A folder with a log and a store.

use std::path::Path;
use std::sync::Arc;

use seriatim_env::Env;
use seriatim_storage::{Log, LogError};

use crate::directory::claim;
use crate::disk::RealDisk;
use crate::space::FreeSpace;
use crate::{FileLog, LogOptions, OpenError};

/// Settings of a storage on files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileOptions {
    /// Of the log.
    pub log: LogOptions,
    /// Writes are refused while less than this is free on the disk, so that what was promised can always be kept.
    /// Default 512 MiB: several segments, and room for the store to compact.
    pub free_bytes_min: u64,
}

impl Default for FileOptions {
    fn default() -> Self {
        Self { log: LogOptions::default(), free_bytes_min: 512 << 20 }
    }
}

/// A storage in a folder, held by this process until it is closed or dropped.
#[derive(Debug)]
pub struct FileStorage {
    log: Log,
}

impl FileStorage {
    /// Opens the storage in `directory`, or makes one there if the folder is empty or missing.
    ///
    /// # Errors
    ///
    /// [`OpenError`] if somebody else holds the folder, or if it is foreign, newer or damaged.
    pub async fn open(env: &Env, directory: &Path, options: FileOptions) -> Result<Self, OpenError> {
        let (env, directory) = (env.clone(), directory.to_owned());
        let open = {
            let env = env.clone();
            move || Self::open_blocking(&env, &directory, options)
        };
        env.blocking(open).await
    }

    fn open_blocking(env: &Env, directory: &Path, options: FileOptions) -> Result<Self, OpenError> {
        let lock = Arc::new(claim(directory)?);
        let space = Arc::new(FreeSpace::new(directory, options.free_bytes_min, FreeSpace::system()));
        let log = directory.join("log");
        let log = FileLog::open(env, Arc::new(RealDisk), &log, options.log, space, Some(lock))?;
        Ok(Self { log: Log::new(log) })
    }

    /// The log.
    #[must_use]
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Finishes what is under way, flushes, and lets go of the folder.
    ///
    /// # Errors
    ///
    /// [`LogError`]; the folder is let go all the same.
    pub async fn close(self) -> Result<(), LogError> {
        self.log.close().await
    }
}
