//! What a host reads of open runs when it starts, and which partitions it waits for.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::World;
use common::gate::{Gate, Reads};
use seriatim_engine::{Engine, Options};
use seriatim_env::{Env, simulate};
use seriatim_storage::memory::MemoryStore;
use seriatim_storage::{Log, Store};
use seriatim_types::PartitionId;
use seriatim_workflow::{Context, Exit, Failure, Registry};
use seriatim_workflow_host::{Activities, ActivityContext, HostOptions, RunStatus, WorkflowHost, Workflows};

const HOUR: Duration = Duration::from_secs(3_600);

fn workflows() -> Registry {
    Registry::new()
        .workflow("long", |ctx: Context, steps: u32| async move {
            for _ in 0..steps {
                ctx.timer(Duration::from_millis(1)).await?;
            }
            let before = ctx.now();
            ctx.timer(HOUR).await?;
            Ok::<_, Exit>(ctx.now().since(before).as_secs())
        })
        .workflow("told", |ctx: Context, steps: u32| async move {
            for _ in 0..steps {
                ctx.timer(Duration::from_millis(1)).await?;
            }
            Ok::<u32, Exit>(ctx.signals("number").next().await?)
        })
        .workflow("short", |ctx: Context, (): ()| async move {
            ctx.timer(Duration::from_secs(30)).await?;
            Ok::<_, Exit>(1)
        })
        .workflow("works", |ctx: Context, (): ()| async move {
            // Beside a long timer: what is in progress continues all the same.
            let timer = ctx.timer(HOUR);
            let done: u32 = ctx.activity("slow", ()).await?;
            drop(timer);
            Ok::<u32, Exit>(done)
        })
        .workflow("parent", |ctx: Context, (): ()| async move {
            Ok::<u64, Exit>(ctx.child("long", 3_u32).id("child").await?)
        })
}

/// The workflows whose activity has begun, in order.
type Begun = Arc<Mutex<Vec<String>>>;

fn activities(begun: &Begun) -> Activities {
    let begun = begun.clone();
    Activities::new().register("slow", move |ctx: ActivityContext, (): ()| {
        begun.lock().unwrap().push(ctx.info().workflow_id.clone());
        async move {
            ctx.env().sleep(Duration::from_secs(20)).await;
            Ok::<_, Failure>(7_u32)
        }
    })
}

fn options() -> HostOptions {
    HostOptions { close_grace: Duration::ZERO, ..HostOptions::default() }
}

#[test]
fn runs_that_only_wait_are_not_read_when_a_host_starts() {
    const RUNS: usize = 100;
    const STEPS: u32 = 200;
    simulate(1, |env| async move {
        let (gate, begun) = (Gate::new(), Begun::default());
        let (log, store) = (Log::new(gate.clone()), Store::new(MemoryStore::new()));
        let world = World::on(&env, log, store, workflows(), activities(&begun), options()).await;
        for run in 0..RUNS {
            world.start("long", &format!("long-{run}"), &STEPS).await;
        }
        world.start("told", "told", &STEPS).await;
        world.sleep_ms(10_000).await;
        world.start("works", "works", &()).await;
        world.start("short", "short", &()).await;
        world.start("parent", "parent", &()).await;
        world.sleep_ms(5_000).await;
        let history = world.host.history("long-7", None).await.unwrap();
        assert!(history.events.len() > 200, "{}", history.events.len());

        gate.take_count();
        let world = world.again_with(workflows(), activities(&begun), options()).await;
        world.sleep_ms(5_000).await;
        let read = gate.take_count();
        assert!(read < 100, "{read} events of {}", RUNS * 200);
        assert_eq!(*begun.lock().unwrap(), ["works", "works"], "the activity was begun again");
        let open = world.host.list(Some(RunStatus::Running), None, 1_000).await.unwrap();
        assert_eq!(open.len(), RUNS + 5);

        // What somebody asks for is read then, and nothing else.
        world.signal("told", "number", &5).await;
        assert_eq!(world.result::<u32>("told").await, 5);
        let read = gate.take_count();
        assert!((200..1_000).contains(&read), "{read}");
        assert_eq!(world.result::<u32>("works").await, 7);
        assert_eq!(world.result::<u32>("short").await, 1);
        for run in 0..RUNS {
            assert_eq!(world.result::<u64>(&format!("long-{run}")).await, 3_600, "the timer kept its time");
        }
        assert_eq!(world.result::<u64>("parent").await, 3_600);
        world.close().await;
    });
}

#[test]
fn a_wait_that_was_noted_is_forgotten_when_the_run_has_something_to_do() {
    simulate(2, |env| async move {
        let workflows = || {
            Registry::new().workflow("w", |ctx: Context, (): ()| async move {
                let mut numbers = ctx.signals::<u32>("number");
                let first = numbers.next().await?;
                let done: u32 = ctx.activity("slow", ()).await?;
                ctx.timer(HOUR).await?;
                Ok::<_, Exit>(first + done)
            })
        };
        let begun = Begun::default();
        let (log, store) = common::storage();
        let mut world = World::on(&env, log, store, workflows(), activities(&begun), options()).await;
        world.start("w", "w", &()).await;
        world = world.again_with(workflows(), activities(&begun), options()).await;
        world.signal("w", "number", &3).await;
        world.sleep_ms(1_000).await;
        // Twice: what the first start finds is known in memory, what the second one finds is in the index.
        for count in 2..4 {
            world = world.again_with(workflows(), activities(&begun), options()).await;
            world.sleep_ms(1_000).await;
            assert_eq!(begun.lock().unwrap().len(), count, "it was begun again");
        }
        world.sleep_ms(60_000).await;
        let before = env.now();
        world = world.again_with(workflows(), activities(&begun), options()).await;
        assert_eq!(world.result::<u32>("w").await, 10);
        let waited = env.now().as_millis() - before.as_millis();
        assert!(waited < 3_600_000, "{waited}: the timer kept its time");
        assert_eq!(begun.lock().unwrap().len(), 3);
        world.close().await;
    });
}

