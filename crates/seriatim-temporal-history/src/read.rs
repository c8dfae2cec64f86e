//! From messages to events.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::time::Duration;

use serde_json::Value;

use seriatim_workflow::{
    ChildStartFailure, Execution, Failure, FailureInfo, Payload, RetryPolicy, Start, TimeoutType,
};

use crate::event::{AcceptedUpdate, EventKind, HistoryEvent, LocalActivityMarker, Marker};
use crate::failure::read_failure;
use crate::json::Json;
use crate::message::{Field, Message, Problem};

/// The types of event, by number; those that are left out are not needed by name.
const EVENT_TYPES: [&str; 61] = [
    "Unspecified",
    "WorkflowExecutionStarted",
    "WorkflowExecutionCompleted",
    "WorkflowExecutionFailed",
    "WorkflowExecutionTimedOut",
    "WorkflowTaskScheduled",
    "WorkflowTaskStarted",
    "WorkflowTaskCompleted",
    "WorkflowTaskTimedOut",
    "WorkflowTaskFailed",
    "ActivityTaskScheduled",
    "ActivityTaskStarted",
    "ActivityTaskCompleted",
    "ActivityTaskFailed",
    "ActivityTaskTimedOut",
    "ActivityTaskCancelRequested",
    "ActivityTaskCanceled",
    "TimerStarted",
    "TimerFired",
    "TimerCanceled",
    "WorkflowExecutionCancelRequested",
    "WorkflowExecutionCanceled",
    "RequestCancelExternalWorkflowExecutionInitiated",
    "RequestCancelExternalWorkflowExecutionFailed",
    "ExternalWorkflowExecutionCancelRequested",
    "MarkerRecorded",
    "WorkflowExecutionSignaled",
    "WorkflowExecutionTerminated",
    "WorkflowExecutionContinuedAsNew",
    "StartChildWorkflowExecutionInitiated",
    "StartChildWorkflowExecutionFailed",
    "ChildWorkflowExecutionStarted",
    "ChildWorkflowExecutionCompleted",
    "ChildWorkflowExecutionFailed",
    "ChildWorkflowExecutionCanceled",
    "ChildWorkflowExecutionTimedOut",
    "ChildWorkflowExecutionTerminated",
    "SignalExternalWorkflowExecutionInitiated",
    "SignalExternalWorkflowExecutionFailed",
    "ExternalWorkflowExecutionSignaled",
    "UpsertWorkflowSearchAttributes",
    "WorkflowExecutionUpdateAccepted",
    "WorkflowExecutionUpdateRejected",
    "WorkflowExecutionUpdateCompleted",
    "WorkflowPropertiesModifiedExternally",
    "ActivityPropertiesModifiedExternally",
    "WorkflowPropertiesModified",
    "WorkflowExecutionUpdateAdmitted",
    "NexusOperationScheduled",
    "NexusOperationStarted",
    "NexusOperationCompleted",
    "NexusOperationFailed",
    "NexusOperationCanceled",
    "NexusOperationTimedOut",
    "NexusOperationCancelRequested",
    "WorkflowExecutionOptionsUpdated",
    "NexusOperationCancelRequestCompleted",
    "NexusOperationCancelRequestFailed",
    "WorkflowExecutionPaused",
    "WorkflowExecutionUnpaused",
    "WorkflowExecutionTimeSkippingTransitioned",
];

const RETRY_STATES: [&str; 8] = [
    "Unspecified",
    "InProgress",
    "NonRetryableFailure",
    "Timeout",
    "MaximumAttemptsReached",
    "RetryPolicyNotSet",
    "InternalServerError",
    "CancelRequested",
];

pub(crate) fn retry_state<M: Message>(message: &M, field: u32) -> usize {
    message.choice((field, "retry_state"), "RETRY_STATE_", &RETRY_STATES)
}

/// The seed that Temporal's core draws from a run's id: SipHash 1-3 with keys of zero, which is what the standard
/// library's hasher is. A test checks one value.
pub(crate) fn seed_of(run_id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    run_id.hash(&mut hasher);
    hasher.finish()
}

