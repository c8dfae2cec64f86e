//! What a start may ask for: time-outs, retries, a memo, a delay, what becomes of its id, a signal.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::result_large_err, reason = "failures are rare")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use common::World;
use seriatim_engine::{Engine, Unfence};
use seriatim_env::{Env, simulate};
use seriatim_types::ErrorKind;
use seriatim_workflow::{Context, Exit, Failure, IdReusePolicy, Job, Payload, Registry, RetryPolicy};
use seriatim_workflow_host::{Activities, HostError, HostOptions, RunStatus, StartRequest, Started, demo};

/// `collect` returns the signals `add` that it was told before `stop`, and when it began.
fn workflows() -> Registry {
    demo::workflows().workflow("collect", |ctx: Context, (): ()| async move {
        let began = ctx.now().as_micros() / 1_000;
        ctx.on_query("began", &ctx.state(began), |began, (): ()| Ok(*began));
        let mut added = Vec::new();
        let (mut adds, mut stops) = (ctx.signals::<u32>("add"), ctx.signals::<()>("stop"));
        stops.next().await?;
        while let Some(number) = adds.try_next() {
            added.push(number?);
        }
        Ok::<_, Exit>((began, added))
    })
}

async fn world(env: &Env) -> World {
    World::new(env, workflows(), demo::activities()).await
}

fn collect() -> StartRequest {
    StartRequest::new("collect").id("c")
}

fn add(number: u32) -> StartRequest {
    collect().signal("add", &number).unwrap()
}

async fn stop(world: &World) -> (u64, Vec<u32>) {
    world.host.signal("c", "stop", Vec::new(), None).await.unwrap();
    world.result("c").await
}

fn told(started: &Started) -> (bool, bool) {
    (started.started, started.repeated)
}

#[test]
fn a_start_with_a_signal_starts_or_signals_the_open_run() {
    simulate(1, |env| async move {
        let world = world(&env).await;
        let first = world.host.start(add(1)).await.unwrap();
        let second = world.host.start(add(2)).await.unwrap();
        assert_eq!((told(&first), told(&second)), ((true, false), (false, false)));
        assert_eq!(first.run_id, second.run_id);
        // One event: the run has never existed without its signal.
        let history = world.host.history("c", None).await.unwrap();
        let jobs: Vec<&str> = history.events[0].2.turns[0].jobs.iter().map(Job::name).collect();
        assert_eq!(jobs, ["start", "signal"]);
        assert_eq!(stop(&world).await.1, [1, 2]);
        let third = world.host.start(add(3)).await.unwrap();
        assert!(third.started && third.run_id != first.run_id, "no run was open");
        assert_eq!(stop(&world).await.1, [3]);
        world.close().await;
    });
}

#[test]
fn a_start_with_a_signal_and_a_key_is_done_once() {
    simulate(2, |env| async move {
        let mut world = world(&env).await;
        for round in 0..3 {
            let first = world.host.start(add(1).idempotency_key("one")).await.unwrap();
            let second = world.host.start(add(2).idempotency_key("two")).await.unwrap();
            assert_eq!(told(&first), (true, round > 0));
            assert_eq!(told(&second), (false, round > 0), "the same answer again");
            world = world.again(workflows(), demo::activities()).await;
        }
        let error = world.host.start(add(3).idempotency_key("two")).await.unwrap_err();
        assert_eq!(error, HostError::KeyReused("two".to_owned()));
        assert_eq!(stop(&world).await.1, [1, 2]);
        world.close().await;
    });
}

#[test]
fn many_starts_with_a_signal_at_once_start_one_run_and_lose_no_signal() {
    for seed in 0..20 {
        simulate(seed, |env| async move {
            let world = world(&env).await;
            let starts: Vec<_> = (0..8)
                .map(|number| {
                    let host = world.host.clone();
                    env.spawn(async move { host.start(add(number)).await.unwrap() })
                })
                .collect();
            let mut begun = 0;
            for start in starts {
                begun += u32::from(start.await.unwrap().started);
            }
            let mut added = stop(&world).await.1;
            added.sort_unstable();
            assert_eq!((begun, added), (1, (0..8).collect()));
            world.close().await;
        });
    }
}

