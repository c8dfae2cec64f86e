//! Whether the server lives, can number, and what it measures.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use metrics_exporter_prometheus::PrometheusHandle;
use seriatim_api::{Live, NotReady, Readiness, Ready, Trouble};
use seriatim_engine::PartitionStatus;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::server::Api;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(live))
        .routes(routes!(ready))
        .routes(routes!(metrics))
        .routes(routes!(document))
}

/// The server lives.
#[utoipa::path(get, path = "/livez", tag = "health", responses((status = 200, body = Live)))]
async fn live() -> Json<Live> {
    Json(Live { status: "alive".to_owned() })
}

/// Every partition can number, or what keeps which one.
#[utoipa::path(
    get, path = "/readyz", tag = "health",
    responses((status = 200, body = Readiness), (status = 503, body = Readiness))
)]
async fn ready(State(api): State<Api>) -> Response {
    let mut partitions = Vec::new();
    for name in api.engine.applications() {
        for state in api.engine.partitions(name).unwrap_or_default() {
            let (trouble, reason) = match state.status {
                PartitionStatus::Ready => continue,
                PartitionStatus::Recovering { at, tail, .. } => {
                    (Trouble::Recovering, format!("recovering, at {at} of {tail}"))
                }
                PartitionStatus::Stopped(reason) => (Trouble::Stopped, format!("stopped: {reason}")),
            };
            let (app, partition) = (name.clone(), state.partition.id.get());
            partitions.push(NotReady { app, partition, trouble, reason });
        }
    }
    let (status, code) = if partitions.is_empty() {
        (Ready::Ready, StatusCode::OK)
    } else {
        (Ready::NotReady, StatusCode::SERVICE_UNAVAILABLE)
    };
    (code, Json(Readiness { status, troubles: Vec::new(), partitions })).into_response()
}

/// What the server measures, for Prometheus.
#[utoipa::path(
    get, path = "/metrics", tag = "health", responses((status = 200, body = String, content_type = "text/plain"))
)]
async fn metrics(State(api): State<Api>) -> String {
    api.metrics.as_ref().map(PrometheusHandle::render).unwrap_or_default()
}

/// This document.
#[utoipa::path(get, path = "/openapi.json", tag = "health", responses((status = 200, body = serde_json::Value)))]
async fn document(State(api): State<Api>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], api.document)
}
