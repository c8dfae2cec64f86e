//! Errors of opening a storage.

use std::path::PathBuf;

use seriatim_storage::{LogError, StoreError};
use seriatim_types::ErrorKind;

/// Why a folder cannot be opened as a storage. Opening may have cut off a torn frame at the end of the log. Nothing else in
/// the folder was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Another process uses the folder.
    #[error("{} is in use by {holder}: stop that process first, or use the storage through its server", directory.display())]
    Held {
        /// The folder.
        directory: PathBuf,
        /// The process that uses it, as it wrote into the lock file.
        holder: String,
    },
    /// The folder is not a storage of Seriatim, and not empty.
    #[error("{} is not a storage of seriatim: {reason}; choose an empty folder or one that does not exist", directory.display())]
    Foreign {
        /// The folder.
        directory: PathBuf,
        /// What was found.
        reason: String,
    },
    /// The folder is a backup. If it were used as a storage, it would give out numbers again that were given out since.
    #[error("{} is a backup: restore it into another folder", directory.display())]
    Backup {
        /// The folder.
        directory: PathBuf,
    },
    /// The folder is a restore that was interrupted. It may not be fenced, so it could give out numbers again.
    #[error("{} is a restore that was not finished: remove it and restore the backup again", directory.display())]
    UnfinishedRestore {
        /// The folder.
        directory: PathBuf,
    },
    /// The folder is not empty, and not local state.
    #[error("{} cannot have local state: {reason}; choose an empty folder or one that does not exist", directory.display())]
    ForeignLocal {
        /// The folder.
        directory: PathBuf,
        /// What was found.
        reason: String,
    },
    /// A restore into the log was interrupted. It may not be fenced, so it could give out numbers again.
    #[error("the log is a restore that was not finished: remove it and restore the backup again")]
    UnfinishedLog,
    /// A newer Seriatim made the folder.
    #[error("{} has format {found}, and this program reads formats up to {known}: use a newer program", directory.display())]
    Newer {
        /// The folder.
        directory: PathBuf,
        /// The format of the folder.
        found: u32,
        /// The newest format that this program reads.
        known: u32,
    },
    /// The file system reports an error.
    #[error("{} cannot be used: {reason}", directory.display())]
    Unavailable {
        /// The folder.
        directory: PathBuf,
        /// The error of the file system.
        reason: String,
    },
    /// There is too little free space for a new storage. Nothing was created.
    #[error(
        "{} cannot be created: {free_bytes} bytes are free on its disk, and a new storage needs {needed_bytes} (free_bytes_min and one segment of the log): free some disk space, or lower free_bytes_min",
        directory.display()
    )]
    DiskNearlyFull {
        /// The folder.
        directory: PathBuf,
        /// Bytes that are free.
        free_bytes: u64,
        /// Bytes that must be free.
        needed_bytes: u64,
    },
    /// The log cannot be opened.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl OpenError {
    /// What the caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Held { .. } | Self::Unavailable { .. } | Self::DiskNearlyFull { .. } => {
                ErrorKind::Unavailable
            }
            Self::Foreign { .. }
            | Self::ForeignLocal { .. }
            | Self::Backup { .. }
            | Self::UnfinishedRestore { .. }
            | Self::UnfinishedLog => ErrorKind::Invalid,
            Self::Newer { .. } => ErrorKind::Corrupt,
            Self::Log(error) => error.kind(),
            Self::Store(error) => error.kind(),
        }
    }
}
