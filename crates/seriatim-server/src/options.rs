//! Settings of the server, each with its reason.

use std::path::PathBuf;
use std::time::Duration;

/// The files of the certificate and its key, both PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, followed by those of its issuers.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

impl TlsFiles {
    /// Checks that both files can be read and belong together. [`crate::Server::serve`] would refuse them otherwise.
    ///
    /// # Errors
    ///
    /// Names the file and what is wrong with it.
    pub fn check(&self) -> std::io::Result<()> {
        crate::tls::acceptor(self).map(drop)
    }
}

/// Settings of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerOptions {
    /// The largest body of a request in bytes. Bounds the memory of one request.
    pub body_bytes_max: usize,
    /// The largest head of a request in bytes, at least 8 KiB. Bounds the memory of a connection before its request is checked.
    pub header_bytes_max: usize,
    /// How long a connection may take to send a request's head, and how long it may be idle between two requests.
    pub header_timeout: Duration,
    /// How long a request may take: longer than any wait of the engine. Streams, audits and administration have no timeout.
    pub request_timeout: Duration,
    /// The largest number of connections at a time; others wait to be accepted. Bounds memory and open files.
    pub connections_max: usize,
    /// The largest number of requests in progress; others are refused as busy. Streams do not count.
    pub requests_max: usize,
    /// How long a TLS handshake may take.
    pub tls_timeout: Duration,
    /// How long a stop waits for requests in progress.
    pub stop_patience: Duration,
    /// A partition is stuck if work waits and there is no progress for this long. Longer than a sync of a slow disk.
    pub stuck_after: Duration,
    /// TLS; none: unencrypted HTTP.
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
