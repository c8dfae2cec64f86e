//! Whether the server lives, can number, and what it measures.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use seriatim_engine::PartitionStatus;

use crate::server::Api;

pub(super) async fn live() -> Json<Value> {
    Json(json!({"status": "alive"}))
}

/// Ready means that every partition can number.
pub(super) async fn ready(State(api): State<Api>) -> Response {
    let mut waiting = Vec::new();
    for name in api.engine.applications() {
        for state in api.engine.partitions(name).unwrap_or_default() {
            let reason = match state.status {
                PartitionStatus::Ready => continue,
                PartitionStatus::Recovering { at, tail, .. } => format!("recovering, at {at} of {tail}"),
                PartitionStatus::Stopped(reason) => format!("stopped: {reason}"),
            };
            waiting.push(json!({"app": name, "partition": state.partition.id.get(), "reason": reason}));
        }
    }
    if waiting.is_empty() {
        return Json(json!({"status": "ready"})).into_response();
    }
    let body = json!({"status": "not ready", "partitions": waiting});
    (StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response()
}

pub(super) async fn metrics(State(api): State<Api>) -> String {
    api.metrics.as_ref().map(metrics_exporter_prometheus::PrometheusHandle::render).unwrap_or_default()
}
