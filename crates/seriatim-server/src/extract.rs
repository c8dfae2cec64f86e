//! What a request brings, read with errors that are problem documents.

use axum::body::{Bytes, HttpBody as _};
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, OptionalFromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use serde::de::DeserializeOwned;
use seriatim_api::Code;

use crate::problem::Problem;

/// A JSON object as the body.
pub(crate) struct Body<T>(pub(crate) T);

/// Parts of the path.
#[derive(FromRequestParts)]
#[from_request(via(axum::extract::Path), rejection(Problem))]
pub(crate) struct Path<T>(pub(crate) T);

/// Parameters behind the question mark.
#[derive(FromRequestParts)]
#[from_request(via(axum::extract::Query), rejection(Problem))]
pub(crate) struct Query<T>(pub(crate) T);

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = value.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json")
}

/// The bytes of a body that says it is JSON.
async fn read<S: Send + Sync>(request: Request, state: &S) -> Result<Bytes, Problem> {
    if !is_json(request.headers()) {
        let problem = Problem::invalid("the body is JSON: send Content-Type: application/json");
        return Err(problem.with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE));
    }
    Bytes::from_request(request, state).await.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => {
            Problem::new(Code::TooLarge, "the body is larger than the server takes: send less at once")
        }
        _ => Problem::invalid(rejection.body_text()),
    })
}

/// Reads an object. What derives its reading takes an array for one too, so that is refused here.
fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(Problem::invalid("the body is a JSON object"));
    }
    serde_json::from_slice(bytes).map_err(|error| Problem::invalid(format!("the body: {error}")))
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        parse(&read(request, state).await?).map(Self)
    }
}

/// A body may be left out where everything in it may be.
impl<S: Send + Sync, T: DeserializeOwned> OptionalFromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Option<Self>, Problem> {
        if request.body().is_end_stream() {
            return Ok(None);
        }
        let bytes = read(request, state).await?;
        if bytes.trim_ascii() == b"null" {
            return Ok(None);
        }
        parse(&bytes).map(|body| Some(Self(body)))
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
