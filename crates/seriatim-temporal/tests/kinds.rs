//! Each kind of operation on a real server, and each history replayed on the same code.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::result_large_err, reason = "handlers of workflows fail with a whole failure")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use common::{World, assert_replays, options, quick_retries};
use serde_json::{Value, json};
use seriatim_activity::{Activities, ActivityContext};
use seriatim_temporal::WorkerOptions;
use seriatim_temporal::devserver::Ended;
use seriatim_temporal_history::EventKind;
use seriatim_workflow::{
    ActivityError, ActivityOptions, CancellationType, ChildError, ChildOptions, ChildStartFailure, Context,
    Execution, Exit, ExternalError, Failure, FailureInfo, Headers, IdReusePolicy, LocalActivityOptions,
    Payload, Registry, RetryPolicy,
};

const SHORT: Duration = Duration::from_secs(10);

fn other(workflow_id: &str) -> Execution {
    Execution { workflow_id: workflow_id.to_owned(), ..Execution::default() }
}

/// Asks for one thing of each kind, and tells what came of it.
async fn everything(ctx: Context, name: String) -> Result<Value, Exit> {
    let activity: String = ctx.activity("greeting", &name).timeout(SHORT).await?;
    let local: String = ctx.local_activity("greeting", "Bob").await?;
    ctx.timer(Duration::from_millis(50)).await?;
    let effect: u32 = ctx.side_effect(|| 7).await?;
    let way = if ctx.patched("new way") { "new" } else { "old" };
    ctx.modify_memo(Headers::from([("stage".to_owned(), Payload::json("children")?)]));
    let id = |part: &str| format!("{}.{part}", ctx.info().workflow_id);

    let child = ctx.child::<_, String>("waits", ()).id(id("child")).start().await?;
    let started = child.workflow_id().to_owned();
    child.signal("go", "on").await?;
    let child = child.result().await?;
    let failing = ctx.child::<_, ()>("fails", ()).id(id("failing")).await;
    let failing =
        matches!(failing, Err(ChildError::Failed(failure)) if failure.to_string().contains("no luck"));

    let sleeper = ctx.child::<_, String>("waits", ()).id(id("sleeper")).start().await?;
    ctx.signal_external(other(&id("sleeper")), "go", "outside").await?;
    let signalled = sleeper.result().await?;
    let sleeper = ctx.child::<_, String>("waits", ()).id(id("cancelled")).start().await?;
    ctx.cancel_external(other(&id("cancelled")), "enough").await?;
    let cancelled = matches!(sleeper.result().await, Err(ChildError::Cancelled(_)));
    let unknown_signal = ctx.signal_external(other(&id("absent")), "go", ()).await;
    let unknown_signal = matches!(unknown_signal, Err(ExternalError::NotDelivered(_)));
    let unknown_cancel = ctx.cancel_external(other(&id("absent")), "enough").await;
    let unknown_cancel = matches!(unknown_cancel, Err(ExternalError::NotDelivered(_)));
    Ok(json!({
        "activity": activity, "local": local, "effect": effect, "way": way,
        "started": started, "child": child, "failing": failing,
        "signalled": signalled, "cancelled": cancelled, "unknown_signal": unknown_signal, "unknown_cancel": unknown_cancel,
    }))
}

async fn waits(ctx: Context, (): ()) -> Result<String, Exit> {
    Ok(ctx.signals::<String>("go").next().await?)
}

async fn fails(_: Context, (): ()) -> Result<(), Exit> {
    Err(Exit::failed("Luck", "no luck"))
}

