//! The stored form of every type that an event of a workflow is made of: each variant of each enum, each field of each struct,
//! set and not set. A variant or field that is added, renamed or removed fails here, or does not compile.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use seriatim_workflow::{
    ActivityOptions, ActivityResolution, CancellationType, ChildOptions, ChildResolution, ChildStartFailure,
    ChildStartResolution, Command, CommandSeq, ContinueAsNew, Execution, Failure, FailureInfo, Headers,
    IdReusePolicy, InputDigest, Job, Lineage, LocalActivityOptions, ParentClosePolicy, Path, Payload,
    QueryAnswer, RetryPolicy, RetryState, SignalTarget, Start, Time, TimeoutType, UpdateOutcome,
};
use seriatim_workflow_host::{
    Attempted, Begins, Ended, Next, ParentLink, Retry, RunRow, RunStatus, Turn, Wait, Waiting,
};

const GOLDEN: &str = include_str!("golden/forms-1.json");
const PAGE: &str = include_str!("../../../docs/workflows-format.md");

fn n<K>(number: u32) -> CommandSeq<K> {
    CommandSeq::new(number)
}

fn s(text: &str) -> String {
    text.to_owned()
}

fn tea() -> Payload {
    Payload::json("tea").unwrap()
}

fn at(micros: u64) -> Time {
    Time::from_micros(micros)
}

fn ms(millis: u64) -> Option<Duration> {
    Some(Duration::from_millis(millis))
}

fn notes(key: &str) -> Headers {
    [(s(key), tea())].into()
}

fn payloads() -> Vec<Payload> {
    let mut noted = tea();
    noted.metadata.insert(s("note"), "n".into());
    vec![tea(), Payload::null(), Payload::encoded("binary/plain", vec![0xff, 0]), noted, Payload::default()]
}

fn executions() -> Vec<Execution> {
    vec![
        Execution { namespace: s("n"), workflow_id: s("w"), run_id: s("1-2") },
        Execution { namespace: s(""), workflow_id: s("w"), run_id: s("") },
    ]
}

fn retry_policies() -> Vec<RetryPolicy> {
    vec![
        RetryPolicy {
            initial_interval: Duration::from_millis(1_500),
            backoff_coefficient: 2.5,
            maximum_interval: ms(60_000),
            maximum_attempts: 3,
            non_retryable_error_types: vec![s("No")],
        },
        RetryPolicy::default(),
    ]
}

fn infos() -> Vec<FailureInfo> {
    let details = vec![tea()];
    vec![
        FailureInfo::Unspecified,
        FailureInfo::Application {
            error_type: s("E"),
            non_retryable: true,
            details: details.clone(),
            next_retry_delay: ms(1_500),
            category: 1,
        },
        FailureInfo::Application {
            error_type: s("E"),
            non_retryable: false,
            details: Vec::new(),
            next_retry_delay: None,
            category: 0,
        },
        FailureInfo::Timeout { timeout: TimeoutType::Heartbeat, last_heartbeat_details: details.clone() },
        FailureInfo::Timeout { timeout: TimeoutType::StartToClose, last_heartbeat_details: Vec::new() },
        FailureInfo::Cancelled { details: details.clone() },
        FailureInfo::Cancelled { details: Vec::new() },
        FailureInfo::Terminated,
        FailureInfo::Server { non_retryable: true },
        FailureInfo::ResetWorkflow { last_heartbeat_details: details },
        FailureInfo::ResetWorkflow { last_heartbeat_details: Vec::new() },
        FailureInfo::Activity {
            activity_type: s("charge"),
            activity_id: s("1"),
            identity: s("me"),
            retry_state: RetryState::MaximumAttemptsReached,
            scheduled_event_id: 5,
            started_event_id: 6,
        },
        FailureInfo::ChildWorkflow {
            namespace: s("n"),
            workflow_id: s("c"),
            run_id: s("2-1"),
            workflow_type: s("ship"),
            retry_state: RetryState::Timeout,
            initiated_event_id: 7,
            started_event_id: 8,
        },
    ]
}

fn failure() -> Failure {
    Failure::application("E", "it broke")
}

fn failures() -> Vec<Failure> {
    let full = Failure {
        message: s("m"),
        info: Box::new(FailureInfo::Terminated),
        cause: Some(Box::new(failure())),
        source: s("seriatim"),
        stack_trace: s("here"),
        encoded_attributes: Some(Box::new(tea())),
    };
    vec![full, Failure::new("m", FailureInfo::Unspecified)]
}