#[test]
fn the_signal_of_a_start_whose_code_fails_is_kept_for_the_retry() {
    simulate(3, |env| async move {
        let is_broken = Arc::new(AtomicBool::new(true));
        let broken = is_broken.clone();
        let workflows = Registry::new().workflow("fragile", move |ctx: Context, (): ()| {
            assert!(!broken.load(Ordering::Relaxed), "it is broken");
            async move { ctx.signals::<u32>("add").next().await.map_err(Exit::from) }
        });
        let world = World::new(&env, workflows, Activities::new()).await;
        let request = StartRequest::new("fragile").id("c").signal("add", &7).unwrap();
        world.host.start(request).await.unwrap();
        assert!(world.host.describe("c", None).await.unwrap().stuck.unwrap().contains("it is broken"));
        is_broken.store(false, Ordering::Relaxed);
        world.host.retry("c").await.unwrap();
        assert_eq!(world.result::<u32>("c").await, 7);
        world.close().await;
    });
}

#[test]
fn a_run_with_a_delay_begins_when_it_is_over_also_after_a_restart() {
    simulate(4, |env| async move {
        let mut world = world(&env).await;
        let asked = env.now().as_millis();
        let delay = Duration::from_secs(3_600);
        let request = StartRequest { start_delay: Some(delay), ..add(1) };
        assert!(world.host.start(request.clone()).await.unwrap().started);
        let running = world.host.start(StartRequest { signal: None, ..request }).await.unwrap_err();
        assert!(matches!(running, HostError::Running { .. }), "{running}");
        // It exists, and what it is told is kept, by both ways to tell it.
        world.signal("c", "add", &2).await;
        assert!(!world.host.start(add(3)).await.unwrap().started);
        let shown = world.host.describe("c", None).await.unwrap();
        assert_eq!((shown.row.status, shown.stuck), (RunStatus::Running, None));
        assert!(shown.row.started >= asked + 3_600_000);
        let asked_early = world.host.query("c", "began", Vec::new()).await.unwrap_err();
        assert!(matches!(asked_early, HostError::NotBegun { seconds: 3_599..=3_600, .. }), "{asked_early}");
        for key in [None, Some("key")] {
            let changed_early = world.host.update("c", "change", Vec::new(), key).await.unwrap_err();
            assert!(matches!(changed_early, HostError::NotBegun { .. }), "{changed_early}");
        }
        world = world.again(workflows(), demo::activities()).await;
        world.host.signal("c", "stop", Vec::new(), None).await.unwrap();
        let (began, added) = world.result::<(u64, Vec<u32>)>("c").await;
        assert_eq!(added, [1, 2, 3]);
        assert!((asked + 3_600_000..asked + 3_601_000).contains(&began), "{asked} {began}");
        world.close().await;
    });
}

#[test]
fn a_large_input_is_there_after_a_delay() {
    simulate(5, |env| async move {
        let world = world(&env).await;
        let name = "x".repeat(100_000);
        let request =
            StartRequest { start_delay: Some(Duration::from_secs(60)), ..StartRequest::new("greet") };
        world.host.start(request.id("g").input(&name).unwrap()).await.unwrap();
        assert_eq!(world.result::<String>("g").await, format!("Hello, {name}!"));
        world.close().await;
    });
}

#[test]
fn a_delayed_run_can_be_terminated_and_cancelled_before_it_begins() {
    simulate(6, |env| async move {
        let world = world(&env).await;
        let later = || StartRequest { start_delay: Some(Duration::from_secs(3_600)), ..collect() };
        world.host.start(later()).await.unwrap();
        world.host.terminate("c", "not wanted", None).await.unwrap();
        assert_eq!(world.host.describe("c", None).await.unwrap().row.status, RunStatus::Terminated);
        let asked = world.host.query("c", "began", Vec::new()).await.unwrap_err();
        assert!(matches!(asked, HostError::NeverBegan { .. }), "{asked}");
        world.host.start(later()).await.unwrap();
        world.host.cancel("c", "not wanted", None).await.unwrap();
        let error = world.host.result::<()>("c").await.unwrap_err();
        assert!(matches!(error, HostError::Failed(_)), "{error}");
        assert_eq!(world.host.describe("c", None).await.unwrap().row.status, RunStatus::Cancelled);
        world.close().await;
    });
}

