//! Reads path, query, headers and body of a request. Errors are problem documents.

use axum::body::{Bytes, HttpBody as _};
use axum::extract::path::ErrorKind;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequest, FromRequestParts, OptionalFromRequest, RawPathParams, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use serde::de::DeserializeOwned;
use seriatim_api::Code;

use crate::problem::Problem;

/// A JSON object as the body.
pub(crate) struct Body<T>(pub(crate) T);

/// Parts of the path.
pub(crate) struct Path<T>(pub(crate) T);

/// Query parameters.
pub(crate) struct Query<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let rejection = match axum::extract::Path::from_request_parts(parts, state).await {
            Ok(axum::extract::Path(path)) => return Ok(Self(path)),
            Err(rejection) => rejection,
        };
        let names = RawPathParams::from_request_parts(parts, state).await;
        let names: Vec<String> =
            names.map(|names| names.iter().map(|(name, _)| name.to_owned()).collect()).unwrap_or_default();
        Err(wrong_path(rejection, &names))
    }
}

/// What is wrong with the path. Its parts are named as in the documentation.
fn wrong_path(rejection: PathRejection, names: &[String]) -> Problem {
    let PathRejection::FailedToDeserializePathParams(rejection) = rejection else {
        return Problem::invalid("the path cannot be read");
    };
    let (name, value, expected) = match rejection.into_kind() {
        ErrorKind::ParseErrorAtIndex { index, value, expected_type } => {
            (names.get(index).cloned(), value, expected_type)
        }
        ErrorKind::ParseErrorAtKey { key, value, expected_type } => (Some(key), value, expected_type),
        ErrorKind::ParseError { value, expected_type } => (names.first().cloned(), value, expected_type),
        ErrorKind::InvalidUtf8InPathParam { key } => {
            return Problem::invalid(format!("in the path, {key} is not UTF-8"));
        }
        other => return Problem::invalid(format!("the path: {other}")),
    };
    let name = name.unwrap_or_else(|| "this part".to_owned());
    let most = if expected == "u16" { format!(" up to {}", u16::MAX) } else { String::new() };
    Problem::invalid(format!("in the path, {name} has to be a whole number{most}, not {value:?}"))
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let query = axum::extract::Query::from_request_parts(parts, state).await;
        query.map(|axum::extract::Query(query)| Self(query)).map_err(|rejection| {
            // The outer error is about axum; its source is about the query.
            let cause = std::error::Error::source(&rejection).map(ToString::to_string);
            let text = cause.unwrap_or_else(|| rejection.body_text());
            Problem::invalid(format!("in the query, {}", replace_type_names(&text)))
        })
    }
}

/// Replaces the names of Rust types in an error text by words.
pub(crate) fn replace_type_names(text: &str) -> String {
    const WORDS: [(&str, &str); 16] = [
        ("invalid digit found in string", "it is not a whole number"),
        ("cannot parse integer from empty string", "it is not a whole number"),
        ("number too large to fit in target type", "it is too large"),
        ("expected usize", "expected a whole number"),
        ("expected u64", "expected a whole number"),
        ("expected u32", "expected a whole number"),
        ("expected u16", "expected a whole number"),
        ("expected u8", "expected a whole number"),
        ("expected i64", "expected a whole number"),
        ("expected i32", "expected a whole number"),
        ("expected f64", "expected a number"),
        ("expected f32", "expected a number"),
        ("expected unit at", "expected null at"),
        ("expected a sequence", "expected an array"),
        ("expected a map", "expected an object"),
        ("expected struct", "expected an object"),
    ];
    let mut text = text.to_owned();
    for (inside, words) in WORDS {
        let Some(at) = text.find(inside) else { continue };
        let mut end = at + inside.len();
        if inside.ends_with("struct") {
            // The name of the struct follows.
            end = text[end + 1..].find(' ').map_or(text.len(), |space| end + 1 + space);
        }
        text.replace_range(at..end, words);
    }
    text
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = value.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json")
}

/// The bytes of a body whose content type is JSON.
async fn read<S: Send + Sync>(request: Request, state: &S) -> Result<Bytes, Problem> {
    if !is_json(request.headers()) {
        let problem = Problem::invalid("the body has to be JSON: send Content-Type: application/json");
        return Err(problem.with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE));
    }
    Bytes::from_request(request, state).await.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => {
            Problem::new(Code::TooLarge, "the body is larger than the server accepts: send less at once")
        }
        _ => Problem::invalid(rejection.body_text()),
    })
}

/// Reads an object. Derived deserializers also accept an array in place of an object, so this refuses arrays.
fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(Problem::invalid("the body has to be a JSON object"));
    }
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let read = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let (path, text) = (error.path().to_string(), replace_type_names(&error.inner().to_string()));
        // An error about the whole body has no path.
        let place = if path == "." { "the body".to_owned() } else { format!("in the body, {path}") };
        Problem::invalid(format!("{place}: {text}"))
    })?;
    let rest = reader.end().map_err(|error| Problem::invalid(format!("the body: {error}")));
    rest.map(|()| read)
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        parse(&read(request, state).await?).map(Self)
    }
}

/// A body may be absent if all its fields are optional.
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

/// The `Idempotency-Key`, if there is one.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut values = headers.get_all("idempotency-key").iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Problem::invalid("the request has several Idempotency-Key headers: send one"));
    }
    let key = value.to_str().map_err(|_| Problem::invalid("the Idempotency-Key has to be plain ASCII"))?;
    Ok(Some(key.to_owned()))
}

/// The workspace offset of `If-Match`, if there is one: a number in quotes.
pub(crate) fn expected_offset(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let Some(value) = headers.get("if-match") else { return Ok(None) };
    let text = value.to_str().ok().and_then(|text| text.strip_prefix('"')?.strip_suffix('"'));
    let offset = text.and_then(|text| text.parse().ok());
    offset
        .map(Some)
        .ok_or_else(|| Problem::invalid("If-Match has to be a workspace offset in quotes, such as \"4\""))
}
