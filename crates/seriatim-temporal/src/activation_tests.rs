//! Each job of the core, and our job for it.

use std::time::Duration;

use prost_wkt_types::{Duration as WireDuration, Timestamp};
use seriatim_workflow::{Failure, Headers, Payload, RetryPolicy};
use temporalio_common::protos::coresdk::activity_result::{self, DoBackoff};
use temporalio_common::protos::coresdk::child_workflow;
use temporalio_common::protos::coresdk::common::NamespacedWorkflowExecution;
use temporalio_common::protos::coresdk::workflow_activation::{
    CancelWorkflow, FireTimer, NotifyHasPatch, RemoveFromCache, ResolveChildWorkflowExecutionStartCancelled,
    ResolveChildWorkflowExecutionStartFailure, ResolveChildWorkflowExecutionStartSuccess,
    ResolveNexusOperation, ResolveNexusOperationStart, ResolveRequestCancelExternalWorkflow,
    ResolveSignalExternalWorkflow, UpdateRandomSeed,
};
use temporalio_common::protos::temporal::api::common::v1::{Memo, Payloads, SearchAttributes};
use temporalio_common::protos::temporal::api::update::v1::Meta;

use super::*;
use crate::failure::write_failure;
use crate::payload::{write_headers, write_payload};
use crate::wire::write_retry_policy;

fn home() -> Home {
    Home { namespace: "here".to_owned(), task_queue: "q".to_owned() }
}

fn tea() -> Payload {
    Payload::json("tea").unwrap()
}

fn headers() -> Headers {
    Headers::from([("trace".to_owned(), Payload::json("t-1").unwrap())])
}

fn broke() -> Failure {
    Failure { source: "test".to_owned(), ..Failure::application("Broke", "it broke") }
}

fn wire_failure() -> Option<WireFailure> {
    Some(write_failure(broke()).unwrap())
}

fn seconds(seconds: i64) -> Option<WireDuration> {
    Some(WireDuration { seconds, nanos: 0 })
}

fn read(job: Variant) -> Result<Job, Untranslatable> {
    read_job(WorkflowActivationJob { variant: Some(job) }, &home(), 1)
}

#[test]
fn an_activation_keeps_what_is_not_a_job() {
    let wire = WorkflowActivation {
        run_id: "run".to_owned(),
        timestamp: Some(Timestamp { seconds: 2, nanos: 1_000 }),
        is_replaying: true,
        history_length: 7,
        jobs: vec![WorkflowActivationJob { variant: Some(Variant::FireTimer(FireTimer { seq: 3 })) }],
        ..WorkflowActivation::default()
    };
    let expected = Activation {
        run_id: "run".to_owned(),
        time: Time::from_micros(2_000_001),
        is_replaying: true,
        history_length: 7,
        continue_as_new_suggested: false,
        jobs: vec![Job::FireTimer { seq: CommandSeq::new(3) }],
    };
    assert_eq!(read_activation(wire, &home()).unwrap(), expected);
}

#[test]
fn a_start_keeps_everything_that_runs_can_ask_for() {
    let policy = RetryPolicy::attempts(3);
    let wire = InitializeWorkflow {
        workflow_type: "order".to_owned(),
        workflow_id: "order-1".to_owned(),
        arguments: vec![write_payload(tea())],
        randomness_seed: 42,
        headers: write_headers(headers()),
        identity: "client".to_owned(),
        parent_workflow_info: Some(NamespacedWorkflowExecution {
            namespace: "there".to_owned(),
            workflow_id: "parent".to_owned(),
            run_id: "parent-run".to_owned(),
        }),
        workflow_execution_timeout: seconds(60),
        workflow_run_timeout: seconds(30),
        workflow_task_timeout: seconds(10),
        continued_from_execution_run_id: "before".to_owned(),
        continued_failure: wire_failure(),
        last_completion_result: Some(Payloads { payloads: vec![write_payload(tea())] }),
        first_execution_run_id: "first".to_owned(),
        retry_policy: Some(write_retry_policy(policy.clone()).unwrap()),
        attempt: 2,
        cron_schedule: "@daily".to_owned(),
        memo: Some(Memo { fields: write_headers(headers()) }),
        search_attributes: Some(SearchAttributes { indexed_fields: write_headers(headers()) }),
        start_time: Some(Timestamp { seconds: 1, nanos: 0 }),
        ..InitializeWorkflow::default()
    };
    let expected = Start {
        workflow_type: "order".to_owned(),
        workflow_id: "order-1".to_owned(),
        input: vec![tea()],
        random_seed: 42,
        headers: headers(),
        memo: headers(),
        search_attributes: headers(),
        attempt: 2,
        identity: "client".to_owned(),
        task_queue: "q".to_owned(),
        namespace: "here".to_owned(),
        start_time: Time::from_micros(1_000_000),
        parent: Some(Execution {
            namespace: "there".to_owned(),
            workflow_id: "parent".to_owned(),
            run_id: "parent-run".to_owned(),
        }),
        continued_from: Some("before".to_owned()),
        first_run_id: "first".to_owned(),
        last_failure: Some(broke()),
        last_result: Some(tea()),
        cron_schedule: "@daily".to_owned(),
        retry_policy: Some(policy),
        execution_timeout: Some(Duration::from_secs(60)),
        run_timeout: Some(Duration::from_secs(30)),
        task_timeout: Some(Duration::from_secs(10)),
        rules: 1,
    };
    assert_eq!(read(Variant::InitializeWorkflow(wire)).unwrap(), Job::Start(Box::new(expected)));
}

