//! Why a command of the command line failed, and with which exit code.

use std::fmt;

use seriatim_types::ErrorKind;

/// Exit codes. 0 means success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The command found a problem.
    Problem = 1,
    /// The command was used wrongly.
    Usage = 2,
    /// Something is busy or unavailable.
    Unavailable = 3,
}

impl From<ErrorKind> for Exit {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Busy
            | ErrorKind::Unavailable
            | ErrorKind::InDoubt
            | ErrorKind::Fenced
            | ErrorKind::Closed => Self::Unavailable,
            ErrorKind::Invalid
            | ErrorKind::NotFound
            | ErrorKind::TooLarge
            | ErrorKind::Unauthorized
            | ErrorKind::Forbidden => Self::Usage,
            ErrorKind::Conflict | ErrorKind::Corrupt | ErrorKind::Exhausted | ErrorKind::Internal => {
                Self::Problem
            }
        }
    }
}

/// Why a command failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CliError {
    /// With a sentence for stderr.
    Failed { exit: Exit, message: String },
    /// The command found a problem and has already printed it.
    Found,
    /// The reason has already been printed.
    Reported(Exit),
    /// The reader of the output has closed it: not a failure.
    Unread,
}

impl CliError {
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::Failed { exit: Exit::Usage, message: message.into() }
    }

    pub(crate) fn unavailable(error: impl fmt::Display) -> Self {
        Self::Failed { exit: Exit::Unavailable, message: error.to_string() }
    }

    /// The exit code of an error's kind.
    pub(crate) fn of(kind: ErrorKind, error: impl fmt::Display) -> Self {
        Self::Failed { exit: kind.into(), message: error.to_string() }
    }

    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Failed { exit, .. } => *exit as u8,
            Self::Found => Exit::Problem as u8,
            Self::Reported(exit) => *exit as u8,
            Self::Unread => 0,
        }
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed { message, .. } => f.write_str(message),
            Self::Found => f.write_str("a problem was found"),
            Self::Reported(_) => f.write_str("the command failed"),
            Self::Unread => f.write_str("the output was closed by its reader"),
        }
    }
}

macro_rules! by_kind {
    ($($error:ty),* $(,)?) => {$(
        impl From<$error> for CliError {
            fn from(error: $error) -> Self {
                Self::of(error.kind(), error)
            }
        }
    )*};
}

by_kind!(
    seriatim::OpenLogError,
    seriatim::OpenStorageError,
    seriatim_client::ClientError,
    seriatim_engine::OpenError,
    seriatim_engine::SubmitError,
    seriatim_engine::doctor::DoctorError,
    seriatim_storage::BackupError,
    seriatim_storage::CloseError,
    seriatim_storage::LogError,
    seriatim_storage_file::OpenError,
    seriatim_storage_file::RestoreError,
);

#[cfg(feature = "temporal")]
by_kind!(seriatim_temporal::ConnectError, seriatim_temporal::FetchError, seriatim_temporal::TemporalError);
