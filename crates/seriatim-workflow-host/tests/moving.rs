//! Partitions of workflows that move between engines: their runs continue exactly once, and leave nothing behind.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use common::payload;
use common::several::{Move, Several, audit, persist};
use seriatim_env::{Env, simulate};
use seriatim_storage_testing::faulty::Operation;
use seriatim_types::ErrorKind;
use seriatim_types::sync::Mutex;
use seriatim_workflow::{Context, Exit, Failure, Registry, RetryPolicy};
use seriatim_workflow_host::{
    Activities, ActivityContext, HostError, HostOptions, InMemory, RunStatus, StartRequest,
};

/// How often each activity had its effect, by its input.
type Effects = Arc<Mutex<BTreeMap<String, u32>>>;

/// A timer, an activity, a child, a signal to the child, its result, a signal.
async fn order(ctx: Context, id: String) -> Result<u32, Exit> {
    ctx.timer(Duration::from_millis(200)).await?;
    let worked: u32 = ctx.activity("work", &id).await?;
    let child = ctx.child::<_, u32>("part", format!("{id}.part")).id(format!("{id}.part")).start().await?;
    child.signal("more", 5_u32).await?;
    let part = child.result().await?;
    let mut signals = ctx.signals::<u32>("go");
    Ok(worked + part + signals.next().await?)
}

async fn part(ctx: Context, id: String) -> Result<u32, Exit> {
    let more = ctx.signals::<u32>("more").next().await?;
    ctx.timer(Duration::from_millis(100)).await?;
    let worked: u32 = ctx.activity("work", &id).await?;
    Ok(more + worked)
}

fn orders(effects: &Effects) -> (Registry, Activities) {
    let effects = effects.clone();
    let activities = Activities::new().register("work", move |context: ActivityContext, id: String| {
        let effects = effects.clone();
        async move {
            context.env().sleep(Duration::from_millis(120)).await;
            *effects.lock().entry(id).or_insert(0) += 1;
            Ok::<_, Failure>(1_u32)
        }
    });
    (Registry::new().workflow("order", order).workflow("part", part), activities)
}

/// One order, whose partitions move from the first engine to the second at a moment. Returns the effects of its activities.
fn move_at(moment: u64, how: Move, which: &'static str, follows: bool) -> u32 {
    let effects = Effects::default();
    simulate(moment, |env| {
        let effects = effects.clone();
        async move {
            let several = Several::open(&env, 2, |_| orders(&effects), HostOptions::default()).await;
            several.own_all(0).await;
            if follows {
                for partition in several.partitions() {
                    several.engine(1).stand_by(partition).await.unwrap();
                }
            }
            // Writes and calls are on their way for some time, so that the move finds them there.
            for seat in &several.seats {
                seat.faults.delay(Operation::Append, Duration::from_millis(20));
            }
            several.switchboard.delay(20);
            let request = StartRequest::new("order").id("o").input("o").unwrap().idempotency_key("start");
            let (starting, host) = (request.clone(), several.host(0).clone());
            let clock = env.clone();
            let started = env.spawn(async move { persist(&clock, || host.start(starting.clone())).await });
            let (clock, host) = (env.clone(), several.host(1).clone());
            let signalled = env.spawn(async move {
                clock.sleep(Duration::from_millis(moment / 2)).await;
                loop {
                    // Before the start there is nothing to signal.
                    let sent = persist(&clock, || host.signal("o", "go", payload(&7_u32), Some("go"))).await;
                    if !matches!(sent, Err(HostError::UnknownWorkflow(_))) {
                        return sent;
                    }
                    clock.sleep(Duration::from_millis(5)).await;
                }
            });
            env.sleep(Duration::from_millis(moment)).await;
            for partition in several.partitions() {
                // The parent and the child are in partitions of different parity.
                let moves = match which {
                    "all" => true,
                    "even" => partition.id.get() % 2 == 0,
                    _ => partition.id.get() % 2 == 1,
                };
                if moves {
                    several.hand_over(partition, 1, how).await;
                }
            }
            started.await.unwrap().unwrap();
            signalled.await.unwrap().unwrap();
            let ended =
                env.timeout(Duration::from_secs(600), persist(&env, || several.host(1).result::<u32>("o")));
            assert_eq!(ended.await.expect("the run ends").unwrap(), 14, "{how:?} {which} at {moment}");
            // An owner that was deposed and has not written since does not know it, and reads what it has.
            several.tell_all().await;
            for host in [several.host(0), several.host(1)] {
                assert_eq!(audit(&env, host, "o").await, ["go"], "{how:?} {which} at {moment}");
                assert_eq!(audit(&env, host, "o.part").await, ["more"], "{how:?} {which} at {moment}");
            }
            let parents =
                several.partition_of("o").await.id.get() + several.partition_of("o.part").await.id.get();
            assert_eq!(parents % 2, 1, "parent and child are in partitions of different parity");
            several.close().await;
        }
    });
    let effects = effects.lock();
    assert_eq!(effects.len(), 2);
    assert!(effects.values().all(|count| (1..=2).contains(count)), "{effects:?} {how:?} {which} at {moment}");
    effects.values().sum()
}

