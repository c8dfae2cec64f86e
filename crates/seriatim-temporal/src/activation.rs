//! From the core's activations to ours.

use seriatim_workflow::kind::CommandSeq;
use seriatim_workflow::{
    Activation, ActivityResolution, ChildResolution, ChildStartFailure, ChildStartResolution, Execution, Job,
    Start, Time,
};
use temporalio_common::protos::coresdk::activity_result::{
    ActivityResolution as WireActivityResolution, activity_resolution,
};
use temporalio_common::protos::coresdk::child_workflow::{
    ChildWorkflowResult, StartChildWorkflowExecutionFailedCause, child_workflow_result,
};
use temporalio_common::protos::coresdk::workflow_activation::workflow_activation_job::Variant;
use temporalio_common::protos::coresdk::workflow_activation::{
    DoUpdate, InitializeWorkflow, QueryWorkflow, ResolveActivity, ResolveChildWorkflowExecution,
    ResolveChildWorkflowExecutionStart, SignalWorkflow, WorkflowActivation, WorkflowActivationJob,
    resolve_child_workflow_execution_start,
};
use temporalio_common::protos::temporal::api::failure::v1::Failure as WireFailure;

use crate::failure::read_failure;
use crate::payload::{read_headers, read_list, read_payload, read_payloads};
use crate::untranslatable::Untranslatable;
use crate::wire::{read_duration, read_enum, read_retry_policy, read_time, read_timeout};

/// Namespace and task queue of a worker's runs: the core does not repeat them with each run.
#[derive(Debug, Clone)]
pub(crate) struct Home {
    pub(crate) namespace: String,
    pub(crate) task_queue: String,
}

/// Translates an activation.
pub(crate) fn read_activation(wire: WorkflowActivation, home: &Home) -> Result<Activation, Untranslatable> {
    // An eviction has no time, and does not need one.
    let time = wire.timestamp.as_ref().map_or(Ok(Time::default()), read_time)?;
    // A run keeps the rules that it was recorded with; only our own workers set the flag.
    let is_marked = wire.available_internal_flags.contains(&Start::RULES_FLAG);
    let rules = if is_marked || !wire.is_replaying { Start::RULES } else { 0 };
    Ok(Activation {
        run_id: wire.run_id,
        time,
        is_replaying: wire.is_replaying,
        history_length: wire.history_length,
        continue_as_new_suggested: wire.continue_as_new_suggested,
        jobs: wire.jobs.into_iter().map(|job| read_job(job, home, rules)).collect::<Result<_, _>>()?,
    })
}

fn read_job(job: WorkflowActivationJob, home: &Home, rules: u32) -> Result<Job, Untranslatable> {
    Ok(match job.variant.ok_or(Untranslatable::Missing { message: "job", field: "variant" })? {
        Variant::InitializeWorkflow(start) => Job::Start(Box::new(read_start(start, home, rules)?)),
        Variant::FireTimer(fired) => Job::FireTimer { seq: CommandSeq::new(fired.seq) },
        Variant::UpdateRandomSeed(update) => Job::RandomSeed { seed: update.randomness_seed },
        Variant::QueryWorkflow(query) => read_query(query)?,
        Variant::CancelWorkflow(cancel) => Job::Cancel { reason: cancel.reason },
        Variant::SignalWorkflow(signal) => read_signal(signal)?,
        Variant::ResolveActivity(resolve) => read_activity(resolve)?,
        Variant::NotifyHasPatch(patch) => Job::Patch { id: patch.patch_id },
        Variant::ResolveChildWorkflowExecutionStart(resolve) => read_child_start(resolve)?,
        Variant::ResolveChildWorkflowExecution(resolve) => read_child(resolve)?,
        Variant::ResolveSignalExternalWorkflow(resolve) => Job::ResolveExternalSignal {
            seq: CommandSeq::new(resolve.seq),
            failure: resolve.failure.map(read_failure).transpose()?,
        },
        Variant::ResolveRequestCancelExternalWorkflow(resolve) => Job::ResolveExternalCancel {
            seq: CommandSeq::new(resolve.seq),
            failure: resolve.failure.map(read_failure).transpose()?,
        },
        Variant::DoUpdate(update) => read_update(update)?,
        Variant::ResolveNexusOperationStart(_) => return Err(nexus("the start of a Nexus operation")),
        Variant::ResolveNexusOperation(_) => return Err(nexus("the result of a Nexus operation")),
        Variant::RemoveFromCache(remove) => Job::Evict { reason: remove.message },
    })
}

