//! The API without a socket.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{Request, Response};
use futures_util::stream::{BoxStream, StreamExt as _};
use seriatim_engine::Engine;
use seriatim_env::Shutdown;
use tower::ServiceExt as _;

use crate::routes;
use crate::server::Api;

/// The API inside one process, for whoever holds the storage: the same routes and answers, no tokens, no limits.
#[derive(Debug, Clone)]
pub struct LocalApi {
    router: Router,
}

impl LocalApi {
    /// The API of an engine.
    #[must_use]
    pub fn new(engine: Engine) -> Self {
        let (router, document) = routes::router();
        Self { router: router.with_state(Api { engine, metrics: None, document, stop: Shutdown::new() }) }
    }

    /// Answers a request. Pieces of the answer's body that cannot be made say why.
    pub async fn send(&self, request: Request<Bytes>) -> Response<BoxStream<'static, Result<Bytes, String>>> {
        let answered = self.router.clone().oneshot(request.map(Body::from)).await;
        let response = answered.unwrap_or_else(|never| match never {});
        response
            .map(|body| body.into_data_stream().map(|piece| piece.map_err(|error| error.to_string())).boxed())
    }
}
