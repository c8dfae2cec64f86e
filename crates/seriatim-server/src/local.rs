//! The API without a socket.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{Request, Response};
use futures_util::stream::{BoxStream, StreamExt as _};
use tower_service::Service as _;

/// The API inside one process, for the program that holds the storage: the same routes and answers, without tokens and limits.
///
/// [`Server::local`](crate::Server::local) makes one.
#[derive(Debug, Clone)]
pub struct LocalApi {
    router: Router,
}

impl LocalApi {
    pub(crate) fn new(router: Router) -> Self {
        Self { router }
    }

    /// Answers a request. If a piece of the answer's body cannot be made, the error says why.
    pub async fn send(&self, request: Request<Bytes>) -> Response<BoxStream<'static, Result<Bytes, String>>> {
        let answered = self.router.clone().call(request.map(Body::from)).await;
        let response = answered.unwrap_or_else(|never| match never {});
        response
            .map(|body| body.into_data_stream().map(|piece| piece.map_err(|error| error.to_string())).boxed())
    }
}