fn greeting() -> Activities {
    Activities::new().register("greeting", |_: ActivityContext, name: String| async move {
        Ok::<_, Failure>(format!("Hello, {name}!"))
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn each_kind_is_carried_both_ways() {
    let workflows = || {
        Registry::new().workflow("everything", everything).workflow("waits", waits).workflow("fails", fails)
    };
    let Some(world) = World::start(workflows(), greeting(), options("q")).await else { return };
    world.server.begin("q", "everything", "e", &[json!("Ada")]).await;
    let told = json!({
        "activity": "Hello, Ada!", "local": "Hello, Bob!", "effect": 7, "way": "new",
        "started": "e.child", "child": "on", "failing": true,
        "signalled": "outside", "cancelled": true, "unknown_signal": true, "unknown_cancel": true,
    });
    assert_eq!(world.server.ended("e").await, Ended::Completed(told));
    for id in ["e", "e.child", "e.failing", "e.sleeper", "e.cancelled"] {
        assert_replays(&workflows(), &world.server.history(id).await);
    }
    world.stop().await;
}

/// A sum that signals and updates add to, and queries ask for.
async fn sum(ctx: Context, first: i64) -> Result<i64, Exit> {
    let total = ctx.state(first);
    ctx.on_query("total", &total, |total, (): ()| Ok(*total));
    ctx.on_query("broken", &total, |_, (): ()| Err::<(), _>(Failure::application("Broken", "it is broken")));
    ctx.on_update_async(
        "add",
        &total,
        |_, by: &i64| if *by > 0 { Ok(()) } else { Err(Failure::application("Negative", "only upwards")) },
        |ctx, total, by| async move {
            ctx.timer(Duration::from_millis(20)).await?;
            if by > 1_000 {
                return Err(Failure::application("Greedy", "that is too much"));
            }
            total.change(|total| *total += by);
            Ok(total.get())
        },
    );
    loop {
        match ctx.signals::<i64>("add").next().await? {
            0 => return Ok(total.get()),
            by => total.change(|total| *total += by),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn signals_queries_and_updates_reach_a_run() {
    let workflows = || Registry::new().workflow("sum", sum);
    let Some(world) = World::start(workflows(), Activities::new(), options("q")).await else { return };
    let server = &world.server;
    server.begin("q", "sum", "s", &[json!(10)]).await;
    server.signal("s", "add", &[json!(5)]).await;
    assert_eq!(server.update("s", "add", &[json!(3)]).await, Ok(json!(18)));
    assert_eq!(server.query("s", "total", &[]).await, Ok(json!(18)));
    let refused = server.update("s", "add", &[json!(-3)]).await.unwrap_err();
    assert!(refused.contains("only upwards"), "{refused}");
    let failed = server.update("s", "add", &[json!(2_000)]).await.unwrap_err();
    assert!(failed.contains("too much"), "{failed}");
    let unknown = server.update("s", "subtract", &[]).await.unwrap_err();
    assert!(unknown.contains("known: add"), "{unknown}");
    let broken = server.query("s", "broken", &[]).await.unwrap_err();
    assert!(broken.contains("it is broken"), "{broken}");
    let unknown = server.query("s", "sum", &[]).await.unwrap_err();
    assert!(unknown.contains("known: broken, total"), "{unknown}");
    server.signal("s", "add", &[json!(0)]).await;
    assert_eq!(server.ended("s").await, Ended::Completed(json!(18)));
    // A run that has ended is built anew to answer.
    assert_eq!(server.query("s", "total", &[]).await, Ok(json!(18)));
    assert_replays(&workflows(), &server.history("s").await);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_local_activity_waits_for_its_next_attempt_by_a_timer_of_the_run() {
    async fn patient(ctx: Context, (): ()) -> Result<u32, Exit> {
        let options = LocalActivityOptions {
            start_to_close_timeout: Some(SHORT),
            retry_policy: Some(quick_retries(5)),
            local_retry_threshold: Some(Duration::from_millis(10)),
            ..LocalActivityOptions::default()
        };
        Ok(ctx.local_activity("flaky", ()).options(options).await?)
    }
    let activities = Activities::new().register("flaky", |ctx: ActivityContext, (): ()| async move {
        match ctx.info().attempt {
            attempt @ 1..=2 => Err(Failure::application("Flaky", format!("attempt {attempt}"))),
            attempt => Ok(attempt),
        }
    });
    let workflows = || Registry::new().workflow("patient", patient);
    let Some(world) = World::start(workflows(), activities, options("q")).await else { return };
    world.server.begin("q", "patient", "p", &[]).await;
    assert_eq!(world.server.ended("p").await, Ended::Completed(json!(3)));
    let history = world.server.history("p").await;
    let timers = common::events(&history, |kind| matches!(kind, EventKind::TimerFired { .. }));
    assert_eq!(timers, 2, "each wait is a timer");
    assert_replays(&workflows(), &history);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_activity_is_tried_again_and_fails_with_what_it_said() {
    async fn tries(ctx: Context, attempts: u32) -> Result<String, Exit> {
        let options = ActivityOptions {
            start_to_close_timeout: Some(SHORT),
            retry_policy: Some(quick_retries(attempts)),
            headers: Headers::from([("trace".to_owned(), Payload::json("t-1")?)]),
            ..ActivityOptions::default()
        };
        Ok(ctx.activity("third", ()).options(options).await?)
    }
    let activities = Activities::new().register("third", |ctx: ActivityContext, (): ()| async move {
        let info = ctx.info();
        let left = ctx.heartbeat_details::<u32>()?;
        assert_eq!(left, (info.attempt > 1).then_some(info.attempt - 1), "what the attempt before left");
        ctx.heartbeat(&info.attempt)?;
        let trace: String = info.headers["trace"].decode()?;
        match info.attempt {
            1 => Err(Failure::application("Flaky", "not yet")),
            2 => panic!("the till is stuck"),
            attempt => Ok(format!("{trace} {attempt} {} {}", info.workflow_id, info.activity_id)),
        }
    });
    let workflows = || Registry::new().workflow("tries", tries);
    let Some(world) = World::start(workflows(), activities, options("q")).await else { return };
    world.server.begin("q", "tries", "three", &[json!(3)]).await;
    world.server.begin("q", "tries", "two", &[json!(2)]).await;
    assert_eq!(world.server.ended("three").await, Ended::Completed(json!("t-1 3 three 1")));
    let Ended::Failed(messages) = world.server.ended("two").await else { panic!("two attempts are enough?") };
    assert!(messages.iter().any(|message| message.contains("the till is stuck")), "{messages:?}");
    for id in ["three", "two"] {
        assert_replays(&workflows(), &world.server.history(id).await);
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_continues_as_a_new_one() {
    async fn countdown(ctx: Context, left: u32) -> Result<u32, Exit> {
        if left > 0 {
            return Err(ctx.continue_as_new(&(left - 1)));
        }
        assert!(ctx.info().continued_from.is_some(), "it knows where it comes from");
        Ok(42)
    }
    let workflows = || Registry::new().workflow("countdown", countdown);
    let Some(world) = World::start(workflows(), Activities::new(), options("q")).await else { return };
    world.server.begin("q", "countdown", "c", &[json!(3)]).await;
    assert_eq!(world.server.ended("c").await, Ended::Completed(json!(42)));
    world.stop().await;
}

/// Waits for an activity that runs until it is asked to stop, and says how it ended.
async fn supervises(ctx: Context, how: String) -> Result<String, Exit> {
    let cancellation_type = match &*how {
        "wait" => CancellationType::WaitCompleted,
        "try" => CancellationType::TryCancel,
        _ => CancellationType::Abandon,
    };
    let options = ActivityOptions {
        start_to_close_timeout: Some(Duration::from_secs(60)),
        heartbeat_timeout: Some(Duration::from_secs(5)),
        retry_policy: Some(RetryPolicy::never()),
        cancellation_type,
        ..ActivityOptions::default()
    };
    let endless = ctx.activity::<_, ()>("endless", ()).options(options).start();
    ctx.signals::<()>("stop").next().await?;
    endless.cancel();
    match endless.await {
        Err(ActivityError::Cancelled(failure)) => {
            let last = std::iter::successors(Some(&failure), |failure| failure.cause.as_deref()).last();
            match last.map(|failure| &*failure.info) {
                Some(FailureInfo::Cancelled { details }) if !details.is_empty() => {
                    Ok(Payload::decode_all(details)?)
                }
                _ => Ok(failure.to_string()),
            }
        }
        other => Err(Exit::failed("Unexpected", format!("{other:?}"))),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_activity_is_asked_to_stop_in_the_way_that_its_options_say() {
    let begun = Arc::new(AtomicU32::new(0));
    let stopped = Arc::new(AtomicU32::new(0));
    let (count_begun, count_stopped) = (begun.clone(), stopped.clone());
    let activities = Activities::new().register("endless", move |ctx: ActivityContext, (): ()| {
        count_begun.fetch_add(1, Ordering::Relaxed);
        let stopped = count_stopped.clone();
        async move {
            while !ctx.is_cancelled() {
                ctx.heartbeat(&"alive")?;
                let _ = ctx.env().timeout(Duration::from_millis(50), ctx.cancelled()).await;
            }
            stopped.fetch_add(1, Ordering::Relaxed);
            // Of an activity that was cancelled, Temporal keeps the details and not the message.
            let details = vec![Payload::json("as you wish")?];
            Err::<(), _>(Failure::new("stopped", FailureInfo::Cancelled { details }))
        }
    });
    let workflows = || Registry::new().workflow("supervises", supervises);
    let worker = WorkerOptions {
        // Cancellation comes with the answer to a heartbeat.
        heartbeat_throttle: Duration::from_millis(100),
        heartbeat_throttle_max: Duration::from_millis(100),
        ..options("q")
    };
    let Some(world) = World::start(workflows(), activities, worker).await else { return };
    for how in ["wait", "try", "abandon"] {
        world.server.begin("q", "supervises", how, &[json!(how)]).await;
    }
    world.until(|| begun.load(Ordering::Relaxed) == 3).await;
    for (how, said) in
        [("wait", "as you wish"), ("try", "cancelled by the workflow"), ("abandon", "cancelled")]
    {
        world.server.signal(how, "stop", &[]).await;
        let Ended::Completed(Value::String(text)) = world.server.ended(how).await else {
            panic!("{how} did not complete")
        };
        assert!(text.contains(said), "{how}: {text}");
        assert_replays(&workflows(), &world.server.history(how).await);
    }
    // The activity that was not cancelled is notified by the server that its run has ended.
    world.until(|| stopped.load(Ordering::Relaxed) == 3).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_cancelled_cleans_up_and_says_so() {
    async fn careful(ctx: Context, (): ()) -> Result<(), Exit> {
        let waited = ctx.timer(Duration::from_secs(3_600)).await;
        let (shielded, _) = ctx.shielded();
        shielded.activity::<_, String>("greeting", "goodbye").timeout(SHORT).await?;
        Ok(waited?)
    }
    let workflows = || Registry::new().workflow("careful", careful);
    let Some(world) = World::start(workflows(), greeting(), options("q")).await else { return };
    world.server.begin("q", "careful", "c", &[]).await;
    world.server.cancel("c").await;
    let cancelled = Ended::Otherwise("EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED".to_owned());
    assert_eq!(world.server.ended("c").await, cancelled);
    let history = world.server.history("c").await;
    let activities = common::events(&history, |kind| matches!(kind, EventKind::ActivityCompleted { .. }));
    assert_eq!(activities, 1, "it has cleaned up");
    assert_replays(&workflows(), &history);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_is_refused_or_cancelled_in_each_phase() {
    async fn parent(ctx: Context, (): ()) -> Result<Value, Exit> {
        let id = |part: &str| format!("{}.{part}", ctx.info().workflow_id);
        let first = ctx.child::<_, String>("waits", ()).id(id("one")).start().await?;
        let again = ctx.child::<_, String>("waits", ()).id(id("one")).start().await;
        let refused =
            matches!(again, Err(ChildError::NotStarted { cause: ChildStartFailure::AlreadyExists, .. }));
        let mut ends = Vec::new();
        for (part, cancellation_type) in [
            ("wait", CancellationType::WaitCompleted),
            ("requested", CancellationType::WaitRequested),
            ("try", CancellationType::TryCancel),
            ("abandon", CancellationType::Abandon),
        ] {
            let options =
                ChildOptions { workflow_id: id(part), cancellation_type, ..ChildOptions::default() };
            let child = ctx.child::<_, String>("waits", ()).options(options).start().await?;
            child.cancel();
            ends.push(matches!(child.result().await, Err(ChildError::Cancelled(_))));
        }
        // Cancelled in the activation that asks for it: nothing is sent.
        let (scoped, scope) = ctx.scope();
        let early = scoped.child::<_, String>("waits", ()).id(id("early")).start();
        scope.cancel("never mind");
        ends.push(matches!(early.await, Err(ChildError::Cancelled(_))));
        let options = ChildOptions {
            workflow_id: id("one"),
            id_reuse_policy: IdReusePolicy::TerminateIfRunning,
            ..ChildOptions::default()
        };
        let second = ctx.child::<_, String>("waits", ()).options(options).start().await?;
        let terminated = matches!(first.result().await, Err(ChildError::Failed(_)));
        second.signal("go", "on").await?;
        let second = second.result().await?;
        Ok(json!({ "refused": refused, "ends": ends, "terminated": terminated, "second": second }))
    }
    let workflows = || Registry::new().workflow("parent", parent).workflow("waits", waits);
    let Some(world) = World::start(workflows(), Activities::new(), options("q")).await else { return };
    world.server.begin("q", "parent", "p", &[]).await;
    let told = json!({ "refused": true, "ends": [true, true, true, true, true], "terminated": true, "second": "on" });
    assert_eq!(world.server.ended("p").await, Ended::Completed(told));
    assert_replays(&workflows(), &world.server.history("p").await);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_local_activity_is_asked_to_stop() {
    // Within one workflow task only another local activity can come first.
    async fn impatient(ctx: Context, (): ()) -> Result<usize, Exit> {
        let local = |ctx: Context, name: &'static str| async move {
            ctx.local_activity::<_, ()>(name, ()).timeout(SHORT).await
        };
        let race = ctx.race().branch(move |ctx| local(ctx, "endless")).branch(move |ctx| local(ctx, "quick"));
        let (winner, _) = race.await;
        Ok(winner)
    }
    let stopped = Arc::new(AtomicU32::new(0));
    let count = stopped.clone();
    let activities = Activities::new().register("endless", move |ctx: ActivityContext, (): ()| {
        let stopped = count.clone();
        async move {
            ctx.heartbeat(&"no one receives it")?;
            ctx.cancelled().await;
            stopped.fetch_add(1, Ordering::Relaxed);
            Err::<(), _>(Failure::cancelled("as you wish"))
        }
    });
    let activities =
        activities.register("quick", |_: ActivityContext, (): ()| async { Ok::<_, Failure>(()) });
    let workflows = || Registry::new().workflow("impatient", impatient);
    let Some(world) = World::start(workflows(), activities, options("q")).await else { return };
    world.server.begin("q", "impatient", "i", &[]).await;
    assert_eq!(world.server.ended("i").await, Ended::Completed(json!(1)));
    world.until(|| stopped.load(Ordering::Relaxed) == 1).await;
    assert_replays(&workflows(), &world.server.history("i").await);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn losers_of_a_race_are_cancelled() {
    async fn races(ctx: Context, (): ()) -> Result<usize, Exit> {
        let (winner, _) = ctx
            .race()
            .branch(|ctx| async move {
                let greeting = ctx.activity::<_, String>("greeting", "Ada").timeout(SHORT);
                greeting.await.map(|_| ()).map_err(Exit::from)
            })
            .branch(|ctx| async move { ctx.timer(Duration::from_secs(3_600)).await.map_err(Exit::from) })
            .await;
        ctx.timer(Duration::from_millis(10)).await?;
        Ok(winner)
    }
    let workflows = || Registry::new().workflow("races", races);
    let Some(world) = World::start(workflows(), greeting(), options("q")).await else { return };
    world.server.begin("q", "races", "r", &[]).await;
    assert_eq!(world.server.ended("r").await, Ended::Completed(json!(0)));
    let history = world.server.history("r").await;
    assert_eq!(common::events(&history, |kind| matches!(kind, EventKind::TimerCancelled { .. })), 1);
    assert_replays(&workflows(), &history);
    world.stop().await;
}
