//! What follows when the engine does not know whether an event of a workflow is written.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{World, payload};
use seriatim_env::{Env, simulate};
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{Log, Store};
use seriatim_storage_testing::faulty::{Fault, Faults, FaultyLog, Operation};
use seriatim_workflow::{Context, ContinueAsNew, Exit, Registry};
use seriatim_workflow_host::{Activities, HostOptions, RunStatus, StartRequest};

async fn world(env: &Env, workflows: Registry) -> (World, Faults) {
    let faults = Faults::new(env);
    let log = Log::new(FaultyLog::new(Arc::new(MemoryLog::new()), &faults));
    let store = Store::new(MemoryStore::new());
    (World::on(env, log, store, workflows, Activities::new(), HostOptions::default()).await, faults)
}

/// Now and then an answer of the log is lost, and the log does not say what became of the event.
fn lose_answers(faults: &Faults) {
    faults.chance(Operation::Append, Fault::LoseReply, 0.3);
    faults.chance(Operation::Take, Fault::Refuse, 0.5);
}

/// Waits a second, as often as it is told, each time in a run of its own.
fn ticks() -> Registry {
    Registry::new().workflow("ticks", |ctx: Context, left: u32| async move {
        // Still under way when the run ends.
        let _other = ctx.timer(Duration::from_secs(3_600));
        ctx.timer(Duration::from_secs(1)).await?;
        if left == 0 {
            return Ok::<_, Exit>(());
        }
        let input = payload(&(left - 1));
        Err(Exit::ContinueAsNew(Box::new(ContinueAsNew { input, ..ContinueAsNew::default() })))
    })
}

#[test]
fn the_timers_of_a_run_ring_when_it_was_not_known_that_the_one_before_has_ended() {
    for seed in 0..10 {
        simulate(seed, |env| async move {
            let (world, faults) = world(&env, ticks()).await;
            world.start("ticks", "t", &20_u32).await;
            lose_answers(&faults);
            world.sleep_ms(60_000).await;
            faults.heal();
            world.sleep_ms(60_000).await;
            let runs = world.host.runs("t", None, 100).await.unwrap();
            let status = world.host.describe("t", None).await.unwrap().row.status;
            assert_eq!((runs.len(), status), (21, RunStatus::Completed), "seed {seed}");
            world.close().await;
        });
    }
}

#[test]
fn every_update_is_answered_when_it_is_not_known_whether_its_outcome_is_written() {
    let slow = || {
        Registry::new().workflow("adds", |ctx: Context, (): ()| async move {
            ctx.on_update_async(
                "add",
                &ctx.state(()),
                |_, _: &u32| Ok(()),
                |ctx, _, amount| async move {
                    ctx.timer(Duration::from_secs(1)).await?;
                    Ok(amount)
                },
            );
            ctx.timer(Duration::from_secs(3_600)).await?;
            Ok::<_, Exit>(())
        })
    };
    for seed in 0..10 {
        simulate(seed, |env| async move {
            let (world, faults) = world(&env, slow()).await;
            world.start("adds", "a", &()).await;
            lose_answers(&faults);
            let mut sent = Vec::new();
            for amount in 0..200_u32 {
                let host = world.host.clone();
                sent.push(env.spawn(async move { host.update("a", "add", payload(&amount), None).await }));
                world.sleep_ms(500).await;
            }
            faults.heal();
            for (number, answer) in sent.into_iter().enumerate() {
                let answered = env.timeout(Duration::from_secs(60), answer).await;
                assert!(answered.is_ok(), "update {number} of seed {seed} gets no answer");
            }
            world.close().await;
        });
    }
}

#[test]
fn a_run_is_not_stuck_because_one_before_was_whose_end_was_in_doubt() {
    let breaks = || {
        Registry::new().workflow("breaks", |ctx: Context, is_bad: bool| async move {
            assert!(!is_bad, "broken");
            ctx.signals::<()>("end").next().await?;
            Ok::<_, Exit>(1_u32)
        })
    };
    let mut in_doubt = 0;
    for seed in 0..40 {
        in_doubt += simulate(seed, |env| async move {
            let (world, faults) = world(&env, breaks()).await;
            world.start("breaks", "b", &true).await;
            world.sleep_ms(1_000).await;
            assert!(world.host.describe("b", None).await.unwrap().stuck.is_some());
            faults.fail_nth(Operation::Append, 1, Fault::LoseReply);
            faults.fail_nth(Operation::Take, 1, Fault::Refuse);
            let host = world.host.clone();
            let ending = env.spawn(async move { host.terminate("b", "enough", None).await });
            world.sleep_ms(seed % 4).await;
            let next = StartRequest::new("breaks").id("b").input(&false).unwrap().idempotency_key("k");
            let mut started = world.host.start(next.clone()).await;
            let ended = ending.await.unwrap();
            for _ in 0..100 {
                if started.is_err() {
                    world.sleep_ms(100).await;
                    started = world.host.start(next.clone()).await;
                }
            }
            assert!(started.is_ok(), "seed {seed}: {started:?} {ended:?}");
            world.signal("b", "end", &()).await;
            assert_eq!(world.result::<u32>("b").await, 1);
            world.close().await;
            u32::from(ended.is_err())
        });
    }
    assert!(in_doubt > 0);
}
