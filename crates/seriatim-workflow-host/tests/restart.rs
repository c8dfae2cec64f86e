//! Runs carry on where they were: after restarts, with lost answers of the log, with other code, in a restored copy.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{World, payload, storage};
use serde_json::json;
use seriatim_engine::{Engine, Unfence};
use seriatim_env::simulate;
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{Log, Store};
use seriatim_storage_testing::faulty::{Fault, Faults, FaultyLog, FaultyStore, Operation};
use seriatim_workflow::{
    ActivityOptions, Context, Execution, Exit, Failure, Job, ParentClosePolicy, Registry, RetryPolicy,
};
use seriatim_workflow_host::demo::{self, Order, Shipped};
use seriatim_workflow_host::{
    Activities, ActivityContext, HostError, HostOptions, RunStatus, StartRequest, WorkflowHost, Workflows,
};

/// How often each activity of a workflow's run has its result in the log.
async fn results(host: &WorkflowHost, id: &str) -> BTreeMap<u32, usize> {
    let mut found = BTreeMap::new();
    for (_, _, entry) in host.history(id, None).await.unwrap().events {
        for job in entry.turns.into_iter().flat_map(|turn| turn.jobs) {
            if let Job::ResolveActivity { seq, .. } = job {
                *found.entry(seq.get()).or_default() += 1;
            }
        }
    }
    found
}

#[test]
fn what_was_in_progress_continues_after_a_restart() {
    simulate(1, |env| async move {
        let workflows = || {
            Registry::new()
                .workflow("timer", |ctx: Context, (): ()| async move {
                    let before = ctx.now();
                    ctx.timer(Duration::from_secs(60)).await?;
                    Ok::<_, Exit>(ctx.now().since(before).as_secs())
                })
                .workflow("activity", |ctx: Context, (): ()| async move {
                    Ok::<u32, Exit>(ctx.activity("slow", ()).await?)
                })
                .workflow("parent", |ctx: Context, (): ()| async move {
                    Ok::<u64, Exit>(ctx.child("timer", ()).id("child").await?)
                })
                .workflow("wait", |ctx: Context, (): ()| async move {
                    let mut numbers = ctx.signals::<u32>("number");
                    Ok::<_, Exit>((numbers.next().await?, numbers.next().await?))
                })
                .workflow("again", |ctx: Context, (): ()| async move {
                    if ctx.info().attempt == 1 {
                        Err(Exit::failed("Once", "no"))
                    } else {
                        Ok(ctx.info().attempt)
                    }
                })
        };
        let begun = Arc::new(AtomicU32::new(0));
        let activities = || {
            let begun = begun.clone();
            Activities::new().register("slow", move |ctx: ActivityContext, (): ()| {
                let count = begun.fetch_add(1, Ordering::Relaxed) + 1;
                async move {
                    ctx.env().sleep(Duration::from_secs(30)).await;
                    Ok::<_, Failure>(count)
                }
            })
        };
        let world = World::new(&env, workflows(), activities()).await;
        world.start("timer", "t", &()).await;
        world.start("activity", "a", &()).await;
        world.start("parent", "p", &()).await;
        world.start("wait", "w", &()).await;
        let policy = RetryPolicy { initial_interval: Duration::from_secs(40), ..RetryPolicy::default() };
        let again = StartRequest { retry_policy: Some(policy), ..StartRequest::new("again").id("r") };
        world.host.start(again).await.unwrap();
        world.signal("w", "number", &1).await;
        world.sleep_ms(20_000).await;
        let world = world.again(workflows(), activities()).await;
        world.signal("w", "number", &2).await;
        assert_eq!(world.result::<u64>("t").await, 60, "the timer kept its time");
        assert_eq!(world.result::<u32>("a").await, 2, "the activity was run again");
        assert_eq!(world.result::<u64>("p").await, 60);
        assert_eq!(world.result::<(u32, u32)>("w").await, (1, 2));
        assert_eq!(world.result::<u32>("r").await, 2);
        world.close().await;
    });
}

