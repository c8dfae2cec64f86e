//! Tables: what each item leads to in each lifecycle, and what follows when an event is written or not.

use std::time::Duration;

use seriatim_engine::SubmitError;
use seriatim_storage::LogError;
use seriatim_types::WorkspaceId;
use seriatim_workflow::{
    ActivityResolution, Command, CommandSeq, Failure, Headers, InputDigest, Job, Lineage, Payload, Start,
    Time,
};
use tokio::sync::oneshot;

use super::ending::{self, Ending, Outcome};
use super::lifecycle::Lifecycle;
use super::writing::Writing;
use super::*;
use crate::application::RunStatus;
use crate::entry::{Begins, Entry, Next, Retry, Turn};
use crate::options::HostOptions;

const RUN: u64 = 3;
const NOW: Time = Time::from_micros(1_000_000_000);

fn check<T>(test: impl FnOnce(&Facts<'_>) -> T) -> T {
    let options = HostOptions { jobs_max: 3, jobs_bytes_max: 4_000, ..HostOptions::default() };
    test(&Facts { workspace: WorkspaceId::new(140_737_488_486_400), now: NOW, options: &options })
}

fn start() -> Start {
    Start { start_time: NOW, ..Start::new("test", "w", Vec::new()) }
}

fn open_run() -> OpenRun {
    let row = crate::application::RunRow { from: 5, ..ending::row(RUN, &start(), NOW) };
    let mut open = OpenRun::new(row, start(), Begins::default(), NOW);
    open.take(&Turn { time: NOW, suggested: false, jobs: Vec::new(), commands: vec![schedule(1), timer(1)] });
    open
}

fn lineage() -> Lineage {
    Lineage { path: "/#1".parse().unwrap(), digest: InputDigest::NONE }
}

fn schedule(seq: u32) -> Command {
    let (lineage, options) = (lineage(), Box::default());
    let (seq, activity_type) = (CommandSeq::new(seq), "charge".to_owned());
    Command::ScheduleActivity { seq, lineage, activity_type, input: Vec::new(), options }
}

fn timer(seq: u32) -> Command {
    Command::StartTimer { seq: CommandSeq::new(seq), lineage: lineage(), duration: Duration::from_secs(9) }
}

/// A state in each lifecycle: an activity and a timer of the open run are pending.
fn state(lifecycle: &str) -> State {
    let tail = || Tail { offset: 7, newest: Some(open_run().row) };
    let lifecycle = match lifecycle {
        "unread" => Lifecycle::default(),
        "closed" => {
            let row = crate::application::RunRow { status: RunStatus::Completed, ..open_run().row };
            Lifecycle::Closed(Tail { offset: 7, newest: Some(row) })
        }
        "open" => Lifecycle::Open(tail(), Box::new(open_run())),
        "delayed" => {
            let due = Some(NOW.after(Duration::from_secs(3_600)));
            Lifecycle::Open(tail(), Box::new(OpenRun { due, turns: 0, ..open_run() }))
        }
        "stuck" => Lifecycle::Stuck(tail(), Box::new(open_run()), "it panicked".to_owned()),
        other => panic!("{other}"),
    };
    State { lifecycle, presence: Presence::Driven, ..State::default() }
}

fn lifecycle(state: &State) -> &'static str {
    match &state.lifecycle {
        Lifecycle::Unread { is_in_doubt: true, .. } => "in doubt",
        Lifecycle::Unread { stuck: Some(_), .. } => "unread, stuck",
        Lifecycle::Unread { .. } => "unread",
        Lifecycle::Closed(_) => "closed",
        Lifecycle::Open(..) => "open",
        Lifecycle::Stuck(..) => "stuck",
    }
}

/// The name of a variant: what a value begins with when it is printed.
fn name(value: &impl std::fmt::Debug) -> String {
    let printed = format!("{value:?}");
    printed.split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default().to_owned()
}

