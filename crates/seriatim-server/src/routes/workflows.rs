//! Workflows: durable runs of code.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use serde_json::Value;
use seriatim_api::{
    BlockedBranch, Code, HistoryEntry, PendingOperation, RunsPage, StopWorkflow, WaitFor, WhichRun, Workflow,
    WorkflowAnswer, WorkflowDelivery, WorkflowHistory, WorkflowInput, WorkflowRuns, WorkflowSummary,
    Workflows, WorkflowsPage,
};
use seriatim_engine::moment;
use seriatim_types::Timestamp;
use seriatim_workflow::{Failure, Payload, Time};
use seriatim_workflow_host::{Accepted, HostError, RunRow, RunStatus, TimelineEntry, WorkflowHost};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{page_size, split_page};
use crate::extract::{Body, Path, Query, idempotency_key, replace_type_names};
use crate::openapi::IdempotencyHeader;
use crate::problem::Problem;
use crate::server::Api;

/// How many seconds a request may wait for the end of a workflow: less than the timeout of a request.
const WAIT_MAX: u64 = 25;
/// Events of a history in one answer, by default.
const HISTORY_EVENTS: usize = 1_000;
/// Stored bytes of a history in one answer. As JSON they are a few times as many.
const HISTORY_BYTES: usize = 4 << 20;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list, super::workflow_start::start))
        .routes(routes!(show))
        .routes(routes!(runs))
        .routes(routes!(history))
        .routes(routes!(signal))
        .routes(routes!(cancel))
        .routes(routes!(terminate))
        .routes(routes!(retry))
        .routes(routes!(query))
        .routes(routes!(update))
}

impl From<HostError> for Problem {
    fn from(error: HostError) -> Self {
        match error {
            HostError::Engine(error) => error.into(),
            // The run's code has to change, or the run has to be retried: the same request would fail again.
            stuck @ HostError::Stuck { .. } => {
                Self::new(Code::Unavailable, stuck.to_string()).not_retryable()
            }
            other => Self::new(other.kind().into(), without_type_names(&other.to_string())),
        }
    }
}

/// The text of a failure, without the names of Rust types.
fn without_type_names(text: &str) -> String {
    const BEFORE: &str = "the payload is not a ";
    let Some((before, after)) = text.split_once(BEFORE) else { return text.to_owned() };
    let reason = after.split_once(": ").map_or("", |(_, reason)| reason);
    format!("{before}the value does not fit: {}", replace_type_names(reason))
}

/// A failure with its causes, as JSON.
fn failure(failure: &Failure) -> Value {
    let mut json = to_json(failure);
    let mut part = &mut json;
    loop {
        if let Some(Value::String(message)) = part.get_mut("message") {
            *message = without_type_names(message);
        }
        match part.get_mut("cause") {
            Some(cause) if cause.is_object() => part = cause,
            _ => return json,
        }
    }
}

pub(super) fn host(api: &Api) -> Result<&WorkflowHost, Problem> {
    let missing = || Problem::new(Code::Unavailable, "this server runs no workflows");
    api.workflows.as_ref().ok_or_else(missing)
}

fn time(time: Time) -> String {
    moment(Timestamp::from_millis(time.as_micros() / 1_000))
}

/// Arguments as one value: no argument is null, one is itself, several are an array. What is not JSON is returned as it is stored.
fn value_of(payloads: &[Payload]) -> Value {
    let one = |payload: &Payload| {
        payload.decode().unwrap_or_else(|_| serde_json::to_value(payload).unwrap_or_default())
    };
    match payloads {
        [] => Value::Null,
        [payload] => one(payload),
        several => several.iter().map(one).collect(),
    }
}

/// A value as arguments: null means no argument.
pub(super) fn payloads(value: &Value) -> Result<Vec<Payload>, Problem> {
    if value.is_null() {
        return Ok(Vec::new());
    }
    let payload = Payload::json(value).map_err(|error| Problem::invalid(error.to_string()))?;
    Ok(vec![payload])
}

/// The input of a signal, query or update.
fn input(body: Option<Body<WorkflowInput>>) -> Result<Vec<Payload>, Problem> {
    body.map_or_else(|| Ok(Vec::new()), |Body(told)| payloads(&told.input))
}

fn reason(body: Option<Body<StopWorkflow>>) -> String {
    body.map_or_else(String::new, |Body(stop)| stop.reason)
}

fn to_json<T: serde::Serialize>(value: &T) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

fn text<T: serde::Serialize>(value: &T) -> String {
    to_json(value).as_str().unwrap_or_default().to_owned()
}

fn summary(row: RunRow, run_id: String) -> WorkflowSummary {
    WorkflowSummary {
        id: row.id,
        run_id,
        run: row.run,
        workflow_type: row.workflow_type,
        status: row.status.name().to_owned(),
        started: moment(Timestamp::from_millis(row.started)),
        ended: row.ended.map(|ended| moment(Timestamp::from_millis(ended))),
    }
}

