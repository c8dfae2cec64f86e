//! Settings of the server, each with its reason.

use std::path::PathBuf;
use std::time::Duration;

/// Where the certificate and its key are, both as PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, then those that vouch for it.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

impl TlsFiles {
    /// Whether both files can be read and belong together: what [`crate::Server::serve`] would refuse.
    ///
    /// # Errors
    ///
    /// What is wrong with which file.
    pub fn check(&self) -> std::io::Result<()> {
        crate::tls::acceptor(self).map(drop)
    }
}

/// How a server behaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerOptions {
    /// Bytes of a request's body. Bounds what one request can make the server hold.
    pub body_bytes_max: usize,
    /// Bytes of a request's head, at least 8 KiB. Bounds what a connection holds before anything is known about it.
    pub header_bytes_max: usize,
    /// How long a connection may take to send a request's head: also how long it may be idle between two.
    pub header_timeout: Duration,
    /// How long a request may take: longer than any wait of the engine. Streams, audits and administration take as long as
    /// they take.
    pub request_timeout: Duration,
    /// Connections at once; others wait to be accepted. Bounds memory, and files that are open.
    pub connections_max: usize,
    /// Requests at once that are not answered yet; others are refused as busy. Streams do not count.
    pub requests_max: usize,
    /// How long a handshake may take.
    pub tls_timeout: Duration,
    /// How long stopping waits for what is in flight.
    pub stop_patience: Duration,
    /// A partition where work waits and nothing has moved for so long is stuck. Longer than a slow disk's sync.
    pub stuck_after: Duration,
    /// TLS, if it is wanted.
    pub tls: Option<TlsFiles>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            body_bytes_max: 1 << 20,
            header_bytes_max: 64 << 10,
            header_timeout: Duration::from_secs(60),
            request_timeout: Duration::from_secs(30),
            connections_max: 20_000,
            requests_max: 10_000,
            tls_timeout: Duration::from_secs(10),
            stop_patience: Duration::from_secs(30),
            stuck_after: Duration::from_secs(30),
            tls: None,
        }
    }
}