/// Two runs with an activity under way, in two partitions: their ids, and the partition of the first.
async fn two(env: &Env, gate: &Gate, begun: &Begun) -> (String, String, PartitionId) {
    let (log, store) = (Log::new(gate.clone()), Store::new(MemoryStore::new()));
    let world = World::on(env, log, store, workflows(), activities(begun), options()).await;
    let partition = async |id: &str| {
        let workspace = Workflows::new(&world.engine).find(id).await.unwrap().unwrap();
        world.engine.partition_of("workflows", workspace).unwrap()
    };
    world.start("works", "first", &()).await;
    let first = partition("first").await;
    let mut number = 0;
    let second = loop {
        number += 1;
        let id = format!("other-{number}");
        Workflows::new(&world.engine).register(&id).await.unwrap();
        if partition(&id).await != first {
            break id;
        }
    };
    world.start("works", &second, &()).await;
    world.sleep_ms(1_000).await;
    world.close().await;
    begun.lock().unwrap().clear();
    ("first".to_owned(), second, first)
}

#[test]
fn a_partition_that_is_not_ready_keeps_no_other_from_resuming_and_resumes_when_it_is() {
    for seed in 0..4 {
        simulate(seed, |env| async move {
            let (gate, begun) = (Gate::new(), Begun::default());
            let (first, second, partition) = two(&env, &gate, &begun).await;
            // Nothing derived is left: each partition recovers from its log, and this one does not come to an end.
            gate.set(Reads::Wait(partition));
            let (log, store) = (Log::new(gate.clone()), Store::new(MemoryStore::new()));
            let world = World::on(&env, log, store, workflows(), activities(&begun), options()).await;
            world.sleep_ms(60_000).await;
            assert_eq!(*begun.lock().unwrap(), [second.as_str()]);
            assert_eq!(world.result::<u32>(&second).await, 7);
            gate.set(Reads::Pass);
            world.sleep_ms(5_000).await;
            assert_eq!(*begun.lock().unwrap(), [second, first.clone()]);
            assert_eq!(world.result::<u32>(&first).await, 7);
            world.close().await;
        });
    }
}

#[test]
fn a_stopped_partition_keeps_no_other_from_resuming() {
    simulate(5, |env| async move {
        let (gate, begun) = (Gate::new(), Begun::default());
        let (_, second, partition) = two(&env, &gate, &begun).await;
        gate.set(Reads::Corrupt(partition));
        let (log, store) = (Log::new(gate.clone()), Store::new(MemoryStore::new()));
        let world = World::on(&env, log, store, workflows(), activities(&begun), options()).await;
        assert_eq!(world.result::<u32>(&second).await, 7);
        assert_eq!(*begun.lock().unwrap(), [second]);
        world.close().await;
    });
}

#[test]
fn runs_that_cannot_be_read_take_no_place_from_others() {
    simulate(6, |env| async move {
        let (gate, begun) = (Gate::new(), Begun::default());
        let (log, store) = (Log::new(gate.clone()), Store::new(MemoryStore::new()));
        let world =
            World::on(&env, log.clone(), store.clone(), workflows(), activities(&begun), options()).await;
        let mut partitions = Vec::new();
        for run in 0..40 {
            let id = format!("run-{run}");
            world.start("works", &id, &()).await;
            let workspace = Workflows::new(&world.engine).find(&id).await.unwrap().unwrap();
            partitions.push((world.engine.partition_of("workflows", workspace).unwrap(), id));
        }
        world.sleep_ms(1_000).await;
        world.close().await;
        begun.lock().unwrap().clear();
        let (refused, _) = partitions[0];
        assert!(partitions.iter().filter(|(partition, _)| *partition == refused).count() >= 2);
        let engine = Engine::open(
            env.clone(),
            log,
            store,
            [seriatim_workflow_host::app().unwrap()],
            Options::default(),
        )
        .await
        .unwrap();
        assert!(engine.wait_ready(Duration::from_secs(60)).await);
        gate.set(Reads::Refuse(refused));
        let narrow = HostOptions { active_max: 1, ..options() };
        let host = WorkflowHost::open(env.clone(), engine.clone(), workflows(), activities(&begun), narrow);
        for (_, id) in partitions.iter().filter(|(partition, _)| *partition != refused) {
            let ended = env.timeout(Duration::from_secs(120), host.result::<u32>(id)).await;
            assert_eq!(ended.expect("it gets its turn").unwrap(), 7);
        }
        gate.set(Reads::Pass);
        for (_, id) in &partitions {
            assert_eq!(host.result::<u32>(id).await.unwrap(), 7);
        }
        host.close().await;
        engine.close().await;
    });
}