#[test]
fn a_run_continues_exactly_once_wherever_it_is_when_its_partition_moves() {
    let (mut moves, mut effects) = (0, 0);
    for moment in (0..1_200).step_by(15) {
        for how in [Move::Clean, Move::Forced] {
            for which in ["all", "even", "odd"] {
                effects += move_at(moment, how, which, moment % 2 == 0);
                moves += 1;
            }
        }
    }
    assert!(
        effects > 2 * moves,
        "some attempts were cut off by a move, and made again: {effects} of {moves}"
    );
    println!("{moves} moves, {effects} effects of {} activities", 2 * moves);
}

/// What a partition that leaves could leave behind: each a workflow of its own.
fn leftovers(counts: &Arc<[AtomicU64; 3]>) -> (Registry, Activities) {
    let workflows = Registry::new()
        .workflow("sleeps", |ctx: Context, (): ()| async move {
            ctx.timer(Duration::from_secs(60)).await?;
            Ok::<_, Exit>(1_u32)
        })
        .workflow(
            "runs",
            |ctx: Context, (): ()| async move { Ok::<u32, Exit>(ctx.activity("slow", ()).await?) },
        )
        .workflow("retries", |ctx: Context, (): ()| async move {
            let policy = RetryPolicy {
                initial_interval: Duration::from_secs(1),
                backoff_coefficient: 1.0,
                ..RetryPolicy::default()
            };
            Ok::<u32, Exit>(ctx.activity("fails", ()).retry(policy).await?)
        })
        .workflow("asks", |ctx: Context, (): ()| async move {
            Ok::<u32, Exit>(ctx.child("sleeps", ()).id("asked").await?)
        })
        .workflow("updates", |ctx: Context, (): ()| async move {
            ctx.on_update_async(
                "slow",
                &ctx.state(()),
                |(), (): &()| Ok(()),
                |ctx, _, ()| async move {
                    ctx.timer(Duration::from_secs(60)).await?;
                    Ok(3_u32)
                },
            );
            ctx.timer(Duration::from_secs(3_600)).await?;
            Ok::<_, Exit>(1_u32)
        });
    let (begun, ended, failed) = (counts.clone(), counts.clone(), counts.clone());
    let activities = Activities::new()
        .register("slow", move |context: ActivityContext, (): ()| {
            let (begun, ended) = (begun.clone(), ended.clone());
            async move {
                begun[0].fetch_add(1, Ordering::Relaxed);
                context.env().sleep(Duration::from_secs(60)).await;
                ended[1].fetch_add(1, Ordering::Relaxed);
                Ok::<_, Failure>(1_u32)
            }
        })
        .register("fails", move |_: ActivityContext, (): ()| {
            let failed = failed.clone();
            async move {
                let before = failed[2].fetch_add(1, Ordering::Relaxed);
                if before < 30 { Err(Failure::application("Not", "yet")) } else { Ok(1_u32) }
            }
        });
    (workflows, activities)
}

const LEFTOVERS: [&str; 5] = ["sleeps", "runs", "retries", "asks", "updates"];

