//! The API inside this process: a command that opens the storage itself needs no server.

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::StreamExt as _;
use seriatim::StorageUrl;
use seriatim_client::{Body, Transport, TransportError};
use seriatim_engine::Engine;
use seriatim_server::{LocalApi, Server};

/// Sends requests to an engine in this process. No token is needed: a caller that can open the files may do everything.
#[derive(Debug)]
pub(crate) struct LocalTransport {
    api: LocalApi,
    place: String,
}

impl LocalTransport {
    pub(crate) fn new(engine: Engine, url: &StorageUrl) -> Self {
        Self { api: Server::new(engine).local(), place: url.to_string() }
    }
}

#[async_trait]
impl Transport for LocalTransport {
    async fn send(&self, request: http::Request<Bytes>) -> Result<http::Response<Body>, TransportError> {
        let answer = self.api.send(request).await;
        Ok(answer.map(|body| {
            let lost = |reason: String| TransportError { sent: true, insecure: false, reason };
            body.map(move |piece| piece.map_err(lost)).boxed()
        }))
    }

    fn place(&self) -> String {
        self.place.clone()
    }
}