fn names<T: std::fmt::Debug>(values: &[T]) -> String {
    values.iter().map(name).collect::<Vec<_>>().join(" ")
}

fn reply<T>() -> Reply<T> {
    // The receiver is dropped: what is sent is not looked at.
    oneshot::channel().0
}

fn signal() -> Job {
    let (name, input, headers) = ("go".to_owned(), Vec::new(), Headers::new());
    Job::Signal { name, input, headers, identity: String::new() }
}

fn update() -> Job {
    let (id, protocol_id, name) = ("u".to_owned(), "u".to_owned(), "set".to_owned());
    let (input, headers, identity) = (Vec::new(), Headers::new(), String::new());
    Job::Update { id, protocol_id, name, input, headers, identity, run_validator: true }
}

fn request(job: Job, key: Option<&str>) -> Item {
    let key = key.map(|key| Key { key: key.to_owned(), identity: String::new() });
    Item::Request(Box::new(Request { job, run: None, key, responder: Responder::Written(reply()) }))
}

fn completed(seq: u32) -> Job {
    let resolution = ActivityResolution::Completed { result: Some(Payload::null()) };
    Job::ResolveActivity { seq: CommandSeq::new(seq), resolution }
}

fn fired(seq: u32) -> Job {
    Job::FireTimer { seq: CommandSeq::new(seq) }
}

fn answer(run: u64, job: Job) -> Item {
    Item::Answer { run, job, generation: 0 }
}

fn end(run: Option<u64>) -> Item {
    let ended = Box::new(ending::terminated("enough", NOW));
    Item::End { run, ended, key: None, reply: Some(reply()) }
}

fn retry(is_kept: bool) -> Item {
    let failure = Failure::application("Test", "no");
    let retry = Retry { activity: 1, attempt: 2, at: NOW, failure, details: Vec::new() };
    Item::Retry { run: RUN, retry: Box::new(retry), is_kept }
}

#[test]
fn each_item_leads_to_its_work_in_each_standing() {
    type MakeItem = fn() -> Item;
    // The item; then the work, or `-`, and the effects, when the workflow is closed, open, before its first activation,
    // and stuck.
    let table: &[(&str, MakeItem, [&str; 4])] = &[
        ("an answer", || answer(RUN, completed(1)), ["-", "Activate", "-", "Arrived"]),
        ("a timer", || answer(RUN, fired(1)), ["-", "Activate", "-", "-"]),
        ("an answer of another run", || answer(RUN - 1, completed(1)), ["-"; 4]),
        ("an answer that nothing waits for", || answer(RUN, completed(9)), ["-"; 4]),
        (
            "a signal",
            || request(signal(), None),
            ["- RefuseRequest", "Activate", "Arrived", "- RefuseRequest"],
        ),
        // The first activation is an hour away: no update waits that long.
        (
            "an update",
            || request(update(), None),
            ["- RefuseRequest", "Activate", "- RefuseRequest", "- RefuseRequest"],
        ),
        ("a request with a key", || request(signal(), Some("k")), ["Keyed"; 4]),
        ("an end", || end(Some(RUN)), ["- Refuse", "End", "End", "End"]),
        ("an end of another run", || end(Some(RUN - 1)), ["- Refuse"; 4]),
        ("an end of any run", || end(None), ["End"; 4]),
        ("a failed attempt", || retry(true), ["-", "Retries", "Retries", "Retries"]),
        ("a failed attempt that is not written", || retry(false), ["-"; 4]),
        ("a begin", || Item::Begin { run: RUN }, ["-", "-", "Begin", "-"]),
        ("a query", || Item::Query { job: signal(), reply: reply() }, ["Query"; 4]),
        ("a retry", || Item::RetryStuck { reply: reply() }, ["RetryStuck"; 4]),
        ("nothing", || Item::Wake, ["-"; 4]),
    ];
    for (what, item, expected) in table {
        for (of, expected) in ["closed", "open", "delayed", "stuck"].into_iter().zip(expected) {
            let (mut state, mut effects) = (state(of), Effects::new());
            let work = check(|facts| step::step(&mut state, item(), facts, &mut effects));
            let work = work.map_or_else(|| "-".to_owned(), |work| name(&work));
            assert_eq!(format!("{work} {}", names(&effects)).trim_end(), *expected, "{what}, {of}");
            let same = if of == "delayed" { "open" } else { of };
            assert_eq!(lifecycle(&state), same, "{what}: a step does not change the lifecycle");
        }
    }
}

