//! Errors of a restore, and how errors of copying become errors of a backup.

use std::path::PathBuf;

use seriatim_storage::{BackupError, DestinationError, LogError};
use seriatim_types::ErrorKind;

use crate::log::CopyError;

impl From<CopyError> for BackupError {
    fn from(error: CopyError) -> Self {
        match error {
            CopyError::From(error) => Self::Log(error),
            CopyError::To(path, error) => unavailable(path, &error).into(),
        }
    }
}

/// Why nothing was restored. The backup was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// The folder is not a backup.
    #[error("{} is not a backup of seriatim: {reason}", backup.display())]
    NotABackup {
        /// The path.
        backup: PathBuf,
        /// What was found.
        reason: String,
    },
    /// A newer Seriatim made the backup.
    #[error("the backup {} has format {found}, and this program reads formats up to {known}: use a newer program", backup.display())]
    Newer {
        /// The folder.
        backup: PathBuf,
        /// The format of the backup.
        found: u32,
        /// The newest format that this program reads.
        known: u32,
    },
    /// A file of the backup has changed since it was made.
    #[error("the backup {} is damaged: {reason}; restore another one", backup.display())]
    Damaged {
        /// The folder.
        backup: PathBuf,
        /// Which file, where in it, and what is wrong.
        reason: String,
    },
    /// The backup cannot be read.
    #[error("the backup {} cannot be read: {reason}", backup.display())]
    Unreadable {
        /// The folder.
        backup: PathBuf,
        /// The error of the file system.
        reason: String,
    },
    /// The destination cannot be used.
    #[error(transparent)]
    Destination(#[from] DestinationError),
    /// The log that should receive the backup contains something already. It was not changed.
    #[error(
        "the log is not empty, or another restore of it was begun: a backup is restored into a new log; name another place"
    )]
    LogNotEmpty,
    /// The log that should receive the backup did not accept it. A part may be in it, and it cannot be used.
    #[error("{0}; the restore is not finished: remove what it has written, and restore the backup again")]
    Log(#[from] LogError),
}

impl RestoreError {
    /// What the caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotABackup { .. } => ErrorKind::Invalid,
            Self::Newer { .. } | Self::Damaged { .. } => ErrorKind::Corrupt,
            Self::Unreadable { .. } => ErrorKind::Unavailable,
            Self::Destination(error) => error.kind(),
            Self::LogNotEmpty => ErrorKind::Invalid,
            Self::Log(error) => error.kind(),
        }
    }

    /// The error for an error of the log in a backup.
    pub(super) fn of_log(backup: PathBuf, error: LogError) -> Self {
        match error {
            LogError::Newer { found, known } => Self::Newer { backup, found, known },
            LogError::Corrupt(reason) => Self::Damaged { backup, reason },
            LogError::Unavailable(reason) | LogError::Internal(reason) => Self::Unreadable { backup, reason },
            error @ LogError::Closed => Self::Unreadable { backup, reason: error.to_string() },
        }
    }

    pub(super) fn of_copy(backup: PathBuf, error: CopyError) -> Self {
        match error {
            CopyError::From(error) => Self::of_log(backup, error),
            CopyError::To(path, error) => unavailable(path, &error).into(),
        }
    }
}

pub(super) fn unavailable(path: PathBuf, error: &std::io::Error) -> DestinationError {
    DestinationError::Unavailable { path, reason: error.to_string() }
}
