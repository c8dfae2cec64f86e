//! Whether the server lives, can number, and what it measures.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use metrics_exporter_prometheus::PrometheusHandle;
use seriatim_api::{Live, NotReady, Readiness, Ready, Trouble};
use seriatim_engine::{PartitionState, PartitionStatus};
use seriatim_types::{ApplicationId, Partition};
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
    let fenced = api.engine.fenced().is_some();
    let partitions: Vec<NotReady> = api
        .engine
        .all_partitions()
        .into_iter()
        .filter_map(|(app, state)| {
            let (trouble, reason) = trouble(&api, &state, fenced)?;
            Some(NotReady { app, partition: state.partition.id.get(), trouble, reason })
        })
        .collect();
    let mut troubles = Vec::new();
    for trouble in partitions
        .iter()
        .map(|partition| partition.trouble)
        .chain(is_full(&api))
        .chain(is_out_of_threads(&api))
    {
        if !troubles.contains(&trouble) {
            troubles.push(trouble);
        }
    }
    let (status, code) = if troubles.is_empty() {
        (Ready::Ready, StatusCode::OK)
    } else {
        (Ready::NotReady, StatusCode::SERVICE_UNAVAILABLE)
    };
    (code, Json(Readiness { status, troubles, partitions })).into_response()
}

/// What keeps a partition from numbering. The registry takes what is needed to unfence a copy, so it is not fenced.
fn trouble(api: &Api, state: &PartitionState, fenced: bool) -> Option<(Trouble, String)> {
    let partition = state.partition;
    if let PartitionStatus::Stopped(reason) = &state.status {
        return Some((Trouble::Stopped, format!("stopped: {reason}")));
    }
    // Before all that follows from it: what waits does not move, and the partition may recover when the store was opened again.
    if let Some(reason) = &state.store_failure {
        return Some((Trouble::StoreFailed, format!("the store does not take writes: {reason}")));
    }
    match &state.status {
        _ if api.stuck.is_stuck(partition) => {
            let PartitionState { waiting, unflushed, .. } = state;
            let reason = format!("stuck: {waiting} commands and {unflushed} values wait, and nothing moves");
            Some((Trouble::Stuck, reason))
        }
        PartitionStatus::Recovering { at, tail, .. } => {
            Some((Trouble::Recovering, format!("recovering, at {at} of {tail}")))
        }
        PartitionStatus::Ready if fenced && !is_registry(partition) => {
            Some((Trouble::Fenced, "fenced: a restored copy that nobody has unfenced".to_owned()))
        }
        PartitionStatus::Ready | PartitionStatus::Stopped(_) => None,
    }
}

fn is_registry(partition: Partition) -> bool {
    partition.application == ApplicationId::new(1)
}

fn is_out_of_threads(api: &Api) -> Option<Trouble> {
    api.workflows.as_ref()?.exhausted_threads().map(|_| Trouble::WorkflowThreads)
}

fn is_full(api: &Api) -> Option<Trouble> {
    let space = api.storage.as_ref()?.disk_space()?;
    space.is_too_low().then_some(Trouble::DiskNearlyFull)
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
    ([(header::CONTENT_TYPE, "application/json")], api.document.clone())
}