#[test]
fn what_has_happened_is_gathered_into_one_activation_up_to_its_limits() {
    let gathered = |items: Vec<Item>| {
        let (mut state, mut effects) = (state("open"), Effects::new());
        items.into_iter().for_each(|item| state.inbox.push_back(item));
        let first = state.inbox.pop().unwrap();
        let work = check(|facts| step::step(&mut state, first, facts, &mut effects));
        let jobs = match work {
            Some(Work::Activate { jobs, .. }) => names(&jobs),
            other => format!("{other:?}"),
        };
        (jobs, names(&state.inbox.drain()))
    };
    let text = |jobs: &str, left: &str| (jobs.to_owned(), left.to_owned());
    let both = vec![answer(RUN, completed(1)), answer(RUN, fired(1))];
    assert_eq!(gathered(both), text("ResolveActivity FireTimer", ""));
    // The same answer twice, and answers that nothing waits for, are left out.
    let twice = vec![answer(RUN, fired(1)), answer(RUN, fired(1)), answer(RUN - 1, completed(1))];
    assert_eq!(gathered(twice), text("FireTimer", ""));
    // An answer of another run does not hide that of the present one.
    let older = vec![answer(RUN - 1, fired(1)), answer(RUN, fired(1))];
    assert_eq!(gathered(older), text("FireTimer", ""));
    // Anything else waits for its turn, and so does what follows it.
    let other = vec![answer(RUN, fired(1)), request(signal(), Some("k")), answer(RUN, completed(1))];
    assert_eq!(gathered(other), text("FireTimer", "Request Answer"));
    // Three jobs are allowed.
    let many = (0..5).map(|_| request(signal(), None)).collect();
    assert_eq!(gathered(many), text("Signal Signal Signal", "Request Request"));
    // A large one comes alone.
    let large = Job::Signal {
        name: "go".to_owned(),
        input: vec![Payload::json(&"x".repeat(5_000)).unwrap()],
        headers: Headers::new(),
        identity: String::new(),
    };
    let large = vec![request(large, None), request(signal(), None)];
    assert_eq!(gathered(large), text("Signal", "Request"));
}

#[test]
fn the_standing_follows_the_log() {
    let loaded = |is_open: bool| Loaded {
        tail: Tail { offset: 7, newest: Some(open_run().row) },
        open: is_open.then(|| Box::new(open_run())),
    };
    // Before, what happens, after.
    type Change = fn(&mut State, &mut Effects);
    let table: &[(&str, Change, &str)] = &[
        ("open", |state, effects| state.forget(effects), "unread"),
        ("closed", |state, effects| state.forget(effects), "unread"),
        ("stuck", |state, effects| state.forget(effects), "unread, stuck"),
        ("open", |state, effects| state.mark_stuck("no".to_owned(), effects), "unread, stuck"),
        (
            "stuck",
            |state, effects| {
                state.clear_stuck(effects);
            },
            "unread",
        ),
        (
            "open",
            |state, effects| {
                state.clear_stuck(effects);
            },
            "open",
        ),
        ("open", |state, _| drop(state.lifecycle.close()), "closed"),
        ("stuck", |state, _| drop(state.lifecycle.close()), "closed"),
        ("closed", |state, _| state.lifecycle.open(open_run()), "open"),
        ("open", |state, _| state.lifecycle.mark_in_doubt(), "in doubt"),
        ("stuck", |state, _| state.lifecycle.mark_in_doubt(), "in doubt"),
    ];
    for (before, change, after) in table {
        let mut state = state(before);
        change(&mut state, &mut Effects::new());
        assert_eq!(lifecycle(&state), *after, "{before}");
        // What was stuck is so after it was read, unless its run has ended.
        if !state.lifecycle.is_unread() {
            continue;
        }
        let was_stuck = state.lifecycle.stuck().is_some();
        operations::loaded(&mut state, loaded(true), &mut Effects::new());
        assert_eq!(lifecycle(&state), if was_stuck { "stuck" } else { "open" }, "{before}");
        state.forget(&mut Effects::new());
        operations::loaded(&mut state, loaded(false), &mut Effects::new());
        assert_eq!((lifecycle(&state), state.lifecycle.stuck()), ("closed", None), "{before}");
    }
}

