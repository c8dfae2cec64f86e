//! The bytes of a workflow's events: what is stored is read by every later version.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use serde_json::Value;
use seriatim_workflow::{
    ActivityOptions, ActivityResolution, ChildOptions, ChildResolution, ChildStartFailure,
    ChildStartResolution, Command, CommandSeq, ContinueAsNew, Execution, Failure, Headers, InputDigest, Job,
    Lineage, LocalActivityOptions, ParentClosePolicy, Payload, RetryPolicy, SignalTarget, Start, Time,
    TimeoutType, UpdateOutcome,
};
use seriatim_workflow_host::{
    Attempted, BadEntry, Begins, Ended, Entry, Next, ParentLink, Retry, RunStatus, Turn,
};

fn n<K>(number: u32) -> CommandSeq<K> {
    CommandSeq::new(number)
}

fn tea() -> Payload {
    Payload::json("tea").unwrap()
}

fn lineage(path: &str) -> Lineage {
    Lineage { path: path.parse().unwrap(), digest: InputDigest::of(&[tea()]) }
}

fn start() -> Start {
    Start {
        random_seed: 7,
        start_time: Time::from_micros(1),
        retry_policy: Some(RetryPolicy::attempts(3)),
        run_timeout: Some(Duration::from_millis(1_500)),
        parent: Some(Execution {
            workflow_id: "p".to_owned(),
            run_id: "1-1".to_owned(),
            ..Default::default()
        }),
        ..Start::new("order", "order-1", vec![tea()])
    }
}

fn broke() -> Failure {
    Failure::application("Broke", "it broke").caused_by(Failure::timeout(TimeoutType::Heartbeat, "late"))
}

fn headers() -> Headers {
    [("k".to_owned(), tea())].into()
}

fn jobs() -> Vec<Job> {
    let (input, identity) = (vec![tea()], "somebody".to_owned());
    vec![
        Job::Start(Box::new(start())),
        Job::FireTimer { seq: n(1) },
        Job::ResolveActivity { seq: n(1), resolution: ActivityResolution::Completed { result: Some(tea()) } },
        Job::ResolveActivity { seq: n(2), resolution: ActivityResolution::Failed { failure: broke() } },
        Job::ResolveActivity {
            seq: n(3),
            resolution: ActivityResolution::Cancelled { failure: Failure::cancelled("enough") },
        },
        Job::ResolveLocalActivity {
            seq: n(1),
            resolution: ActivityResolution::Completed { result: Some(Payload::null()) },
        },
        Job::ResolveChildStart {
            seq: n(1),
            resolution: ChildStartResolution::Started { run_id: "2-1".to_owned() },
        },
        Job::ResolveChildStart {
            seq: n(2),
            resolution: ChildStartResolution::Failed {
                cause: ChildStartFailure::AlreadyExists,
                workflow_id: "c".to_owned(),
                workflow_type: "ship".to_owned(),
            },
        },
        Job::ResolveChild { seq: n(1), resolution: ChildResolution::Completed { result: None } },
        Job::ResolveChild { seq: n(3), resolution: ChildResolution::Failed { failure: broke() } },
        Job::ResolveExternalSignal { seq: n(1), failure: None },
        Job::ResolveExternalCancel { seq: n(1), failure: Some(broke()) },
        Job::Cancel { reason: "enough".to_owned() },
        Job::Signal {
            name: "s".to_owned(),
            input: input.clone(),
            headers: headers(),
            identity: identity.clone(),
        },
        Job::Update {
            id: "u".to_owned(),
            protocol_id: "u".to_owned(),
            name: "change".to_owned(),
            input,
            headers: Headers::new(),
            identity,
            run_validator: false,
        },
    ]
}

