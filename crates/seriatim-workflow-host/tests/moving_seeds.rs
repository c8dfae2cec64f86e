//! Three engines on one log, partitions that move by chance, calls and replies that are lost: every workflow ends with its result,
//! and everything that was sent to it counts once.
//!
//! 500 seeds; with `SERIATIM_FULL=1` 2,000.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::payload;
use common::several::{Move, Several, audit, persist};
use seriatim_env::{Env, simulate};
use seriatim_storage_testing::faulty::Operation;
use seriatim_types::sync::Mutex;
use seriatim_types::{PartitionId, PartitionOffset};
use seriatim_workflow::{Context, Execution, Exit, Failure, Registry};
use seriatim_workflow_host::{Activities, ActivityContext, HostOptions, InMemory, StartRequest};

const ENGINES: usize = 3;
const ORDERS: usize = 5;

fn seeds() -> u64 {
    if std::env::var_os("SERIATIM_FULL").is_some() { 2_000 } else { 500 }
}

type Effects = Arc<Mutex<BTreeMap<String, u32>>>;

fn id(number: usize) -> String {
    format!("order-{number}")
}

/// Signals the next order when its user says so, waits for the signal of the one before, and has a child whose child works.
async fn order(ctx: Context, number: usize) -> Result<u32, Exit> {
    let next = Execution { workflow_id: id((number + 1) % ORDERS), ..Execution::default() };
    ctx.timer(Duration::from_millis(100)).await?;
    let user: u32 = ctx.signals("user").next().await?;
    let (part, others) = ctx
        .join(
            move |ctx| async move {
                let part = ctx.child::<_, u32>("part", (number, 2)).id(format!("part-{number}-2"));
                Ok::<u32, Exit>(part.await?)
            },
            move |ctx| async move {
                ctx.signal_external(next, "hello", number).await?;
                Ok::<u32, Exit>(ctx.activity("work", id(number)).await?)
            },
        )
        .await;
    let before: usize = ctx.signals("hello").next().await?;
    assert_eq!(before, (number + ORDERS - 1) % ORDERS);
    Ok(part? + others? + user)
}

async fn part(ctx: Context, (number, depth): (usize, u32)) -> Result<u32, Exit> {
    let worked: u32 = ctx.activity("work", format!("part-{number}-{depth}")).await?;
    if depth == 0 {
        return Ok(worked);
    }
    let id = format!("part-{number}-{}", depth - 1);
    Ok(worked + ctx.child::<_, u32>("part", (number, depth - 1)).id(id).await?)
}

fn code(effects: &Effects) -> (Registry, Activities) {
    let effects = effects.clone();
    let activities = Activities::new().register("work", move |context: ActivityContext, id: String| {
        let effects = effects.clone();
        async move {
            let env = context.env();
            env.sleep(Duration::from_millis(env.random_below(150))).await;
            *effects.lock().entry(id).or_insert(0) += 1;
            if env.random_below(5) == 0 {
                return Err(Failure::application("Injected", "as it was told"));
            }
            Ok(1_u32)
        }
    });
    (Registry::new().workflow("order", order).workflow("part", part), activities)
}

/// Moves partitions by chance.
async fn shuffle(env: &Env, several: &Several, times: u64) {
    for _ in 0..times {
        env.sleep(Duration::from_millis(env.random_below(80))).await;
        let partitions = several.partitions();
        let partition = partitions[usize::try_from(env.random_below(partitions.len() as u64)).unwrap()];
        let seat = usize::try_from(env.random_below(ENGINES as u64)).unwrap();
        match env.random_below(10) {
            0..4 => several.hand_over(partition, seat, Move::Clean).await,
            4..7 => several.hand_over(partition, seat, Move::Forced).await,
            7 => several.engine(seat).release(partition).await.unwrap(),
            8 => several.engine(seat).stand_by(partition).await.unwrap(),
            _ => several.engine(seat).leave(partition, None).await.unwrap(),
        }
    }
}

/// One seed. Returns where the logs end, and how often activities had their effect.
fn run(seed: u64) -> (BTreeMap<PartitionId, PartitionOffset>, u32) {
    simulate(seed, |env| async move {
        let effects = Effects::default();
        let several = Several::open(&env, ENGINES, |_| code(&effects), HostOptions::default()).await;
        several.divide().await;
        for seat in &several.seats {
            seat.faults.delay(Operation::Append, Duration::from_millis(env.random_below(15)));
        }
        several.switchboard.delay(env.random_below(15));
        several.switchboard.lose(env.random_below(200));
        // An order signals another one when all of them are started.
        let (mut users, started) = (Vec::new(), Arc::new(AtomicUsize::new(0)));
        for number in 0..ORDERS {
            let seat = usize::try_from(env.random_below(ENGINES as u64)).unwrap();
            let (clock, host, started) = (env.clone(), several.host(seat).clone(), started.clone());
            users.push(env.spawn(async move {
                let id = id(number);
                let request =
                    StartRequest::new("order").id(&id).input(&number).unwrap().idempotency_key("start");
                persist(&clock, || host.start(request.clone())).await.unwrap();
                started.fetch_add(1, Ordering::Relaxed);
                // A barrier of tokio wakes its waiters in an order that differs from run to run.
                while started.load(Ordering::Relaxed) < ORDERS {
                    clock.sleep(Duration::from_millis(5)).await;
                }
                clock.sleep(Duration::from_millis(clock.random_below(500))).await;
                persist(&clock, || host.signal(&id, "user", payload(&10_u32), Some("user"))).await.unwrap();
                persist(&clock, || host.result::<u32>(&id)).await.unwrap()
            }));
        }
        shuffle(&env, &several, 40).await;
        // From here on every partition has an owner, and all of them are reached.
        for (number, partition) in several.partitions().into_iter().enumerate() {
            several.hand_over(partition, number % ENGINES, Move::Clean).await;
        }
        several.tell_all().await;
        several.switchboard.lose(0);
        for (number, user) in users.into_iter().enumerate() {
            let ended = env.timeout(Duration::from_secs(3_600), user).await;
            assert_eq!(ended.unwrap_or_else(|_| panic!("order {number} of seed {seed} ends")).unwrap(), 14);
        }
        for number in 0..ORDERS {
            let host = several.host(number % ENGINES);
            let mut signals = audit(&env, host, &id(number)).await;
            signals.sort_unstable();
            assert_eq!(signals, ["hello", "user"], "order {number} of seed {seed}");
            for depth in 0..3 {
                audit(&env, host, &format!("part-{number}-{depth}")).await;
            }
        }
        // Nothing is left to do, in none of them.
        env.sleep(Duration::from_secs(60)).await;
        for seat in &several.seats {
            let idle = InMemory { partitions: seat.host.in_memory().partitions, ..InMemory::default() };
            assert_eq!(seat.host.in_memory(), idle, "seed {seed}");
        }
        let tails = several.tails().await;
        several.close().await;
        let effects = effects.lock();
        assert_eq!(effects.len(), ORDERS * 4, "seed {seed}: {effects:?}");
        (tails, effects.values().sum())
    })
}

#[test]
fn runs_continue_exactly_once_while_partitions_move_by_chance() {
    let effects: u32 = (0..seeds()).map(|seed| run(seed).1).sum();
    println!("{} seeds, {effects} effects of {} activities", seeds(), seeds() * ORDERS as u64 * 4);
}

#[test]
fn a_seed_gives_the_same_logs_again() {
    for seed in [3, 77] {
        assert_eq!(run(seed), run(seed), "seed {seed}");
    }
}