pub(crate) fn read_event<M: Message>(event: &M, problem: &Problem) -> HistoryEvent {
    let event_type = event.choice((3, "event_type"), "EVENT_TYPE_", &EVENT_TYPES);
    let id = event.int((1, "event_id"));
    let time = event.time((2, "event_time")).unwrap_or_default();
    // Newer servers mark events that a worker may ignore.
    let may_ignore = event.flag((300, "worker_may_ignore"));
    let is_known = (1..EVENT_TYPES.len()).contains(&event_type);
    let kind = match event.attributes() {
        _ if !is_known && may_ignore => EventKind::Other { event_type },
        _ if !is_known => {
            problem.note(|| {
                format!("event {id} is of a type that is not known here, and not marked as one that may be ignored")
            });
            EventKind::Other { event_type }
        }
        _ if EVENT_TYPES[event_type].starts_with("Nexus") => {
            let is_asked = matches!(event_type, 48 | 54);
            EventKind::Nexus { name: EVENT_TYPES[event_type], is_asked }
        }
        Some(attributes) => read_kind(event_type, &attributes),
        None => read_bare(event_type).unwrap_or_else(|| {
            if !may_ignore {
                problem.note(|| format!("event {id} has no attributes"));
            }
            EventKind::Other { event_type }
        }),
    };
    HistoryEvent { id, time, kind }
}

/// Events of which only the type is needed. In JSON their attributes may be left out where all of them are defaults.
fn read_bare(event_type: usize) -> Option<EventKind> {
    Some(match event_type {
        4 => EventKind::TimedOut,
        5 => EventKind::TaskScheduled,
        6 => EventKind::TaskStarted,
        7 => EventKind::TaskCompleted { sdk_name: String::new(), lang_flags: Vec::new() },
        8 => EventKind::TaskTimedOut,
        21 => EventKind::Cancelled,
        _ => return None,
    })
}