#[test]
fn a_partition_that_leaves_leaves_nothing_behind() {
    simulate(1, |env| async move {
        let counts: Arc<[AtomicU64; 3]> = Arc::default();
        let numbers = || counts.iter().map(|count| count.load(Ordering::Relaxed)).collect::<Vec<_>>();
        let several = Several::open(&env, 2, |_| leftovers(&counts), HostOptions::default()).await;
        several.own_all(0).await;
        let host = several.host(0).clone();
        // A run that only waits is not read when its partition arrives.
        host.start(StartRequest::new("updates").id("asleep")).await.unwrap();
        for partition in several.partitions() {
            several.engine(0).release(partition).await.unwrap();
            several.engine(0).own(partition).await.unwrap();
        }
        env.sleep(Duration::from_millis(100)).await;
        assert_eq!(host.in_memory(), InMemory { partitions: 8, asleep: 1, alarms: 1, ..InMemory::default() });
        for id in LEFTOVERS {
            host.start(StartRequest::new(id).id(id)).await.unwrap();
        }
        env.sleep(Duration::from_millis(15_500)).await;
        let (waiting, clock) = (several.host(0).clone(), env.clone());
        let waited = env.spawn(async move { (waiting.result::<u32>("sleeps").await, clock.now()) });
        let updating = several.host(0).clone();
        let updated =
            env.spawn(async move { updating.update("updates", "slow", Vec::new(), Some("u")).await });
        // One that has not begun.
        let delayed =
            StartRequest { start_delay: Some(Duration::from_secs(60)), ..StartRequest::new("sleeps") };
        host.start(delayed.id("delayed")).await.unwrap();
        // One that begins soon: an update waits for it, and nothing of that is written.
        let soon =
            StartRequest { start_delay: Some(Duration::from_secs(10)), ..StartRequest::new("updates") };
        host.start(soon.id("soon")).await.unwrap();
        let updating = several.host(0).clone();
        let held_back = env.spawn(async move { updating.update("soon", "slow", Vec::new(), None).await });
        env.sleep(Duration::from_millis(100)).await;
        let before = host.in_memory();
        assert_eq!(
            (before.partitions, before.workflows, before.attempts, before.drivers),
            (8, 8, 1, 0),
            "{before:?}"
        );
        assert!(before.alarms >= 5 && before.instances >= 5 && before.operations == 3, "{before:?}");
        assert_eq!(before.asleep, 1);
        for partition in several.partitions() {
            several.engine(0).release(partition).await.unwrap();
        }
        env.sleep(Duration::from_millis(1)).await;
        assert_eq!(host.in_memory(), InMemory::default());
        // Those who wait are answered: with where it is, or with what is not known.
        let soon = Duration::from_secs(1);
        let (refused, at) = env.timeout(soon, waited).await.expect("an answer").unwrap();
        let refused = refused.unwrap_err();
        assert!(matches!(refused, HostError::NotHere { .. }), "{refused:?}");
        assert!(env.now().as_millis() - at.as_millis() < 100);
        let updated = env.timeout(soon, updated).await.expect("an answer").unwrap();
        assert_eq!(updated.unwrap_err().kind(), ErrorKind::InDoubt);
        let refused = env.timeout(soon, held_back).await.expect("an answer").unwrap().unwrap_err();
        assert!(matches!(refused, HostError::NotHere { .. }), "{refused:?}");
        let refused = host.signal("sleeps", "s", Vec::new(), None).await.unwrap_err();
        assert_eq!(
            (refused.kind(), matches!(refused, HostError::NotHere { .. })),
            (ErrorKind::Unavailable, true)
        );

        // No alarm rings, no attempt ends or begins, nothing is written, and no one is called.
        let (tails, ran, calls) = (several.tails().await, numbers(), several.switchboard.calls());
        assert_eq!(ran[..2], [1, 0], "{ran:?}");
        env.sleep(Duration::from_secs(2 * 3_600)).await;
        assert_eq!((several.tails().await, numbers(), several.switchboard.calls()), (tails, ran, calls));
        assert_eq!(host.in_memory(), InMemory::default());

        // All of it is in the log.
        several.own_all(1).await;
        for id in LEFTOVERS.into_iter().chain(["delayed", "asleep", "soon"]) {
            let ended = env.timeout(Duration::from_secs(7_200), several.host(0).result::<u32>(id)).await;
            assert_eq!(ended.unwrap_or_else(|_| panic!("{id} does not end")), Ok(1), "{id}");
            assert!(audit(&env, several.host(1), id).await.is_empty());
        }
        assert_eq!(
            several.host(0).update("updates", "slow", Vec::new(), Some("u")).await.unwrap().decode(),
            Ok(3_u32)
        );
        let ran = numbers();
        assert_eq!(
            (ran[0], ran[1]),
            (2, 1),
            "the attempt that was cut off was made again, and no more: {ran:?}"
        );
        several.close().await;
    });
}

