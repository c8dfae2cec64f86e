//! What can go wrong.

use serde_json::Value;
use seriatim_api::Problem;
use seriatim_types::ErrorKind;

/// Why a call has no answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ClientError {
    /// The server has said no.
    #[error("{}", .0.detail)]
    Refused(Box<Problem>),
    /// Nobody answers there. Nothing was done.
    #[error("no server answers at {place}: {reason}; start one with `seriatim serve`, or name another")]
    Unreachable {
        /// Where.
        place: String,
        /// What went wrong.
        reason: String,
    },
    /// Something answers there, and no secure connection to it can be made. Nothing was done.
    #[error("{place} answers, and no secure connection can be made: {reason}")]
    Insecure {
        /// Where.
        place: String,
        /// What went wrong, and what to do.
        reason: String,
    },
    /// The connection broke before the answer had come. If the call changes something, it may have happened.
    #[error("the answer of {place} was lost: {reason}{}", if *.in_doubt { "; it may have been done" } else { "" })]
    Lost {
        /// Where.
        place: String,
        /// What went wrong.
        reason: String,
        /// Whether it may have been done.
        in_doubt: bool,
    },
    /// What answers there does not speak as a server of Seriatim does, or not as this version of it.
    #[error("{place} does not answer as seriatim does: {reason}")]
    BadAnswer {
        /// Where.
        place: String,
        /// What came.
        reason: String,
    },
    /// The run of a workflow has ended without a result.
    #[error("workflow {id} has ended without a result, {}: {}", status.replace('_', " "), message(failure))]
    Ended {
        /// The workflow.
        id: String,
        /// How it has ended: `failed`, `cancelled`, `terminated` or `timed_out`.
        status: String,
        /// Why.
        failure: Value,
    },
    /// A workflow has answered with another type than the caller expects.
    #[error("the {what} is not what was expected: {reason}")]
    Unexpected {
        /// What it is.
        what: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The client's options cannot be used.
    #[error("{0}")]
    Options(String),
}

/// What a failure says, with its causes.
fn message(failure: &Value) -> String {
    let mut text = failure["message"].as_str().unwrap_or("no reason is known").to_owned();
    let mut cause = &failure["cause"];
    while let Some(message) = cause["message"].as_str() {
        text += &format!(": {message}");
        cause = &cause["cause"];
    }
    text
}

impl ClientError {
    /// What the caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Refused(problem) => problem.code.into(),
            Self::Unreachable { .. } | Self::Lost { in_doubt: false, .. } => ErrorKind::Unavailable,
            Self::Lost { in_doubt: true, .. } => ErrorKind::InDoubt,
            Self::BadAnswer { .. } => ErrorKind::Internal,
            Self::Insecure { .. } | Self::Ended { .. } | Self::Unexpected { .. } | Self::Options(_) => {
                ErrorKind::Invalid
            }
        }
    }

    /// The problem document, if the server has sent one.
    #[must_use]
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Refused(problem) => Some(problem),
            _ => None,
        }
    }
}
