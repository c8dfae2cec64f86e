//! How operations and runs end when they do not succeed.

use thiserror::Error;

use crate::{ChildStartFailure, ContinueAsNew, Failure, PayloadError};

/// The scope of an operation was cancelled.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("cancelled: {reason}")]
pub struct Cancelled {
    /// Why, for people.
    pub reason: String,
}

/// How an activity ended without a result.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ActivityError {
    /// It failed, after all its attempts.
    #[error("the activity failed: {0}")]
    Failed(Failure),
    /// It was cancelled.
    #[error("the activity was cancelled: {0}")]
    Cancelled(Failure),
    /// Its input could not be encoded, or its result is not of the type that the workflow expects.
    #[error("{0}")]
    Payload(#[from] PayloadError),
}

/// How a child workflow ended without a result.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ChildError {
    /// It was refused.
    #[error("the child workflow {workflow_id:?} was not started: {cause:?}")]
    NotStarted {
        /// Why.
        cause: ChildStartFailure,
        /// Its id.
        workflow_id: String,
    },
    /// It failed.
    #[error("the child workflow failed: {0}")]
    Failed(Failure),
    /// It was cancelled.
    #[error("the child workflow was cancelled: {0}")]
    Cancelled(Failure),
    /// Its input could not be encoded, or its result is not of the type that the workflow expects.
    #[error("{0}")]
    Payload(#[from] PayloadError),
}

/// Why a message to another workflow was not delivered.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ExternalError {
    /// The host could not deliver it.
    #[error("the message was not delivered: {0}")]
    NotDelivered(Failure),
    /// It was cancelled.
    #[error("the message was cancelled: {0}")]
    Cancelled(Failure),
    /// Its arguments could not be encoded.
    #[error("{0}")]
    Payload(#[from] PayloadError),
}

/// Why there is no next signal.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum SignalError {
    /// The scope in which it was awaited was cancelled.
    #[error("{0}")]
    Cancelled(#[from] Cancelled),
    /// Its arguments are not of the type that the workflow expects, and the signals are strict. The signal is gone.
    #[error("{0}")]
    Payload(#[from] PayloadError),
}

/// How a run ends other than with a result.
///
/// Everything that an operation can end with becomes an exit with `?`.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum Exit {
    /// It fails.
    #[error("{0}")]
    Failed(Failure),
    /// It stops because it was asked to.
    #[error("the workflow was cancelled")]
    Cancelled,
    /// It continues as a new run. Made by [`Context::continue_as_new`](crate::Context::continue_as_new).
    #[error("the workflow continues as new")]
    ContinueAsNew(Box<ContinueAsNew>),
}

impl Exit {
    /// A failure that the workflow's code raises.
    #[must_use]
    pub fn failed(error_type: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Failed(Failure::application(error_type, message))
    }
}

impl From<Failure> for Exit {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<Cancelled> for Exit {
    fn from(_: Cancelled) -> Self {
        Self::Cancelled
    }
}

impl From<PayloadError> for Exit {
    fn from(error: PayloadError) -> Self {
        Self::Failed(Failure::non_retryable("Payload", error.to_string()))
    }
}

impl From<SignalError> for Exit {
    fn from(error: SignalError) -> Self {
        match error {
            SignalError::Cancelled(cancelled) => cancelled.into(),
            SignalError::Payload(error) => error.into(),
        }
    }
}

macro_rules! exits {
    ($($error:ident)*) => {$(
        impl From<$error> for Exit {
            fn from(error: $error) -> Self {
                Self::Failed(error.into())
            }
        }
    )*};
}

exits! { ActivityError ChildError ExternalError }

impl From<ActivityError> for Failure {
    fn from(error: ActivityError) -> Self {
        match error {
            ActivityError::Failed(failure) | ActivityError::Cancelled(failure) => failure,
            ActivityError::Payload(error) => Self::non_retryable("Payload", error.to_string()),
        }
    }
}

impl From<ChildError> for Failure {
    fn from(error: ChildError) -> Self {
        match error {
            ChildError::Failed(failure) | ChildError::Cancelled(failure) => failure,
            other => Self::non_retryable("ChildWorkflow", other.to_string()),
        }
    }
}

impl From<ExternalError> for Failure {
    fn from(error: ExternalError) -> Self {
        match error {
            ExternalError::NotDelivered(failure) | ExternalError::Cancelled(failure) => failure,
            ExternalError::Payload(error) => Self::non_retryable("Payload", error.to_string()),
        }
    }
}

impl From<Cancelled> for Failure {
    fn from(cancelled: Cancelled) -> Self {
        Self::cancelled(cancelled.reason)
    }
}

impl From<PayloadError> for Failure {
    fn from(error: PayloadError) -> Self {
        Self::non_retryable("Payload", error.to_string())
    }
}
