//! From our completions to the core's.

use std::time::Duration;

use seriatim_workflow::{
    ActivationFailure, ActivityOptions, CancellationType, ChildOptions, Command, Completion, ContinueAsNew,
    Execution, Failure, IdReusePolicy, LocalActivityOptions, ParentClosePolicy, Payload, QueryAnswer,
    SignalTarget, UpdateOutcome,
};
use temporalio_common::protos::coresdk::child_workflow::{
    ChildWorkflowCancellationType, ParentClosePolicy as WireParentClosePolicy,
};
use temporalio_common::protos::coresdk::common::NamespacedWorkflowExecution;
use temporalio_common::protos::coresdk::workflow_commands::workflow_command::Variant;
use temporalio_common::protos::coresdk::workflow_commands::{
    ActivityCancellationType, CancelChildWorkflowExecution, CancelSignalWorkflow, CancelTimer,
    CancelWorkflowExecution, CompleteWorkflowExecution, ContinueAsNewWorkflowExecution,
    FailWorkflowExecution, ModifyWorkflowProperties, QueryResult, QuerySuccess, RequestCancelActivity,
    RequestCancelExternalWorkflowExecution, RequestCancelLocalActivity, ScheduleActivity,
    ScheduleLocalActivity, SetPatchMarker, SignalExternalWorkflowExecution, StartChildWorkflowExecution,
    StartTimer, UpdateResponse, UpsertWorkflowSearchAttributes, query_result,
    signal_external_workflow_execution, update_response,
};
use temporalio_common::protos::coresdk::workflow_completion::{
    self, WorkflowActivationCompletion, workflow_activation_completion,
};
use temporalio_common::protos::temporal::api::common::v1::Memo;
use temporalio_common::protos::temporal::api::enums::v1::{WorkflowIdReusePolicy, WorkflowTaskFailedCause};
use temporalio_common::protos::temporal::api::failure::v1::Failure as WireFailure;

use crate::activation::Home;
use crate::failure::write_failure;
use crate::payload::{write_attributes, write_headers, write_payload, write_payloads};
use crate::untranslatable::Untranslatable;
use crate::wire::{write_duration, write_retry_policy, write_time, write_timeout};

/// Values that the core requires and that a run's commands leave out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Defaults<'a> {
    pub(crate) home: &'a Home,
    /// The run's own type: a run that continues as new keeps it.
    pub(crate) workflow_type: &'a str,
    /// The timeout of an attempt of an activity that has none: the core requires one.
    pub(crate) activity_timeout: Duration,
}

/// The answer to an activation. What cannot be carried fails the workflow task, with the reason.
pub(crate) fn write_completion(
    completion: Completion,
    defaults: Defaults<'_>,
) -> WorkflowActivationCompletion {
    let Completion { run_id, outcome } = completion;
    let commands = match outcome {
        Ok(commands) => commands,
        Err(failure) => return failed(run_id, &failure),
    };
    let translated = commands.into_iter().map(|command| write_command(command, defaults));
    match translated.collect::<Result<Vec<_>, _>>() {
        Ok(commands) => WorkflowActivationCompletion::from_cmds(run_id, commands),
        Err(wrong) => untranslatable(run_id, &wrong),
    }
}

/// The answer to an activation that could not be read, or whose answer cannot be written.
pub(crate) fn untranslatable(run_id: String, wrong: &Untranslatable) -> WorkflowActivationCompletion {
    let failure = Failure::non_retryable("Untranslatable", wrong.to_string());
    fail_task(run_id, failure, WorkflowTaskFailedCause::WorkflowWorkerUnhandledFailure)
}

fn failed(run_id: String, failure: &ActivationFailure) -> WorkflowActivationCompletion {
    let (error_type, cause) = match failure {
        ActivationFailure::Nondeterminism { .. } => {
            ("Nondeterminism", WorkflowTaskFailedCause::NonDeterministicError)
        }
        ActivationFailure::Unmatched(_) => ("Unmatched", WorkflowTaskFailedCause::NonDeterministicError),
        ActivationFailure::Panicked { .. } => {
            ("Panic", WorkflowTaskFailedCause::WorkflowWorkerUnhandledFailure)
        }
        ActivationFailure::Foreign(_) => {
            ("ForeignWait", WorkflowTaskFailedCause::WorkflowWorkerUnhandledFailure)
        }
        ActivationFailure::Exhausted(_) => {
            ("Exhausted", WorkflowTaskFailedCause::WorkflowWorkerUnhandledFailure)
        }
        ActivationFailure::UnknownWorkflow { .. } => {
            ("UnknownWorkflow", WorkflowTaskFailedCause::WorkflowWorkerUnhandledFailure)
        }
        ActivationFailure::Protocol { .. } => {
            ("Protocol", WorkflowTaskFailedCause::WorkflowWorkerUnhandledFailure)
        }
        ActivationFailure::Poisoned { .. } => {
            ("Poisoned", WorkflowTaskFailedCause::WorkflowWorkerUnhandledFailure)
        }
    };
    fail_task(run_id, Failure::application(error_type, failure.to_string()), cause)
}

