//! Each command of a run, and the core's command for it.

use seriatim_workflow::kind::CommandSeq;
use seriatim_workflow::{
    Difference, DifferenceKind, Headers, InputDigest, Lineage, Path, RetryPolicy, Time, UnmatchedResponse,
};
use temporalio_common::protos::coresdk::workflow_commands::WorkflowCommand;

use super::*;

const TIMEOUT: Duration = Duration::from_secs(60);

fn home() -> Home {
    Home { namespace: "here".to_owned(), task_queue: "q".to_owned() }
}

fn write(command: Command) -> Result<Variant, Untranslatable> {
    let home = home();
    write_command(command, Defaults { home: &home, workflow_type: "order", activity_timeout: TIMEOUT })
}

fn path() -> Path {
    "/#1".parse().unwrap()
}

fn lineage() -> Lineage {
    Lineage { path: path(), digest: InputDigest::NONE }
}

fn tea() -> Payload {
    Payload::json("tea").unwrap()
}

fn headers() -> Headers {
    Headers::from([("trace".to_owned(), Payload::json("t-1").unwrap())])
}

fn broke() -> Failure {
    Failure::application("Broke", "it broke")
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn every_command_without_options_is_written() {
    let failure = || write_failure(broke()).unwrap();
    let external = |namespace: &str| NamespacedWorkflowExecution {
        namespace: namespace.to_owned(),
        workflow_id: "w".to_owned(),
        run_id: "r".to_owned(),
    };
    let other = |namespace: &str| Execution {
        namespace: namespace.to_owned(),
        workflow_id: "w".to_owned(),
        run_id: "r".to_owned(),
    };
    let signal = |target| Command::SignalExternal {
        seq: CommandSeq::new(4),
        lineage: lineage(),
        target,
        name: "approve".to_owned(),
        input: vec![tea()],
        headers: headers(),
    };
    let wire_signal = |target| {
        Variant::SignalExternalWorkflowExecution(SignalExternalWorkflowExecution {
            seq: 4,
            target: Some(target),
            signal_name: "approve".to_owned(),
            args: vec![write_payload(tea())],
            headers: write_headers(headers()),
        })
    };
    let table = [
        (
            Command::StartTimer { seq: CommandSeq::new(1), lineage: lineage(), duration: seconds(5) },
            Variant::StartTimer(StartTimer {
                seq: 1,
                start_to_fire_timeout: Some(write_duration(seconds(5)).unwrap()),
            }),
        ),
        (
            Command::CancelTimer { seq: CommandSeq::new(1), path: path() },
            Variant::CancelTimer(CancelTimer { seq: 1 }),
        ),
        (
            Command::CancelActivity { seq: CommandSeq::new(2), path: path() },
            Variant::RequestCancelActivity(RequestCancelActivity { seq: 2 }),
        ),
        (
            Command::CancelLocalActivity { seq: CommandSeq::new(2), path: path() },
            Variant::RequestCancelLocalActivity(RequestCancelLocalActivity { seq: 2 }),
        ),
        (
            Command::CancelChild { seq: CommandSeq::new(3), path: path(), reason: "enough".to_owned() },
            Variant::CancelChildWorkflowExecution(CancelChildWorkflowExecution {
                child_workflow_seq: 3,
                reason: "enough".to_owned(),
            }),
        ),
        (
            signal(SignalTarget::Workflow(other("there"))),
            wire_signal(signal_external_workflow_execution::Target::WorkflowExecution(external("there"))),
        ),
        (
            signal(SignalTarget::Workflow(other(""))),
            wire_signal(signal_external_workflow_execution::Target::WorkflowExecution(external("here"))),
        ),
        (
            signal(SignalTarget::Child { workflow_id: "child".to_owned() }),
            wire_signal(signal_external_workflow_execution::Target::ChildWorkflowId("child".to_owned())),
        ),
        (
            Command::CancelSignal { seq: CommandSeq::new(4), path: path() },
            Variant::CancelSignalWorkflow(CancelSignalWorkflow { seq: 4 }),
        ),
        (
            Command::CancelExternal {
                seq: CommandSeq::new(5),
                lineage: lineage(),
                target: other(""),
                reason: "enough".to_owned(),
            },
            Variant::RequestCancelExternalWorkflowExecution(RequestCancelExternalWorkflowExecution {
                seq: 5,
                workflow_execution: Some(external("here")),
                reason: "enough".to_owned(),
            }),
        ),
        (
            Command::SetPatch { id: "new".to_owned(), deprecated: true, path: path() },
            Variant::SetPatchMarker(SetPatchMarker { patch_id: "new".to_owned(), deprecated: true }),
        ),
        (
            Command::UpsertSearchAttributes { lineage: lineage(), attributes: headers() },
            Variant::UpsertWorkflowSearchAttributes(UpsertWorkflowSearchAttributes {
                search_attributes: write_attributes(headers()),
            }),
        ),
        (
            Command::ModifyMemo { lineage: lineage(), memo: headers() },
            Variant::ModifyWorkflowProperties(ModifyWorkflowProperties {
                upserted_memo: Some(Memo { fields: write_headers(headers()) }),
            }),
        ),
        (
            Command::Complete { result: Some(tea()) },
            Variant::CompleteWorkflowExecution(CompleteWorkflowExecution {
                result: Some(write_payload(tea())),
            }),
        ),
        (
            Command::Fail { failure: broke() },
            Variant::FailWorkflowExecution(FailWorkflowExecution { failure: Some(failure()) }),
        ),
        (Command::Cancelled, Variant::CancelWorkflowExecution(CancelWorkflowExecution { details: None })),
    ];
    for (command, expected) in table {
        assert_eq!(write(command).unwrap(), expected);
    }
}

#[test]
fn every_answer_is_written() {
    let failure = || write_failure(broke()).unwrap();
    let query = |variant| {
        Variant::RespondToQuery(QueryResult { query_id: "legacy".to_owned(), variant: Some(variant) })
    };
    let update = |response| {
        let (protocol_instance_id, response) = ("p".to_owned(), Some(response));
        Variant::UpdateResponse(UpdateResponse { protocol_instance_id, response })
    };
    let protocol_id = || "p".to_owned();
    let answer = |answer| Command::QueryAnswer { id: "legacy".to_owned(), answer };
    let table = [
        (
            answer(QueryAnswer::Answered { result: tea() }),
            query(query_result::Variant::Succeeded(QuerySuccess { response: Some(write_payload(tea())) })),
        ),
        (answer(QueryAnswer::Failed { failure: broke() }), query(query_result::Variant::Failed(failure()))),
        (
            Command::UpdateAccepted { protocol_id: protocol_id() },
            update(update_response::Response::Accepted(())),
        ),
        (
            Command::UpdateRejected { protocol_id: protocol_id(), failure: broke() },
            update(update_response::Response::Rejected(failure())),
        ),
        (
            Command::UpdateCompleted {
                protocol_id: protocol_id(),
                outcome: UpdateOutcome::Completed { result: tea() },
            },
            update(update_response::Response::Completed(write_payload(tea()))),
        ),
        (
            Command::UpdateCompleted {
                protocol_id: protocol_id(),
                outcome: UpdateOutcome::Failed { failure: broke() },
            },
            update(update_response::Response::Rejected(failure())),
        ),
    ];
    for (command, expected) in table {
        assert_eq!(write(command).unwrap(), expected);
    }
}

fn activity(options: ActivityOptions) -> Command {
    Command::ScheduleActivity {
        seq: CommandSeq::new(2),
        lineage: lineage(),
        activity_type: "charge".to_owned(),
        input: vec![tea()],
        options: Box::new(options),
    }
}

#[test]
fn an_activity_keeps_all_its_options() {
    let timeout = |duration| write_timeout(Some(seconds(duration))).unwrap();
    let options = ActivityOptions {
        activity_id: "a-1".to_owned(),
        task_queue: "other".to_owned(),
        headers: headers(),
        schedule_to_close_timeout: Some(seconds(1)),
        schedule_to_start_timeout: Some(seconds(2)),
        start_to_close_timeout: Some(seconds(3)),
        heartbeat_timeout: Some(seconds(4)),
        retry_policy: Some(RetryPolicy::attempts(5)),
        cancellation_type: CancellationType::WaitCompleted,
        do_not_eagerly_execute: true,
    };
    let expected = ScheduleActivity {
        seq: 2,
        activity_id: "a-1".to_owned(),
        activity_type: "charge".to_owned(),
        task_queue: "other".to_owned(),
        headers: write_headers(headers()),
        arguments: vec![write_payload(tea())],
        schedule_to_close_timeout: timeout(1),
        schedule_to_start_timeout: timeout(2),
        start_to_close_timeout: timeout(3),
        heartbeat_timeout: timeout(4),
        retry_policy: Some(write_retry_policy(RetryPolicy::attempts(5)).unwrap()),
        cancellation_type: ActivityCancellationType::WaitCancellationCompleted.into(),
        do_not_eagerly_execute: true,
        ..ScheduleActivity::default()
    };
    assert_eq!(write(activity(options)).unwrap(), Variant::ScheduleActivity(expected));
}

#[test]
fn what_an_activity_leaves_unsaid_is_the_workers() {
    let Variant::ScheduleActivity(wire) = write(activity(ActivityOptions::default())).unwrap() else {
        panic!("not an activity")
    };
    assert_eq!((&*wire.activity_id, &*wire.task_queue), ("2", "q"));
    assert_eq!(wire.start_to_close_timeout, write_timeout(Some(TIMEOUT)).unwrap());
    let options = ActivityOptions { schedule_to_close_timeout: Some(seconds(9)), ..Default::default() };
    let Variant::ScheduleActivity(wire) = write(activity(options)).unwrap() else {
        panic!("not an activity")
    };
    assert_eq!(wire.start_to_close_timeout, None, "one time-out is enough");
}

#[test]
fn a_local_activity_that_was_put_off_keeps_its_attempt_and_its_beginning() {
    let options = LocalActivityOptions {
        attempt: 4,
        original_schedule_time: Some(Time::from_micros(3_000_000)),
        headers: headers(),
        schedule_to_start_timeout: Some(seconds(2)),
        start_to_close_timeout: Some(seconds(3)),
        retry_policy: Some(RetryPolicy::attempts(5)),
        local_retry_threshold: Some(seconds(6)),
        ..LocalActivityOptions::default()
    };
    let command = |options| Command::ScheduleLocalActivity {
        seq: CommandSeq::new(7),
        lineage: lineage(),
        activity_type: "hash".to_owned(),
        input: vec![tea()],
        options: Box::new(options),
    };
    let expected = ScheduleLocalActivity {
        seq: 7,
        activity_id: "7".to_owned(),
        activity_type: "hash".to_owned(),
        attempt: 4,
        original_schedule_time: Some(write_time(Time::from_micros(3_000_000)).unwrap()),
        headers: write_headers(headers()),
        arguments: vec![write_payload(tea())],
        schedule_to_start_timeout: write_timeout(Some(seconds(2))).unwrap(),
        start_to_close_timeout: write_timeout(Some(seconds(3))).unwrap(),
        retry_policy: Some(write_retry_policy(RetryPolicy::attempts(5)).unwrap()),
        local_retry_threshold: write_timeout(Some(seconds(6))).unwrap(),
        cancellation_type: ActivityCancellationType::TryCancel.into(),
        ..ScheduleLocalActivity::default()
    };
    assert_eq!(write(command(options)).unwrap(), Variant::ScheduleLocalActivity(expected));
    let Variant::ScheduleLocalActivity(first) = write(command(LocalActivityOptions::default())).unwrap()
    else {
        panic!("not a local activity")
    };
    assert_eq!(first.attempt, 1);
    assert_eq!(first.start_to_close_timeout, write_timeout(Some(TIMEOUT)).unwrap());
}

fn child(options: ChildOptions) -> Command {
    Command::StartChild {
        seq: CommandSeq::new(3),
        lineage: lineage(),
        workflow_type: "ship".to_owned(),
        input: vec![tea()],
        options: Box::new(options),
    }
}

#[test]
fn a_child_keeps_all_its_options() {
    let options = ChildOptions {
        workflow_id: "w".to_owned(),
        headers: headers(),
        memo: headers(),
        search_attributes: headers(),
        execution_timeout: Some(seconds(1)),
        run_timeout: Some(seconds(2)),
        task_timeout: Some(seconds(3)),
        parent_close_policy: ParentClosePolicy::RequestCancel,
        cancellation_type: CancellationType::WaitRequested,
        id_reuse_policy: IdReusePolicy::RejectDuplicate,
        retry_policy: Some(RetryPolicy::never()),
        cron_schedule: "@daily".to_owned(),
        ..ChildOptions::default()
    };
    let timeout = |duration| write_timeout(Some(seconds(duration))).unwrap();
    let expected = StartChildWorkflowExecution {
        seq: 3,
        namespace: "here".to_owned(),
        workflow_id: "w".to_owned(),
        workflow_type: "ship".to_owned(),
        task_queue: "q".to_owned(),
        input: vec![write_payload(tea())],
        workflow_execution_timeout: timeout(1),
        workflow_run_timeout: timeout(2),
        workflow_task_timeout: timeout(3),
        parent_close_policy: WireParentClosePolicy::RequestCancel.into(),
        workflow_id_reuse_policy: WorkflowIdReusePolicy::RejectDuplicate.into(),
        retry_policy: Some(write_retry_policy(RetryPolicy::never()).unwrap()),
        cron_schedule: "@daily".to_owned(),
        headers: write_headers(headers()),
        memo: write_headers(headers()),
        search_attributes: write_attributes(headers()),
        cancellation_type: ChildWorkflowCancellationType::WaitCancellationRequested.into(),
        ..StartChildWorkflowExecution::default()
    };
    assert_eq!(write(child(options)).unwrap(), Variant::StartChildWorkflowExecution(expected));
}

#[test]
fn a_run_that_continues_as_new_keeps_its_name_unless_it_says_otherwise() {
    for (workflow_type, task_queue, expected) in
        [("", "", ("order", "q")), ("other", "far", ("other", "far"))]
    {
        let options = ContinueAsNew {
            workflow_type: workflow_type.to_owned(),
            task_queue: task_queue.to_owned(),
            input: vec![tea()],
            headers: headers(),
            memo: headers(),
            search_attributes: headers(),
            run_timeout: Some(seconds(1)),
            task_timeout: Some(seconds(2)),
            retry_policy: Some(RetryPolicy::never()),
        };
        let expected = ContinueAsNewWorkflowExecution {
            workflow_type: expected.0.to_owned(),
            task_queue: expected.1.to_owned(),
            arguments: vec![write_payload(tea())],
            workflow_run_timeout: write_timeout(Some(seconds(1))).unwrap(),
            workflow_task_timeout: write_timeout(Some(seconds(2))).unwrap(),
            memo: write_headers(headers()),
            headers: write_headers(headers()),
            search_attributes: write_attributes(headers()),
            retry_policy: Some(write_retry_policy(RetryPolicy::never()).unwrap()),
            ..ContinueAsNewWorkflowExecution::default()
        };
        let command = Command::ContinueAsNew { options: Box::new(options) };
        assert_eq!(write(command).unwrap(), Variant::ContinueAsNewWorkflowExecution(expected));
    }
}

#[test]
fn what_temporal_cannot_carry_is_refused_by_name() {
    let wait_requested =
        ActivityOptions { cancellation_type: CancellationType::WaitRequested, ..ActivityOptions::default() };
    let too_often =
        ActivityOptions { retry_policy: Some(RetryPolicy::attempts(u32::MAX)), ..ActivityOptions::default() };
    for (command, expected) in [
        (activity(wait_requested), "wait_requested of activity \"charge\""),
        (activity(too_often), "maximum_attempts is out of range"),
        (
            Command::StartTimer { seq: CommandSeq::new(1), lineage: lineage(), duration: Duration::MAX },
            "a duration is out of range",
        ),
        (Command::RecordSideEffect { lineage: lineage(), value: tea() }, "a side effect without a number"),
    ] {
        let wrong = write(command).unwrap_err().to_string();
        assert!(wrong.contains(expected), "{wrong:?} does not say {expected:?}");
    }
}

fn complete(outcome: Result<Vec<Command>, ActivationFailure>) -> workflow_activation_completion::Status {
    let home = home();
    let defaults = Defaults { home: &home, workflow_type: "order", activity_timeout: TIMEOUT };
    let completion = write_completion(Completion { run_id: "run".to_owned(), outcome }, defaults);
    assert_eq!(completion.run_id, "run");
    completion.status.unwrap()
}

#[test]
fn commands_keep_their_order() {
    let commands = (1..=3).map(|seq| Command::CancelTimer { seq: CommandSeq::new(seq), path: path() });
    let workflow_activation_completion::Status::Successful(success) = complete(Ok(commands.collect())) else {
        panic!("it failed")
    };
    let expected: Vec<WorkflowCommand> =
        (1..=3).map(|seq| Variant::CancelTimer(CancelTimer { seq }).into()).collect();
    assert_eq!(success.commands, expected);
}

#[test]
fn a_fault_fails_the_task_and_says_why() {
    let difference = Difference {
        activation: 2,
        event: None,
        kind: DifferenceKind::Missing,
        expected: None,
        actual: None,
        value: None,
        call_site: None,
    };
    let table = [
        (
            Err(ActivationFailure::Nondeterminism { difference: Box::new(difference) }),
            WorkflowTaskFailedCause::NonDeterministicError,
            "a command of the history is not issued",
        ),
        (
            Err(UnmatchedResponse::ResultBeforeStart { seq: 3 }.into()),
            WorkflowTaskFailedCause::NonDeterministicError,
            "child workflow 3",
        ),
        (
            Err(ActivationFailure::Panicked { branch: "0".to_owned(), message: "the till".to_owned() }),
            WorkflowTaskFailedCause::WorkflowWorkerUnhandledFailure,
            "panicked: the till",
        ),
        (
            Ok(vec![Command::RecordSideEffect { lineage: lineage(), value: tea() }]),
            WorkflowTaskFailedCause::WorkflowWorkerUnhandledFailure,
            "a side effect without a number",
        ),
    ];
    for (outcome, cause, expected) in table {
        let workflow_activation_completion::Status::Failed(failed) = complete(outcome) else {
            panic!("it did not fail")
        };
        assert_eq!(failed.force_cause, i32::from(cause));
        let message = failed.failure.unwrap().message;
        assert!(message.contains(expected), "{message:?} does not say {expected:?}");
    }
}
