//! Errors of a worker.

use seriatim_types::ErrorKind;
use temporalio_client::tonic::{Code, Status};
use thiserror::Error;

/// Why a worker could not begin, or had to end.
#[derive(Debug, Error)]
pub enum TemporalError {
    /// The worker's options contradict one another, or the core does not take them.
    #[error("the worker's options are wrong: {0}")]
    Options(String),
    /// A name that Temporal or the runtime keeps for itself.
    #[error("{what} {name:?} cannot be registered: {reason}")]
    Reserved {
        /// A workflow or an activity.
        what: &'static str,
        /// Its name.
        name: String,
        /// Whose it is.
        reason: &'static str,
    },
    /// Workers need a tokio runtime and the real clock.
    #[error("a Temporal worker runs on a real tokio runtime: make it inside one, with Env::real()")]
    NoRuntime,
    /// The server does not know the namespace, or does not let this caller in.
    #[error("namespace {namespace:?} cannot be used: {status}")]
    Namespace {
        /// The namespace.
        namespace: String,
        /// What the server said.
        status: Box<Status>,
    },
    /// The server gives no more work.
    #[error("the server gives no more work: {0}")]
    Poll(Box<Status>),
    /// A task of the worker panicked.
    #[error("the worker has a defect: {0}")]
    Defect(String),
}

impl TemporalError {
    /// What a caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Options(_) | Self::Reserved { .. } | Self::NoRuntime => ErrorKind::Invalid,
            Self::Namespace { status, .. } | Self::Poll(status) => kind_of(status.code()),
            Self::Defect(_) => ErrorKind::Internal,
        }
    }
}

const fn kind_of(code: Code) -> ErrorKind {
    match code {
        Code::NotFound => ErrorKind::NotFound,
        Code::Unauthenticated => ErrorKind::Unauthorized,
        Code::PermissionDenied => ErrorKind::Forbidden,
        Code::InvalidArgument | Code::OutOfRange | Code::FailedPrecondition => ErrorKind::Invalid,
        Code::ResourceExhausted => ErrorKind::Busy,
        Code::AlreadyExists => ErrorKind::Conflict,
        Code::DataLoss => ErrorKind::Corrupt,
        Code::Ok
        | Code::Cancelled
        | Code::Unknown
        | Code::DeadlineExceeded
        | Code::Aborted
        | Code::Unimplemented
        | Code::Internal
        | Code::Unavailable => ErrorKind::Unavailable,
    }
}