fn read_kind<M: Message>(event_type: usize, m: &M) -> EventKind {
    if event_type == 7
        && let Some(sdk) = m.message((6, "sdk_metadata"))
    {
        let (sdk_name, lang_flags) = (sdk.text((3, "sdk_name")), sdk.ints((2, "lang_used_flags")));
        return EventKind::TaskCompleted { sdk_name, lang_flags };
    }
    if let Some(kind) = read_bare(event_type) {
        return kind;
    }
    let scheduled = |field: u32| m.int((field, "scheduled_event_id"));
    let initiated = |field: u32| m.int((field, "initiated_event_id"));
    match event_type {
        1 => EventKind::Started(Box::new(read_start(m))),
        2 => EventKind::Completed { result: m.payloads((1, "result")) },
        3 => EventKind::Failed { failure: failure(m, 1) },
        9 => EventKind::TaskFailed { new_run_id: m.text((7, "new_run_id")) },
        10 => EventKind::ActivityScheduled {
            activity_id: m.text((1, "activity_id")),
            activity_type: m.name((2, "activity_type")),
            task_queue: m.name((4, "task_queue")),
            input: m.payloads((6, "input")),
        },
        11 => EventKind::ActivityStarted { scheduled: scheduled(1) },
        12 => EventKind::ActivityCompleted { scheduled: scheduled(2), result: m.payloads((1, "result")) },
        13 => EventKind::ActivityFailed {
            scheduled: scheduled(2),
            failure: failure(m, 1),
            retry_state: retry_state(m, 5),
        },
        14 => EventKind::ActivityTimedOut {
            scheduled: scheduled(2),
            failure: failure(m, 1),
            retry_state: retry_state(m, 4),
        },
        15 => EventKind::ActivityCancelRequested { scheduled: scheduled(1) },
        16 => EventKind::ActivityCancelled { scheduled: scheduled(3), details: m.payloads((1, "details")) },
        17 => EventKind::TimerStarted {
            timer_id: m.text((1, "timer_id")),
            duration: m.duration((2, "start_to_fire_timeout")).unwrap_or_default(),
        },
        18 => EventKind::TimerFired { started: m.int((2, "started_event_id")) },
        19 => EventKind::TimerCancelled { started: m.int((2, "started_event_id")) },
        20 => EventKind::CancelRequested { reason: m.text((1, "cause")) },
        22 => EventKind::ExternalCancelInitiated {
            target: execution(m, (3, "workflow_execution"), m.text((2, "namespace"))),
            reason: m.text((6, "reason")),
            child_only: m.flag((5, "child_workflow_only")),
        },
        23 => EventKind::ExternalCancelFailed { initiated: initiated(5), cause: delivery_cause(m, "CANCEL") },
        24 => EventKind::ExternalCancelDelivered { initiated: initiated(1) },
        25 => EventKind::Marker(read_marker(m)),
        26 => EventKind::Signalled {
            name: m.text((1, "signal_name")),
            input: m.payloads((2, "input")),
            headers: m.named((4, "header"), "fields"),
            identity: m.text((3, "identity")),
        },
        27 => EventKind::Terminated { reason: m.text((1, "reason")) },
        28 => EventKind::ContinuedAsNew {
            workflow_type: m.name((2, "workflow_type")),
            input: m.payloads((4, "input")),
        },
        29 => EventKind::ChildInitiated {
            workflow_id: m.text((2, "workflow_id")),
            workflow_type: m.name((3, "workflow_type")),
            input: m.payloads((5, "input")),
        },
        30..=36 => read_child(event_type, m),
        37 => EventKind::ExternalSignalInitiated {
            target: execution(m, (3, "workflow_execution"), m.text((2, "namespace"))),
            name: m.text((4, "signal_name")),
            input: m.payloads((5, "input")),
            child_only: m.flag((7, "child_workflow_only")),
        },
        38 => EventKind::ExternalSignalFailed { initiated: initiated(5), cause: delivery_cause(m, "SIGNAL") },
        39 => EventKind::ExternalSignalDelivered { initiated: initiated(1) },
        40 => EventKind::SearchAttributesUpserted {
            attributes: m.named((2, "search_attributes"), "indexed_fields"),
        },
        41 => {
            let protocol_id = m.text((1, "protocol_instance_id"));
            EventKind::UpdateAccepted(Box::new(read_update(
                protocol_id,
                m.message((4, "accepted_request")).as_ref(),
            )))
        }
        47 => EventKind::UpdateAdmitted(Box::new(read_update(
            String::new(),
            m.message((1, "request")).as_ref(),
        ))),
        43 => read_update_outcome(m),
        46 => EventKind::MemoModified { memo: m.named((2, "upserted_memo"), "fields") },
        _ => EventKind::Other { event_type },
    }
}

fn read_child<M: Message>(event_type: usize, m: &M) -> EventKind {
    let initiated = |field: u32| m.int((field, "initiated_event_id"));
    match event_type {
        30 => {
            let names = ["Unspecified", "WorkflowAlreadyExists", "NamespaceNotFound"];
            let cause = m.choice((4, "cause"), "START_CHILD_WORKFLOW_EXECUTION_FAILED_CAUSE_", &names);
            let cause = match cause {
                1 => ChildStartFailure::AlreadyExists,
                2 => ChildStartFailure::NamespaceNotFound,
                _ => ChildStartFailure::Unspecified,
            };
            EventKind::ChildStartFailed { initiated: initiated(6), cause }
        }
        31 => EventKind::ChildStarted {
            initiated: initiated(2),
            run_id: execution(m, (3, "workflow_execution"), String::new()).run_id,
        },
        32 => EventKind::ChildCompleted { initiated: initiated(5), result: m.payloads((1, "result")) },
        33 => EventKind::ChildFailed {
            initiated: initiated(5),
            failure: child_failure(m, [2, 3, 4, 5, 6, 7], *failure(m, 1)),
        },
        34 => EventKind::ChildCancelled { initiated: initiated(5), details: m.payloads((1, "details")) },
        35 => {
            let cause = Failure::timeout(TimeoutType::StartToClose, "the child workflow timed out");
            EventKind::ChildFailed {
                initiated: initiated(4),
                failure: child_failure(m, [1, 2, 3, 4, 5, 6], cause),
            }
        }
        _ => {
            let cause = Failure::new("the child workflow was terminated", FailureInfo::Terminated);
            EventKind::ChildFailed {
                initiated: initiated(4),
                failure: child_failure(m, [1, 2, 3, 4, 5, 0], cause),
            }
        }
    }
}

