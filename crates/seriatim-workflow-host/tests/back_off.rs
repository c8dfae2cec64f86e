//! Updates to a run that waits for its next attempt as a whole.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{World, payload, storage};
use seriatim_env::{Env, Task, simulate};
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{Log, Store};
use seriatim_storage_testing::faulty::{Fault, Faults, FaultyLog, Operation};
use seriatim_workflow::{Context, Exit, Failure, Job, Payload, Registry, RetryPolicy};
use seriatim_workflow_host::{Activities, HostError, HostOptions, StartRequest, WorkflowHost};

/// Fails at first; then adds up what updates say, none of them 0, until a signal ends it.
fn workflows() -> Registry {
    Registry::new().workflow("adds", |ctx: Context, (): ()| async move {
        if ctx.info().attempt == 1 {
            return Err(Exit::failed("Once", "not now"));
        }
        let total = ctx.state(0);
        ctx.on_update(
            "add",
            &total,
            |_, amount: &u32| match amount {
                0 => Err(Failure::application("Amount", "nothing to add")),
                _ => Ok(()),
            },
            |total, amount| {
                *total += amount;
                Ok(*total)
            },
        );
        ctx.signals::<()>("end").next().await?;
        Ok(total.get())
    })
}

/// Updates wait longer than the run does.
fn waiting() -> HostOptions {
    HostOptions { update_wait: Duration::from_secs(60), ..HostOptions::default() }
}

async fn start(host: &WorkflowHost) {
    let retry_policy =
        Some(RetryPolicy { initial_interval: Duration::from_secs(40), ..RetryPolicy::default() });
    let request = StartRequest { retry_policy, ..StartRequest::new("adds").id("a") };
    host.start(request).await.unwrap();
}

type Answer = Result<u32, HostError>;

/// Sends an update in the background.
fn add(env: &Env, host: &WorkflowHost, amount: u32, key: Option<&'static str>) -> Task<Answer> {
    let host = host.clone();
    env.spawn(async move {
        let answer = host.update("a", "add", payload(&amount), key).await;
        answer.map(|answer: Payload| answer.decode().unwrap())
    })
}

#[test]
fn updates_wait_for_the_first_activation_of_the_next_attempt() {
    simulate(1, |env| async move {
        let world = World::with(&env, workflows(), Activities::new(), waiting()).await;
        let host = &world.host;
        start(host).await;
        let began = env.now().as_millis();
        let mut sent = Vec::new();
        for (amount, key) in [(1, None), (0, None), (2, None), (4, Some("k")), (8, Some("l")), (4, Some("k"))]
        {
            sent.push(add(&env, host, amount, key));
            world.sleep_ms(1_000).await;
        }
        let mut answers = Vec::new();
        for answer in sent {
            answers.push(answer.await.unwrap());
        }
        assert!(env.now().as_millis() - began >= 40_000, "they have waited");
        assert!(matches!(&answers[1], Err(HostError::Rejected(_))), "{:?}", answers[1]);
        let sums: Vec<u32> = answers.into_iter().flatten().collect();
        assert_eq!(sums, [1, 3, 7, 15, 7], "in order, and the same key again is the same update again");
        // As many as can be are in the first activation: one with a key, since an event has one.
        let history = host.history("a", None).await.unwrap();
        let first = &history.events.iter().find_map(|(_, _, entry)| entry.turns.first()).unwrap().jobs;
        let updates = first.iter().filter(|job| matches!(job, Job::Update { .. })).count();
        assert!(matches!(first[0], Job::Start(_)));
        assert_eq!(updates, 3, "{first:?}");
        world.signal("a", "end", &()).await;
        assert_eq!(world.result::<u32>("a").await, 15);
        world.close().await;
    });
}

#[test]
fn a_refused_update_that_has_waited_does_not_use_up_its_key() {
    simulate(2, |env| async move {
        let world = World::with(&env, workflows(), Activities::new(), waiting()).await;
        start(&world.host).await;
        let other = add(&env, &world.host, 1, None);
        world.sleep_ms(10).await;
        let refused = add(&env, &world.host, 0, Some("k"));
        assert_eq!(other.await.unwrap(), Ok(1));
        assert!(matches!(refused.await.unwrap(), Err(HostError::Rejected(_))));
        assert_eq!(add(&env, &world.host, 2, Some("k")).await.unwrap(), Ok(3));
        world.close().await;
    });
}

#[test]
fn an_update_without_a_waiting_caller_is_dropped() {
    simulate(3, |env| async move {
        let world = World::with(&env, workflows(), Activities::new(), waiting()).await;
        start(&world.host).await;
        let short = world.host.update("a", "add", payload(&1), None);
        assert!(env.timeout(Duration::from_secs(5), short).await.is_err());
        assert_eq!(add(&env, &world.host, 2, None).await.unwrap(), Ok(2));
        world.close().await;
    });
}

