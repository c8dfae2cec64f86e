//! Connections: accepted, limited, perhaps encrypted, and ended in good order.

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

use crate::front::Front;
use crate::metrics::OneMore;
use crate::options::ServerOptions;

/// Headers of a request: each takes room while the head is read.
const HEADERS_MAX: usize = 100;
/// How long to wait when no connection can be accepted, because too many files are open, for example.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// What hyper needs at least to read a request's head.
pub(crate) const HEADER_BYTES_MIN: usize = 8 << 10;

/// What all connections share.
#[derive(Clone)]
pub(crate) struct Gate {
    pub(crate) env: Env,
    pub(crate) front: Arc<Front>,
    pub(crate) tls: Option<TlsAcceptor>,
    pub(crate) options: Arc<ServerOptions>,
    pub(crate) stop: Shutdown,
}

impl Gate {
    /// Accepts connections until it is told to stop, then waits for those that are open.
    pub(crate) async fn run(&self, listener: TcpListener) {
        let max = u32::try_from(self.options.connections_max).unwrap_or(u32::MAX).clamp(1, 1 << 28);
        let places = Arc::new(Semaphore::new(max as usize));
        loop {
            let place = self.stop.run_until_cancelled(places.clone().acquire_owned()).await;
            let Some(Ok(place)) = place else { break };
            let Some(accepted) = self.stop.run_until_cancelled(listener.accept()).await else { break };
            match accepted {
                Ok((stream, _)) => {
                    let gate = self.clone();
                    // It ends with its connection, and gives its place back when it holds nothing else any more.
                    drop(self.env.spawn(async move {
                        gate.connection(stream).await;
                        drop(gate);
                        drop(place);
                    }));
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection was not accepted");
                    self.env.sleep(ACCEPT_RETRY).await;
                }
            }
        }
        drop(listener);
        // All places are free when all connections have ended; each of them ends within the patience.
        drop(places.acquire_many(max).await);
    }

    async fn connection(&self, stream: TcpStream) {
        let _open = OneMore::new(&self.front.api.http.connections);
        // Answers are small and whole: waiting for more to send would only delay them.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection was gone at once");
        }
        let Some(tls) = &self.tls else { return self.speak(stream).await };
        let handshake = self.env.timeout(self.options.tls_timeout, tls.accept(stream));
        match self.stop.run_until_cancelled(handshake).await {
            Some(Ok(Ok(stream))) => self.speak(stream).await,
            Some(Ok(Err(error))) => tracing::debug!(%error, "a handshake failed"),
            Some(Err(_)) => tracing::debug!("a handshake took too long"),
            None => {}
        }
    }

    /// Speaks HTTP on a connection until either side ends it.
    async fn speak(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let service = service_fn(|request| async {
            let response = self.front.answer(request).await;
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
                let patience = self.options.stop_patience;
                self.env.timeout(patience, connection).await.unwrap_or(Ok(()))
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection ended badly");
        }
    }
}

/// Refuses to let in whoever comes from outside while nobody needs a token.
pub(crate) fn check_reach(listener: &TcpListener, has_tokens: bool) -> io::Result<bool> {
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
