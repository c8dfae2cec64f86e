//! One call: a request that is sent until there is an answer or the time limit for retries ends.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::stream::StreamExt as _;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue, IF_MATCH, RETRY_AFTER};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use seriatim_api::Problem;

use crate::client::Client;
use crate::error::ClientError;
use crate::retry::{Attempts, Repeat, wait};
use crate::transport::{Body, TransportError};
use crate::url::escape;

/// The largest answer in bytes: a page of a thousand large events fits.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// The content type that requests an audit as a file.
pub(crate) const AUDIT_FILE: &str = "application/x-ndjson";

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// A request that is being made.
#[derive(Debug)]
pub(crate) struct Call {
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Bytes,
    repeat: Repeat,
    /// Whether an answer with status 503 is a result and not an error.
    accept_unavailable: bool,
    timeout: bool,
    problem: Option<String>,
}

impl Call {
    fn new(method: Method, path: impl Into<String>, repeat: Repeat) -> Self {
        Self {
            method,
            path: path.into(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            repeat,
            accept_unavailable: false,
            timeout: true,
            problem: None,
        }
    }

    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path, Repeat::Safe)
    }

    /// Sets a state: repeating it changes nothing.
    pub(crate) fn put(path: impl Into<String>) -> Self {
        Self::new(Method::PUT, path, Repeat::Safe)
    }

    /// Removes something: repeating it changes nothing.
    pub(crate) fn delete(path: impl Into<String>) -> Self {
        Self::new(Method::DELETE, path, Repeat::Safe)
    }

    /// Does something. Without a key it is repeated only if it certainly was not done.
    pub(crate) fn post(path: impl Into<String>) -> Self {
        Self::new(Method::POST, path, Repeat::IfNotDone)
    }

    /// Allows the call to be repeated, although it is a POST without a key.
    pub(crate) fn repeatable(mut self) -> Self {
        self.repeat = Repeat::Safe;
        self
    }

    /// Without a time limit for the answer.
    pub(crate) fn without_timeout(mut self) -> Self {
        self.timeout = false;
        self
    }

    pub(crate) fn accept_unavailable(mut self) -> Self {
        self.accept_unavailable = true;
        self
    }

    pub(crate) fn query(mut self, name: &str, value: Option<impl ToString>) -> Self {
        if let Some(value) = value {
            let mark = if self.path.contains('?') { '&' } else { '?' };
            self.path = format!("{}{mark}{name}={}", self.path, escape(&value.to_string()));
        }
        self
    }

    pub(crate) fn body(mut self, body: &impl Serialize) -> Self {
        match serde_json::to_vec(body) {
            Ok(bytes) => self.body = bytes.into(),
            Err(error) => self.problem = Some(format!("the request cannot be written as JSON: {error}")),
        }
        self.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self
    }

    /// With an idempotency key: the caller's, or a new one. With a key the call may be repeated.
    pub(crate) fn key(mut self, client: &Client, key: Option<&str>) -> Self {
        let value = key.map_or_else(|| client.new_key(), str::to_owned);
        self.header(IDEMPOTENCY_KEY, &value);
        self.repeat = Repeat::Safe;
        self
    }

    /// Only if the workspace's last event has this offset.
    pub(crate) fn expecting(mut self, offset: Option<u64>) -> Self {
        if let Some(offset) = offset {
            self.header(IF_MATCH, &format!("\"{offset}\""));
        }
        self
    }

    pub(crate) fn accept(mut self, kind: &'static str) -> Self {
        self.headers.insert(ACCEPT, HeaderValue::from_static(kind));
        self
    }

    pub(crate) fn header(&mut self, name: HeaderName, value: &str) {
        match HeaderValue::from_str(value) {
            Ok(value) => drop(self.headers.insert(name, value)),
            Err(_) => self.problem = Some(format!("{value:?} cannot be sent as {name}: use plain ASCII")),
        }
    }

    /// Sends the request until there is an answer, and reads the answer.
    pub(crate) async fn send<T: DeserializeOwned>(self, client: &Client) -> Result<T, ClientError> {
        let (_, answer) = self.send_with_status(client).await?;
        Ok(answer)
    }

    /// As [`Call::send`], with the answer's status.
    pub(crate) async fn send_with_status<T: DeserializeOwned>(
        self,
        client: &Client,
    ) -> Result<(StatusCode, T), ClientError> {
        let (status, bytes) = self.repeat_until_answered(client, Self::read_once).await?;
        // An answer without a body is read as null.
        let bytes = if bytes.is_empty() { Bytes::from_static(b"null") } else { bytes };
        let answer = serde_json::from_slice(&bytes);
        let bad = |error: serde_json::Error| bad_answer(client, format!("{error} in {}", excerpt(&bytes)));
        Ok((status, answer.map_err(bad)?))
    }

    /// Sends the request until an answer begins; the caller reads its body.
    pub(crate) async fn open(self, client: &Client) -> Result<Body, ClientError> {
        self.repeat_until_answered(client, Self::open_once).await
    }

    async fn repeat_until_answered<T>(
        &self,
        client: &Client,
        once: impl AsyncFn(&Self, &Client) -> Result<T, Failure>,
    ) -> Result<T, ClientError> {
        if let Some(problem) = &self.problem {
            return Err(ClientError::Options(problem.clone()));
        }
        let started = client.env().instant();
        let mut count = 0;
        loop {
            count += 1;
            let Failure { error, hint } = match once(self, client).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            let attempts = Attempts { count, elapsed: client.env().instant() - started };
            let Some(wait) = wait(client.options(), self.repeat, attempts, &error, hint) else {
                return Err(error);
            };
            tracing::debug!(path = self.path, %error, count, ?wait, "the call is repeated");
            client.env().sleep(client.env().jitter(wait)).await;
        }
    }

    async fn read_once(&self, client: &Client) -> Result<(StatusCode, Bytes), Failure> {
        let whole = async {
            let response = self.send_once(client).await?;
            let status = response.status();
            let bytes = read_all(response.into_body()).await.map_err(|error| self.lost(client, error))?;
            Ok((status, bytes))
        };
        if !self.timeout {
            return whole.await;
        }
        let timeout = client.options().request_timeout;
        client.env().timeout(timeout, whole).await.unwrap_or_else(|_| {
            let reason = format!("no answer within {} s", timeout.as_secs());
            Err(self.lost(client, TransportError { sent: true, insecure: false, reason }))
        })
    }

    async fn open_once(&self, client: &Client) -> Result<Body, Failure> {
        let timeout = client.options().request_timeout;
        let answer = client.env().timeout(timeout, self.send_once(client)).await;
        let response = answer.unwrap_or_else(|_| {
            let reason = format!("no answer within {} s", timeout.as_secs());
            Err(self.lost(client, TransportError { sent: true, insecure: false, reason }))
        })?;
        Ok(response.into_body())
    }

    /// Sends the request once. An answer that is a problem document is an error.
    async fn send_once(&self, client: &Client) -> Result<Response<Body>, Failure> {
        let mut request = Request::new(self.body.clone());
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.path.parse().map_err(|_| {
            Failure::from(ClientError::Options(format!("{} is not a valid path of a request", self.path)))
        })?;
        *request.headers_mut() = self.headers.clone();
        let response = client.transport().send(request).await;
        let response = response.map_err(|error| self.lost(client, error))?;
        let status = response.status();
        let expected = self.accept_unavailable && status == StatusCode::SERVICE_UNAVAILABLE;
        if status.is_success() || expected {
            return Ok(response);
        }
        let hint = retry_after(response.headers());
        let bytes = read_all(response.into_body()).await.map_err(|error| self.lost(client, error))?;
        let error = match serde_json::from_slice::<Problem>(&bytes) {
            Ok(problem) => ClientError::Refused(Box::new(problem)),
            Err(_) => bad_answer(client, format!("status {status}, {}", excerpt(&bytes))),
        };
        Err(Failure { error, hint })
    }

    fn lost(&self, client: &Client, error: TransportError) -> Failure {
        let (place, reason) = (client.place(), error.reason);
        if error.insecure {
            return ClientError::Insecure { place, reason }.into();
        }
        if !error.sent {
            return ClientError::Unreachable { place, reason }.into();
        }
        let in_doubt = self.method != Method::GET;
        ClientError::Lost { place, reason, in_doubt }.into()
    }
}

/// Why an attempt has no answer, and how long the server asks the client to wait.
#[derive(Debug)]
struct Failure {
    error: ClientError,
    hint: Option<Duration>,
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        Self { error, hint: None }
    }
}

fn bad_answer(client: &Client, reason: String) -> ClientError {
    ClientError::BadAnswer { place: client.place(), reason }
}

/// The beginning of an answer, for an error text.
fn excerpt(bytes: &[u8]) -> String {
    format!("{:?}", String::from_utf8_lossy(&bytes[..bytes.len().min(200)]))
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

async fn read_all(mut body: Body) -> Result<Bytes, TransportError> {
    let mut all = BytesMut::new();
    while let Some(piece) = body.next().await {
        let piece = piece?;
        if all.len() + piece.len() > ANSWER_BYTES_MAX {
            let reason = format!("the answer has more than {ANSWER_BYTES_MAX} bytes");
            return Err(TransportError { sent: true, insecure: false, reason });
        }
        all.extend_from_slice(&piece);
    }
    Ok(all.freeze())
}