#[test]
fn time_outs_count_from_when_the_run_begins() {
    simulate(7, |env| async move {
        let world = world(&env).await;
        let asked = env.now().as_millis();
        let (delay, timeout) = (Some(Duration::from_secs(60)), Some(Duration::from_secs(10)));
        for (run_timeout, execution_timeout) in [(timeout, None), (None, timeout)] {
            let request = StartRequest { start_delay: delay, run_timeout, execution_timeout, ..collect() };
            world.host.start(request).await.unwrap();
            world.host.result::<()>("c").await.unwrap_err();
            assert_eq!(world.host.describe("c", None).await.unwrap().row.status, RunStatus::TimedOut);
        }
        let took = env.now().as_millis() - asked;
        assert!((140_000..141_000).contains(&took), "{took}");
        world.close().await;
    });
}

#[test]
fn a_run_is_retried_as_a_whole_and_keeps_its_memo() {
    simulate(8, |env| async move {
        let tries = Arc::new(AtomicU32::new(0));
        let counted = tries.clone();
        let workflows =
            Registry::new().workflow("flaky", move |_: Context, (): ()| {
                let count = counted.fetch_add(1, Ordering::Relaxed);
                async move {
                    if count < 2 { Err(Exit::from(Failure::application("Flaky", "no"))) } else { Ok(count) }
                }
            });
        let world = World::new(&env, workflows, Activities::new()).await;
        let request = StartRequest {
            retry_policy: Some(RetryPolicy::attempts(3)),
            ..StartRequest::new("flaky").id("f").memo("customer", &"Ada").unwrap()
        };
        world.host.start(request).await.unwrap();
        assert_eq!(world.result::<u32>("f").await, 2);
        let shown = world.host.describe("f", None).await.unwrap();
        assert_eq!((shown.row.run, &shown.memo["customer"]), (3, &Payload::json("Ada").unwrap()));
        world.close().await;
    });
}

#[test]
fn an_id_may_be_used_again_as_the_policy_says() {
    simulate(9, |env| async move {
        let world = world(&env).await;
        let with = |id_reuse_policy| StartRequest { id_reuse_policy, ..collect() };
        world.host.start(with(IdReusePolicy::RejectDuplicate)).await.unwrap();
        let first = world.host.start(with(IdReusePolicy::TerminateIfRunning)).await.unwrap();
        assert!(first.run_id.ends_with("-2"), "{first:?}");
        let statuses: Vec<RunStatus> =
            world.host.runs("c", None, 9).await.unwrap().iter().map(|run| run.row.status).collect();
        assert_eq!(statuses, [RunStatus::Running, RunStatus::Terminated]);
        world.host.cancel("c", "", None).await.unwrap();
        world.host.result::<()>("c").await.unwrap_err();
        // Cancelled is no success.
        world.host.start(with(IdReusePolicy::AllowDuplicateFailedOnly)).await.unwrap();
        stop(&world).await;
        for policy in [IdReusePolicy::AllowDuplicateFailedOnly, IdReusePolicy::RejectDuplicate] {
            let error = world.host.start(with(policy)).await.unwrap_err();
            assert_eq!((error.kind(), error), (ErrorKind::Conflict, HostError::Used("c".to_owned())));
        }
        world.host.start(with(IdReusePolicy::AllowDuplicate)).await.unwrap();
        world.close().await;
    });
}

#[test]
fn options_that_make_no_sense_are_refused_by_name() {
    simulate(10, |env| async move {
        let world = world(&env).await;
        let zero = Some(Duration::ZERO);
        let policy =
            |backoff_coefficient| Some(RetryPolicy { backoff_coefficient, ..RetryPolicy::default() });
        let short =
            RetryPolicy { maximum_interval: Some(Duration::from_millis(1)), ..RetryPolicy::default() };
        let table = [
            (StartRequest { run_timeout: zero, ..collect() }, "run_timeout is 0"),
            (StartRequest { execution_timeout: zero, ..collect() }, "execution_timeout is 0"),
            (collect().signal("", &1).unwrap(), "signal: its name is empty"),
            (
                StartRequest { retry_policy: policy(f64::NAN), ..collect() },
                "backoff_coefficient is at least 1",
            ),
            (StartRequest { retry_policy: policy(0.5), ..collect() }, "backoff_coefficient is at least 1"),
            (StartRequest { retry_policy: Some(short), ..collect() }, "maximum_interval is shorter"),
            (
                StartRequest { id_reuse_policy: IdReusePolicy::TerminateIfRunning, ..add(1) },
                "signal and id_reuse_policy",
            ),
        ];
        for (request, expected) in table {
            let error = world.host.start(request).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().contains(expected), "{error}");
        }
        let large = collect().memo("large", &"x".repeat(4 << 20)).unwrap();
        let error = world.host.start(large).await.unwrap_err();
        assert!(error.to_string().starts_with("the workflow's memo takes"), "{error}");
        let never = StartRequest { start_delay: Some(Duration::MAX), ..collect() };
        world.host.start(never).await.unwrap();
        world.close().await;
    });
}

