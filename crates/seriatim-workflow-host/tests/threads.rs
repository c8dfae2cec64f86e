//! Code that does not return: other runs continue. On real threads, since a simulation has one.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::result_large_err, reason = "failures are rare")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::*;
use seriatim_env::Env;
use seriatim_workflow::{Context, Exit, Registry};
use seriatim_workflow_host::{HostError, HostOptions, StartRequest, demo};

/// `spin` loops when it is told to, until the test is over.
fn workflows(is_over: &Arc<AtomicBool>) -> Registry {
    let is_over = Arc::clone(is_over);
    demo::workflows().workflow("spin", move |ctx: Context, (): ()| {
        let is_over = Arc::clone(&is_over);
        async move {
            ctx.signals::<()>("go").next().await?;
            ctx.spawn(|ctx| async move {
                drop(ctx.timer(Duration::from_secs(1)));
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
            .await;
            Ok::<_, Exit>(())
        }
    })
}

/// The priorities of this process's threads for workflow code.
#[cfg(target_os = "linux")]
fn priorities() -> Vec<i32> {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let read = threads.filter_map(|thread| std::fs::read_to_string(thread.unwrap().path().join("stat")).ok());
    let of_workflows = read.filter(|stat| stat.contains("(workflow-"));
    // The 19th field; the name, which is the second, is in brackets.
    let nice = |stat: String| stat.rsplit_once(") ").unwrap().1.split(' ').nth(16).unwrap().parse().unwrap();
    of_workflows.map(nice).collect()
}

fn options(threads: usize, abandoned: usize) -> HostOptions {
    HostOptions {
        workflow_threads: threads,
        abandoned_threads_max: abandoned,
        activation_timeout: Duration::from_millis(100),
        ..HostOptions::default()
    }
}

async fn spins(world: &World, id: &str) -> Result<(), HostError> {
    world.start("spin", id, &()).await;
    world.host.signal(id, "go", Vec::new(), None).await.map(drop)
}

/// Loops are given up after a minute here, and the test ends long before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_runs_do_not_wait_until_loops_are_given_up() {
    let (env, is_over) = (Env::real(), Arc::new(AtomicBool::new(false)));
    let options = HostOptions { activation_timeout: Duration::from_secs(60), ..options(2, 16) };
    let world = Arc::new(World::with(&env, workflows(&is_over), demo::activities(), options).await);
    let spinning = (0..5).map(|number| {
        let world = world.clone();
        env.spawn(async move { spins(&world, &format!("s{number}")).await })
    });
    let spinning: Vec<_> = spinning.collect();
    for number in 0..20 {
        let id = format!("g{number}");
        world.start("greet", &id, &"Ada").await;
        assert_eq!(world.result::<String>(&id).await, "Hello, Ada!");
    }
    is_over.store(true, Ordering::Relaxed);
    for spun in spinning {
        spun.await.unwrap().unwrap();
    }
    Arc::into_inner(world).unwrap().close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_endless_loops_than_threads_hold_up_nothing_else() {
    let (env, is_over) = (Env::real(), Arc::new(AtomicBool::new(false)));
    let activities = demo::activities();
    let world = World::with(&env, workflows(&is_over), activities, options(2, 16)).await;
    for number in 0..5 {
        let error = spins(&world, &format!("s{number}")).await.unwrap_err().to_string();
        assert!(error.contains("has not returned for 100ms, in branch /1"), "{error}");
        assert!(error.contains("threads.rs:"), "{error}");
    }
    world.start("greet", "g", &"Ada").await;
    assert_eq!(world.result::<String>("g").await, "Hello, Ada!");
    assert!(world.host.describe("s4", None).await.unwrap().stuck.is_some());
    world.host.terminate("s3", "it loops", None).await.unwrap();
    assert_eq!(world.host.exhausted_threads(), None);
    #[cfg(target_os = "linux")]
    assert!(priorities().iter().filter(|nice| **nice == 19).count() >= 5, "{:?}", priorities());
    is_over.store(true, Ordering::Relaxed);
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn threads_that_are_used_up_are_told_and_come_back() {
    let (env, is_over) = (Env::real(), Arc::new(AtomicBool::new(false)));
    let world = World::with(&env, workflows(&is_over), demo::activities(), options(1, 1)).await;
    for id in ["a", "b"] {
        spins(&world, id).await.unwrap_err();
    }
    let host = world.host.clone();
    let waits =
        env.spawn(async move { host.start(StartRequest::new("greet").id("g").input(&"Ada").unwrap()).await });
    while world.host.exhausted_threads() != Some(2) {
        tokio::task::yield_now().await;
    }
    is_over.store(true, Ordering::Relaxed);
    waits.await.unwrap().unwrap();
    assert_eq!(world.result::<String>("g").await, "Hello, Ada!");
    assert_eq!(world.host.exhausted_threads(), None);
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_destructor_that_does_not_return_holds_up_nothing_else() {
    struct Blocks(Arc<AtomicBool>);
    impl Drop for Blocks {
        fn drop(&mut self) {
            while !self.0.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        }
    }
    let (env, is_over) = (Env::real(), Arc::new(AtomicBool::new(false)));
    let of_code = Arc::clone(&is_over);
    let workflows = demo::workflows().workflow("blocks", move |ctx: Context, (): ()| {
        let held = Blocks(Arc::clone(&of_code));
        async move {
            ctx.signals::<()>("go").next().await?;
            drop(held);
            Ok::<_, Exit>(())
        }
    });
    // Its code does not fit into memory: it is dropped when nothing happens to it.
    let options = HostOptions { cached_instances: 0, ..options(2, 16) };
    let world = World::with(&env, workflows, demo::activities(), options).await;
    world.start("blocks", "b", &()).await;
    world.start("greet", "g", &"Ada").await;
    assert_eq!(world.result::<String>("g").await, "Hello, Ada!");
    assert_eq!(world.host.describe("b", None).await.unwrap().stuck, None);
    is_over.store(true, Ordering::Relaxed);
    world.close().await;
}
