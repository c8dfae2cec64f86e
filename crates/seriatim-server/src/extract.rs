//! What a request brings, read with errors that are problem documents.

use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts};
use axum::http::{HeaderMap, StatusCode};

use seriatim_api::Code;

use crate::problem::Problem;

/// A JSON body.
#[derive(FromRequest)]
#[from_request(via(axum::Json), rejection(Problem))]
pub(crate) struct Body<T>(pub(crate) T);

/// Parts of the path.
#[derive(FromRequestParts)]
#[from_request(via(axum::extract::Path), rejection(Problem))]
pub(crate) struct Path<T>(pub(crate) T);

/// Parameters behind the question mark.
#[derive(FromRequestParts)]
#[from_request(via(axum::extract::Query), rejection(Problem))]
pub(crate) struct Query<T>(pub(crate) T);

impl From<JsonRejection> for Problem {
    fn from(rejection: JsonRejection) -> Self {
        match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => Self::new(Code::TooLarge, rejection.body_text()),
            status @ StatusCode::UNSUPPORTED_MEDIA_TYPE => {
                Self::invalid("the body is JSON: send Content-Type: application/json").with_status(status)
            }
            _ => Self::invalid(rejection.body_text()),
        }
    }
}

impl From<PathRejection> for Problem {
    fn from(rejection: PathRejection) -> Self {
        Self::invalid(rejection.body_text())
    }
}

impl From<QueryRejection> for Problem {
    fn from(rejection: QueryRejection) -> Self {
        Self::invalid(rejection.body_text())
    }
}

/// The `Idempotency-Key`, if there is one.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(value) = headers.get("idempotency-key") else { return Ok(None) };
    let key = value.to_str().map_err(|_| Problem::invalid("an Idempotency-Key is plain ASCII"))?;
    Ok(Some(key.to_owned()))
}

/// The workspace offset of `If-Match`, if there is one: a number in quotes.
pub(crate) fn expected_offset(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let Some(value) = headers.get("if-match") else { return Ok(None) };
    let text = value.to_str().ok().and_then(|text| text.strip_prefix('"')?.strip_suffix('"'));
    let offset = text.and_then(|text| text.parse().ok());
    offset
        .map(Some)
        .ok_or_else(|| Problem::invalid("If-Match is a workspace offset in quotes, such as \"4\""))
}

/// A body may be left out where everything in it may be.
impl<S: Send + Sync, T: serde::de::DeserializeOwned> axum::extract::OptionalFromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: axum::extract::Request, state: &S) -> Result<Option<Self>, Problem> {
        if !request.headers().contains_key(axum::http::header::CONTENT_TYPE) {
            return Ok(None);
        }
        <Self as FromRequest<S>>::from_request(request, state).await.map(Some)
    }
}