#[test]
fn attempts_and_heartbeats_outlive_a_restart() {
    simulate(2, |env| async move {
        let workflows = || {
            Registry::new().workflow("w", |ctx: Context, (): ()| async move {
                let retry_policy = Some(RetryPolicy { maximum_attempts: 2, ..RetryPolicy::default() });
                let options = ActivityOptions { retry_policy, ..ActivityOptions::default() };
                let ended = ctx.activity::<(), u32>("work", ()).options(options).await;
                Ok::<_, Exit>(ended.err().map(|error| error.to_string()))
            })
        };
        let seen = Arc::new(Mutex::new(Vec::new()));
        let activities = || {
            let seen = seen.clone();
            Activities::new().register("work", move |ctx: ActivityContext, (): ()| {
                let (seen, attempt) = (seen.clone(), ctx.info().attempt);
                async move {
                    seen.lock().unwrap().push((attempt, ctx.heartbeat_details::<u32>().unwrap()));
                    ctx.heartbeat(&(attempt * 10)).unwrap();
                    Err::<u32, _>(Failure::application("No", "no"))
                }
            })
        };
        let world = World::new(&env, workflows(), activities()).await;
        world.start("w", "w", &()).await;
        world.sleep_ms(500).await;
        let world = world.again(workflows(), activities()).await;
        assert!(world.result::<Option<String>>("w").await.unwrap().contains("failed"));
        assert_eq!(*seen.lock().unwrap(), [(1, None), (2, Some(10))]);
        world.close().await;
    });
}

#[test]
fn what_a_run_had_to_tell_others_is_told_after_a_restart() {
    simulate(3, |env| async move {
        let workflows = || {
            Registry::new()
                .workflow("wait", |ctx: Context, (): ()| async move {
                    Ok::<u32, Exit>(ctx.signals("number").next().await?)
                })
                .workflow("sleep", |ctx: Context, (): ()| async move {
                    ctx.timer(Duration::from_secs(86_400)).await?;
                    Ok::<_, Exit>(())
                })
                // Ends in the activation that has asked for all of this.
                .workflow("tell", |ctx: Context, (): ()| async move {
                    let target = Execution { workflow_id: "w".to_owned(), ..Execution::default() };
                    drop(ctx.signal_external(target, "number", 5));
                    drop(
                        ctx.child::<(), ()>("sleep", ())
                            .id("left")
                            .parent_close(ParentClosePolicy::Abandon)
                            .start(),
                    );
                    drop(ctx.child::<(), ()>("sleep", ()).id("ended").start());
                    Ok::<_, Exit>(())
                })
        };
        let world = World::new(&env, workflows(), Activities::new()).await;
        world.start("wait", "w", &()).await;
        world.start("tell", "t", &()).await;
        // At once: nothing of it has been told yet.
        let world = world.again(workflows(), Activities::new()).await;
        assert_eq!(world.result::<u32>("w").await, 5);
        world.sleep_ms(5_000).await;
        for (id, status) in [("left", RunStatus::Running), ("ended", RunStatus::Terminated)] {
            assert_eq!(world.host.describe(id, None).await.unwrap().row.status, status, "{id}");
        }
        let workflows = Workflows::new(&world.engine);
        for partition in workflows.partitions().unwrap() {
            assert_eq!(workflows.undelivered(partition, None, 10).await.unwrap(), [], "all is settled");
        }
        world.close().await;
    });
}

/// Orders while the world is closed and opened again at random moments: all are shipped, and each activity's result is in
/// the log once.
fn restarts(seed: u64) {
    simulate(seed, |env| async move {
        let effects = Arc::new(Mutex::new(BTreeMap::<(String, String), usize>::new()));
        let activities = || {
            let effects = effects.clone();
            demo::activities_with(move |info| {
                let key = (info.workflow_id.clone(), info.activity_type.clone());
                *effects.lock().unwrap().entry(key).or_default() += 1;
            })
        };
        let options = || HostOptions { cached_instances: 3, ..HostOptions::default() };
        let (log, store) = storage();
        let mut world = World::on(&env, log, store, demo::workflows(), activities(), options()).await;
        const ORDERS: usize = 20;
        for number in 0..ORDERS {
            let order =
                Order { approval_timeout_ms: 500, item: format!("item {number}"), ..Order::default() };
            world.start("order", &format!("o{number}"), &order).await;
            if number % 3 == 0 {
                world.signal(&format!("o{number}"), "approve", &json!(null)).await;
            }
        }
        for _ in 0..6 {
            let pause = env.random_below(150);
            world.sleep_ms(pause).await;
            world = world.again_with(demo::workflows(), activities(), options()).await;
        }
        for number in 0..ORDERS {
            let id = format!("o{number}");
            let shipped: Shipped = world.result(&id).await;
            assert_eq!(shipped.parcel, format!("a parcel of item {number}"));
            for id in [id.clone(), format!("{id}.ship")] {
                assert_eq!(results(&world.host, &id).await, BTreeMap::from([(1, 1)]), "{id}");
            }
            for (id, activity) in [(id.clone(), "charge"), (format!("{id}.ship"), "pack")] {
                let effects = effects.lock().unwrap();
                assert!(
                    effects.get(&(id.clone(), activity.to_owned())).is_some_and(|count| *count >= 1),
                    "{id}"
                );
            }
        }
        assert_eq!(world.host.list(Some(RunStatus::Running), None, 10).await.unwrap(), []);
        assert_eq!(world.host.list(Some(RunStatus::Completed), None, 1_000).await.unwrap().len(), 2 * ORDERS);
        world.close().await;
    });
}

