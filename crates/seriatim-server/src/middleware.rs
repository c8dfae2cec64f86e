//! What happens to every request before and after its route: request id, access, limits, timeout, panics, metrics.

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
use crate::metrics::GaugeGuard;
use crate::problem::Problem;
use crate::server::Api;

static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The longest request id that a client may choose: the id is written to the log.
const REQUEST_ID_BYTES_MAX: usize = 128;

/// Answers requests of all connections.
#[derive(Debug)]
pub(crate) struct Middleware {
    pub(crate) api: Api,
    pub(crate) router: Router,
    /// Whether only this machine can reach the server.
    pub(crate) loopback: bool,
    pub(crate) requests: Arc<Semaphore>,
    pub(crate) request_timeout: Duration,
    /// The largest head of a request in bytes. hyper may accept larger ones, so the size is checked again here.
    pub(crate) header_bytes_max: usize,
    /// The id of the next request that has none; the first one is random.
    pub(crate) next_id: AtomicU64,
}

/// Whether a request has no timeout.
fn has_no_timeout(path: &str) -> bool {
    matches!(path, "/v1/backup" | "/v1/doctor" | "/v1/unfence") || path.ends_with("/audit")
}

impl Middleware {
    /// Answers a request. There is always an answer, also after a panic.
    pub(crate) async fn answer(&self, mut request: Request<Incoming>) -> Response {
        let metrics = &self.api.http;
        let started = self.api.env.instant();
        let id = self.request_id(&request);
        let span = tracing::info_span!(
            target: "seriatim_server::request", "request",
            id = id.to_str().unwrap_or_default(), method = %request.method(), path = request.uri().path(),
        );
        let head = head_bytes(&request);
        request.headers_mut().insert(&REQUEST_ID, id.clone());
        let answered = AssertUnwindSafe(self.check_and_route(request, head))
            .catch_unwind()
            .instrument(span.clone())
            .await;
        let mut response = answered.unwrap_or_else(|panic| {
            metrics.panics.increment(1);
            let message = panic_text(&*panic);
            tracing::error!(parent: &span, message, "a request handler panicked");
            Problem::new(Code::Internal, "a defect of the server: its log has the details").into_response()
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

    /// Checks a request against tokens and limits, then calls its route.
    async fn check_and_route(&self, request: Request<Incoming>, head: usize) -> Response {
        let max = self.header_bytes_max;
        if head > max {
            let text = format!(
                "the head of the request has {head} bytes, but the server accepts at most {max}: use shorter headers or a shorter address"
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
        )
        .await;
        match admitted {
            Ok(None) => {}
            Ok(Some(grants)) => drop(request.extensions_mut().insert(grants)),
            Err(problem) => return problem.into_response(),
        }
        let path = request.uri().path();
        // Requests about the server's health are answered even if the server is busy.
        let permit = match self.requests.try_acquire() {
            Ok(permit) => Some(permit),
            Err(_) if access::is_open(path) => None,
            Err(_) => {
                self.api.http.shed.increment(1);
                return Problem::busy("too many requests are in progress; try again after a moment")
                    .into_response();
            }
        };
        let _in_flight = GaugeGuard::new(&self.api.http.in_flight);
        let (long, method) = (has_no_timeout(path), request.method().clone());
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
            "there was no answer within {seconds} s, and it is not known whether the request was carried out: \
             repeat it with the same idempotency key"
        );
        Problem::new(Code::InDoubt, text)
    }

    /// The id that the client chose, or a new one.
    fn request_id(&self, request: &Request<Incoming>) -> HeaderValue {
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

/// The size of a request's head as it was sent, including the empty line at its end.
fn head_bytes(request: &Request<Incoming>) -> usize {
    let address = request.uri().path_and_query().map_or(0, |address| address.as_str().len());
    let first = request.method().as_str().len() + address + "  HTTP/1.1\r\n".len();
    let header =
        |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len() + ": \r\n".len();
    first + request.headers().iter().map(header).sum::<usize>() + "\r\n".len()
}