fn fail_task(
    run_id: String,
    failure: Failure,
    cause: WorkflowTaskFailedCause,
) -> WorkflowActivationCompletion {
    let message = failure.message.clone();
    let failure = write_failure(failure).unwrap_or_else(|wrong| WireFailure {
        message: format!("{message} (and its details cannot be written: {wrong})"),
        ..WireFailure::default()
    });
    let failed = workflow_completion::Failure { failure: Some(failure), force_cause: cause.into() };
    WorkflowActivationCompletion {
        run_id,
        status: Some(workflow_activation_completion::Status::Failed(failed)),
        ..WorkflowActivationCompletion::default()
    }
}

fn write_command(command: Command, defaults: Defaults<'_>) -> Result<Variant, Untranslatable> {
    Ok(match command {
        Command::StartTimer { seq, duration, lineage: _ } => Variant::StartTimer(StartTimer {
            seq: seq.get(),
            start_to_fire_timeout: Some(write_duration(duration)?),
        }),
        Command::CancelTimer { seq, path: _ } => Variant::CancelTimer(CancelTimer { seq: seq.get() }),
        Command::ScheduleActivity { seq, activity_type, input, options, lineage: _ } => {
            write_activity(seq.get(), activity_type, input, *options, defaults)?
        }
        Command::CancelActivity { seq, path: _ } => {
            Variant::RequestCancelActivity(RequestCancelActivity { seq: seq.get() })
        }
        Command::ScheduleLocalActivity { seq, activity_type, input, options, lineage: _ } => {
            write_local_activity(seq.get(), activity_type, input, *options, defaults)?
        }
        Command::CancelLocalActivity { seq, path: _ } => {
            Variant::RequestCancelLocalActivity(RequestCancelLocalActivity { seq: seq.get() })
        }
        Command::StartChild { seq, workflow_type, input, options, lineage: _ } => {
            write_child(seq.get(), workflow_type, input, *options, defaults)?
        }
        Command::CancelChild { seq, reason, path: _ } => {
            Variant::CancelChildWorkflowExecution(CancelChildWorkflowExecution {
                child_workflow_seq: seq.get(),
                reason,
            })
        }
        Command::SignalExternal { seq, target, name, input, headers, lineage: _ } => {
            use signal_external_workflow_execution::Target;
            let target = match target {
                SignalTarget::Workflow(workflow) => Target::WorkflowExecution(execution(workflow, defaults)),
                SignalTarget::Child { workflow_id } => Target::ChildWorkflowId(workflow_id),
            };
            Variant::SignalExternalWorkflowExecution(SignalExternalWorkflowExecution {
                seq: seq.get(),
                target: Some(target),
                signal_name: name,
                args: write_payloads(input),
                headers: write_headers(headers),
            })
        }
        Command::CancelSignal { seq, path: _ } => {
            Variant::CancelSignalWorkflow(CancelSignalWorkflow { seq: seq.get() })
        }
        Command::CancelExternal { seq, target, reason, lineage: _ } => {
            Variant::RequestCancelExternalWorkflowExecution(RequestCancelExternalWorkflowExecution {
                seq: seq.get(),
                workflow_execution: Some(execution(target, defaults)),
                reason,
            })
        }
        Command::SetPatch { id, deprecated, path: _ } => {
            Variant::SetPatchMarker(SetPatchMarker { patch_id: id, deprecated })
        }
        Command::RecordSideEffect { .. } => {
            return Err(Untranslatable::Refused {
                what: "a side effect without a number".to_owned(),
                instead: "number the run's operations by call order: then it is a local activity",
            });
        }
        Command::UpsertSearchAttributes { attributes, lineage: _ } => {
            Variant::UpsertWorkflowSearchAttributes(UpsertWorkflowSearchAttributes {
                search_attributes: write_attributes(attributes),
            })
        }
        Command::ModifyMemo { memo, lineage: _ } => {
            Variant::ModifyWorkflowProperties(ModifyWorkflowProperties {
                upserted_memo: Some(Memo { fields: write_headers(memo) }),
            })
        }
        Command::Complete { result } => Variant::CompleteWorkflowExecution(CompleteWorkflowExecution {
            result: result.map(write_payload),
        }),
        Command::Fail { failure } => {
            Variant::FailWorkflowExecution(FailWorkflowExecution { failure: Some(write_failure(failure)?) })
        }
        Command::Cancelled => Variant::CancelWorkflowExecution(CancelWorkflowExecution { details: None }),
        Command::ContinueAsNew { options } => write_continue_as_new(*options, defaults)?,
        Command::QueryAnswer { id, answer } => write_answer(id, answer)?,
        Command::UpdateAccepted { protocol_id } => {
            update(protocol_id, update_response::Response::Accepted(()))
        }
        Command::UpdateRejected { protocol_id, failure } => {
            update(protocol_id, update_response::Response::Rejected(write_failure(failure)?))
        }
        Command::UpdateCompleted { protocol_id, outcome } => {
            let response = match outcome {
                UpdateOutcome::Completed { result } => {
                    update_response::Response::Completed(write_payload(result))
                }
                UpdateOutcome::Failed { failure } => {
                    update_response::Response::Rejected(write_failure(failure)?)
                }
            };
            update(protocol_id, response)
        }
    })
}

