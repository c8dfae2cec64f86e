//! Connections: accepted, limited in number, encrypted if TLS is set up, and ended in order at a stop.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use seriatim_env::{Env, Shutdown};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

use crate::metrics::GaugeGuard;
use crate::middleware::Middleware;
use crate::options::ServerOptions;

/// The largest number of headers of a request: each takes memory while the head is read.
const HEADERS_MAX: usize = 100;
/// How long to wait after a connection could not be accepted, for example because too many files are open.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// The smallest buffer with which hyper reads a request's head.
pub(crate) const HEADER_BYTES_MIN: usize = 8 << 10;

/// Accepts connections and serves HTTP on them. All connections share one of these.
#[derive(Clone)]
pub(crate) struct Connections {
    pub(crate) env: Env,
    pub(crate) middleware: Arc<Middleware>,
    pub(crate) tls: Option<TlsAcceptor>,
    pub(crate) options: Arc<ServerOptions>,
    pub(crate) stop: Shutdown,
}

impl Connections {
    /// Accepts connections until the server stops, then waits until the open ones have ended.
    pub(crate) async fn run(&self, listener: TcpListener) {
        let max = u32::try_from(self.options.connections_max).unwrap_or(u32::MAX).clamp(1, 1 << 28);
        let permits = Arc::new(Semaphore::new(max as usize));
        loop {
            let permit = self.stop.run_until_cancelled(permits.clone().acquire_owned()).await;
            let Some(Ok(permit)) = permit else { break };
            let Some(accepted) = self.stop.run_until_cancelled(listener.accept()).await else { break };
            match accepted {
                Ok((stream, _)) => {
                    let connections = self.clone();
                    // The permit is released last, so that free permits mean that nothing of the connection is left.
                    drop(self.env.spawn(async move {
                        connections.handle(stream).await;
                        drop(connections);
                        drop(permit);
                    }));
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection was not accepted");
                    self.env.sleep(ACCEPT_RETRY).await;
                }
            }
        }
        drop(listener);
        // All permits are free when all connections have ended; each connection ends within `stop_patience`.
        drop(permits.acquire_many(max).await);
    }

    async fn handle(&self, stream: TcpStream) {
        let _open = GaugeGuard::new(&self.middleware.api.http.connections);
        // Answers are small and complete: waiting for more data to send would only delay them.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection ended immediately");
        }
        let Some(tls) = &self.tls else { return self.serve_http(stream).await };
        let handshake = self.env.timeout(self.options.tls_timeout, tls.accept(stream));
        match self.stop.run_until_cancelled(handshake).await {
            Some(Ok(Ok(stream))) => self.serve_http(stream).await,
            Some(Ok(Err(error))) => tracing::debug!(%error, "a handshake failed"),
            Some(Err(_)) => tracing::debug!("a handshake took too long"),
            None => {}
        }
    }

    /// Serves HTTP on a connection until either side ends it.
    async fn serve_http(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let service = service_fn(|request| async {
            let response = self.middleware.answer(request).await;
            Ok::<_, Infallible>(response)
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.options.header_timeout)
            .max_headers(HEADERS_MAX)
            .max_buf_size(self.options.header_bytes_max.max(HEADER_BYTES_MIN))
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        let ended = match self.stop.run_until_cancelled(connection.as_mut()).await {
            Some(ended) => ended,
            None => {
                connection.as_mut().graceful_shutdown();
                let timeout = self.options.stop_patience;
                self.env.timeout(timeout, connection).await.unwrap_or(Ok(()))
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection ended with an error");
        }
    }
}

/// Refuses a listener that other machines can reach while no token is required. Returns whether it is on loopback.
pub(crate) fn check_listen_address(listener: &TcpListener, has_tokens: bool) -> io::Result<bool> {
    let address = listener.local_addr()?;
    let loopback = address.ip().is_loopback();
    if !loopback && !has_tokens {
        let text = format!(
            "there are no tokens, so the server listens on loopback only, not on {address}: listen on 127.0.0.1, \
             or make a token first"
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    Ok(loopback)
}