fn commands() -> Vec<Command> {
    let (name, input, path) = ("x".to_owned(), vec![tea()], || "/2/1#3".parse().unwrap());
    let target = Execution { workflow_id: "w".to_owned(), ..Execution::default() };
    vec![
        Command::StartTimer { seq: n(1), lineage: lineage("/#1"), duration: Duration::from_millis(1_500) },
        Command::CancelTimer { seq: n(1), path: path() },
        Command::ScheduleActivity {
            seq: n(1),
            lineage: lineage("/#2"),
            activity_type: name.clone(),
            input: input.clone(),
            options: Box::new(ActivityOptions {
                start_to_close_timeout: Some(Duration::from_secs(5)),
                retry_policy: Some(RetryPolicy::never()),
                ..ActivityOptions::default()
            }),
        },
        Command::CancelActivity { seq: n(1), path: path() },
        Command::ScheduleLocalActivity {
            seq: n(1),
            lineage: lineage("/#3"),
            activity_type: name.clone(),
            input: input.clone(),
            options: Box::new(LocalActivityOptions::default()),
        },
        Command::CancelLocalActivity { seq: n(1), path: path() },
        Command::StartChild {
            seq: n(1),
            lineage: lineage("/#4"),
            workflow_type: name.clone(),
            input: input.clone(),
            options: Box::new(ChildOptions { workflow_id: "c".to_owned(), ..ChildOptions::default() }),
        },
        Command::CancelChild { seq: n(1), path: path(), reason: "enough".to_owned() },
        Command::SignalExternal {
            seq: n(1),
            lineage: lineage("/#5"),
            target: SignalTarget::Workflow(target.clone()),
            name: name.clone(),
            input: input.clone(),
            headers: Headers::new(),
        },
        Command::SignalExternal {
            seq: n(2),
            lineage: lineage("/#6"),
            target: SignalTarget::Child { workflow_id: "c".to_owned() },
            name: name.clone(),
            input: input.clone(),
            headers: headers(),
        },
        Command::CancelSignal { seq: n(1), path: path() },
        Command::CancelExternal { seq: n(1), lineage: lineage("/#7"), target, reason: "enough".to_owned() },
        Command::SetPatch { id: name, deprecated: false, path: path() },
        Command::RecordSideEffect { lineage: lineage("/#8"), value: tea() },
        Command::UpsertSearchAttributes { lineage: lineage("/#9"), attributes: headers() },
        Command::ModifyMemo { lineage: lineage("/#10"), memo: headers() },
        Command::UpdateAccepted { protocol_id: "u".to_owned() },
        Command::UpdateCompleted {
            protocol_id: "u".to_owned(),
            outcome: UpdateOutcome::Completed { result: tea() },
        },
        Command::UpdateCompleted {
            protocol_id: "v".to_owned(),
            outcome: UpdateOutcome::Failed { failure: broke() },
        },
        Command::Complete { result: Some(tea()) },
        Command::Fail { failure: broke() },
        Command::Cancelled,
        Command::ContinueAsNew { options: Box::new(ContinueAsNew { input, ..ContinueAsNew::default() }) },
    ]
}

/// An event with everything that one can say. (No run has all of it at once.)
fn everything() -> Entry {
    let begins = Begins {
        parent: Some(ParentLink { workspace: 9, run: 1, seq: 2, policy: ParentClosePolicy::Terminate }),
        deadline: Some(Time::from_micros(9)),
    };
    let at = Time::from_micros(5);
    Entry {
        run: 3,
        begins: Some(begins.clone()),
        start: Some(Box::new(start())),
        turns: vec![Turn { time: at, suggested: true, jobs: jobs(), commands: commands() }],
        retries: vec![Retry { activity: 1, attempt: 2, at, failure: broke(), details: vec![tea()] }],
        attempts: vec![
            Attempted { activity: 1, attempt: 2, details: None },
            Attempted { activity: 1, attempt: 2, details: Some(vec![tea()]) },
        ],
        arrived: vec![Job::Cancel { reason: "enough".to_owned() }],
        ended: Some(Ended { status: RunStatus::TimedOut, failure: broke(), time: at }),
        next: Some(Next { run: 4, at, start: Box::new(start()), begins }),
        delivered: true,
    }
}

const FORMAT_1: &str = include_str!("golden/entry-1.json");

#[test]
fn an_event_is_stored_as_it_was() {
    let stored = serde_json::to_string_pretty(&everything().to_body().unwrap()).unwrap();
    assert_eq!(stored, FORMAT_1.trim_end());
    let read = Entry::from_body(serde_json::from_str(FORMAT_1).unwrap()).unwrap();
    assert_eq!(read, everything());
}

/// Events before there was a number: the same, without what was added with it.
#[test]
fn an_event_without_a_format_is_read() {
    let mut body: Value = serde_json::from_str(FORMAT_1).unwrap();
    let fields = body.as_object_mut().unwrap();
    for added in ["v", "start", "attempts", "arrived"] {
        fields.remove(added).unwrap();
    }
    let turn = fields["turns"][0].as_object_mut().unwrap();
    turn.remove("suggested").unwrap();
    turn["jobs"][0].as_object_mut().unwrap().remove("rules").unwrap();
    fields["next"]["start"].as_object_mut().unwrap().remove("rules").unwrap();
    let mut before = everything();
    (before.start, before.attempts, before.arrived) = (None, Vec::new(), Vec::new());
    before.turns[0].suggested = false;
    if let Job::Start(start) = &mut before.turns[0].jobs[0] {
        start.rules = 0;
    }
    before.next.as_mut().unwrap().start.rules = 0;
    assert_eq!(Entry::from_body(body), Ok(before));
}

#[test]
fn an_event_of_a_newer_version_is_refused_as_such() {
    let mut body: Value = serde_json::from_str(FORMAT_1).unwrap();
    body["v"] = 2.into();
    let error = Entry::from_body(body).unwrap_err();
    assert_eq!(error, BadEntry::Newer { found: 2, known: 1 });
    assert!(error.to_string().contains("use the version that wrote it, or a newer one"), "{error}");
}
