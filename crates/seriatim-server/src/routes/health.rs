//! Whether the server is alive, whether it can give out numbers, and its metrics.

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

/// Whether the server is alive.
#[utoipa::path(get, path = "/livez", tag = "health", responses((status = 200, body = Live)))]
async fn live() -> Json<Live> {
    Json(Live { status: "alive".to_owned() })
}

/// Whether every partition can give out numbers; if not, what prevents it.
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

/// What prevents a partition from giving out numbers. The registry accepts the commands that unfence a copy, so it is never fenced.
fn trouble(api: &Api, state: &PartitionState, fenced: bool) -> Option<(Trouble, String)> {
    let partition = state.partition;
    if let PartitionStatus::Stopped(reason) = &state.status {
        return Some((Trouble::Stopped, format!("stopped: {reason}")));
    }
    // This is checked before its consequences: a failing store makes the partition look stuck, and later it may recover.
    if let Some(reason) = &state.store_failure {
        return Some((Trouble::StoreFailed, format!("the store refuses writes: {reason}")));
    }
    match &state.status {
        _ if api.stuck.is_stuck(partition) => {
            let PartitionState { waiting, unflushed, .. } = state;
            let reason =
                format!("stuck: {waiting} commands and {unflushed} values wait, and there is no progress");
            Some((Trouble::Stuck, reason))
        }
        PartitionStatus::Recovering { at, tail, .. } => {
            Some((Trouble::Recovering, format!("recovering, at {at} of {tail}")))
        }
        PartitionStatus::Ready if fenced && !is_registry(partition) => {
            Some((Trouble::Fenced, "fenced: a restored copy that is not unfenced".to_owned()))
        }
        PartitionStatus::Ready
        | PartitionStatus::Stopped(_)
        | PartitionStatus::Standby
        | PartitionStatus::Elsewhere { .. } => None,
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

/// The server's metrics, for Prometheus.
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
