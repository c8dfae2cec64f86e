//! Errors of a call.

use serde_json::Value;
use seriatim_api::Problem;
use seriatim_types::ErrorKind;

/// Why a call has no answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ClientError {
    /// The server refused the request.
    #[error("{}", .0.detail)]
    Refused(Box<Problem>),
    /// No server answers at the address. Nothing was done.
    #[error("no server answers at {place}: {reason}; start one with `seriatim serve`, or name another")]
    Unreachable {
        /// Where.
        place: String,
        /// What went wrong.
        reason: String,
    },
    /// A server answers, but no secure connection to it can be made. Nothing was done.
    #[error("{place} answers, but no secure connection to it can be made: {reason}")]
    Insecure {
        /// Where.
        place: String,
        /// What went wrong, and what to do.
        reason: String,
    },
    /// The connection broke before the answer arrived. If the call changes something, the change may have been made.
    #[error("the answer of {place} was lost: {reason}{}", if *.in_doubt { "; the request may have been carried out" } else { "" })]
    Lost {
        /// Where.
        place: String,
        /// What went wrong.
        reason: String,
        /// Whether the request may have been carried out.
        in_doubt: bool,
    },
    /// The answer is not one of a Seriatim server, or not one of this version.
    #[error("{place} does not answer like a Seriatim server of this version: {reason}")]
    BadAnswer {
        /// Where.
        place: String,
        /// What it answered.
        reason: String,
    },
    /// The run of a workflow ended without a result.
    #[error("workflow {id} has ended without a result, {}: {}", status.replace('_', " "), message(failure))]
    Ended {
        /// The workflow.
        id: String,
        /// How it ended: `failed`, `cancelled`, `terminated` or `timed_out`.
        status: String,
        /// Why.
        failure: Value,
    },
    /// A workflow answered with another type than the caller expects.
    #[error("the {what} does not have the expected type: {reason}")]
    Unexpected {
        /// Which answer it is.
        what: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The client's options cannot be used.
    #[error("{0}")]
    Options(String),
}

/// The message of a failure, with the messages of its causes.
fn message(failure: &Value) -> String {
    let mut text = failure["message"].as_str().unwrap_or("the reason is not known").to_owned();
    let mut cause = &failure["cause"];
    while let Some(message) = cause["message"].as_str() {
        text += &format!(": {message}");
        cause = &cause["cause"];
    }
    text
}

impl ClientError {
    /// What the caller can do about the error.
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
