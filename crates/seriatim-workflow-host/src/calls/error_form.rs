//! The errors of a host as another one receives them.

use serde::{Deserialize, Serialize};
use seriatim_engine::SubmitError;
use seriatim_types::ErrorKind;
use seriatim_workflow::Failure;

use crate::error::HostError;

/// A [`HostError`] as it is sent. Those that a sender tells apart keep their form; of the others the kind and the text are sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ErrorForm {
    /// The call is not known: another version has sent it. Nothing was done.
    Unknown {
        text: String,
    },
    /// It may have been carried out.
    InDoubt {
        text: String,
    },
    UnknownType {
        workflow_type: String,
        known: String,
    },
    UnknownWorkflow {
        id: String,
    },
    UnknownRun {
        id: String,
        run: u64,
        newest: u64,
    },
    Running {
        id: String,
        run_id: String,
    },
    NotRunning {
        id: String,
        status: String,
    },
    NotBegun {
        id: String,
        seconds: u64,
    },
    NeverBegan {
        id: String,
        status: String,
    },
    Used {
        id: String,
    },
    KeyReused {
        key: String,
    },
    Invalid {
        text: String,
    },
    Busy {
        text: String,
    },
    Stuck {
        id: String,
        reason: String,
    },
    Rejected {
        failure: Box<Failure>,
    },
    UpdateLost {
        run_id: String,
    },
    Query {
        failure: Box<Failure>,
    },
    Failed {
        failure: Box<Failure>,
    },
    Other {
        kind: String,
        text: String,
    },
}

impl From<HostError> for ErrorForm {
    fn from(error: HostError) -> Self {
        match error {
            HostError::UnknownType { workflow_type, known } => Self::UnknownType { workflow_type, known },
            HostError::UnknownWorkflow(id) => Self::UnknownWorkflow { id },
            HostError::UnknownRun { id, run, newest } => Self::UnknownRun { id, run, newest },
            HostError::Running { id, run_id } => Self::Running { id, run_id },
            HostError::NotRunning { id, status } => Self::NotRunning { id, status },
            HostError::NotBegun { id, seconds } => Self::NotBegun { id, seconds },
            HostError::NeverBegan { id, status } => Self::NeverBegan { id, status },
            HostError::Used(id) => Self::Used { id },
            HostError::KeyReused(key) => Self::KeyReused { key },
            HostError::Invalid(text) => Self::Invalid { text },
            HostError::Busy(text) => Self::Busy { text },
            HostError::Stuck { id, reason } => Self::Stuck { id, reason },
            HostError::Rejected(failure) => Self::Rejected { failure },
            HostError::UpdateLost(run_id) => Self::UpdateLost { run_id },
            HostError::Query(failure) => Self::Query { failure },
            HostError::Failed(failure) => Self::Failed { failure },
            HostError::Engine(SubmitError::InDoubt(text)) => Self::InDoubt { text },
            // The host there stops, and it is not known whether its engine has written it. The one here does not stop.
            HostError::Closed => Self::InDoubt { text: HostError::Closed.to_string() },
            other @ (HostError::Engine(_)
            | HostError::NotHere { .. }
            | HostError::Elsewhere { .. }
            | HostError::TooLarge { .. }
            | HostError::SecondHost
            | HostError::NoApplication) => {
                Self::Other { kind: other.kind().to_string(), text: other.to_string() }
            }
        }
    }
}

impl From<ErrorForm> for HostError {
    fn from(form: ErrorForm) -> Self {
        match form {
            ErrorForm::Unknown { text } => {
                let text = format!("the engine that owns the workflow has another version: {text}");
                Self::Elsewhere { kind: ErrorKind::Unavailable, text }
            }
            ErrorForm::InDoubt { text } => SubmitError::InDoubt(text).into(),
            ErrorForm::UnknownType { workflow_type, known } => Self::UnknownType { workflow_type, known },
            ErrorForm::UnknownWorkflow { id } => Self::UnknownWorkflow(id),
            ErrorForm::UnknownRun { id, run, newest } => Self::UnknownRun { id, run, newest },
            ErrorForm::Running { id, run_id } => Self::Running { id, run_id },
            ErrorForm::NotRunning { id, status } => Self::NotRunning { id, status },
            ErrorForm::NotBegun { id, seconds } => Self::NotBegun { id, seconds },
            ErrorForm::NeverBegan { id, status } => Self::NeverBegan { id, status },
            ErrorForm::Used { id } => Self::Used(id),
            ErrorForm::KeyReused { key } => Self::KeyReused(key),
            ErrorForm::Invalid { text } => Self::Invalid(text),
            ErrorForm::Busy { text } => Self::Busy(text),
            ErrorForm::Stuck { id, reason } => Self::Stuck { id, reason },
            ErrorForm::Rejected { failure } => Self::Rejected(failure),
            ErrorForm::UpdateLost { run_id } => Self::UpdateLost(run_id),
            ErrorForm::Query { failure } => Self::Query(failure),
            ErrorForm::Failed { failure } => Self::Failed(failure),
            ErrorForm::Other { kind, text } => Self::Elsewhere { kind: kind_named(&kind), text },
        }
    }
}

/// A kind by its name. One that is not known here counts as not available: that may be sent again.
fn kind_named(name: &str) -> ErrorKind {
    const KINDS: [ErrorKind; 14] = [
        ErrorKind::Busy,
        ErrorKind::Unavailable,
        ErrorKind::Conflict,
        ErrorKind::Invalid,
        ErrorKind::NotFound,
        ErrorKind::Corrupt,
        ErrorKind::Exhausted,
        ErrorKind::TooLarge,
        ErrorKind::Fenced,
        ErrorKind::InDoubt,
        ErrorKind::Unauthorized,
        ErrorKind::Forbidden,
        ErrorKind::Internal,
        ErrorKind::Closed,
    ];
    KINDS.into_iter().find(|kind| kind.to_string() == name).unwrap_or(ErrorKind::Unavailable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_the_same_at_the_other_end() {
        let failure = || Box::new(Failure::application("Declined", "no"));
        let (id, status) = ("w".to_owned(), "completed".to_owned());
        let same = [
            HostError::UnknownType { workflow_type: "t".into(), known: "u".into() },
            HostError::UnknownWorkflow(id.clone()),
            HostError::UnknownRun { id: id.clone(), run: 3, newest: 2 },
            HostError::Running { id: id.clone(), run_id: "1-1".into() },
            HostError::NotRunning { id: id.clone(), status: status.clone() },
            HostError::NotBegun { id: id.clone(), seconds: 3 },
            HostError::NeverBegan { id: id.clone(), status },
            HostError::Used(id.clone()),
            HostError::KeyReused("k".into()),
            HostError::Invalid("i".into()),
            HostError::Busy("b".into()),
            HostError::Stuck { id, reason: "r".into() },
            HostError::Rejected(failure()),
            HostError::UpdateLost("1-1".into()),
            HostError::Query(failure()),
            HostError::Failed(failure()),
            SubmitError::InDoubt("d".into()).into(),
        ];
        let sent = |error: HostError| {
            let json = serde_json::to_value(ErrorForm::from(error)).unwrap();
            HostError::from(serde_json::from_value::<ErrorForm>(json).unwrap())
        };
        for error in same {
            assert_eq!(sent(error.clone()), error);
        }
        let full = HostError::from(SubmitError::QueueFull(3));
        assert_eq!(
            sent(full.clone()),
            HostError::Elsewhere { kind: ErrorKind::Busy, text: full.to_string() }
        );
        assert_eq!(sent(HostError::Closed).kind(), ErrorKind::InDoubt, "only the host there is closed");
    }
}