#[test]
fn an_owner_that_was_deposed_lets_go_with_its_first_write() {
    simulate(2, |env| async move {
        let counts: Arc<[AtomicU64; 3]> = Arc::default();
        let several = Several::open(&env, 2, |_| leftovers(&counts), HostOptions::default()).await;
        several.own_all(0).await;
        for id in LEFTOVERS {
            several.host(0).start(StartRequest::new(id).id(id)).await.unwrap();
        }
        env.sleep(Duration::from_millis(500)).await;
        several.own_all(1).await;
        assert_eq!(several.host(0).in_memory().partitions, 8, "it does not know");
        // A request of a user is a write as well. It is refused, with the name of the owner, and nothing is written.
        for (number, id) in LEFTOVERS.into_iter().enumerate() {
            let refused = several.host(0).signal(id, "s", Vec::new(), None).await.unwrap_err();
            let HostError::NotHere { holder, .. } = &refused else { panic!("{refused:?}") };
            assert_eq!(holder.as_ref().map(|holder| holder.as_str()), Some("e1"), "{refused}");
            assert_eq!(
                several.host(0).in_memory().partitions,
                7 - number,
                "it lets go with the refusal of {id}"
            );
        }
        let id = several.partition_of("asked").await.id;
        env.sleep(Duration::from_secs(61)).await;
        let left = several.host(0).in_memory();
        let idle = 8 - LEFTOVERS.len() - 1;
        assert_eq!(
            left,
            InMemory { partitions: idle, ..InMemory::default() },
            "partition {id} too, by its timer"
        );
        for id in LEFTOVERS {
            let ended = env.timeout(Duration::from_secs(7_200), several.host(0).result::<u32>(id)).await;
            assert_eq!(ended.unwrap_or_else(|_| panic!("{id} does not end")), Ok(1));
            assert!(audit(&env, several.host(0), id).await.is_empty());
        }
        several.close().await;
    });
}

#[test]
fn a_partition_that_left_and_came_back_is_read_again() {
    for how in [Move::Clean, Move::Forced] {
        simulate(3, |env| async move {
            let signals = || {
                let workflows = Registry::new().workflow("steps", |ctx: Context, (): ()| async move {
                    let mut signals = ctx.signals::<u32>("step");
                    let first = signals.next().await?;
                    ctx.timer(Duration::from_secs(5)).await?;
                    Ok::<_, Exit>(first)
                });
                (workflows, Activities::new())
            };
            let several = Several::open(&env, 2, |_| signals(), HostOptions::default()).await;
            several.own_all(0).await;
            several.host(0).start(StartRequest::new("steps").id("s")).await.unwrap();
            let partition = several.partition_of("s").await;
            several.hand_over(partition, 1, how).await;
            several.host(1).signal("s", "step", payload(&4_u32), None).await.unwrap();
            several.hand_over(partition, 0, how).await;
            let ended = env.timeout(Duration::from_secs(60), several.host(0).result::<u32>("s")).await;
            assert_eq!(ended.expect("the timer that the other engine has set rings here"), Ok(4), "{how:?}");
            several.close().await;
        });
    }
}

/// An owner that was deposed and has written nothing since does not know it. It must not say that a run does not exist which the
/// other engine has started.
#[test]
fn an_owner_that_does_not_know_that_it_was_deposed_denies_no_run() {
    simulate(6, |env| async move {
        let several = Several::open(&env, 2, |_| orders(&Effects::default()), HostOptions::default()).await;
        several.own_all(0).await;
        env.sleep(Duration::from_millis(10)).await;
        several.own_all(1).await;
        several.host(1).start(StartRequest::new("part").id("p").input("p").unwrap()).await.unwrap();
        assert_eq!(several.host(0).in_memory().partitions, 8, "it does not know");
        let refused = several.host(0).signal("p", "more", payload(&5_u32), Some("k")).await.unwrap_err();
        assert!(matches!(refused, HostError::NotHere { .. }), "{refused:?}");
        assert_eq!(several.host(0).in_memory().partitions, 7, "it has asked the log");
        several.host(0).signal("p", "more", payload(&5_u32), Some("k")).await.unwrap();
        assert_eq!(several.host(0).result::<u32>("p").await, Ok(6));
        several.close().await;
    });
}

