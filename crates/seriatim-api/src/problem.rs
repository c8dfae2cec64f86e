//! Errors as problem documents.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use seriatim_types::ErrorKind;
use utoipa::ToSchema;

/// What went wrong, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The request is wrong: correct it.
    Invalid,
    /// The caller is not known.
    Unauthorized,
    /// The caller does not have the right.
    Forbidden,
    /// It does not exist.
    NotFound,
    /// The state is not as the request expects.
    Conflict,
    /// It is too large.
    TooLarge,
    /// There are no more numbers.
    Exhausted,
    /// Not possible at the moment: try again.
    Busy,
    /// A part of the server does not work.
    Unavailable,
    /// A restored copy that is not unfenced.
    Fenced,
    /// It may have happened: repeat with the same idempotency key.
    InDoubt,
    /// Stored data contradicts itself.
    Corrupt,
    /// A defect of the server.
    Internal,
}

impl Code {
    /// Every code.
    pub const ALL: [Self; 13] = [
        Self::Invalid,
        Self::Unauthorized,
        Self::Forbidden,
        Self::NotFound,
        Self::Conflict,
        Self::TooLarge,
        Self::Exhausted,
        Self::Busy,
        Self::Unavailable,
        Self::Fenced,
        Self::InDoubt,
        Self::Corrupt,
        Self::Internal,
    ];

    /// The HTTP status.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Self::Invalid => 400,
            Self::Unauthorized => 401,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::Conflict => 409,
            Self::TooLarge => 413,
            Self::Exhausted => 422,
            Self::Busy | Self::Unavailable | Self::Fenced | Self::InDoubt => 503,
            Self::Corrupt | Self::Internal => 500,
        }
    }

    /// What went wrong, in a few words that are the same for each code.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Invalid => "The request is wrong",
            Self::Unauthorized => "The caller is not known",
            Self::Forbidden => "The caller may not do this",
            Self::NotFound => "Not found",
            Self::Conflict => "Not as expected",
            Self::TooLarge => "Too large",
            Self::Exhausted => "No more numbers",
            Self::Busy => "Busy",
            Self::Unavailable => "Unavailable",
            Self::Fenced => "A restored copy that is fenced",
            Self::InDoubt => "It may have happened",
            Self::Corrupt => "Stored data is damaged",
            Self::Internal => "A defect",
        }
    }

    /// Whether the same request can succeed later.
    #[must_use]
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::Busy | Self::Unavailable | Self::InDoubt)
    }
}

/// The code that an error of this kind has in an answer. A caller of the API cannot reopen what was closed, so a closed part
/// is unavailable.
impl From<ErrorKind> for Code {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Busy => Self::Busy,
            ErrorKind::Unavailable | ErrorKind::Closed => Self::Unavailable,
            ErrorKind::Conflict => Self::Conflict,
            ErrorKind::Invalid => Self::Invalid,
            ErrorKind::NotFound => Self::NotFound,
            ErrorKind::Corrupt => Self::Corrupt,
            ErrorKind::Exhausted => Self::Exhausted,
            ErrorKind::TooLarge => Self::TooLarge,
            ErrorKind::Fenced => Self::Fenced,
            ErrorKind::InDoubt => Self::InDoubt,
            ErrorKind::Unauthorized => Self::Unauthorized,
            ErrorKind::Forbidden => Self::Forbidden,
            ErrorKind::Internal => Self::Internal,
        }
    }
}

/// The kind says what a caller that gets this code can do.
impl From<Code> for ErrorKind {
    fn from(code: Code) -> Self {
        match code {
            Code::Invalid => Self::Invalid,
            Code::Unauthorized => Self::Unauthorized,
            Code::Forbidden => Self::Forbidden,
            Code::NotFound => Self::NotFound,
            Code::Conflict => Self::Conflict,
            Code::TooLarge => Self::TooLarge,
            Code::Exhausted => Self::Exhausted,
            Code::Busy => Self::Busy,
            Code::Unavailable => Self::Unavailable,
            Code::Fenced => Self::Fenced,
            Code::InDoubt => Self::InDoubt,
            Code::Corrupt => Self::Corrupt,
            Code::Internal => Self::Internal,
        }
    }
}

/// A problem document (RFC 9457).
///
/// ```
/// use seriatim_api::{Code, Problem};
///
/// let problem = Problem::new(Code::Busy, "server is busy: the partition recovers");
/// assert_eq!((problem.status, problem.retryable), (503, true));
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// What went wrong, in a few words that are the same for each code.
    #[schema(example = "Busy")]
    pub title: Cow<'static, str>,
    /// The HTTP status.
    #[schema(example = 503)]
    pub status: u16,
    /// What went wrong, for programs.
    pub code: Code,
    /// What went wrong, for people.
    #[schema(example = "server is busy: the partition recovers")]
    pub detail: String,
    /// Whether the same request can succeed later.
    pub retryable: bool,
    /// What the request expected, where that applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Value>,
    /// What was found instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<Value>,
}

impl Problem {
    /// A problem with its detail.
    #[must_use]
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            title: Cow::Borrowed(code.title()),
            status: code.status(),
            code,
            detail: detail.into(),
            retryable: code.is_retryable(),
            expected: None,
            found: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_a_kind_under_its_own_name() {
        for code in Code::ALL {
            let kind = ErrorKind::from(code);
            assert_eq!(Code::from(kind), code);
            assert_eq!(serde_json::to_value(code).unwrap(), kind.to_string());
        }
        assert_eq!(Code::from(ErrorKind::Closed), Code::Unavailable);
    }

    #[test]
    fn a_problem_is_read_as_it_was_written() {
        for code in Code::ALL {
            let mut problem = Problem::new(code, "a detail");
            (problem.expected, problem.found) = (Some(1.into()), Some(2.into()));
            let text = serde_json::to_string(&problem).unwrap();
            assert_eq!(serde_json::from_str::<Problem>(&text).unwrap(), problem);
        }
        let json = serde_json::to_value(Problem::new(Code::InDoubt, "x")).unwrap();
        let expected = serde_json::json!({
            "title": "It may have happened", "status": 503, "code": "in_doubt", "detail": "x", "retryable": true,
        });
        assert_eq!(json, expected);
    }
}