/// The failure of a child as its parent sees it. The fields are namespace, execution, type, initiated and started event,
/// retry state.
fn child_failure<M: Message>(m: &M, fields: [u32; 6], cause: Failure) -> Box<Failure> {
    let execution = execution(m, (fields[1], "workflow_execution"), m.text((fields[0], "namespace")));
    let info = FailureInfo::ChildWorkflow {
        namespace: execution.namespace,
        workflow_id: execution.workflow_id,
        run_id: execution.run_id,
        workflow_type: m.name((fields[2], "workflow_type")),
        retry_state: crate::failure::retry_state_of(retry_state(m, fields[5])),
        initiated_event_id: m.int((fields[3], "initiated_event_id")),
        started_event_id: m.int((fields[4], "started_event_id")),
    };
    Box::new(Failure::new("child workflow execution failed", info).caused_by(cause))
}

fn delivery_cause<M: Message>(m: &M, what: &str) -> usize {
    let prefix = format!("{what}_EXTERNAL_WORKFLOW_EXECUTION_FAILED_CAUSE_");
    let names =
        ["Unspecified", "ExternalWorkflowExecutionNotFound", "NamespaceNotFound", "SignalCountLimitExceeded"];
    m.choice((1, "cause"), &prefix, &names)
}

fn failure<M: Message>(m: &M, field: u32) -> Box<Failure> {
    let failure = m.message((field, "failure")).map(|failure| read_failure(&failure));
    Box::new(failure.unwrap_or_else(|| Failure::new("", FailureInfo::Unspecified)))
}

pub(crate) fn execution<M: Message>(m: &M, field: Field, namespace: String) -> Execution {
    let execution = m.message(field);
    let text = |field: Field| execution.as_ref().map(|execution| execution.text(field)).unwrap_or_default();
    Execution { namespace, workflow_id: text((1, "workflow_id")), run_id: text((2, "run_id")) }
}

fn read_start<M: Message>(m: &M) -> Start {
    let original_run_id = m.text((14, "original_execution_run_id"));
    let parent = m.message((3, "parent_workflow_execution")).is_some();
    let optional = |text: String| (!text.is_empty()).then_some(text);
    Start {
        workflow_type: m.name((1, "workflow_type")),
        workflow_id: m.text((28, "workflow_id")),
        input: m.payloads((6, "input")),
        random_seed: seed_of(&original_run_id),
        headers: m.named((25, "header"), "fields"),
        memo: m.named((22, "memo"), "fields"),
        search_attributes: m.named((23, "search_attributes"), "indexed_fields"),
        attempt: u32::try_from(m.int((18, "attempt"))).unwrap_or(1),
        identity: m.text((15, "identity")),
        task_queue: m.name((5, "task_queue")),
        namespace: String::new(),
        start_time: seriatim_workflow::Time::default(),
        parent: parent.then(|| {
            execution(m, (3, "parent_workflow_execution"), m.text((2, "parent_workflow_namespace")))
        }),
        continued_from: optional(m.text((10, "continued_execution_run_id"))),
        first_run_id: m.text((16, "first_execution_run_id")),
        last_failure: m.message((12, "continued_failure")).map(|failure| read_failure(&failure)),
        last_result: m.payloads((13, "last_completion_result")).into_iter().next(),
        cron_schedule: m.text((20, "cron_schedule")),
        retry_policy: m.message((17, "retry_policy")).map(|policy| read_retry_policy(&policy)),
        execution_timeout: m.duration((7, "workflow_execution_timeout")),
        run_timeout: m.duration((8, "workflow_run_timeout")),
        task_timeout: m.duration((9, "workflow_task_timeout")),
        rules: Start::RULES,
    }
}