fn starts() -> Vec<Start> {
    let full = Start {
        workflow_type: s("order"),
        workflow_id: s("order-1"),
        input: vec![tea()],
        random_seed: 7,
        headers: notes("header"),
        memo: notes("memo"),
        search_attributes: notes("attribute"),
        attempt: 2,
        identity: s("me"),
        task_queue: s("q"),
        namespace: s("n"),
        start_time: at(1),
        parent: Some(executions().remove(0)),
        continued_from: Some(s("1-1")),
        first_run_id: s("1-1"),
        last_failure: Some(failure()),
        last_result: Some(tea()),
        cron_schedule: s("* * * * *"),
        retry_policy: Some(retry_policies().remove(0)),
        execution_timeout: ms(1),
        run_timeout: ms(2),
        task_timeout: ms(3),
        rules: 1,
    };
    vec![full, Start::default()]
}

fn activity_resolutions() -> Vec<ActivityResolution> {
    let backoff = |original_schedule_time| ActivityResolution::Backoff {
        attempt: 2,
        delay: Duration::from_millis(1_500),
        original_schedule_time,
    };
    vec![
        ActivityResolution::Completed { result: Some(tea()) },
        ActivityResolution::Completed { result: None },
        ActivityResolution::Failed { failure: failure() },
        ActivityResolution::Cancelled { failure: failure() },
        backoff(Some(at(5))),
        backoff(None),
    ]
}

fn child_start_resolutions() -> Vec<ChildStartResolution> {
    let cause = ChildStartFailure::AlreadyExists;
    vec![
        ChildStartResolution::Started { run_id: s("2-1") },
        ChildStartResolution::Failed { cause, workflow_id: s("c"), workflow_type: s("ship") },
        ChildStartResolution::Cancelled { failure: failure() },
    ]
}

fn child_resolutions() -> Vec<ChildResolution> {
    vec![
        ChildResolution::Completed { result: Some(tea()) },
        ChildResolution::Completed { result: None },
        ChildResolution::Failed { failure: failure() },
        ChildResolution::Cancelled { failure: failure() },
    ]
}

fn jobs() -> Vec<Job> {
    let update = |headers, identity, run_validator| Job::Update {
        id: s("u"),
        protocol_id: s("p"),
        name: s("change"),
        input: vec![tea()],
        headers,
        identity,
        run_validator,
    };
    let signal = |headers, identity| Job::Signal { name: s("s"), input: vec![tea()], headers, identity };
    vec![
        Job::Start(Box::new(starts().remove(0))),
        Job::FireTimer { seq: n(1) },
        Job::ResolveActivity { seq: n(2), resolution: activity_resolutions().remove(0) },
        Job::ResolveLocalActivity { seq: n(3), resolution: activity_resolutions().remove(0) },
        Job::ResolveChildStart { seq: n(4), resolution: child_start_resolutions().remove(0) },
        Job::ResolveChild { seq: n(5), resolution: child_resolutions().remove(0) },
        Job::ResolveExternalSignal { seq: n(6), failure: Some(failure()) },
        Job::ResolveExternalSignal { seq: n(6), failure: None },
        Job::ResolveExternalCancel { seq: n(7), failure: Some(failure()) },
        Job::ResolveExternalCancel { seq: n(7), failure: None },
        Job::Cancel { reason: s("enough") },
        signal(notes("header"), s("me")),
        signal(Headers::new(), s("")),
        Job::Query { id: s("q"), name: s("state"), input: vec![tea()], headers: notes("header") },
        Job::Query { id: s("q"), name: s("state"), input: Vec::new(), headers: Headers::new() },
        update(notes("header"), s("me"), true),
        update(Headers::new(), s(""), false),
        Job::Patch { id: s("faster") },
        Job::RandomSeed { seed: 9 },
        Job::Evict { reason: s("room") },
    ]
}

fn activity_options() -> Vec<ActivityOptions> {
    let full = ActivityOptions {
        activity_id: s("a"),
        task_queue: s("q"),
        headers: notes("header"),
        schedule_to_close_timeout: ms(1),
        schedule_to_start_timeout: ms(2),
        start_to_close_timeout: ms(3),
        heartbeat_timeout: ms(4),
        retry_policy: Some(RetryPolicy::never()),
        cancellation_type: CancellationType::WaitCompleted,
        do_not_eagerly_execute: true,
    };
    vec![full, ActivityOptions::default()]
}