/// As before, and the run is the child of one whose partition moves there.
#[test]
fn the_result_of_a_child_is_found_where_it_is_and_not_where_it_was() {
    simulate(7, |env| async move {
        let several = Several::open(&env, 2, |_| orders(&Effects::default()), HostOptions::default()).await;
        several.own_all(0).await;
        env.sleep(Duration::from_millis(10)).await;
        several.own_all(1).await;
        several.host(1).start(StartRequest::new("order").id("o").input("o").unwrap()).await.unwrap();
        // The child is started, and its timer waits.
        env.sleep(Duration::from_millis(350)).await;
        let pending = several.host(1).describe("o", None).await.unwrap().pending;
        assert_eq!(pending.len(), 1, "{pending:?}");
        several.hand_over(several.partition_of("o").await, 0, Move::Clean).await;
        several.host(0).signal("o", "go", payload(&7_u32), None).await.unwrap();
        let ended = env.timeout(Duration::from_secs(60), several.host(0).result::<u32>("o")).await;
        assert_eq!(ended.expect("the result of the child arrives"), Ok(14));
        several.close().await;
    });
}

/// Answers everything that can be asked of a workflow.
fn counter() -> (Registry, Activities) {
    let workflows = Registry::new()
        .workflow("counter", |ctx: Context, start: u32| async move {
            let count = ctx.state(start);
            ctx.on_query("count", &count, |count, (): ()| Ok(*count));
            ctx.on_update(
                "add",
                &count,
                |_, _: &u32| Ok(()),
                |count, more| {
                    *count += more;
                    Ok(*count)
                },
            );
            ctx.on_update_async(
                "slowly",
                &count,
                |_, _: &u32| Ok(()),
                |ctx, _, more| async move {
                    ctx.timer(Duration::from_secs(70)).await?;
                    Ok(more)
                },
            );
            let end = ctx.signals::<u32>("end").next().await?;
            Ok::<_, Exit>(end)
        })
        .workflow("breaks", |_: Context, is_bad: bool| async move {
            assert!(!is_bad, "broken");
            Ok::<_, Exit>(())
        });
    (workflows, Activities::new())
}