#[test]
fn what_waits_is_answered_when_the_run_or_the_host_ends() {
    simulate(4, |env| async move {
        let world = World::with(&env, workflows(), Activities::new(), waiting()).await;
        start(&world.host).await;
        let waiting = [add(&env, &world.host, 1, None), add(&env, &world.host, 1, Some("k"))];
        world.sleep_ms(1_000).await;
        world.host.terminate("a", "enough", None).await.unwrap();
        for answer in waiting {
            assert!(matches!(answer.await.unwrap(), Err(HostError::NotRunning { .. })));
        }
        start(&world.host).await;
        let waiting = add(&env, &world.host, 1, None);
        world.sleep_ms(1_000).await;
        world.close().await;
        assert_eq!(waiting.await.unwrap(), Err(HostError::Closed));
    });
}

#[test]
fn no_more_wait_than_the_inbox_holds() {
    simulate(5, |env| async move {
        let options = HostOptions { inbox_max: 3, ..waiting() };
        let (log, store) = storage();
        let world = World::on(&env, log, store, workflows(), Activities::new(), options).await;
        start(&world.host).await;
        let waiting: Vec<_> = (0..5).map(|_| add(&env, &world.host, 1, None)).collect();
        let mut answers = Vec::new();
        for answer in waiting {
            answers.push(answer.await.unwrap());
        }
        let busy = answers.iter().filter(|answer| matches!(answer, Err(HostError::Busy(_)))).count();
        assert_eq!((busy, answers.len()), (2, 5), "{answers:?}");
        assert_eq!(add(&env, &world.host, 1, None).await.unwrap(), Ok(4), "there is room again");
        world.close().await;
    });
}

#[test]
fn an_update_that_has_waited_is_told_once_when_the_log_refuses_the_first_activation() {
    for seed in 0..20 {
        simulate(seed, |env| async move {
            let faults = Faults::new(&env);
            let log = Log::new(FaultyLog::new(Arc::new(MemoryLog::new()), &faults));
            let store = Store::new(MemoryStore::new());
            let world = World::on(&env, log, store, workflows(), Activities::new(), waiting()).await;
            start(&world.host).await;
            world.signal("a", "other", &()).await;
            let waiting = [add(&env, &world.host, 1, None), add(&env, &world.host, 2, Some("k"))];
            world.sleep_ms(30_000).await;
            faults.chance(Operation::Append, Fault::LoseReply, 0.5);
            let mut answers = Vec::new();
            for answer in waiting {
                answers.push(answer.await.unwrap());
            }
            faults.heal();
            // Whatever the first one was told, it counts once at most; the second can be sent again with its key.
            let again = loop {
                if let Ok(answer) = add(&env, &world.host, 2, Some("k")).await.unwrap() {
                    break answer;
                }
                world.sleep_ms(1_000).await;
            };
            assert!(again == 2 || again == 3, "{again} {answers:?}");
            world.signal("a", "end", &()).await;
            assert!(world.result::<u32>("a").await <= 3, "{answers:?}");
            world.close().await;
        });
    }
}

#[test]
fn signals_before_the_first_activation_are_refused_when_no_event_would_hold_them() {
    simulate(6, |env| async move {
        let world = World::with(&env, workflows(), Activities::new(), waiting()).await;
        start(&world.host).await;
        let large = payload(&"x".repeat(2_900_000));
        let mut told = Vec::new();
        for key in [None, None, Some("k"), Some("l")] {
            told.push(world.host.signal("a", "other", large.clone(), key).await);
        }
        assert!(told[0].is_ok(), "{told:?}");
        for refused in &told[1..] {
            assert!(matches!(refused, Err(HostError::Busy(_))), "{refused:?}");
        }
        // What is small has room after a while, and a request to stop always has.
        assert_eq!(add(&env, &world.host, 1, None).await.unwrap(), Ok(1));
        assert!(world.host.signal("a", "other", large, Some("k")).await.is_ok());
        world.signal("a", "end", &()).await;
        assert_eq!(world.result::<u32>("a").await, 1);
        world.close().await;
    });
}

#[test]
fn a_first_activation_that_no_event_holds_makes_the_run_stuck() {
    for updates in 0..3_u32 {
        simulate(7, |env| async move {
            let asks = Registry::new().workflow("adds", |ctx: Context, (): ()| async move {
                if ctx.info().attempt == 1 {
                    return Err(Exit::failed("Once", "not now"));
                }
                ctx.on_update("add", &ctx.state(()), |(), _: &u32| Ok(()), |(), amount| Ok(amount));
                Ok("x".repeat(9_000_000))
            });
            let world = World::with(&env, asks, Activities::new(), waiting()).await;
            start(&world.host).await;
            for number in 0..4 {
                world.signal("a", "other", &number).await;
            }
            let waiting: Vec<_> = (0..updates).map(|_| add(&env, &world.host, 1, None)).collect();
            world.sleep_ms(60_000).await;
            let stuck = world.host.describe("a", None).await.unwrap().stuck;
            assert!(stuck.as_ref().is_some_and(|reason| reason.contains("bytes")), "{stuck:?} {updates}");
            for answer in waiting {
                assert!(matches!(answer.await.unwrap(), Err(HostError::Stuck { .. })));
            }
            world.close().await;
        });
    }
}