fn local_activity_options() -> Vec<LocalActivityOptions> {
    let full = LocalActivityOptions {
        activity_id: s("a"),
        attempt: 2,
        original_schedule_time: Some(at(5)),
        headers: notes("header"),
        schedule_to_close_timeout: ms(1),
        schedule_to_start_timeout: ms(2),
        start_to_close_timeout: ms(3),
        retry_policy: Some(RetryPolicy::never()),
        local_retry_threshold: ms(4),
        cancellation_type: CancellationType::WaitCompleted,
    };
    vec![full, LocalActivityOptions::default()]
}

fn child_options() -> Vec<ChildOptions> {
    let full = ChildOptions {
        workflow_id: s("c"),
        namespace: s("n"),
        task_queue: s("q"),
        headers: notes("header"),
        memo: notes("memo"),
        search_attributes: notes("attribute"),
        execution_timeout: ms(1),
        run_timeout: ms(2),
        task_timeout: ms(3),
        parent_close_policy: ParentClosePolicy::Abandon,
        cancellation_type: CancellationType::WaitRequested,
        id_reuse_policy: IdReusePolicy::RejectDuplicate,
        retry_policy: Some(RetryPolicy::never()),
        cron_schedule: s("* * * * *"),
    };
    vec![full, ChildOptions::default()]
}

fn continues() -> Vec<ContinueAsNew> {
    let full = ContinueAsNew {
        workflow_type: s("order"),
        task_queue: s("q"),
        input: vec![tea()],
        headers: notes("header"),
        memo: notes("memo"),
        search_attributes: notes("attribute"),
        run_timeout: ms(1),
        task_timeout: ms(2),
        retry_policy: Some(RetryPolicy::never()),
    };
    vec![full, ContinueAsNew::default()]
}

fn signal_targets() -> Vec<SignalTarget> {
    vec![SignalTarget::Workflow(executions().remove(0)), SignalTarget::Child { workflow_id: s("c") }]
}

fn query_answers() -> Vec<QueryAnswer> {
    vec![QueryAnswer::Answered { result: tea() }, QueryAnswer::Failed { failure: failure() }]
}

fn update_outcomes() -> Vec<UpdateOutcome> {
    vec![UpdateOutcome::Completed { result: tea() }, UpdateOutcome::Failed { failure: failure() }]
}

fn commands() -> Vec<Command> {
    let path = || -> Path { "/2/1#3".parse().unwrap() };
    let lineage = || Lineage { path: path(), digest: InputDigest::of(&[tea()]) };
    let input = || vec![tea()];
    let without_input = Lineage { path: path(), digest: InputDigest::of(&[]) };
    let activity = |options| Command::ScheduleActivity {
        seq: n(2),
        lineage: lineage(),
        activity_type: s("charge"),
        input: input(),
        options,
    };
    let signal = |headers| Command::SignalExternal {
        seq: n(5),
        lineage: lineage(),
        target: signal_targets().remove(0),
        name: s("s"),
        input: input(),
        headers,
    };
    vec![
        Command::StartTimer { seq: n(1), lineage: without_input, duration: Duration::from_millis(1_500) },
        Command::CancelTimer { seq: n(1), path: path() },
        activity(Box::new(activity_options().remove(0))),
        Command::CancelActivity { seq: n(2), path: path() },
        Command::ScheduleLocalActivity {
            seq: n(3),
            lineage: lineage(),
            activity_type: s("look"),
            input: input(),
            options: Box::new(local_activity_options().remove(0)),
        },
        Command::CancelLocalActivity { seq: n(3), path: path() },
        Command::StartChild {
            seq: n(4),
            lineage: lineage(),
            workflow_type: s("ship"),
            input: input(),
            options: Box::new(child_options().remove(0)),
        },
        Command::CancelChild { seq: n(4), path: path(), reason: s("enough") },
        signal(notes("header")),
        signal(Headers::new()),
        Command::CancelSignal { seq: n(5), path: path() },
        Command::CancelExternal {
            seq: n(6),
            lineage: lineage(),
            target: executions().remove(0),
            reason: s("enough"),
        },
        Command::SetPatch { id: s("faster"), deprecated: true, path: path() },
        Command::RecordSideEffect { lineage: lineage(), value: tea() },
        Command::UpsertSearchAttributes { lineage: lineage(), attributes: notes("attribute") },
        Command::ModifyMemo { lineage: lineage(), memo: notes("memo") },
        Command::Complete { result: Some(tea()) },
        Command::Complete { result: None },
        Command::Fail { failure: failure() },
        Command::Cancelled,
        Command::ContinueAsNew { options: Box::new(continues().remove(0)) },
        Command::QueryAnswer { id: s("q"), answer: query_answers().remove(0) },
        Command::UpdateAccepted { protocol_id: s("p") },
        Command::UpdateRejected { protocol_id: s("p"), failure: failure() },
        Command::UpdateCompleted { protocol_id: s("p"), outcome: update_outcomes().remove(0) },
    ]
}