fn nexus(what: &str) -> Untranslatable {
    let instead =
        "the run's code can only have asked for it on another SDK: give it back to a worker of that SDK";
    Untranslatable::Refused { what: what.to_owned(), instead }
}

fn read_start(start: InitializeWorkflow, home: &Home, rules: u32) -> Result<Start, Untranslatable> {
    let mut results = read_list(start.last_completion_result)?;
    if results.len() > 1 {
        return Err(Untranslatable::OutOfRange {
            what: "the number of results of the run before",
            value: results.len().to_string(),
        });
    }
    let memo = start.memo.unwrap_or_default().fields;
    let attributes = start.search_attributes.unwrap_or_default().indexed_fields;
    let continued_from = start.continued_from_execution_run_id;
    Ok(Start {
        workflow_type: start.workflow_type,
        workflow_id: start.workflow_id,
        input: read_payloads(start.arguments)?,
        random_seed: start.randomness_seed,
        headers: read_headers(start.headers)?,
        memo: read_headers(memo)?,
        search_attributes: read_headers(attributes)?,
        attempt: u32::try_from(start.attempt).map_err(|_| Untranslatable::OutOfRange {
            what: "the attempt of a run",
            value: start.attempt.to_string(),
        })?,
        identity: start.identity,
        task_queue: home.task_queue.clone(),
        namespace: home.namespace.clone(),
        start_time: start.start_time.as_ref().map_or(Ok(Time::default()), read_time)?,
        parent: start.parent_workflow_info.map(|parent| Execution {
            namespace: parent.namespace,
            workflow_id: parent.workflow_id,
            run_id: parent.run_id,
        }),
        continued_from: (!continued_from.is_empty()).then_some(continued_from),
        first_run_id: start.first_execution_run_id,
        last_failure: start.continued_failure.map(read_failure).transpose()?,
        last_result: results.pop(),
        cron_schedule: start.cron_schedule,
        retry_policy: start.retry_policy.map(read_retry_policy).transpose()?,
        execution_timeout: read_timeout(start.workflow_execution_timeout)?,
        run_timeout: read_timeout(start.workflow_run_timeout)?,
        task_timeout: read_timeout(start.workflow_task_timeout)?,
        rules,
    })
}

fn read_signal(signal: SignalWorkflow) -> Result<Job, Untranslatable> {
    Ok(Job::Signal {
        name: signal.signal_name,
        input: read_payloads(signal.input)?,
        headers: read_headers(signal.headers)?,
        identity: signal.identity,
    })
}

fn read_query(query: QueryWorkflow) -> Result<Job, Untranslatable> {
    Ok(Job::Query {
        id: query.query_id,
        name: query.query_type,
        input: read_payloads(query.arguments)?,
        headers: read_headers(query.headers)?,
    })
}

fn read_update(update: DoUpdate) -> Result<Job, Untranslatable> {
    Ok(Job::Update {
        id: update.id,
        protocol_id: update.protocol_instance_id,
        name: update.name,
        input: read_payloads(update.input)?,
        headers: read_headers(update.headers)?,
        identity: update.meta.unwrap_or_default().identity,
        run_validator: update.run_validator,
    })
}

fn read_activity(resolve: ResolveActivity) -> Result<Job, Untranslatable> {
    let resolution = read_activity_resolution(resolve.result)?;
    Ok(if resolve.is_local {
        Job::ResolveLocalActivity { seq: CommandSeq::new(resolve.seq), resolution }
    } else {
        Job::ResolveActivity { seq: CommandSeq::new(resolve.seq), resolution }
    })
}

