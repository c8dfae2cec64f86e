//! Why there is no backup, or nothing restored.

use std::path::PathBuf;

use seriatim_storage::LogError;
use seriatim_types::ErrorKind;

use crate::log::CopyError;

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

impl From<CopyError> for BackupError {
    fn from(error: CopyError) -> Self {
        match error {
            CopyError::From(error) => Self::Log(error),
            CopyError::To(path, error) => unavailable(path, &error).into(),
        }
    }
}

/// Why nothing was restored. The backup is as it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// It is not a backup.
    #[error("{} is not a backup of seriatim: {reason}", backup.display())]
    NotABackup {
        /// The path.
        backup: PathBuf,
        /// What was found.
        reason: String,
    },
    /// A newer Seriatim made it.
    #[error("the backup {} has format {found}, and this program reads up to {known}: use a newer one", backup.display())]
    Newer {
        /// The folder.
        backup: PathBuf,
        /// The format that it has.
        found: u32,
        /// The newest format that this program knows.
        known: u32,
    },
    /// Something in it has changed since it was made.
    #[error("the backup {} is damaged: {reason}; restore another one", backup.display())]
    Damaged {
        /// The folder.
        backup: PathBuf,
        /// Which file, where in it, and what is wrong.
        reason: String,
    },
    /// It cannot be read.
    #[error("the backup {} cannot be read: {reason}", backup.display())]
    Unreadable {
        /// The folder.
        backup: PathBuf,
        /// What the file system said.
        reason: String,
    },
    /// It cannot be put there.
    #[error(transparent)]
    Destination(#[from] DestinationError),
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
        }
    }

    /// What the log in a backup has said.
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