fn run_rows() -> Vec<RunRow> {
    let full = RunRow {
        run: 2,
        id: s("w"),
        workflow_type: s("order"),
        status: RunStatus::Completed,
        started: 1,
        ended: Some(2),
        from: 3,
        to: Some(4),
        next: Some(3),
        has_undelivered: true,
    };
    let bare = RunRow {
        status: RunStatus::Running,
        ended: None,
        to: None,
        next: None,
        has_undelivered: false,
        ..full.clone()
    };
    vec![full, bare]
}

fn begins() -> Vec<Begins> {
    let parent = ParentLink { workspace: 9, run: 1, seq: 2, policy: ParentClosePolicy::RequestCancel };
    vec![Begins { parent: Some(parent), deadline: Some(at(9)) }, Begins { parent: None, deadline: None }]
}

/// The values of all types, by the names that they have in the file.
#[derive(Default)]
struct Forms(serde_json::Map<String, Value>);

/// The variants of an enum, as serde knows them: it names them when it is given another one.
fn variants<T: DeserializeOwned + Debug>(tag: Option<&str>) -> BTreeSet<String> {
    let unknown = tag.map_or(json!("?"), |tag| json!({ tag: "?" }));
    let error = serde_json::from_value::<T>(unknown).unwrap_err().to_string();
    let (_, expected) = error.split_once("expected").unwrap();
    expected.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

impl Forms {
    /// A type with its values: each is read as it was written.
    #[allow(clippy::needless_pass_by_value, reason = "callers make the values in place")]
    fn add<T: Serialize + DeserializeOwned + PartialEq + Debug>(&mut self, name: &str, values: Vec<T>) {
        let written = serde_json::to_value(&values).unwrap();
        let read: Vec<T> = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(read, values, "{name}");
        self.0.insert(name.to_owned(), written);
    }

    /// An enum with its values, of which there is at least one for each variant.
    fn add_enum<T>(&mut self, name: &str, tag: Option<&str>, values: Vec<T>)
    where
        T: Serialize + DeserializeOwned + PartialEq + Debug,
    {
        self.add(name, values);
        let of = |value: &Value| {
            let named = tag.map_or(value, |tag| &value[tag]);
            let outer = named.as_object().and_then(|fields| fields.keys().next().map(String::as_str));
            outer.or_else(|| named.as_str()).unwrap().to_owned()
        };
        let here: BTreeSet<String> = self.0[name].as_array().unwrap().iter().map(of).collect();
        assert_eq!(here, variants::<T>(tag), "each variant of {name} has a value here");
        for variant in here {
            assert!(
                PAGE.contains(&format!("`{variant}`")),
                "docs/workflows-format.md has no `{variant}` ({name})"
            );
        }
    }
}

fn forms() -> Forms {
    let mut forms = Forms::default();
    forms.add("payload", payloads());
    forms.add("execution", executions());
    forms.add("retry_policy", retry_policies());
    forms.add("failure", failures());
    forms.add("start", starts());
    forms.add("activity_options", activity_options());
    forms.add("local_activity_options", local_activity_options());
    forms.add("child_options", child_options());
    forms.add("continue_as_new", continues());
    forms.add("run_row", run_rows());
    forms.add("begins", begins());
    forms.add(
        "turn",
        vec![
            Turn {
                time: at(5),
                suggested: true,
                jobs: vec![Job::FireTimer { seq: n(1) }],
                commands: vec![Command::Cancelled],
            },
            Turn { time: at(5), suggested: false, jobs: Vec::new(), commands: Vec::new() },
        ],
    );
    forms.add(
        "retry",
        vec![
            Retry { activity: 1, attempt: 2, at: at(5), failure: failure(), details: vec![tea()] },
            Retry { activity: 1, attempt: 2, at: at(5), failure: failure(), details: Vec::new() },
        ],
    );
    forms.add(
        "attempted",
        vec![
            Attempted { activity: 1, attempt: 2, details: Some(vec![tea()]) },
            Attempted { activity: 1, attempt: 2, details: None },
        ],
    );
    forms.add("ended", vec![Ended { status: RunStatus::Terminated, failure: failure(), time: at(5) }]);
    let start = Box::new(Start::new("order", "order-1", vec![tea()]));
    forms.add("next", vec![Next { run: 4, at: at(5), start, begins: begins().remove(0) }]);
    forms.add_enum("job", Some("job"), jobs());
    forms.add_enum("command", Some("command"), commands());
    forms.add_enum("failure_info", Some("type"), infos());
    forms.add_enum("activity_resolution", Some("outcome"), activity_resolutions());
    forms.add_enum("child_start_resolution", Some("outcome"), child_start_resolutions());
    forms.add_enum("child_resolution", Some("outcome"), child_resolutions());
    forms.add_enum("signal_target", Some("to"), signal_targets());
    forms.add_enum("query_answer", Some("outcome"), query_answers());
    forms.add_enum("update_outcome", Some("outcome"), update_outcomes());
    let (run, until) = (2, Some(5));
    let waits =
        vec![Wait::Begins(Waiting { run, until }), Wait::Begins(Waiting { run, until: None }), Wait::Over];
    forms.add_enum("wait", None, waits);
    forms.add_enum("run_status", None, RunStatus::ALL.to_vec());
    use CancellationType as Cancel;
    forms.add_enum(
        "cancellation_type",
        None,
        vec![Cancel::TryCancel, Cancel::WaitCompleted, Cancel::WaitRequested, Cancel::Abandon],
    );
    use ParentClosePolicy as Close;
    forms.add_enum("parent_close_policy", None, vec![Close::Terminate, Close::Abandon, Close::RequestCancel]);
    use IdReusePolicy as Reuse;
    forms.add_enum(
        "id_reuse_policy",
        None,
        vec![
            Reuse::AllowDuplicate,
            Reuse::AllowDuplicateFailedOnly,
            Reuse::RejectDuplicate,
            Reuse::TerminateIfRunning,
        ],
    );
    use ChildStartFailure as NotStarted;
    forms.add_enum(
        "child_start_failure",
        None,
        vec![
            NotStarted::Unspecified,
            NotStarted::AlreadyExists,
            NotStarted::NamespaceNotFound,
            NotStarted::UnknownType,
        ],
    );
    use TimeoutType as Timeout;
    forms.add_enum(
        "timeout_type",
        None,
        vec![
            Timeout::Unspecified,
            Timeout::StartToClose,
            Timeout::ScheduleToStart,
            Timeout::ScheduleToClose,
            Timeout::Heartbeat,
        ],
    );
    forms.add_enum(
        "retry_state",
        None,
        vec![
            RetryState::Unspecified,
            RetryState::InProgress,
            RetryState::NonRetryableFailure,
            RetryState::Timeout,
            RetryState::MaximumAttemptsReached,
            RetryState::RetryPolicyNotSet,
            RetryState::InternalServerError,
            RetryState::CancelRequested,
        ],
    );
    forms
}

#[test]
fn each_type_has_the_form_that_it_had() {
    let golden: serde_json::Map<String, Value> = serde_json::from_str(GOLDEN).unwrap();
    let forms = forms().0;
    for (name, values) in &forms {
        let before = golden.get(name).unwrap_or_else(|| panic!("golden/forms-1.json has no {name}"));
        for (place, value) in values.as_array().unwrap().iter().enumerate() {
            assert_eq!(Some(value), before.get(place), "value {place} of {name}");
        }
    }
    let stored = serde_json::to_string_pretty(&forms).unwrap();
    assert_eq!(stored, GOLDEN.trim_end());
}

/// The names of all fields, those of notes excepted, which are the sender's.
fn fields(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                found.insert(name.clone());
                if !["headers", "memo", "search_attributes", "attributes", "metadata"]
                    .contains(&name.as_str())
                {
                    fields(value, found);
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| fields(value, found)),
        _ => {}
    }
}

#[test]
fn the_page_about_the_format_names_every_field() {
    let mut found = BTreeSet::new();
    forms().0.values().for_each(|values| fields(values, &mut found));
    assert!(found.len() > 80, "{}", found.len());
    let missing: Vec<&String> = found.iter().filter(|name| !PAGE.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "docs/workflows-format.md does not say what these are: {missing:?}");
}