async fn ask_everything(env: &Env, several: &Several) {
    let (host, owner) = (several.host(1), several.host(0));
    let request = |id: &str| StartRequest::new("counter").id(id).input(&3_u32).unwrap();
    let started = host.start(request("c").idempotency_key("k")).await.unwrap();
    assert!(started.started && !started.repeated);
    let again = host.start(request("c").idempotency_key("k")).await.unwrap();
    assert_eq!((again.repeated, &again.run_id), (true, &started.run_id));
    assert!(matches!(host.start(request("c")).await, Err(HostError::Running { .. })));
    let unknown = host.start(StartRequest::new("nothing")).await;
    assert!(matches!(unknown, Err(HostError::UnknownType { .. })), "{unknown:?}");
    let query = || async { host.query("c", "count", Vec::new()).await.unwrap().decode::<u32>().unwrap() };
    assert_eq!(query().await, 3);
    assert!(matches!(host.query("c", "what", Vec::new()).await, Err(HostError::Query(_))));
    for _ in 0..2 {
        let added = host.update("c", "add", payload(&2_u32), Some("u")).await.unwrap();
        assert_eq!((added.decode::<u32>().unwrap(), query().await), (5, 5), "the same key counts once");
    }
    assert_eq!(host.update("c", "add", payload(&1_u32), None).await.unwrap().decode::<u32>().unwrap(), 6);
    // Longer than a call waits.
    let slowly = host.update("c", "slowly", payload(&9_u32), None).await.unwrap();
    assert_eq!(slowly.decode::<u32>().unwrap(), 9);
    let refused = host.update("c", "nothing", Vec::new(), None).await;
    assert!(matches!(refused, Err(HostError::Rejected(_))), "{refused:?}");

    let described = host.describe("c", None).await.unwrap();
    assert_eq!(described, owner.describe("c", None).await.unwrap());
    assert_eq!((described.row.status, described.blocked.is_empty()), (RunStatus::Running, false));
    let before = env.now();
    host.describe("c", Some(Duration::from_secs(45))).await.unwrap();
    let waited = env.now().as_millis() - before.as_millis();
    assert!(
        (45_000..45_100).contains(&waited),
        "it waits for the end, and no longer than it was told: {waited}"
    );

    let (waiting, clock) = (host.clone(), env.clone());
    let waited = env.spawn(async move { (waiting.result::<u32>("c").await, clock.now()) });
    env.sleep(Duration::from_secs(90)).await;
    let signalled = host.signal("c", "end", payload(&8_u32), Some("s")).await.unwrap();
    assert_eq!((signalled.run_id, signalled.repeated), (started.run_id.clone(), false));
    assert!(host.signal("c", "end", payload(&8_u32), Some("s")).await.unwrap().repeated);
    let (ended, at) = waited.await.unwrap();
    assert_eq!(ended, Ok(8));
    assert!(env.now().as_millis() - at.as_millis() < 1_000);
    assert!(matches!(host.signal("c", "end", Vec::new(), None).await, Err(HostError::NotRunning { .. })));
    assert!(matches!(host.signal("no", "end", Vec::new(), None).await, Err(HostError::UnknownWorkflow(_))));

    for id in ["cancelled", "terminated"] {
        host.start(request(id)).await.unwrap();
    }
    host.cancel("cancelled", "enough", Some("c")).await.unwrap();
    host.terminate("terminated", "enough", Some("t")).await.unwrap();
    assert!(host.terminate("terminated", "enough", Some("t")).await.unwrap().repeated);
    let statuses = [("cancelled", RunStatus::Cancelled), ("terminated", RunStatus::Terminated)];
    for (id, status) in statuses {
        assert!(matches!(host.result::<u32>(id).await, Err(HostError::Failed(_))));
        assert_eq!(host.describe(id, None).await.unwrap().row.status, status);
    }
    let bad = StartRequest::new("breaks").id("stuck").input(&true).unwrap();
    host.start(bad).await.unwrap();
    assert!(!host.retry("stuck").await.unwrap().repeated, "it was stuck");
    assert!(host.describe("stuck", None).await.unwrap().stuck.is_some());

    for (id, _) in statuses.iter().chain([&("c", RunStatus::Completed)]) {
        assert_eq!(host.history(id, None).await.unwrap(), owner.history(id, None).await.unwrap());
        assert_eq!(host.runs(id, None, 10).await.unwrap(), owner.runs(id, None, 10).await.unwrap());
    }
    assert!(matches!(host.history("c", Some(9)).await, Err(HostError::UnknownRun { newest: 1, .. })));
    let listed = host.list(None, None, 10).await.unwrap();
    assert_eq!(listed, owner.list(None, None, 10).await.unwrap());
    assert_eq!(listed.len(), 4);
    let stuck = host.list_stuck(None, 10).await.unwrap();
    assert_eq!((stuck.len(), stuck[0].row.id.as_str()), (1, "stuck"));
    assert_eq!(stuck, owner.list_stuck(None, 10).await.unwrap());
    assert_eq!(host.in_memory(), InMemory::default(), "it drives nothing");
}

#[test]
fn everything_can_be_asked_of_a_workflow_whose_partition_is_elsewhere() {
    simulate(4, |env| async move {
        let several = Several::open(&env, 2, |_| counter(), HostOptions::default()).await;
        several.own_all(0).await;
        several.switchboard.delay(5);
        ask_everything(&env, &several).await;
        // No owner is reached.
        several.switchboard.cut(true);
        let asked = several.host(1).query("c", "count", Vec::new()).await.unwrap_err();
        assert!(matches!(asked, HostError::NotHere { .. }), "{asked:?}");
        let listed = several.host(1).list(None, None, 10).await.unwrap_err();
        assert!(matches!(listed, HostError::NotHere { .. }), "{listed:?}");
        several.close().await;
    });
}

#[test]
fn a_standby_answers_reads_itself() {
    simulate(5, |env| async move {
        let several = Several::open(&env, 2, |_| counter(), HostOptions::default()).await;
        several.own_all(0).await;
        for partition in several.partitions() {
            several.engine(1).stand_by(partition).await.unwrap();
        }
        several.switchboard.delay(5);
        ask_everything(&env, &several).await;
        several.switchboard.cut(true);
        let host = several.host(1);
        assert_eq!(host.list(None, None, 10).await.unwrap().len(), 4);
        assert_eq!(host.describe("c", None).await.unwrap().row.status, RunStatus::Completed);
        assert_eq!(host.history("c", None).await.unwrap(), several.host(0).history("c", None).await.unwrap());
        assert_eq!(host.runs("c", None, 10).await.unwrap().len(), 1);
        let asked = host.query("c", "count", Vec::new()).await.unwrap_err();
        assert!(matches!(asked, HostError::NotHere { .. }), "{asked:?}");
        several.close().await;
    });
}
