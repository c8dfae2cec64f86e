//! Backups: what a storage copies, and why it could not.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use seriatim_types::{ErrorKind, Partition, PartitionOffset};

use crate::LogError;

/// A storage that can be backed up while it is in use.
#[async_trait]
pub trait Backup: Send + Sync + fmt::Debug {
    /// Copies the log and the bulletin into a folder of their own, which must be empty or missing, while appends continue.
    /// The backup is durable when this returns.
    async fn backup(&self, destination: &Path) -> Result<BackupReport, BackupError>;
}

/// What a backup holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupReport {
    /// How long its segments are together.
    pub bytes: u64,
    /// How many frames they have: what one sync covered each.
    pub frames: u64,
    /// How many entries these hold, of all partitions.
    pub entries: u64,
    /// Every partition that was ever taken, with the offset behind its last entry.
    pub tails: BTreeMap<Partition, PartitionOffset>,
}

/// Why a folder cannot become a backup or a storage. Nothing of it is there, unless the very last sync failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DestinationError {
    /// There is something in it.
    #[error("{} is not empty: name an empty folder or one that does not exist", destination.display())]
    NotEmpty {
        /// The folder.
        destination: PathBuf,
    },
    /// It cannot be a folder of its own.
    #[error("{} cannot be used: {reason}", destination.display())]
    Unusable {
        /// The path.
        destination: PathBuf,
        /// Why, and what to do about it.
        reason: String,
    },
    /// Its disk has too little room.
    #[error("{free_bytes} bytes are free for {}, and {needed_bytes} are needed: make room", destination.display())]
    NoRoom {
        /// The folder.
        destination: PathBuf,
        /// What is free.
        free_bytes: u64,
        /// What is needed, with what has to stay free.
        needed_bytes: u64,
    },
    /// The file system refuses.
    #[error("{} cannot be written: {reason}", path.display())]
    Unavailable {
        /// The file or folder.
        path: PathBuf,
        /// What it said.
        reason: String,
    },
}

impl DestinationError {
    /// What the caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotEmpty { .. } | Self::Unusable { .. } => ErrorKind::Invalid,
            Self::NoRoom { .. } | Self::Unavailable { .. } => ErrorKind::Unavailable,
        }
    }
}

/// Why there is no backup. The storage goes on as before.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BackupError {
    /// It cannot be put there.
    #[error(transparent)]
    Destination(#[from] DestinationError),
    /// The log is closed, damaged, or cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
}

impl BackupError {
    /// What the caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Destination(error) => error.kind(),
            Self::Log(error) => error.kind(),
        }
    }
}