#[test]
fn what_is_pending_begins_once_when_a_workflow_is_read() {
    let (mut state, mut effects) = (state("unread"), Effects::new());
    let loaded = || Loaded { open: Some(Box::new(open_run())), ..Loaded::default() };
    operations::loaded(&mut state, loaded(), &mut effects);
    assert_eq!(names(&effects), "SetAlarm BeginActivity NotifyEnded");
    // Read again: both are under way.
    state.forget(&mut effects);
    effects.clear();
    operations::loaded(&mut state, loaded(), &mut effects);
    assert_eq!(names(&effects), "NotifyEnded");
    // A stuck run that is tried again gets its timers again, and its activity continues.
    state.mark_stuck("no".to_owned(), &mut effects);
    effects.clear();
    assert!(state.clear_stuck(&mut effects));
    operations::loaded(&mut state, loaded(), &mut effects);
    assert_eq!(names(&effects), "UnsetAlarm SetAlarm NotifyEnded");
    // The run has ended meanwhile.
    state.forget(&mut effects);
    effects.clear();
    operations::loaded(&mut state, Loaded::default(), &mut effects);
    assert_eq!(names(&effects), "UnsetAlarm Cancel NotifyEnded");
}

/// An event of the open run: an activity has ended, a signal has come, and another activity is asked for.
fn writing() -> Writing {
    let turn =
        Turn { time: NOW, suggested: false, jobs: vec![completed(1), signal()], commands: vec![schedule(2)] };
    let entry = Entry { run: RUN, turns: vec![turn], ..Entry::default() };
    let responders = vec![(None, Responder::Written(reply()))];
    Writing { responders, ..Writing::of(entry) }
}