fn read_retry_policy<M: Message>(m: &M) -> RetryPolicy {
    RetryPolicy {
        initial_interval: m.duration((1, "initial_interval")).unwrap_or(Duration::from_secs(1)),
        backoff_coefficient: m.float((2, "backoff_coefficient")),
        maximum_interval: m.duration((3, "maximum_interval")),
        maximum_attempts: u32::try_from(m.int((4, "maximum_attempts"))).unwrap_or(0),
        non_retryable_error_types: m.texts((5, "non_retryable_error_types")),
    }
}

fn read_update<M: Message>(protocol_id: String, request: Option<&M>) -> AcceptedUpdate {
    let meta = request.and_then(|request| request.message((1, "meta")));
    let input = request.and_then(|request| request.message((2, "input")));
    let text =
        |message: &Option<M>, field: Field| message.as_ref().map(|m| m.text(field)).unwrap_or_default();
    AcceptedUpdate {
        protocol_id,
        update_id: text(&meta, (1, "update_id")),
        name: text(&input, (2, "name")),
        input: input.as_ref().map(|input| input.payloads((3, "args"))).unwrap_or_default(),
        headers: input.as_ref().map(|input| input.named((1, "header"), "fields")).unwrap_or_default(),
        identity: text(&meta, (2, "identity")),
    }
}

fn read_update_outcome<M: Message>(m: &M) -> EventKind {
    let outcome = m.message((2, "outcome"));
    let failure = outcome.as_ref().and_then(|outcome| outcome.message((2, "failure")));
    EventKind::UpdateCompleted {
        accepted: m.int((3, "accepted_event_id")),
        update_id: m.message((1, "meta")).map(|meta| meta.text((1, "update_id"))).unwrap_or_default(),
        outcome: match failure {
            Some(failure) => Err(Box::new(read_failure(&failure))),
            None => Ok(outcome.map(|outcome| outcome.payloads((1, "success"))).unwrap_or_default()),
        },
    }
}

fn read_marker<M: Message>(m: &M) -> Marker {
    let name = m.text((1, "marker_name"));
    let entries = m.entries((2, "details")).into_iter();
    let details: BTreeMap<String, Vec<Payload>> = entries
        .map(|(key, payloads)| (key, payloads.list((1, "payloads")).iter().map(Message::payload).collect()))
        .collect();
    let first = |key: &str| details.get(key).and_then(|payloads| payloads.first());
    let read = match name.as_str() {
        "core_patch" => read_patch(first("patch-data"), first("patch_id"), first("deprecated")),
        "core_local_activity" => first("data").and_then(|data| {
            let failure = m.message((5, "failure")).map(|failure| read_failure(&failure));
            read_local_activity(data, first("result").cloned(), failure)
        }),
        _ => None,
    };
    read.unwrap_or(Marker::Other { name, details })
}

/// A patch is JSON in one payload; in old histories it is two payloads of plain bytes.
fn read_patch(data: Option<&Payload>, id: Option<&Payload>, deprecated: Option<&Payload>) -> Option<Marker> {
    if let Some(data) = data {
        let value: Value = serde_json::from_slice(&data.data).ok()?;
        let deprecated = value.get("deprecated").and_then(Value::as_bool).unwrap_or(false);
        return Some(Marker::Patch { id: value.get("id")?.as_str()?.to_owned(), deprecated });
    }
    let id = String::from_utf8(id?.data.to_vec()).ok()?;
    Some(Marker::Patch { id, deprecated: deprecated?.data.first().is_some_and(|byte| *byte != 0) })
}

fn read_local_activity(data: &Payload, result: Option<Payload>, failure: Option<Failure>) -> Option<Marker> {
    let value: Value = serde_json::from_slice(&data.data).ok()?;
    let problem = Problem::default();
    let m = Json::new(&value, &problem);
    let marker = LocalActivityMarker {
        seq: u32::try_from(m.int((1, "seq"))).ok()?,
        activity_type: m.text((4, "activity_type")),
        attempt: u32::try_from(m.int((2, "attempt"))).ok()?,
        result,
        failure,
        backoff: m.duration((6, "backoff")),
        original_schedule_time: m.time((7, "original_schedule_time")),
    };
    problem.take().is_none().then(|| Marker::LocalActivity(Box::new(marker)))
}