#[test]
fn restarts_at_any_moment_lose_nothing() {
    let seeds = if std::env::var_os("SERIATIM_FULL").is_some() { 200 } else { 12 };
    (0..seeds).for_each(restarts);
}

/// Answers of the log are lost, or its requests: the host reads again what is so.
fn faults(seed: u64) {
    simulate(seed, |env| async move {
        let faults = Faults::new(&env);
        let log = Log::new(FaultyLog::new(Arc::new(MemoryLog::new()), &faults));
        let store = Store::new(MemoryStore::new());
        let options = HostOptions { cached_instances: 2, ..HostOptions::default() };
        let world = World::on(&env, log, store, demo::workflows(), demo::activities(), options).await;
        assert!(world.engine.wait_ready(Duration::from_secs(60)).await);
        faults.chance(Operation::Append, Fault::LoseReply, 0.15);
        faults.chance(Operation::Append, Fault::LoseRequest, 0.1);
        const ORDERS: usize = 10;
        for number in 0..ORDERS {
            let order =
                Order { approval_timeout_ms: 300, item: format!("item {number}"), ..Order::default() };
            let id = format!("o{number}");
            let request = StartRequest::new("order").id(&id).input(&order).unwrap().idempotency_key("start");
            while world.host.start(request.clone()).await.is_err() {
                world.sleep_ms(50).await;
            }
            while let Err(error) = world.host.signal(&id, "approve", payload(&number), Some("approve")).await
            {
                if matches!(error, HostError::NotRunning { .. }) {
                    break;
                }
                world.sleep_ms(50).await;
            }
        }
        for number in 0..ORDERS {
            let id = format!("o{number}");
            let shipped = world.host.describe(&id, Some(Duration::from_secs(3_600))).await.unwrap();
            assert_eq!(shipped.row.status, RunStatus::Completed, "{id} {shipped:?}");
            assert_eq!(results(&world.host, &id).await, BTreeMap::from([(1, 1)]), "{id}");
        }
        assert!(faults.injected() > 0);
        faults.heal();
        world.close().await;
    });
}

#[test]
fn lost_answers_of_the_log_lose_and_repeat_nothing() {
    let seeds = if std::env::var_os("SERIATIM_FULL").is_some() { 200 } else { 12 };
    (0..seeds).for_each(faults);
}

#[test]
fn a_run_whose_code_has_changed_is_stuck_until_it_is_put_right() {
    simulate(4, |env| async move {
        let workflows = |seconds: u64| {
            Registry::new()
                .workflow("nap", move |ctx: Context, (): ()| async move {
                    ctx.timer(Duration::from_secs(seconds)).await?;
                    Ok::<_, Exit>(seconds)
                })
                .workflow("other", |ctx: Context, (): ()| async move {
                    ctx.timer(Duration::from_secs(10)).await?;
                    Ok::<_, Exit>(1)
                })
                .workflow("panic", |ctx: Context, (): ()| async move {
                    ctx.timer(Duration::from_secs(5)).await?;
                    if ctx.now().as_micros() > 0 {
                        panic!("as it was told");
                    }
                    Ok::<u32, Exit>(0)
                })
        };
        let world = World::new(&env, workflows(10), Activities::new()).await;
        for (kind, id) in [("nap", "n"), ("other", "o"), ("panic", "p")] {
            world.start(kind, id, &()).await;
        }
        let world = world.again(workflows(20), Activities::new()).await;
        world.sleep_ms(15_000).await;
        let nap = world.host.describe("n", None).await.unwrap();
        let (stuck, status) = (nap.stuck.unwrap(), nap.row.status);
        assert!(stuck.contains("expected: start_timer 1 at /#1 for 10s"), "{stuck}");
        assert!(stuck.contains("actual:   start_timer 1 at /#1 for 20s"), "{stuck}");
        assert_eq!((status, nap.pending.len()), (RunStatus::Running, 1));
        assert!(world.host.describe("p", None).await.unwrap().stuck.unwrap().contains("as it was told"));
        assert!(matches!(world.host.query("n", "x", vec![]).await, Err(HostError::Stuck { .. })));
        assert_eq!(world.result::<u32>("o").await, 1, "others continue");
        let world = world.again(workflows(10), Activities::new()).await;
        assert_eq!(world.result::<u64>("n").await, 10);
        world.host.terminate("p", "hopeless", None).await.unwrap();
        assert_eq!(world.host.describe("p", None).await.unwrap().row.status, RunStatus::Terminated);
        world.close().await;
    });
}

