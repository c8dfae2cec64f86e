//! The same workflows with the same inputs, embedded and on Temporal: what they ask for is the same, in the same order.
//!
//! Compared is what each side has *kept*: the commands in our own log, and the events in the server's history.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::result_large_err, reason = "handlers of workflows fail with a whole failure")]

mod common;

use std::time::Duration;

use common::{World, options};
use serde_json::{Value, json};
use seriatim_engine::{Engine, Options};
use seriatim_env::Env;
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{Log, Store};
use seriatim_temporal::devserver::NAMESPACE;
use seriatim_temporal::fetch_history;
use seriatim_temporal_history::{EventKind, HistoryEvent, Marker, TemporalHistory};
use seriatim_workflow::{
    Command, Context, Execution, Exit, Failure, Headers, Payload, Registry, SignalTarget, UpdateOutcome,
};
use seriatim_workflow_host::demo;
use seriatim_workflow_host::{HostOptions, StartRequest, WorkflowHost};

const SHORT: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);

/// Asks for things of all kinds, one after the other.
async fn tour(ctx: Context, name: String) -> Result<Value, Exit> {
    let (stage, changed) = (ctx.state(0_u32), ctx.state(false));
    ctx.on_query("stage", &stage, |stage, (): ()| Ok(*stage));
    ctx.on_update_async(
        "finish",
        &changed,
        |_, word: &String| match word.is_empty() {
            true => Err(Failure::non_retryable("Word", "say how")),
            false => Ok(()),
        },
        |ctx, changed, word| async move {
            ctx.timer(Duration::from_millis(15)).await?;
            changed.change(|changed| *changed = true);
            Ok(word.to_uppercase())
        },
    );
    let id = |part: &str| format!("{}.{part}", ctx.info().workflow_id);
    let other = |part: &str| Execution { workflow_id: id(part), ..Execution::default() };

    let greeting: String = ctx.activity("greeting", &name).timeout(SHORT).await?;
    let local: String = ctx.local_activity("greeting", "Bob").await?;
    ctx.timer(Duration::from_millis(10)).await?;
    let patched = ctx.patched("second way");
    // Two timers, of which the longer one is cancelled.
    let hour = Duration::from_secs(3600);
    let in_time =
        ctx.within(hour, |ctx| async move { ctx.timer(Duration::from_millis(10)).await }).await.is_ok();
    ctx.modify_memo(Headers::from([("stage".to_owned(), Payload::json("children")?)]));
    let guide = ctx.child::<_, String>("guide", "up").id(id("guide")).start().await?;
    guide.signal("go", "on").await?;
    let guided = guide.result().await?;
    let signalled = ctx.child::<_, String>("guide", "down").id(id("signalled")).start().await?;
    ctx.signal_external(other("signalled"), "go", "outside").await?;
    let signalled = signalled.result().await?;
    let lost = ctx.child::<_, String>("guide", "away").id(id("lost")).start().await?;
    ctx.cancel_external(other("lost"), "enough").await?;
    let lost = lost.result().await.is_err();
    let unknown = ctx.signal_external(other("absent"), "go", ()).await.is_err();
    stage.change(|stage| *stage = 1);
    changed.wait_until(|changed| *changed).await?;
    Ok(json!([greeting, local, patched, in_time, guided, signalled, lost, unknown]))
}

async fn guide(ctx: Context, way: String) -> Result<String, Exit> {
    let word: String = ctx.signals("go").next().await?;
    Ok(format!("{way} {word}"))
}

async fn count(ctx: Context, left: u32) -> Result<u32, Exit> {
    ctx.timer(Duration::from_millis(10)).await?;
    if left == 0 { Ok(left) } else { Err(ctx.continue_as_new(&(left - 1))) }
}

async fn give_up(ctx: Context, _: ()) -> Result<(), Exit> {
    ctx.timer(Duration::from_millis(10)).await?;
    Err(Failure::non_retryable("Enough", "it was too much").into())
}

fn workflows() -> Registry {
    let ours = demo::workflows().workflow("tour", tour).workflow("guide", guide);
    ours.workflow("count", count).workflow("give_up", give_up)
}

/// What a run is started with, and what it waits for before its end.
struct Case {
    workflow_type: &'static str,
    input: Value,
    then: Then,
    /// Runs besides it whose commands are compared.
    children: &'static [&'static str],
}

enum Then {
    Nothing,
    Approve,
    Finish,
}

fn cases() -> Vec<Case> {
    let order = |patience_ms: u64| json!({ "item": "tea", "amount": 995, "patience_ms": patience_ms });
    let case = |workflow_type, input, then, children| Case { workflow_type, input, then, children };
    vec![
        case("greet", json!("Ada"), Then::Nothing, &[]),
        case("order", order(20), Then::Nothing, &["ship"]),
        case("order", order(600_000), Then::Approve, &["ship"]),
        case("order", json!({ "amount": 0 }), Then::Nothing, &[]),
        case("tour", json!("Ada"), Then::Finish, &["guide", "signalled", "lost"]),
        case("count", json!(2), Then::Nothing, &[]),
        case("give_up", json!(null), Then::Nothing, &[]),
    ]
}

