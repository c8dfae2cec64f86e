//! Errors as problem documents: answers of the server.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use seriatim_api::{Code, Problem as Document};
use seriatim_engine::SubmitError;

/// Seconds after which a client should retry: longer than commands wait in the server, shorter than a client's timeout.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");

/// A problem document as an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem(Box<Document>);

impl Problem {
    /// A problem with its detail.
    #[must_use]
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self(Box::new(Document::new(code, detail)))
    }

    /// The request is wrong.
    #[must_use]
    pub fn invalid(detail: impl Into<String>) -> Self {
        Self::new(Code::Invalid, detail)
    }

    /// It does not exist.
    #[must_use]
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(Code::NotFound, detail)
    }

    /// Not possible at the moment.
    #[must_use]
    pub fn busy(detail: impl std::fmt::Display) -> Self {
        Self::new(Code::Busy, format!("server is busy: {detail}"))
    }

    /// The same request would fail again.
    pub(crate) fn not_retryable(mut self) -> Self {
        self.0.retryable = false;
        self
    }

    /// With a status that is more precise than the code's own.
    pub(crate) fn with_status(mut self, status: StatusCode) -> Self {
        self.0.status = status.as_u16();
        self
    }
}

impl From<SubmitError> for Problem {
    fn from(error: SubmitError) -> Self {
        let mut problem = Self::new(error.kind().into(), error.to_string());
        if let SubmitError::Moved { expected, found, .. } = error {
            (problem.0.expected, problem.0.found) = (Some(expected.into()), Some(found.into()));
        }
        problem
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, code) = (StatusCode::from_u16(self.0.status), self.0.code);
        let mut response =
            (status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), Json(self.0)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        match code {
            Code::Busy => drop(headers.insert(header::RETRY_AFTER, RETRY_AFTER)),
            Code::Unauthorized => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            _ => {}
        }
        response
    }
}
