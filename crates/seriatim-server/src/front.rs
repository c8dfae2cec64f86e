//! What every request passes: its id, who asks, how many at once, how long, and what if it panics.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Method, Request, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt as _;
use hyper::body::Incoming;
use seriatim_api::Code;
use seriatim_types::panic_text;
use tokio::sync::Semaphore;
use tower_service::Service as _;
use tracing::Instrument as _;

use crate::access;
use crate::metrics::OneMore;
use crate::problem::Problem;
use crate::server::Api;

static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Bytes of a request's id that a client may choose: it is written to the log.
const REQUEST_ID_BYTES_MAX: usize = 128;

/// Answers requests of all connections.
#[derive(Debug)]
pub(crate) struct Front {
    pub(crate) api: Api,
    pub(crate) router: Router,
    /// Whether only this machine can reach the server.
    pub(crate) loopback: bool,
    pub(crate) requests: Arc<Semaphore>,
    pub(crate) request_timeout: Duration,
    /// Bytes of a request's head. What reads it takes heads up to this size, and perhaps larger ones.
    pub(crate) header_bytes_max: usize,
    /// The id of the next request that brings none; begins anywhere.
    pub(crate) next_id: AtomicU64,
}

/// Whether a request takes as long as it takes.
fn is_long(path: &str) -> bool {
    matches!(path, "/v1/backup" | "/v1/doctor" | "/v1/unfence") || path.ends_with("/audit")
}

impl Front {
    /// Answers a request. Whatever happens, there is an answer.
    pub(crate) async fn answer(&self, mut request: Request<Incoming>) -> Response {
        let metrics = &self.api.http;
        let started = self.api.env.instant();
        let id = self.id_of(&request);
        let span = tracing::info_span!(
            target: "seriatim_server::request", "request",
            id = id.to_str().unwrap_or_default(), method = %request.method(), path = request.uri().path(),
        );
        let head = head_bytes(&request);
        request.headers_mut().insert(&REQUEST_ID, id.clone());
        let answered =
            AssertUnwindSafe(self.pass(request, head)).catch_unwind().instrument(span.clone()).await;
        let mut response = answered.unwrap_or_else(|panic| {
            metrics.panics.increment(1);
            let message = panic_text(&*panic);
            tracing::error!(parent: &span, message, "a handler has panicked");
            Problem::new(Code::Internal, "a defect: the server's log says more").into_response()
        });
        response.headers_mut().insert(&REQUEST_ID, id);
        let took = started.elapsed();
        metrics.count(response.status());
        metrics.seconds.record(took);
        tracing::info!(
            target: "seriatim_server::request", parent: &span,
            status = response.status().as_u16(), micros = took.as_micros(), "answered"
        );
        response
    }

    /// Holds a request against tokens and limits, then lets the routes answer.
    async fn pass(&self, request: Request<Incoming>, head: usize) -> Response {
        let max = self.header_bytes_max;
        if head > max {
            let text = format!(
                "the head of the request has {head} bytes, and the server takes {max}: send less in headers and address"
            );
            let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
            return Problem::new(Code::TooLarge, text).with_status(status).into_response();
        }
        let mut request = request.map(Body::new);
        let admitted = access::admit(
            &self.api.engine,
            self.loopback,
            request.method(),
            request.uri(),
            request.headers(),
        );
        match admitted {
            Ok(None) => {}
            Ok(Some(grants)) => drop(request.extensions_mut().insert(grants)),
            Err(problem) => return problem.into_response(),
        }
        let path = request.uri().path();
        // Whoever asks how the server is gets an answer, however busy it is.
        let permit = match self.requests.try_acquire() {
            Ok(permit) => Some(permit),
            Err(_) if access::is_open(path) => None,
            Err(_) => {
                self.api.http.shed.increment(1);
                return Problem::busy("too many requests are under way; try again after a moment")
                    .into_response();
            }
        };
        let _in_flight = OneMore::new(&self.api.http.in_flight);
        let (long, method) = (is_long(path), request.method().clone());
        let answer = self.router.clone().call(request);
        let answer =
            if long { Ok(answer.await) } else { self.api.env.timeout(self.request_timeout, answer).await };
        drop(permit);
        match answer {
            Ok(Ok(response)) => response,
            Err(seriatim_env::Elapsed) => {
                self.api.http.timed_out.increment(1);
                self.timed_out(&method).into_response()
            }
        }
    }

    fn timed_out(&self, method: &Method) -> Problem {
        let seconds = self.request_timeout.as_secs_f64();
        if matches!(*method, Method::GET | Method::HEAD) {
            return Problem::new(Code::Unavailable, format!("there was no answer within {seconds} s"));
        }
        let text = format!(
            "there was no answer within {seconds} s, and it is not known whether it happened: \
             repeat it with the same idempotency key"
        );
        Problem::new(Code::InDoubt, text)
    }

    /// The id that the client has chosen, or a new one.
    fn id_of(&self, request: &Request<Incoming>) -> HeaderValue {
        let chosen = request.headers().get(&REQUEST_ID);
        let fine = |value: &&HeaderValue| value.len() <= REQUEST_ID_BYTES_MAX && value.to_str().is_ok();
        if let Some(chosen) = chosen.filter(fine) {
            return chosen.clone();
        }
        let number = self.next_id.fetch_add(1, Ordering::Relaxed);
        let mut text = [0; 16];
        for (place, digit) in text.iter_mut().enumerate() {
            let nibble = (number >> (60 - 4 * place)) & 15;
            *digit = b"0123456789abcdef"[usize::try_from(nibble).unwrap_or(0)];
        }
        HeaderValue::from_bytes(&text).unwrap_or_else(|_| HeaderValue::from_static("none"))
    }
}

/// Bytes of a request's head as it was sent, with the empty line at its end.
fn head_bytes(request: &Request<Incoming>) -> usize {
    let address = request.uri().path_and_query().map_or(0, |address| address.as_str().len());
    let first = request.method().as_str().len() + address + "  HTTP/1.1\r\n".len();
    let header =
        |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len() + ": \r\n".len();
    first + request.headers().iter().map(header).sum::<usize>() + "\r\n".len()
}