/// What each run of a case has asked for, embedded.
async fn embedded(env: &Env, host: &WorkflowHost, id: &str, case: &Case) -> Vec<Vec<String>> {
    let payload = |value: &Value| vec![Payload::json(value).unwrap()];
    host.start(StartRequest::new(case.workflow_type).id(id).input(&case.input).unwrap()).await.unwrap();
    let (query, ready) = waits_for(&case.then);
    while let Some(query) = query
        && host.query(id, query, vec![]).await.unwrap().decode::<Value>().unwrap() != ready
    {
        env.sleep(PAUSE).await;
    }
    match case.then {
        Then::Nothing => {}
        Then::Approve => drop(host.signal(id, "approve", payload(&json!("yes")), None).await.unwrap()),
        Then::Finish => {
            host.update(id, "finish", payload(&json!("")), None).await.unwrap_err();
            let done = host.update(id, "finish", payload(&json!("well")), None).await.unwrap();
            assert_eq!(done.decode::<String>().unwrap(), "WELL");
        }
    }
    drop(host.result::<Value>(id).await);
    let mut runs = Vec::new();
    for id in ids(id, case) {
        let timeline = host.history(&id, Some(1)).await.unwrap();
        let history = timeline.history();
        let commands = history.answered().flat_map(|(_, commands)| commands);
        runs.push(commands.filter(|command| command.kind().is_recorded()).map(of_command).collect());
    }
    runs
}

/// The same on Temporal.
async fn on_temporal(world: &World, id: &str, case: &Case) -> Vec<Vec<String>> {
    let server = &world.server;
    let first = server.begin("q", case.workflow_type, id, std::slice::from_ref(&case.input)).await;
    let (query, ready) = waits_for(&case.then);
    while let Some(query) = query
        && server.query(id, query, &[]).await != Ok(ready.clone())
    {
        world.env.sleep(PAUSE).await;
    }
    match case.then {
        Then::Nothing => {}
        Then::Approve => server.signal(id, "approve", &[json!("yes")]).await,
        Then::Finish => {
            server.update(id, "finish", &[json!("")]).await.unwrap_err();
            assert_eq!(server.update(id, "finish", &[json!("well")]).await, Ok(json!("WELL")));
        }
    }
    server.ended(id).await;
    let mut runs = Vec::new();
    for (place, id) in ids(id, case).into_iter().enumerate() {
        server.ended(&id).await;
        let run = (place == 0).then_some(first.as_str());
        let history = fetch_history(server.connection(), NAMESPACE, &id, run).await.unwrap();
        let history = TemporalHistory::read(history).unwrap();
        let events = history.events();
        runs.push(
            events
                .iter()
                .filter(|event| event.kind.is_command())
                .map(|event| of_event(event, events))
                .collect(),
        );
    }
    runs
}

/// What is asked until the run is where the next thing is sent to it.
fn waits_for(then: &Then) -> (Option<&'static str>, Value) {
    match then {
        Then::Nothing => (None, Value::Null),
        Then::Approve => (Some("status"), json!("awaiting_approval")),
        Then::Finish => (Some("stage"), json!(1)),
    }
}

fn ids(id: &str, case: &Case) -> Vec<String> {
    let children = case.children.iter().map(|child| format!("{id}.{child}"));
    [id.to_owned()].into_iter().chain(children).collect()
}

fn text(payloads: &[Payload]) -> String {
    let values: Vec<Value> = payloads.iter().map(|payload| payload.decode().unwrap()).collect();
    match &values[..] {
        [] | [Value::Null] => "nothing".to_owned(),
        values => values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    }
}

/// What it comes from in the end: each host has its own words for "an activity has failed".
fn cause(failure: &Failure) -> &str {
    failure.cause.as_deref().map_or(&failure.message, cause)
}

