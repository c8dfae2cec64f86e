//! What goes wrong stays with whom it concerns.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::result_large_err, reason = "handlers of workflows fail with a whole failure")]

mod common;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{World, assert_replays, options, quick_retries};
use serde_json::json;
use seriatim_activity::{Activities, ActivityContext};
use seriatim_env::Env;
use seriatim_temporal::devserver::{Data, DevServer, Ended};
use seriatim_temporal::{TemporalError, Worker, WorkerOptions};
use seriatim_temporal_history::EventKind;
use seriatim_types::ErrorKind;
use seriatim_workflow::{
    ActivityOptions, CancellationType, Context, Exit, Failure, Registry, SIDE_EFFECT_ACTIVITY,
};
use seriatim_workflow_host::demo;

async fn relay(ctx: Context, stops: u32) -> Result<u32, Exit> {
    let mut signals = ctx.signals::<u32>("next");
    let mut sum = 0;
    for _ in 0..stops {
        sum += signals.next().await?;
        ctx.timer(Duration::from_millis(1)).await?;
    }
    Ok(sum)
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_that_do_not_fit_into_the_cache_are_built_anew() {
    const RUNS: u32 = 12;
    let workflows = || Registry::new().workflow("relay", relay);
    let worker = WorkerOptions { max_cached_workflows: 2, ..options("q") };
    let Some(world) = World::start(workflows(), Activities::new(), worker).await else { return };
    let id = |run: u32| format!("relay-{run}");
    for run in 0..RUNS {
        world.server.begin("q", "relay", &id(run), &[json!(3)]).await;
    }
    for stop in 1..=3 {
        for run in 0..RUNS {
            world.server.signal(&id(run), "next", &[json!(stop * (run + 1))]).await;
        }
    }
    for run in 0..RUNS {
        assert_eq!(world.server.ended(&id(run)).await, Ended::Completed(json!(6 * (run + 1))));
        assert_replays(&workflows(), &world.server.history(&id(run)).await);
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_panics_waits_until_its_code_is_fixed_and_others_continue() {
    let is_broken = Arc::new(AtomicBool::new(true));
    let broken = is_broken.clone();
    let refused = |ctx: Context, (): ()| async move {
        let options =
            ActivityOptions { cancellation_type: CancellationType::WaitRequested, ..Default::default() };
        Ok::<String, Exit>(ctx.activity("greeting", "Ada").options(options).await?)
    };
    let workflows = demo::workflows()
        .workflow("panics", move |_: Context, (): ()| {
            let is_broken = broken.load(Ordering::Relaxed);
            async move {
                assert!(!is_broken, "the till is stuck");
                Ok::<_, Exit>("mended")
            }
        })
        .workflow("refused", refused);
    let Some(world) = World::start(workflows, demo::activities(), options("q")).await else { return };
    world.server.begin("q", "panics", "bad", &[]).await;
    world.server.begin("q", "refused", "refused", &[]).await;
    world.server.begin("q", "unheard of", "unknown", &[]).await;
    for run in 0..8 {
        let id = format!("greet-{run}");
        world.server.begin("q", "greet", &id, &[json!("Ada")]).await;
        assert_eq!(world.server.ended(&id).await, Ended::Completed(json!("Hello, Ada!")));
    }
    for (id, said) in [
        ("bad", "the till is stuck"),
        ("refused", "wait_requested of activity \"greeting\""),
        ("unknown", "no workflow \"unheard of\" is registered here; known: greet, order"),
    ] {
        let failure = world.task_failure(id).await;
        assert!(failure.contains(said), "{id}: {failure:?} does not say {said:?}");
    }
    is_broken.store(false, Ordering::Relaxed);
    assert_eq!(world.server.ended("bad").await, Ended::Completed(json!("mended")));
    world.stop().await;
}

/// What the whole process logs.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn other_code_fails_the_task_and_the_old_code_continues() {
    async fn old(ctx: Context, (): ()) -> Result<u32, Exit> {
        ctx.timer(Duration::from_millis(1)).await?;
        Ok(ctx.signals::<u32>("go").next().await?)
    }
    async fn new(ctx: Context, (): ()) -> Result<u32, Exit> {
        ctx.activity::<_, String>("greeting", "first").await?;
        Ok(ctx.signals::<u32>("go").next().await?)
    }
    let log = Log::default();
    let (writer, warn) = (log.clone(), tracing::Level::WARN);
    tracing_subscriber::fmt().with_max_level(warn).with_writer(move || writer.clone()).init();
    let is_same = |workflows: &Registry, history: &[u8]| common::replay(workflows, history).is_same();
    let old = || Registry::new().workflow("w", old);
    let new = Registry::new().workflow("w", new);
    let Some(world) = World::start(old(), demo::activities(), options("q")).await else { return };
    world.server.begin("q", "w", "w", &[]).await;
    world.until_event("w", |kind| matches!(kind, EventKind::TimerFired { .. })).await;
    let env = world.env.clone();
    let server = world.stop().await;

    let world = World::on(env.clone(), server, new.clone(), demo::activities(), options("q"));
    world.server.signal("w", "go", &[json!(5)]).await;
    let failure = world.task_failure("w").await;
    assert!(failure.contains("TMPRL1100"), "{failure}");
    world.until(|| log.text().contains("does not do what its history says")).await;
    let log = log.text();
    assert!(log.contains("schedule_activity") && log.contains("tests/faults.rs:"), "{log}");
    let history = world.server.history("w").await;
    assert!(!is_same(&new, &history), "our replay sees it too");
    let server = world.stop().await;

    let world = World::on(env, server, old(), demo::activities(), options("q"));
    assert_eq!(world.server.ended("w").await, Ended::Completed(json!(5)));
    assert_replays(&old(), &world.server.history("w").await);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_stops_ends_what_it_can_and_hands_back_the_rest() {
    async fn both(ctx: Context, (): ()) -> Result<(u32, u32), Exit> {
        let options = || ActivityOptions {
            start_to_close_timeout: Some(Duration::from_secs(60)),
            retry_policy: Some(quick_retries(0)),
            ..ActivityOptions::default()
        };
        let quick = ctx.activity("quick", ()).options(options()).start();
        let stubborn = ctx.activity("stubborn", ()).options(options()).start();
        Ok((quick.await?, stubborn.await?))
    }
    let begun = Arc::new(AtomicU32::new(0));
    let activities = || {
        let (first, second) = (begun.clone(), begun.clone());
        Activities::new()
            .register("quick", move |ctx: ActivityContext, (): ()| {
                first.fetch_add(1, Ordering::Relaxed);
                async move {
                    ctx.env().sleep(Duration::from_millis(300)).await;
                    Ok::<_, Failure>(ctx.info().attempt)
                }
            })
            .register("stubborn", move |ctx: ActivityContext, (): ()| {
                second.fetch_add(1, Ordering::Relaxed);
                async move {
                    if ctx.info().attempt == 1 {
                        std::future::pending::<()>().await;
                    }
                    Ok::<_, Failure>(ctx.info().attempt)
                }
            })
    };
    let workflows = || Registry::new().workflow("both", both);
    let worker = || WorkerOptions { grace: Duration::from_secs(1), ..options("q") };
    let Some(world) = World::start(workflows(), activities(), worker()).await else { return };
    world.server.begin("q", "both", "b", &[]).await;
    world.until(|| begun.load(Ordering::Relaxed) == 2).await;
    let env = world.env.clone();
    let server = world.stop().await;
    let world = World::on(env, server, workflows(), activities(), worker());
    assert_eq!(world.server.ended("b").await, Ended::Completed(json!([1, 2])));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_local_activity_that_does_not_end_does_not_hold_up_the_stop() {
    async fn hopes(ctx: Context, (): ()) -> Result<(), Exit> {
        Ok(ctx.local_activity("stubborn", ()).await?)
    }
    let begun = Arc::new(AtomicU32::new(0));
    let count = begun.clone();
    let activities = Activities::new().register("stubborn", move |_: ActivityContext, (): ()| {
        count.fetch_add(1, Ordering::Relaxed);
        std::future::pending::<Result<(), Failure>>()
    });
    let workflows = Registry::new().workflow("hopes", hopes);
    let worker = WorkerOptions { grace: Duration::from_millis(200), ..options("q") };
    let Some(world) = World::start(workflows, activities, worker).await else { return };
    world.server.begin("q", "hopes", "h", &[]).await;
    world.until(|| begun.load(Ordering::Relaxed) == 1).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_says_why_it_cannot_begin() {
    let env = Env::real();
    let untested = "no worker was refused";
    let Some(server) = DevServer::start_or_skip(&env, Data::Memory, untested).await else { return };
    let worker = |workflows: Registry, activities: Activities, options: WorkerOptions| {
        Worker::new(env.clone(), server.connection().clone(), workflows, activities, options)
    };
    let echo = |_: ActivityContext, text: String| async move { Ok::<_, Failure>(text) };
    let reserved = Activities::new().register(SIDE_EFFECT_ACTIVITY, echo);
    let Err(error) = worker(Registry::new(), reserved, options("q")) else { panic!("the name was taken") };
    assert!(matches!(error, TemporalError::Reserved { what: "activity", .. }), "{error}");
    let theirs = Registry::new().workflow("__temporal_x", relay);
    let Err(error) = worker(theirs, Activities::new(), options("q")) else { panic!("the name was taken") };
    assert!(error.to_string().contains("Temporal's own"), "{error}");
    assert_eq!(error.kind(), ErrorKind::Invalid);

    let nowhere = WorkerOptions { namespace: "nowhere".to_owned(), ..options("q") };
    let worker = worker(demo::workflows(), demo::activities(), nowhere).unwrap();
    let error = worker.run(seriatim_env::Shutdown::new()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(error.to_string().contains("nowhere"), "{error}");
}