#[test]
fn every_message_to_a_run_is_read() {
    let input = || vec![write_payload(tea())];
    let table = [
        (Variant::FireTimer(FireTimer { seq: 1 }), Job::FireTimer { seq: CommandSeq::new(1) }),
        (Variant::UpdateRandomSeed(UpdateRandomSeed { randomness_seed: 9 }), Job::RandomSeed { seed: 9 }),
        (
            Variant::CancelWorkflow(CancelWorkflow { reason: "enough".to_owned() }),
            Job::Cancel { reason: "enough".to_owned() },
        ),
        (
            Variant::SignalWorkflow(SignalWorkflow {
                signal_name: "approve".to_owned(),
                input: input(),
                identity: "client".to_owned(),
                headers: write_headers(headers()),
                originating_event_id: 5,
            }),
            Job::Signal {
                name: "approve".to_owned(),
                input: vec![tea()],
                headers: headers(),
                identity: "client".to_owned(),
            },
        ),
        (
            Variant::QueryWorkflow(QueryWorkflow {
                query_id: "legacy".to_owned(),
                query_type: "status".to_owned(),
                arguments: input(),
                headers: write_headers(headers()),
            }),
            Job::Query {
                id: "legacy".to_owned(),
                name: "status".to_owned(),
                input: vec![tea()],
                headers: headers(),
            },
        ),
        (
            Variant::DoUpdate(DoUpdate {
                id: "u".to_owned(),
                protocol_instance_id: "p".to_owned(),
                name: "raise".to_owned(),
                input: input(),
                headers: write_headers(headers()),
                meta: Some(Meta { update_id: String::new(), identity: "client".to_owned() }),
                run_validator: true,
            }),
            Job::Update {
                id: "u".to_owned(),
                protocol_id: "p".to_owned(),
                name: "raise".to_owned(),
                input: vec![tea()],
                headers: headers(),
                identity: "client".to_owned(),
                run_validator: true,
            },
        ),
        (
            Variant::NotifyHasPatch(NotifyHasPatch { patch_id: "new".to_owned() }),
            Job::Patch { id: "new".to_owned() },
        ),
        (
            Variant::RemoveFromCache(RemoveFromCache { message: "full".to_owned(), reason: 1 }),
            Job::Evict { reason: "full".to_owned() },
        ),
    ];
    for (wire, expected) in table {
        assert_eq!(read(wire).unwrap(), expected);
    }
}

#[test]
fn every_end_of_an_activity_is_read() {
    use activity_resolution::Status;
    let result = || Some(write_payload(tea()));
    let table = [
        (
            Status::Completed(activity_result::Success { result: result() }),
            ActivityResolution::Completed { result: Some(tea()) },
        ),
        (
            Status::Completed(activity_result::Success { result: None }),
            ActivityResolution::Completed { result: None },
        ),
        (
            Status::Failed(activity_result::Failure { failure: wire_failure(), ..Default::default() }),
            ActivityResolution::Failed { failure: broke() },
        ),
        (
            Status::Cancelled(activity_result::Cancellation { failure: wire_failure() }),
            ActivityResolution::Cancelled { failure: broke() },
        ),
        (
            Status::Backoff(DoBackoff {
                attempt: 4,
                backoff_duration: seconds(90),
                original_schedule_time: Some(Timestamp { seconds: 3, nanos: 0 }),
            }),
            ActivityResolution::Backoff {
                attempt: 4,
                delay: Duration::from_secs(90),
                original_schedule_time: Some(Time::from_micros(3_000_000)),
            },
        ),
    ];
    for (status, resolution) in table {
        for is_local in [false, true] {
            let result = Some(WireActivityResolution { status: Some(status.clone()) });
            let wire = Variant::ResolveActivity(ResolveActivity { seq: 2, result, is_local });
            let expected = if is_local {
                Job::ResolveLocalActivity { seq: CommandSeq::new(2), resolution: resolution.clone() }
            } else {
                Job::ResolveActivity { seq: CommandSeq::new(2), resolution: resolution.clone() }
            };
            assert_eq!(read(wire).unwrap(), expected);
        }
    }
}