#[test]
fn a_run_whose_first_activation_fails_is_stuck_and_can_be_retried() {
    simulate(5, |env| async move {
        let is_broken = Arc::new(AtomicBool::new(true));
        let workflows = || {
            let is_broken = is_broken.clone();
            Registry::new().workflow("panic", move |_: Context, number: u32| {
                let is_broken = is_broken.load(Ordering::Relaxed);
                async move {
                    assert!(!is_broken, "at once");
                    Ok::<u32, Exit>(number)
                }
            })
        };
        let world = World::new(&env, workflows(), Activities::new()).await;
        for id in ["p", "q"] {
            let run = world.start("panic", id, &7).await;
            let shown = world.host.describe(id, None).await.unwrap();
            assert!(shown.stuck.unwrap().contains("at once"));
            assert_eq!((shown.run_id, shown.row.status, shown.input), (run, RunStatus::Running, payload(&7)));
        }
        // A retry without a change, then one with it; the other by a restart.
        assert!(!world.host.retry("p").await.unwrap().repeated);
        env.sleep(Duration::from_secs(1)).await;
        assert!(world.host.describe("p", None).await.unwrap().stuck.is_some());
        is_broken.store(false, Ordering::Relaxed);
        world.host.retry("p").await.unwrap();
        assert_eq!(world.result::<u32>("p").await, 7);
        let world = world.again(workflows(), Activities::new()).await;
        assert_eq!(world.result::<u32>("q").await, 7);
        world.close().await;
    });
}

#[test]
fn a_stuck_run_that_is_retried_is_told_what_it_missed() {
    simulate(6, |env| async move {
        let is_broken = Arc::new(AtomicBool::new(true));
        let seen = is_broken.clone();
        let workflows = Registry::new().workflow("naps", move |ctx: Context, (): ()| {
            let is_broken = seen.clone();
            async move {
                let short = ctx.spawn(|ctx| async move { ctx.timer(Duration::from_secs(1)).await });
                let long = ctx.spawn(|ctx| async move { ctx.timer(Duration::from_secs(5)).await });
                short.await?;
                assert!(!is_broken.load(Ordering::Relaxed), "after a second");
                long.await?;
                Ok::<u32, Exit>(6)
            }
        });
        let world = World::new(&env, workflows, Activities::new()).await;
        world.start("naps", "n", &()).await;
        // Both timers fire while it is stuck.
        env.sleep(Duration::from_secs(60)).await;
        assert!(world.host.describe("n", None).await.unwrap().stuck.is_some());
        is_broken.store(false, Ordering::Relaxed);
        world.host.retry("n").await.unwrap();
        let ended = env.timeout(Duration::from_secs(60), world.result::<u32>("n")).await;
        assert_eq!(ended.expect("the run ends"), 6);
        world.close().await;
    });
}

