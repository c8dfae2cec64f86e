//! Starting a workflow.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use seriatim_api::{IdReusePolicy, RetryPolicy, StartWorkflow, StartedWorkflow};
use seriatim_workflow::{Headers, Payload};
use seriatim_workflow_host::{StartRequest, StartSignal};

use super::workflows::{host, payloads};
use crate::extract::{Body, idempotency_key};
use crate::openapi::IdempotencyHeader;
use crate::problem::Problem;
use crate::server::Api;

fn reuse(policy: IdReusePolicy) -> seriatim_workflow::IdReusePolicy {
    match policy {
        IdReusePolicy::AllowDuplicate => seriatim_workflow::IdReusePolicy::AllowDuplicate,
        IdReusePolicy::AllowDuplicateFailedOnly => seriatim_workflow::IdReusePolicy::AllowDuplicateFailedOnly,
        IdReusePolicy::RejectDuplicate => seriatim_workflow::IdReusePolicy::RejectDuplicate,
        IdReusePolicy::TerminateIfRunning => seriatim_workflow::IdReusePolicy::TerminateIfRunning,
    }
}

fn retries(policy: RetryPolicy) -> seriatim_workflow::RetryPolicy {
    seriatim_workflow::RetryPolicy {
        initial_interval: policy.initial_interval,
        backoff_coefficient: policy.backoff_coefficient,
        maximum_interval: policy.maximum_interval,
        maximum_attempts: policy.maximum_attempts,
        non_retryable_error_types: policy.non_retryable_error_types,
    }
}

fn request(start: StartWorkflow, idempotency_key: Option<String>) -> Result<StartRequest, Problem> {
    let wrong = |error: seriatim_workflow::PayloadError| Problem::invalid(error.to_string());
    let notes = start.memo.into_iter().map(|(name, note)| Ok((name, Payload::json(&note).map_err(wrong)?)));
    let signal = start.signal.map(|signal| {
        let input = payloads(&signal.input)?;
        Ok::<_, Problem>(StartSignal { name: signal.name, input })
    });
    Ok(StartRequest {
        id: start.id,
        input: payloads(&start.input)?,
        idempotency_key,
        execution_timeout: start.execution_timeout,
        run_timeout: start.run_timeout,
        retry_policy: start.retry_policy.map(retries),
        memo: notes.collect::<Result<Headers, Problem>>()?,
        start_delay: start.start_delay,
        id_reuse_policy: start.id_reuse_policy.map(reuse).unwrap_or_default(),
        signal: signal.transpose()?,
        ..StartRequest::new(start.workflow_type)
    })
}

/// Starts a workflow. The run is durable when the answer is sent: it continues after any crash, until it ends.
///
/// With `signal`, a run that is open receives the signal instead (200). If none is open, the new run receives the signal with
/// its first activation (201).
#[utoipa::path(
    post, path = "/v1/workflows", tag = "workflows", params(IdempotencyHeader), request_body = StartWorkflow,
    responses(
        (status = 201, body = StartedWorkflow),
        (status = 200, body = StartedWorkflow, description = "A run was open and received the signal.")
    )
)]
pub(super) async fn start(
    State(api): State<Api>,
    headers: HeaderMap,
    Body(start): Body<StartWorkflow>,
) -> Result<(StatusCode, Json<StartedWorkflow>), Problem> {
    let request = request(start, idempotency_key(&headers)?)?;
    let found = host(&api)?.start(request).await?;
    let status = if found.started { StatusCode::CREATED } else { StatusCode::OK };
    let answer = StartedWorkflow {
        id: found.id,
        run_id: found.run_id,
        started: found.started,
        repeated: found.repeated,
    };
    Ok((status, Json(answer)))
}