fn delivery(id: String, accepted: Accepted) -> Json<WorkflowDelivery> {
    Json(WorkflowDelivery { id, run_id: accepted.run_id, repeated: accepted.repeated })
}

/// Lists workflows whose run is stuck. It is not a status of a run: a stuck run has the status `running`.
const STUCK: &str = "stuck";

/// Workflows, filtered by the status of their newest runs.
#[utoipa::path(
    get, path = "/v1/workflows", tag = "workflows", params(WorkflowsPage), responses((status = 200, body = Workflows))
)]
async fn list(State(api): State<Api>, Query(list): Query<WorkflowsPage>) -> Result<Json<Workflows>, Problem> {
    let (limit, host) = (page_size(list.limit)?, host(&api)?);
    let found = if list.status.as_deref() == Some(STUCK) {
        host.list_stuck(list.after, limit + 1).await?
    } else {
        let status = list.status.as_deref().map(str::parse::<RunStatus>).transpose();
        let status = status.map_err(|error| {
            Problem::invalid(format!("{error}; {STUCK} lists running workflows that cannot continue"))
        })?;
        host.list(status, list.after, limit + 1).await?
    };
    let (found, more) = split_page(found, limit);
    let next = found.last().filter(|_| more).map(|last| last.cursor);
    let workflows = found.into_iter().map(|listed| summary(listed.row, listed.run_id)).collect();
    Ok(Json(Workflows { workflows, next }))
}

/// The state of a workflow. With `wait`, the answer is sent when the workflow has ended, or after that many seconds.
#[utoipa::path(
    get, path = "/v1/workflows/{id}", tag = "workflows", params(("id" = String, Path), WaitFor),
    responses((status = 200, body = Workflow))
)]
async fn show(
    State(api): State<Api>,
    Path(id): Path<String>,
    Query(WaitFor { wait }): Query<WaitFor>,
) -> Result<Json<Workflow>, Problem> {
    if wait.is_some_and(|wait| wait > WAIT_MAX) {
        return Err(Problem::invalid(format!(
            "wait is at most {WAIT_MAX} seconds: repeat the request after that"
        )));
    }
    let found = host(&api)?.describe(&id, wait.map(Duration::from_secs)).await?;
    let pending = found.pending.iter().map(|operation| PendingOperation {
        kind: text(&operation.kind),
        number: operation.number,
        path: operation.path.clone(),
        name: operation.name.clone(),
        since: time(operation.since),
        due: operation.due.map(time),
        attempt: operation.attempt,
        last_failure: operation.last_failure.as_ref().map(failure),
        target: operation.target.clone(),
    });
    let blocked = found.blocked.iter().map(|blocked| BlockedBranch {
        branch: blocked.branch.clone(),
        waits: blocked.waits.iter().map(to_json).collect(),
    });
    Ok(Json(Workflow {
        input: value_of(&found.input),
        result: value_of(found.result.as_slice()),
        memo: found
            .memo
            .iter()
            .map(|(name, note)| (name.clone(), value_of(std::slice::from_ref(note))))
            .collect(),
        failure: found.failure.as_ref().map(failure),
        stuck: found.stuck.clone(),
        pending: pending.collect(),
        blocked: blocked.collect(),
        warnings: found.warnings.iter().map(ToString::to_string).collect(),
        summary: summary(found.row, found.run_id),
    }))
}

/// The runs of a workflow, the newest first.
#[utoipa::path(
    get, path = "/v1/workflows/{id}/runs", tag = "workflows", params(("id" = String, Path), RunsPage),
    responses((status = 200, body = WorkflowRuns))
)]
async fn runs(
    State(api): State<Api>,
    Path(id): Path<String>,
    Query(list): Query<RunsPage>,
) -> Result<Json<WorkflowRuns>, Problem> {
    let limit = page_size(list.limit)?;
    let (found, more) = split_page(host(&api)?.runs(&id, list.before, limit + 1).await?, limit);
    let next = found.last().filter(|_| more).map(|last| last.cursor);
    let runs = found.into_iter().map(|listed| summary(listed.row, listed.run_id)).collect();
    Ok(Json(WorkflowRuns { runs, next }))
}

fn entry(entry: TimelineEntry) -> HistoryEntry {
    HistoryEntry {
        what: entry.what,
        kind: entry.kind.as_ref().map(text),
        number: entry.number,
        path: entry.path,
        name: entry.name,
        event: entry.event,
        at: time(entry.at),
        details: entry.details,
        answered_at: entry.answered_at.map(time),
        answer_event: entry.answer_event,
        answer: entry.answer,
    }
}