fn write_activity(
    seq: u32,
    activity_type: String,
    input: Vec<Payload>,
    options: ActivityOptions,
    defaults: Defaults<'_>,
) -> Result<Variant, Untranslatable> {
    let cancellation = write_activity_cancellation(options.cancellation_type, &activity_type)?;
    let start_to_close = start_to_close(
        options.start_to_close_timeout,
        options.schedule_to_close_timeout,
        defaults.activity_timeout,
    );
    Ok(Variant::ScheduleActivity(ScheduleActivity {
        seq,
        activity_id: or_number(options.activity_id, seq),
        activity_type,
        task_queue: or_own(options.task_queue, &defaults.home.task_queue),
        headers: write_headers(options.headers),
        arguments: write_payloads(input),
        schedule_to_close_timeout: write_timeout(options.schedule_to_close_timeout)?,
        schedule_to_start_timeout: write_timeout(options.schedule_to_start_timeout)?,
        start_to_close_timeout: write_timeout(start_to_close)?,
        heartbeat_timeout: write_timeout(options.heartbeat_timeout)?,
        retry_policy: options.retry_policy.map(write_retry_policy).transpose()?,
        cancellation_type: cancellation.into(),
        do_not_eagerly_execute: options.do_not_eagerly_execute,
        ..ScheduleActivity::default()
    }))
}

fn write_local_activity(
    seq: u32,
    activity_type: String,
    input: Vec<Payload>,
    options: LocalActivityOptions,
    defaults: Defaults<'_>,
) -> Result<Variant, Untranslatable> {
    let cancellation = write_activity_cancellation(options.cancellation_type, &activity_type)?;
    let start_to_close = start_to_close(
        options.start_to_close_timeout,
        options.schedule_to_close_timeout,
        defaults.activity_timeout,
    );
    Ok(Variant::ScheduleLocalActivity(ScheduleLocalActivity {
        seq,
        activity_id: or_number(options.activity_id, seq),
        activity_type,
        attempt: options.attempt.max(1),
        original_schedule_time: options.original_schedule_time.map(write_time).transpose()?,
        headers: write_headers(options.headers),
        arguments: write_payloads(input),
        schedule_to_close_timeout: write_timeout(options.schedule_to_close_timeout)?,
        schedule_to_start_timeout: write_timeout(options.schedule_to_start_timeout)?,
        start_to_close_timeout: write_timeout(start_to_close)?,
        retry_policy: options.retry_policy.map(write_retry_policy).transpose()?,
        local_retry_threshold: write_timeout(options.local_retry_threshold)?,
        cancellation_type: cancellation.into(),
        ..ScheduleLocalActivity::default()
    }))
}

