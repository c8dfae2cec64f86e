//! Running the API.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderName, StatusCode};
use metrics_exporter_prometheus::PrometheusHandle;
use seriatim_engine::Engine;
use seriatim_engine::definition::Schema;
use seriatim_env::Shutdown;
use tokio::net::TcpListener;
use tower::ServiceBuilder;
use tower_http::request_id::{MakeRequestUuid, PropagateRequestIdLayer, SetRequestIdLayer};
use tower_http::timeout::TimeoutLayer;
use tower_http::trace::TraceLayer;

use crate::problem::Problem;
use crate::routes;

/// Settings of the API, each with its reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerOptions {
    /// Bytes of a request's body. Bounds what one request can make the server hold.
    pub body_bytes_max: usize,
    /// How long a request may take: longer than any wait of the engine.
    pub request_timeout: Duration,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self { body_bytes_max: 1 << 20, request_timeout: Duration::from_secs(30) }
    }
}

/// What the routes share.
#[derive(Debug, Clone)]
pub(crate) struct Api {
    pub(crate) engine: Engine,
    pub(crate) metrics: Option<PrometheusHandle>,
    /// What describes the API.
    pub(crate) document: Bytes,
    /// Ends what would go on for ever.
    pub(crate) stop: Shutdown,
}

impl Api {
    pub(crate) fn schema(&self, application: &str) -> Result<&Schema, Problem> {
        let schema = self.engine.schema(application);
        schema.ok_or_else(|| Problem::not_found(format!("application {application} does not exist")))
    }
}

/// Answers requests until it is told to stop; what is under way then is finished.
///
/// # Errors
///
/// If the listener fails.
pub async fn serve(
    listener: TcpListener,
    engine: Engine,
    metrics: Option<PrometheusHandle>,
    options: ServerOptions,
    shutdown: Shutdown,
) -> std::io::Result<()> {
    let request_id = HeaderName::from_static("x-request-id");
    let layers = ServiceBuilder::new()
        .layer(SetRequestIdLayer::new(request_id.clone(), MakeRequestUuid))
        .layer(TraceLayer::new_for_http())
        .layer(PropagateRequestIdLayer::new(request_id))
        .layer(TimeoutLayer::with_status_code(StatusCode::SERVICE_UNAVAILABLE, options.request_timeout));
    let (router, document) = routes::router();
    let router = router.layer(DefaultBodyLimit::max(options.body_bytes_max)).layer(layers).with_state(Api {
        engine,
        metrics,
        document,
        stop: shutdown.clone(),
    });
    axum::serve(listener, router).with_graceful_shutdown(async move { shutdown.cancelled().await }).await
}
