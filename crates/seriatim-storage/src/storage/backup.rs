//! Backups of a storage, and their errors.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use seriatim_types::{ErrorKind, Partition, PartitionOffset};

use crate::LogError;

/// A storage that can be backed up while it is used.
#[async_trait]
pub trait Backup: Send + Sync + fmt::Debug {
    /// Copies the log and the bulletin into a folder that is empty or does not exist yet. Appends continue meanwhile. The
    /// backup is durable when this returns. After an error there is no backup.
    async fn backup(&self, destination: &Path) -> Result<BackupReport, BackupError>;
}

/// What a backup contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupReport {
    /// The total size of its segments.
    pub bytes: u64,
    /// How many frames the segments have. A frame is the data that one sync covered.
    pub frames: u64,
    /// How many entries the frames have, of all partitions.
    pub entries: u64,
    /// Every partition that was ever taken, with the offset after its last entry.
    pub tails: BTreeMap<Partition, PartitionOffset>,
}

/// Why a folder cannot become a backup or a storage. Nothing was left in it, unless the last sync failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DestinationError {
    /// The folder is not empty.
    #[error("{} is not empty: choose an empty folder or one that does not exist", destination.display())]
    NotEmpty {
        /// The folder.
        destination: PathBuf,
    },
    /// The path cannot be used as a separate folder.
    #[error("{} cannot be used: {reason}", destination.display())]
    Unusable {
        /// The path.
        destination: PathBuf,
        /// Why, and what to do about it.
        reason: String,
    },
    /// The folder's disk has too little free space.
    #[error("{free_bytes} bytes are free for {}, and {needed_bytes} are needed: free some disk space", destination.display())]
    NoRoom {
        /// The folder.
        destination: PathBuf,
        /// Bytes that are free.
        free_bytes: u64,
        /// Bytes that are needed, including those that must stay free.
        needed_bytes: u64,
    },
    /// The file system reports an error.
    #[error("{} cannot be written: {reason}", path.display())]
    Unavailable {
        /// The file or folder.
        path: PathBuf,
        /// The error of the file system.
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

/// Why there is no backup. The storage continues as before.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BackupError {
    /// The destination cannot be used.
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