#[test]
fn both_phases_of_a_child_are_read() {
    use resolve_child_workflow_execution_start::Status as Started;
    let refused = |cause| {
        Started::Failed(ResolveChildWorkflowExecutionStartFailure {
            workflow_id: "w".to_owned(),
            workflow_type: "ship".to_owned(),
            cause,
        })
    };
    let not_started = |cause| ChildStartResolution::Failed {
        cause,
        workflow_id: "w".to_owned(),
        workflow_type: "ship".to_owned(),
    };
    let started = ResolveChildWorkflowExecutionStartSuccess { run_id: "r".to_owned() };
    let cancelled = ResolveChildWorkflowExecutionStartCancelled { failure: wire_failure() };
    for (status, resolution) in [
        (Started::Succeeded(started), ChildStartResolution::Started { run_id: "r".to_owned() }),
        (refused(0), not_started(ChildStartFailure::Unspecified)),
        (refused(1), not_started(ChildStartFailure::AlreadyExists)),
        (refused(2), not_started(ChildStartFailure::NamespaceNotFound)),
        (Started::Cancelled(cancelled), ChildStartResolution::Cancelled { failure: broke() }),
    ] {
        let wire = ResolveChildWorkflowExecutionStart { seq: 6, status: Some(status) };
        let expected = Job::ResolveChildStart { seq: CommandSeq::new(6), resolution };
        assert_eq!(read(Variant::ResolveChildWorkflowExecutionStart(wire)).unwrap(), expected);
    }

    use child_workflow_result::Status as Ended;
    let result = Some(write_payload(tea()));
    for (status, resolution) in [
        (
            Ended::Completed(child_workflow::Success { result }),
            ChildResolution::Completed { result: Some(tea()) },
        ),
        (
            Ended::Failed(child_workflow::Failure { failure: wire_failure() }),
            ChildResolution::Failed { failure: broke() },
        ),
        (
            Ended::Cancelled(child_workflow::Cancellation { failure: wire_failure() }),
            ChildResolution::Cancelled { failure: broke() },
        ),
    ] {
        let result = Some(ChildWorkflowResult { status: Some(status) });
        let wire = ResolveChildWorkflowExecution { seq: 6, result };
        let expected = Job::ResolveChild { seq: CommandSeq::new(6), resolution };
        assert_eq!(read(Variant::ResolveChildWorkflowExecution(wire)).unwrap(), expected);
    }
}

#[test]
fn what_became_of_messages_to_others_is_read_by_its_own_kind() {
    for (failure, expected) in [(None, None), (wire_failure(), Some(broke()))] {
        let signal = ResolveSignalExternalWorkflow { seq: 8, failure: failure.clone(), cause: 0 };
        assert_eq!(
            read(Variant::ResolveSignalExternalWorkflow(signal)).unwrap(),
            Job::ResolveExternalSignal { seq: CommandSeq::new(8), failure: expected.clone() }
        );
        let cancel = ResolveRequestCancelExternalWorkflow { seq: 8, failure, cause: 0 };
        assert_eq!(
            read(Variant::ResolveRequestCancelExternalWorkflow(cancel)).unwrap(),
            Job::ResolveExternalCancel { seq: CommandSeq::new(8), failure: expected }
        );
    }
}

#[test]
fn what_cannot_be_read_says_what_it_is() {
    let failed = activity_resolution::Status::Failed(activity_result::Failure::default());
    let overridden = ResolveChildWorkflowExecutionStartFailure { cause: 3, ..Default::default() };
    let overridden = resolve_child_workflow_execution_start::Status::Failed(overridden);
    for (wire, expected) in [
        (
            Variant::ResolveNexusOperationStart(ResolveNexusOperationStart::default()),
            "the start of a Nexus operation",
        ),
        (Variant::ResolveNexusOperation(ResolveNexusOperation::default()), "the result of a Nexus operation"),
        (Variant::ResolveActivity(ResolveActivity::default()), "has no status"),
        (
            Variant::ResolveActivity(ResolveActivity {
                result: Some(WireActivityResolution { status: Some(failed) }),
                ..Default::default()
            }),
            "has no failure",
        ),
        (
            Variant::ResolveChildWorkflowExecutionStart(ResolveChildWorkflowExecutionStart::default()),
            "has no status",
        ),
        (
            Variant::ResolveChildWorkflowExecutionStart(ResolveChildWorkflowExecutionStart {
                status: Some(overridden),
                ..Default::default()
            }),
            "a child's versioning override",
        ),
        (
            Variant::InitializeWorkflow(InitializeWorkflow { attempt: -1, ..Default::default() }),
            "the attempt of a run is out of range: -1",
        ),
    ] {
        let wrong = read(wire).unwrap_err().to_string();
        assert!(wrong.contains(expected), "{wrong:?} does not say {expected:?}");
    }
    let nothing = read_job(WorkflowActivationJob { variant: None }, &home(), 1).unwrap_err();
    assert!(nothing.to_string().contains("no variant"), "{nothing}");
}