#[test]
fn a_run_that_does_not_exist_is_named() {
    simulate(11, |env| async move {
        let world = world(&env).await;
        world.host.start(collect()).await.unwrap();
        let error = world.host.history("c", Some(9)).await.unwrap_err();
        assert_eq!(error.to_string(), "workflow c has no run 9: its newest is 1");
        assert_eq!(error.kind(), ErrorKind::NotFound);
        world.close().await;
    });
}

#[test]
fn stuck_runs_are_listed_in_pages_until_they_are_retried() {
    simulate(12, |env| async move {
        let is_broken = Arc::new(AtomicBool::new(true));
        let broken = is_broken.clone();
        let workflows = demo::workflows().workflow("fragile", move |_: Context, (): ()| {
            assert!(!broken.load(Ordering::Relaxed), "it is broken");
            async move { Ok::<_, Exit>(()) }
        });
        let world = World::new(&env, workflows, demo::activities()).await;
        for number in 0..5 {
            world.start("fragile", &format!("f{number}"), &()).await;
        }
        world.start("order", "o", &()).await;
        let (mut after, mut found) = (None, Vec::new());
        loop {
            let page = world.host.list_stuck(after, 2).await.unwrap();
            let Some(last) = page.last() else { break };
            after = Some(last.cursor);
            found.extend(page.into_iter().map(|listed| listed.row.id));
        }
        assert_eq!(found, ["f0", "f1", "f2", "f3", "f4"]);
        is_broken.store(false, Ordering::Relaxed);
        world.host.retry("f1").await.unwrap();
        world.result::<()>("f1").await;
        world.host.terminate("f3", "", None).await.unwrap();
        let left = world.host.list_stuck(None, 9).await.unwrap();
        let left: Vec<&str> = left.iter().map(|listed| &*listed.row.id).collect();
        assert_eq!(left, ["f0", "f2", "f4"]);
        world.close().await;
    });
}

/// The first event of a workflow in a restored copy is refused, since its numbers skip, and the start is tried once more.
#[test]
fn a_start_in_a_restored_copy_keeps_its_signal_and_its_delay() {
    simulate(13, |env| async move {
        let old = world(&env).await;
        for id in ["c", "d"] {
            old.host.start(collect().id(id)).await.unwrap();
            old.host.terminate(id, "", None).await.unwrap();
        }
        let (log, store) = (old.log.clone(), old.store.clone());
        old.close().await;
        Engine::fence(env.clone(), log.clone(), store.clone()).await.unwrap();
        let options = HostOptions::default();
        let world = World::on(&env, log, store, workflows(), demo::activities(), options).await;
        world.engine.unfence(&Unfence::Skip(10)).await.unwrap();
        world.sleep_ms(2_000).await;
        let asked = env.now().as_millis();
        let delay = Some(Duration::from_secs(60));
        let started = world.host.start(StartRequest { start_delay: delay, ..add(5) }).await.unwrap();
        assert!(started.run_id.ends_with("-12"), "{started:?}");
        let (began, added) = stop(&world).await;
        assert_eq!(added, [5]);
        assert!((asked + 60_000..asked + 61_000).contains(&began), "{asked} {began}");
        let started = world.host.start(add(6).id("d")).await.unwrap();
        assert!(started.run_id.ends_with("-12"), "{started:?}");
        world.host.signal("d", "stop", Vec::new(), None).await.unwrap();
        assert_eq!(world.result::<(u64, Vec<u32>)>("d").await.1, [6]);
        world.close().await;
    });
}
