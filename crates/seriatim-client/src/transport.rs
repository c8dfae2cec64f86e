//! How requests reach a server.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;

/// An answer's body, in pieces.
pub type Body = BoxStream<'static, Result<Bytes, TransportError>>;

/// Why a request has no answer, or only a part of one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct TransportError {
    /// Whether the server may have received the request. If not, nothing was done.
    pub sent: bool,
    /// Whether a server answers but no secure connection to it can be made. If so, nothing was done.
    pub insecure: bool,
    /// What went wrong.
    pub reason: String,
}

/// Sends requests to a server and returns its answers: over HTTP, or inside one process.
///
/// The request's URI has a path and no host; the transport knows where the server is.
#[async_trait]
pub trait Transport: fmt::Debug + Send + Sync + 'static {
    /// Sends a request and waits for status and headers of the answer.
    ///
    /// # Errors
    ///
    /// [`TransportError`].
    async fn send(&self, request: http::Request<Bytes>) -> Result<http::Response<Body>, TransportError>;

    /// The address of the server, for error texts.
    fn place(&self) -> String;
}