/// A command of our own log.
fn of_command(command: &Command) -> String {
    match command {
        Command::StartTimer { seq, duration, .. } => format!("timer {} for {duration:?}", seq.get()),
        Command::CancelTimer { seq, .. } => format!("cancel timer {}", seq.get()),
        Command::ScheduleActivity { seq, activity_type, input, .. } => {
            format!("activity {} {activity_type} with {}", seq.get(), text(input))
        }
        // A server keeps neither its input nor its number where a reader would look for them.
        Command::ScheduleLocalActivity { activity_type, .. } => format!("local activity {activity_type}"),
        Command::StartChild { workflow_type, input, options, .. } => {
            format!("child {workflow_type} {} with {}", options.workflow_id, text(input))
        }
        Command::SignalExternal { target: SignalTarget::Child { workflow_id }, name, input, .. } => {
            format!("signal {name} to child {workflow_id} with {}", text(input))
        }
        Command::SignalExternal { target: SignalTarget::Workflow(target), name, input, .. } => {
            format!("signal {name} to {} with {}", target.workflow_id, text(input))
        }
        Command::CancelExternal { target, reason, .. } => format!("cancel {}: {reason}", target.workflow_id),
        Command::SetPatch { id, deprecated, .. } => format!("patch {id}, deprecated: {deprecated}"),
        Command::ModifyMemo { memo, .. } => format!("memo {:?}", memo.keys()),
        Command::UpdateAccepted { .. } => "update accepted".to_owned(),
        Command::UpdateCompleted { outcome: UpdateOutcome::Completed { result }, .. } => {
            format!("update completed with {}", text(std::slice::from_ref(result)))
        }
        Command::Complete { result } => format!("completed with {}", text(result.as_slice())),
        Command::Fail { failure } => format!("failed: {}", cause(failure)),
        Command::Cancelled => "cancelled".to_owned(),
        Command::ContinueAsNew { options } => format!("continued as new with {}", text(&options.input)),
        other => panic!("no workflow here asks for {other:?}"),
    }
}

/// An event of the server's history.
fn of_event(event: &HistoryEvent, events: &[HistoryEvent]) -> String {
    match &event.kind {
        EventKind::TimerStarted { timer_id, duration } => format!("timer {timer_id} for {duration:?}"),
        EventKind::TimerCancelled { started } => {
            let started = events.iter().find(|event| event.id == *started).unwrap();
            let EventKind::TimerStarted { timer_id, .. } = &started.kind else { panic!("{started:?}") };
            format!("cancel timer {timer_id}")
        }
        EventKind::ActivityScheduled { activity_id, activity_type, input, .. } => {
            format!("activity {activity_id} {activity_type} with {}", text(input))
        }
        EventKind::Marker(Marker::LocalActivity(marker)) => {
            format!("local activity {}", marker.activity_type)
        }
        EventKind::Marker(Marker::Patch { id, deprecated }) => {
            format!("patch {id}, deprecated: {deprecated}")
        }
        EventKind::ChildInitiated { workflow_id, workflow_type, input } => {
            format!("child {workflow_type} {workflow_id} with {}", text(input))
        }
        EventKind::ExternalSignalInitiated { target, name, input, child_only } => {
            let kind = if *child_only { "child " } else { "" };
            format!("signal {name} to {kind}{} with {}", target.workflow_id, text(input))
        }
        EventKind::ExternalCancelInitiated { target, reason, child_only: false } => {
            // The core says in front of it who asks.
            let reason = reason.split_once("with reason: ").map_or(reason.as_str(), |(_, reason)| reason);
            format!("cancel {}: {reason}", target.workflow_id)
        }
        EventKind::MemoModified { memo } => format!("memo {:?}", memo.keys()),
        EventKind::UpdateAccepted(_) => "update accepted".to_owned(),
        EventKind::UpdateCompleted { outcome: Ok(result), .. } => {
            format!("update completed with {}", text(result))
        }
        EventKind::Completed { result } => format!("completed with {}", text(result)),
        EventKind::Failed { failure } => format!("failed: {}", cause(failure)),
        EventKind::Cancelled => "cancelled".to_owned(),
        EventKind::ContinuedAsNew { input, .. } => format!("continued as new with {}", text(input)),
        // The core notes a patch there as well, by itself.
        EventKind::SearchAttributesUpserted { attributes }
            if attributes.contains_key("TemporalChangeVersion") =>
        {
            String::new()
        }
        other => panic!("no workflow here asks for {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_workflows_ask_for_the_same_on_both_hosts() {
    let Some(world) = World::start(workflows(), demo::activities(), options("q")).await else { return };
    let env = world.env.clone();
    let (log, store) = (Log::new(MemoryLog::new()), Store::new(MemoryStore::new()));
    let apps = [seriatim_workflow_host::app().unwrap()];
    let engine = Engine::open(env.clone(), log, store, apps, Options::default()).await.unwrap();
    let (ours, activities) = (workflows(), demo::activities());
    let host = WorkflowHost::open(env.clone(), engine.clone(), ours, activities, HostOptions::default());
    let mut compared = 0;
    for (number, case) in cases().iter().enumerate() {
        let id = format!("{}-{number}", case.workflow_type);
        let here = embedded(&env, &host, &id, case).await;
        let mut there = on_temporal(&world, &id, case).await;
        there.iter_mut().for_each(|run| run.retain(|line| !line.is_empty()));
        assert_eq!(here, there, "{id}");
        assert!(here.iter().all(|run| !run.is_empty()), "{id}");
        compared += here.iter().map(Vec::len).sum::<usize>();
    }
    println!("{compared} commands are the same");
    assert!(compared > 40, "{compared}");
    host.close().await;
    engine.close().await;
    world.stop().await;
}