fn read_activity_resolution(
    result: Option<WireActivityResolution>,
) -> Result<ActivityResolution, Untranslatable> {
    const NO_STATUS: Untranslatable =
        Untranslatable::Missing { message: "resolution of an activity", field: "status" };
    Ok(match result.and_then(|result| result.status).ok_or(NO_STATUS)? {
        activity_resolution::Status::Completed(success) => {
            ActivityResolution::Completed { result: success.result.map(read_payload).transpose()? }
        }
        activity_resolution::Status::Failed(failed) => {
            ActivityResolution::Failed { failure: read_failure(need(failed.failure)?)? }
        }
        activity_resolution::Status::Cancelled(cancelled) => {
            ActivityResolution::Cancelled { failure: read_failure(need(cancelled.failure)?)? }
        }
        activity_resolution::Status::Backoff(backoff) => ActivityResolution::Backoff {
            attempt: backoff.attempt,
            delay: backoff.backoff_duration.map_or(Ok(std::time::Duration::ZERO), read_duration)?,
            original_schedule_time: backoff.original_schedule_time.as_ref().map(read_time).transpose()?,
        },
    })
}

fn need(failure: Option<WireFailure>) -> Result<WireFailure, Untranslatable> {
    failure.ok_or(Untranslatable::Missing { message: "resolution", field: "failure" })
}

fn read_child_start(resolve: ResolveChildWorkflowExecutionStart) -> Result<Job, Untranslatable> {
    use resolve_child_workflow_execution_start::Status;
    const NO_STATUS: Untranslatable =
        Untranslatable::Missing { message: "resolution of a child's start", field: "status" };
    let resolution = match resolve.status.ok_or(NO_STATUS)? {
        Status::Succeeded(started) => ChildStartResolution::Started { run_id: started.run_id },
        Status::Failed(failed) => ChildStartResolution::Failed {
            cause: read_child_start_failure(failed.cause)?,
            workflow_id: failed.workflow_id,
            workflow_type: failed.workflow_type,
        },
        Status::Cancelled(cancelled) => {
            ChildStartResolution::Cancelled { failure: read_failure(need(cancelled.failure)?)? }
        }
    };
    Ok(Job::ResolveChildStart { seq: CommandSeq::new(resolve.seq), resolution })
}

fn read_child_start_failure(cause: i32) -> Result<ChildStartFailure, Untranslatable> {
    use StartChildWorkflowExecutionFailedCause as Cause;
    Ok(match read_enum("cause of a child's refusal", cause)? {
        Cause::Unspecified => ChildStartFailure::Unspecified,
        Cause::WorkflowAlreadyExists => ChildStartFailure::AlreadyExists,
        Cause::NamespaceNotFound => ChildStartFailure::NamespaceNotFound,
        Cause::InvalidVersioningOverride => {
            return Err(Untranslatable::Refused {
                what: "a child's versioning override".to_owned(),
                instead: "no run of ours sends one: the history was written by another SDK",
            });
        }
    })
}

fn read_child(resolve: ResolveChildWorkflowExecution) -> Result<Job, Untranslatable> {
    let resolution = read_child_resolution(resolve.result)?;
    Ok(Job::ResolveChild { seq: CommandSeq::new(resolve.seq), resolution })
}

fn read_child_resolution(result: Option<ChildWorkflowResult>) -> Result<ChildResolution, Untranslatable> {
    use child_workflow_result::Status;
    const NO_STATUS: Untranslatable =
        Untranslatable::Missing { message: "resolution of a child", field: "status" };
    Ok(match result.and_then(|result| result.status).ok_or(NO_STATUS)? {
        Status::Completed(success) => {
            ChildResolution::Completed { result: success.result.map(read_payload).transpose()? }
        }
        Status::Failed(failed) => ChildResolution::Failed { failure: read_failure(need(failed.failure)?)? },
        Status::Cancelled(cancelled) => {
            ChildResolution::Cancelled { failure: read_failure(need(cancelled.failure)?)? }
        }
    })
}

#[cfg(test)]
#[path = "activation_tests.rs"]
mod tests;
