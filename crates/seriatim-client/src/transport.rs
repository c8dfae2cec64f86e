//! How requests get to a server.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;

/// An answer's body, in pieces.
pub type Body = BoxStream<'static, Result<Bytes, TransportError>>;

/// Why a request has no answer, or not all of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct TransportError {
    /// Whether the server may have got the request. If not, nothing was done.
    pub sent: bool,
    /// Whether something answers there, and no secure connection to it can be made. Nothing was done.
    pub insecure: bool,
    /// What went wrong.
    pub reason: String,
}

/// Takes requests to a server and brings its answers: over HTTP, or inside one process.
///
/// The request's URI has a path and no host; the transport knows where the server is.
#[async_trait]
pub trait Transport: fmt::Debug + Send + Sync + 'static {
    /// Sends a request and waits for the answer's head.
    ///
    /// # Errors
    ///
    /// [`TransportError`].
    async fn send(&self, request: http::Request<Bytes>) -> Result<http::Response<Body>, TransportError>;

    /// Where the server is, for messages.
    fn place(&self) -> String;
}