/// The history of a run: a timeline, and the steps that `seriatim replay` reads.
#[utoipa::path(
    get, path = "/v1/workflows/{id}/history", tag = "workflows", params(("id" = String, Path), WhichRun),
    responses((status = 200, body = WorkflowHistory))
)]
async fn history(
    State(api): State<Api>,
    Path(id): Path<String>,
    Query(WhichRun { run, after, limit }): Query<WhichRun>,
) -> Result<Json<WorkflowHistory>, Problem> {
    let limit = limit.map_or(Ok(HISTORY_EVENTS), |limit| page_size(Some(limit)))?;
    let found = host(&api)?.history_page(&id, run, after, limit, HISTORY_BYTES).await?;
    let steps = to_json(&found.history().steps);
    Ok(Json(WorkflowHistory {
        entries: found.entries.into_iter().map(entry).collect(),
        steps,
        next: found.next,
        summary: summary(found.row, found.run_id),
    }))
}

/// Sends a signal to the open run.
#[utoipa::path(
    post, path = "/v1/workflows/{id}/signals/{name}", tag = "workflows",
    params(("id" = String, Path), ("name" = String, Path), IdempotencyHeader), request_body = Option<WorkflowInput>,
    responses((status = 200, body = WorkflowDelivery))
)]
async fn signal(
    State(api): State<Api>,
    Path((id, name)): Path<(String, String)>,
    headers: HeaderMap,
    body: Option<Body<WorkflowInput>>,
) -> Result<Json<WorkflowDelivery>, Problem> {
    let key = idempotency_key(&headers)?;
    let sent = host(&api)?.signal(&id, &name, input(body)?, key.as_deref()).await?;
    Ok(delivery(id, sent))
}

/// Requests the cancellation of the open run.
#[utoipa::path(
    post, path = "/v1/workflows/{id}/cancel", tag = "workflows", params(("id" = String, Path), IdempotencyHeader),
    request_body = Option<StopWorkflow>, responses((status = 200, body = WorkflowDelivery))
)]
async fn cancel(
    State(api): State<Api>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Option<Body<StopWorkflow>>,
) -> Result<Json<WorkflowDelivery>, Problem> {
    let key = idempotency_key(&headers)?;
    let sent = host(&api)?.cancel(&id, &reason(body), key.as_deref()).await?;
    Ok(delivery(id, sent))
}

/// Ends the open run without running its code again. This works for a stuck run too.
#[utoipa::path(
    post, path = "/v1/workflows/{id}/terminate", tag = "workflows", params(("id" = String, Path), IdempotencyHeader),
    request_body = Option<StopWorkflow>, responses((status = 200, body = WorkflowDelivery))
)]
async fn terminate(
    State(api): State<Api>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Option<Body<StopWorkflow>>,
) -> Result<Json<WorkflowDelivery>, Problem> {
    let key = idempotency_key(&headers)?;
    let sent = host(&api)?.terminate(&id, &reason(body), key.as_deref()).await?;
    Ok(delivery(id, sent))
}

/// Tries a stuck run again. `repeated` is true if the run was not stuck.
#[utoipa::path(
    post, path = "/v1/workflows/{id}/retry", tag = "workflows", params(("id" = String, Path)),
    responses((status = 200, body = WorkflowDelivery))
)]
async fn retry(State(api): State<Api>, Path(id): Path<String>) -> Result<Json<WorkflowDelivery>, Problem> {
    let sent = host(&api)?.retry(&id).await?;
    Ok(delivery(id, sent))
}

/// Queries the state of the newest run. Nothing is written.
#[utoipa::path(
    post, path = "/v1/workflows/{id}/queries/{name}", tag = "workflows",
    params(("id" = String, Path), ("name" = String, Path)), request_body = Option<WorkflowInput>,
    responses((status = 200, body = WorkflowAnswer))
)]
async fn query(
    State(api): State<Api>,
    Path((id, name)): Path<(String, String)>,
    body: Option<Body<WorkflowInput>>,
) -> Result<Json<WorkflowAnswer>, Problem> {
    let answer = host(&api)?.query(&id, &name, input(body)?).await?;
    Ok(Json(WorkflowAnswer { result: value_of(&[answer]) }))
}

/// Changes the state of the open run, and waits for the answer of its code.
#[utoipa::path(
    post, path = "/v1/workflows/{id}/updates/{name}", tag = "workflows",
    params(("id" = String, Path), ("name" = String, Path), IdempotencyHeader), request_body = Option<WorkflowInput>,
    responses((status = 200, body = WorkflowAnswer))
)]
async fn update(
    State(api): State<Api>,
    Path((id, name)): Path<(String, String)>,
    headers: HeaderMap,
    body: Option<Body<WorkflowInput>>,
) -> Result<Json<WorkflowAnswer>, Problem> {
    let key = idempotency_key(&headers)?;
    let answer = host(&api)?.update(&id, &name, input(body)?, key.as_deref()).await?;
    Ok(Json(WorkflowAnswer { result: value_of(&[answer]) }))
}