#[test]
fn an_event_that_is_not_written_is_tried_again_or_refused() {
    let workspace = WorkspaceId::new(140_737_488_486_400);
    let in_doubt = || SubmitError::InDoubt("the disk does not answer".to_owned());
    let moved = || SubmitError::Moved { workspace, expected: 7, found: 8 };
    let corrupt = || SubmitError::Log(LogError::Corrupt("bytes".to_owned()));
    let closed = || SubmitError::Closed;
    // The error; then the lifecycle, what is put back, and the effects.
    type MakeError<'a> = &'a dyn Fn() -> SubmitError;
    let not_here = || SubmitError::NotHere { partition: "3/1".to_owned(), holder: None };
    let table: [(MakeError<'_>, &str, &str, &str); 5] = [
        (&in_doubt, "in doubt", "Answer", "DiscardCode Pause RefuseRequest"),
        (&moved, "unread", "Request Answer", "DiscardCode Pause"),
        (&corrupt, "unread", "", "DiscardCode RefuseRequest"),
        (&closed, "unread", "Answer", "DiscardCode Pause RefuseRequest"),
        // Another engine owns the partition: it finds all of it in the log.
        (&not_here, "unread", "", "DiscardCode LetGo RefuseRequest"),
    ];
    for (error, after, put_back, expected) in table {
        let (mut state, mut effects) = (state("open"), Effects::new());
        after_write::not_written(&mut state, writing(), error(), &mut effects);
        assert_eq!(lifecycle(&state), after, "{}", error());
        assert_eq!(names(&state.inbox.drain()), put_back, "{}", error());
        assert_eq!(names(&effects), expected, "{}", error());
    }
    // No caller waits for it, and it cannot be written: the run is stuck.
    let (mut state, mut effects) = (state("open"), Effects::new());
    let writing = Writing { responders: Vec::new(), ..writing() };
    after_write::not_written(&mut state, writing, corrupt(), &mut effects);
    assert_eq!((lifecycle(&state), names(&effects).as_str()), ("unread, stuck", "DiscardCode"));
}

#[test]
fn an_event_that_is_written_is_carried_out_and_answered() {
    let (mut state, mut effects) = (state("open"), Effects::new());
    operations::resume(&mut state, &mut effects);
    effects.clear();
    let writing = writing();
    state.lifecycle.run_mut().unwrap().take(&writing.entry.turns[0]);
    check(|facts| after_write::written(&mut state, writing, 8, facts, &mut effects));
    assert_eq!(names(&effects), "BeginActivity Acknowledge");
    assert_eq!(state.lifecycle.tail().unwrap().offset, 8);
    assert_eq!(state.lifecycle.run().unwrap().pending.activities.keys().collect::<Vec<_>>(), [&2]);
}

#[test]
fn the_end_of_a_run_stops_what_it_has_begun_and_may_begin_the_next() {
    for continues in [false, true] {
        for of in ["open", "stuck"] {
            let (mut state, mut effects) = (state(of), Effects::new());
            operations::resume(&mut state, &mut effects);
            state.updates.insert("u".to_owned(), reply());
            effects.clear();
            let ended = ending::terminated("enough", NOW);
            let Ending { row, .. } = ending::by_host(state.lifecycle.run().unwrap(), &ended);
            let begins = Begins::default();
            let next = Next { run: RUN + 1, at: NOW, start: Box::new(start()), begins };
            let ending = Some(Ending { row, next: continues.then_some(next) });
            let entry = Entry { run: RUN, ended: Some(ended), ..Entry::default() };
            let writing = Writing { ending, ..Writing::of(entry) };
            check(|facts| after_write::written(&mut state, writing, 8, facts, &mut effects));
            let begins = if continues { "SetAlarm " } else { "" };
            let expected = format!("DiscardCode UnsetAlarm Cancel {begins}Answer RunEnded NotifyEnded");
            assert_eq!(names(&effects), expected, "{of}");
            assert_eq!(lifecycle(&state), if continues { "open" } else { "closed" }, "{of}");
            assert_eq!(state.run(), continues.then_some(RUN + 1));
            let last = state.last_ended.map(|(row, outcome)| (row.run, outcome));
            assert_eq!(last.is_some(), !continues, "who waits for the next run reads how it ends");
            assert!(last.is_none_or(|(run, outcome)| run == RUN && matches!(outcome, Outcome::Failed(_))));
        }
    }
}

#[test]
fn the_inbox_counts_what_callers_wait_for() {
    let mut inbox = inbox::Inbox::default();
    for item in [request(update(), None), answer(RUN, fired(1)), Item::Wake, request(signal(), None)] {
        inbox.push_back(item);
    }
    assert_eq!(inbox.awaited(), 2);
    let Some(Item::Request(update)) = inbox.pop() else { panic!() };
    assert_eq!(inbox.awaited(), 1);
    inbox.hold_back(update);
    assert_eq!(inbox.awaited(), 2);
    assert_eq!(names(&inbox.take_awaited()), "Request", "but not what is held back");
    assert_eq!(inbox.awaited(), 1);
    // Its sender waits no longer.
    assert_eq!(inbox.take_held_back(10, 1_000).len(), 0);
    assert_eq!(inbox.awaited(), 0);
    assert_eq!(names(&inbox.drain()), "Answer Wake");
}
