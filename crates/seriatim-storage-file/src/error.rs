//! Why a storage cannot be opened.

use std::path::PathBuf;

use seriatim_storage::{LogError, StoreError};
use seriatim_types::ErrorKind;

/// Why a folder cannot be opened as a storage. Opening may have cut a torn end of the log; nothing else in the
/// folder was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Another process uses it.
    #[error("{} is held by {holder}: stop it first, or use it through its server", directory.display())]
    Held {
        /// The folder.
        directory: PathBuf,
        /// Who holds it, by its own word.
        holder: String,
    },
    /// It is not a storage of Seriatim, and not empty.
    #[error("{} is not a storage of seriatim: {reason}; name an empty folder or one that does not exist", directory.display())]
    Foreign {
        /// The folder.
        directory: PathBuf,
        /// What was found.
        reason: String,
    },
    /// It is a backup. Used as it is, it would give out numbers again that were given out after it was made.
    #[error("{} is a backup: restore it into a folder of its own", directory.display())]
    Backup {
        /// The folder.
        directory: PathBuf,
    },
    /// It is a restore that was cut short. It may not be fenced, so it would give out numbers again.
    #[error("{} is a restore that was not finished: remove it and restore the backup again", directory.display())]
    UnfinishedRestore {
        /// The folder.
        directory: PathBuf,
    },
    /// A newer Seriatim made it.
    #[error("{} has format {found}, and this program reads up to {known}: use a newer one", directory.display())]
    Newer {
        /// The folder.
        directory: PathBuf,
        /// The format that it has.
        found: u32,
        /// The newest format that this program knows.
        known: u32,
    },
    /// The file system refuses.
    #[error("{} cannot be used: {reason}", directory.display())]
    Unavailable {
        /// The folder.
        directory: PathBuf,
        /// What it said.
        reason: String,
    },
    /// There is too little room for a new storage. Nothing was made.
    #[error(
        "{} cannot be made: {free_bytes} bytes are free on its disk, and a new storage needs {needed_bytes} (free_bytes_min and one segment of the log): make room, or lower free_bytes_min",
        directory.display()
    )]
    DiskNearlyFull {
        /// The folder.
        directory: PathBuf,
        /// What is free.
        free_bytes: u64,
        /// What has to be free.
        needed_bytes: u64,
    },
    /// The log in it cannot be opened.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The store in it cannot be opened.
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
            Self::Foreign { .. } | Self::Backup { .. } | Self::UnfinishedRestore { .. } => ErrorKind::Invalid,
            Self::Newer { .. } => ErrorKind::Corrupt,
            Self::Log(error) => error.kind(),
            Self::Store(error) => error.kind(),
        }
    }
}