fn write_child(
    seq: u32,
    workflow_type: String,
    input: Vec<Payload>,
    options: ChildOptions,
    defaults: Defaults<'_>,
) -> Result<Variant, Untranslatable> {
    let cancellation = match options.cancellation_type {
        CancellationType::TryCancel => ChildWorkflowCancellationType::TryCancel,
        CancellationType::WaitCompleted => ChildWorkflowCancellationType::WaitCancellationCompleted,
        CancellationType::WaitRequested => ChildWorkflowCancellationType::WaitCancellationRequested,
        CancellationType::Abandon => ChildWorkflowCancellationType::Abandon,
    };
    let parent_close = match options.parent_close_policy {
        ParentClosePolicy::Terminate => WireParentClosePolicy::Terminate,
        ParentClosePolicy::Abandon => WireParentClosePolicy::Abandon,
        ParentClosePolicy::RequestCancel => WireParentClosePolicy::RequestCancel,
    };
    let id_reuse = match options.id_reuse_policy {
        IdReusePolicy::AllowDuplicate => WorkflowIdReusePolicy::AllowDuplicate,
        IdReusePolicy::AllowDuplicateFailedOnly => WorkflowIdReusePolicy::AllowDuplicateFailedOnly,
        IdReusePolicy::RejectDuplicate => WorkflowIdReusePolicy::RejectDuplicate,
        #[expect(deprecated, reason = "what stands in its place cannot be said of a child")]
        IdReusePolicy::TerminateIfRunning => WorkflowIdReusePolicy::TerminateIfRunning,
    };
    Ok(Variant::StartChildWorkflowExecution(StartChildWorkflowExecution {
        seq,
        namespace: or_own(options.namespace, &defaults.home.namespace),
        workflow_id: options.workflow_id,
        workflow_type,
        task_queue: or_own(options.task_queue, &defaults.home.task_queue),
        input: write_payloads(input),
        workflow_execution_timeout: write_timeout(options.execution_timeout)?,
        workflow_run_timeout: write_timeout(options.run_timeout)?,
        workflow_task_timeout: write_timeout(options.task_timeout)?,
        parent_close_policy: parent_close.into(),
        workflow_id_reuse_policy: id_reuse.into(),
        retry_policy: options.retry_policy.map(write_retry_policy).transpose()?,
        cron_schedule: options.cron_schedule,
        headers: write_headers(options.headers),
        memo: write_headers(options.memo),
        search_attributes: write_attributes(options.search_attributes),
        cancellation_type: cancellation.into(),
        ..StartChildWorkflowExecution::default()
    }))
}

fn write_continue_as_new(options: ContinueAsNew, defaults: Defaults<'_>) -> Result<Variant, Untranslatable> {
    Ok(Variant::ContinueAsNewWorkflowExecution(ContinueAsNewWorkflowExecution {
        workflow_type: or_own(options.workflow_type, defaults.workflow_type),
        task_queue: or_own(options.task_queue, &defaults.home.task_queue),
        arguments: write_payloads(options.input),
        workflow_run_timeout: write_timeout(options.run_timeout)?,
        workflow_task_timeout: write_timeout(options.task_timeout)?,
        memo: write_headers(options.memo),
        headers: write_headers(options.headers),
        search_attributes: write_attributes(options.search_attributes),
        retry_policy: options.retry_policy.map(write_retry_policy).transpose()?,
        ..ContinueAsNewWorkflowExecution::default()
    }))
}

fn write_answer(query_id: String, answer: QueryAnswer) -> Result<Variant, Untranslatable> {
    let variant = match answer {
        QueryAnswer::Answered { result } => {
            query_result::Variant::Succeeded(QuerySuccess { response: Some(write_payload(result)) })
        }
        QueryAnswer::Failed { failure } => query_result::Variant::Failed(write_failure(failure)?),
    };
    Ok(Variant::RespondToQuery(QueryResult { query_id, variant: Some(variant) }))
}

fn update(protocol_instance_id: String, response: update_response::Response) -> Variant {
    Variant::UpdateResponse(UpdateResponse { protocol_instance_id, response: Some(response) })
}

fn write_activity_cancellation(
    cancellation: CancellationType,
    activity_type: &str,
) -> Result<ActivityCancellationType, Untranslatable> {
    Ok(match cancellation {
        CancellationType::TryCancel => ActivityCancellationType::TryCancel,
        CancellationType::WaitCompleted => ActivityCancellationType::WaitCancellationCompleted,
        CancellationType::Abandon => ActivityCancellationType::Abandon,
        CancellationType::WaitRequested => {
            return Err(Untranslatable::Refused {
                what: format!("cancellation type wait_requested of activity {activity_type:?}"),
                instead: "it is for child workflows: use wait_completed or try_cancel",
            });
        }
    })
}

/// The core requires one of the two: without any, an attempt that is lost with its worker would never be noticed.
fn start_to_close(
    start_to_close: Option<Duration>,
    schedule_to_close: Option<Duration>,
    default: Duration,
) -> Option<Duration> {
    start_to_close.or_else(|| schedule_to_close.is_none().then_some(default))
}

fn execution(execution: Execution, defaults: Defaults<'_>) -> NamespacedWorkflowExecution {
    NamespacedWorkflowExecution {
        namespace: or_own(execution.namespace, &defaults.home.namespace),
        workflow_id: execution.workflow_id,
        run_id: execution.run_id,
    }
}

fn or_own(name: String, own: &str) -> String {
    if name.is_empty() { own.to_owned() } else { name }
}

fn or_number(id: String, seq: u32) -> String {
    if id.is_empty() { seq.to_string() } else { id }
}

#[cfg(test)]
#[path = "completion_tests.rs"]
mod tests;
