//! Errors as problem documents.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::Value;
use seriatim_engine::SubmitError;
use seriatim_types::ErrorKind;

/// What went wrong, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The request is wrong: mend it.
    Invalid,
    /// Who asks is not known.
    Unauthorized,
    /// Who asks may not.
    Forbidden,
    /// It does not exist.
    NotFound,
    /// It is not as expected.
    Conflict,
    /// It is too large.
    TooLarge,
    /// There are no more numbers.
    Exhausted,
    /// Not now: try again.
    Busy,
    /// A part does not work.
    Unavailable,
    /// A restored copy that nobody has unfenced.
    Fenced,
    /// It may have happened: repeat with the same idempotency key.
    InDoubt,
    /// Stored data contradicts itself.
    Corrupt,
    /// A defect.
    Internal,
}

impl Code {
    /// The HTTP status.
    #[must_use]
    pub fn status(self) -> StatusCode {
        match self {
            Self::Invalid => StatusCode::BAD_REQUEST,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::Conflict => StatusCode::CONFLICT,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Exhausted => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Busy | Self::Unavailable | Self::Fenced | Self::InDoubt => StatusCode::SERVICE_UNAVAILABLE,
            Self::Corrupt | Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn title(self) -> &'static str {
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

    /// Whether it helps to send the same again.
    fn is_retryable(self) -> bool {
        matches!(self, Self::Busy | Self::Unavailable | Self::InDoubt)
    }
}

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

/// A problem document (RFC 9457).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Problem {
    title: &'static str,
    status: u16,
    /// What went wrong, for programs.
    pub code: Code,
    /// What went wrong, for people.
    pub detail: String,
    retryable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    expected: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    found: Option<Value>,
}

impl Problem {
    /// A problem with its detail.
    #[must_use]
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            title: code.title(),
            status: code.status().as_u16(),
            code,
            detail: detail.into(),
            retryable: code.is_retryable(),
            expected: None,
            found: None,
        }
    }

    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(Code::Invalid, detail)
    }

    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(Code::NotFound, detail)
    }
}

impl From<SubmitError> for Problem {
    fn from(error: SubmitError) -> Self {
        let mut problem = Self::new(error.kind().into(), error.to_string());
        if let SubmitError::Moved { expected, found, .. } = error {
            (problem.expected, problem.found) = (Some(expected.into()), Some(found.into()));
        }
        problem
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let busy = self.code == Code::Busy;
        let mut response = (self.code.status(), Json(self)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if busy {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