#[test]
fn a_restored_copy_carries_nothing_out_until_it_is_unfenced() {
    simulate(6, |env| async move {
        let runs = Arc::new(AtomicUsize::new(0));
        let activities = || {
            let runs = runs.clone();
            demo::activities_with(move |_| {
                runs.fetch_add(1, Ordering::Relaxed);
            })
        };
        let world = World::new(&env, demo::workflows(), activities()).await;
        world.start("order", "o", &Order { approval_timeout_ms: 60_000, ..Order::default() }).await;
        world.start("greet", "g", &"Ada").await;
        world.result::<String>("g").await;
        world.sleep_ms(1_000).await;
        let (log, store) = (world.log.clone(), world.store.clone());
        world.close().await;
        Engine::fence(env.clone(), log.clone(), store.clone()).await.unwrap();
        let before = runs.load(Ordering::Relaxed);
        let options = HostOptions::default();
        let world = World::on(&env, log, store, demo::workflows(), activities(), options).await;
        world.sleep_ms(120_000).await;
        assert_eq!(runs.load(Ordering::Relaxed), before, "the timer is over, and nothing happens");
        assert!(world.host.signal("o", "approve", payload(&1), None).await.is_err());
        assert!(world.host.start(StartRequest::new("greet").id("g").input("x").unwrap()).await.is_err());
        assert_eq!(
            world.host.describe("g", None).await.unwrap().row.status,
            RunStatus::Completed,
            "it reads"
        );
        world.engine.unfence(&Unfence::Skip(10)).await.unwrap();
        let shipped: Shipped = world.result("o").await;
        assert_eq!(shipped.approved_by, "timer");
        // Run numbers skip what may have been given out, and continue.
        let run_id = world.start("greet", "g", &"Bob").await;
        assert!(run_id.ends_with("-12"), "{run_id}");
        assert_eq!(world.result::<String>("g").await, "Hello, Bob!");
        world.close().await;
    });
}

#[test]
fn thousands_of_runs_with_a_cache_of_sixteen() {
    simulate(7, |env| async move {
        let workflows = Registry::new().workflow("sum", |ctx: Context, count: u32| async move {
            let mut sum = 0;
            for number in 0..count {
                ctx.timer(Duration::from_secs(1)).await?;
                sum += ctx.activity::<u32, u32>("double", number).await?;
            }
            Ok::<_, Exit>(sum)
        });
        let activities = Activities::new().register("double", |_: ActivityContext, number: u32| async move {
            Ok::<_, Failure>(2 * number)
        });
        let options =
            HostOptions { cached_instances: 16, activities_max: 8, active_max: 32, ..HostOptions::default() };
        let world = World::with(&env, workflows, activities, options).await;
        const RUNS: u32 = 2_000;
        for number in 0..RUNS {
            world.start("sum", &format!("s{number}"), &(number % 4)).await;
        }
        for number in 0..RUNS {
            let expected = (0..number % 4).map(|number| 2 * number).sum::<u32>();
            assert_eq!(world.result::<u32>(&format!("s{number}")).await, expected);
        }
        world.close().await;
    });
}

/// The row of a run and its events are two reads: an event in doubt that comes into the log between them must not be read by
/// one of them alone.
#[test]
fn a_run_that_ended_while_it_was_read_is_not_taken_for_running() {
    simulate(1, |env| async move {
        let faults = Faults::new(&env);
        let log = Log::new(FaultyLog::new(Arc::new(MemoryLog::new()), &faults));
        let store = Store::new(FaultyStore::new(Arc::new(MemoryStore::new()), &faults));
        let workflows = Registry::new().workflow("nap", |ctx: Context, (): ()| async move {
            ctx.timer(Duration::from_secs(10)).await?;
            Ok::<_, Exit>(7)
        });
        let options = HostOptions::default();
        let world = World::on(&env, log, store, workflows, Activities::new(), options).await;
        world.start("nap", "n", &()).await;
        world.sleep_ms(5_000).await;
        // The answer to the last event is lost, and the log does not say at first whether it has it.
        faults.reset_counts();
        faults.fail_nth(Operation::Append, 1, Fault::LoseReply);
        faults.fail_nth(Operation::Take, 1, Fault::Refuse);
        while faults.count(Operation::Take) == 0 {
            world.sleep_ms(1).await;
        }
        let (asking, reading) = (faults.hold(Operation::Take), faults.hold(Operation::ScanPage));
        // The host does not read before the log has answered, and what it reads is held until after that.
        asking.reached(1).await;
        // What is committed is not in the store yet, where the row is read.
        let _writing = faults.hold(Operation::Write);
        asking.release();
        world.sleep_ms(1_000).await;
        reading.release();
        world.sleep_ms(60_000).await;
        let told = world.host.signal("n", "late", payload(&1), None).await;
        assert!(matches!(told, Err(HostError::NotRunning { .. })), "{told:?}");
        let described = world.host.describe("n", None).await.unwrap();
        assert_eq!((described.row.status, described.stuck), (RunStatus::Completed, None));
        let events = world.host.history("n", None).await.unwrap().events;
        assert_eq!(events.len(), 2, "{events:?}");
        world.close().await;
    });
}
