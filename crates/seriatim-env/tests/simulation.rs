//! The same seed gives the same order of events.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use seriatim_env::{Env, SIMULATION_START, TaskError, simulate};

/// Runs eight tasks that sleep, yield and draw. Returns what they did, in the order in which they did it.
async fn scenario(env: Env) -> Vec<(usize, u64, u64)> {
    let log = Arc::new(Mutex::new(Vec::new()));
    let tasks: Vec<_> = (0..8)
        .map(|task| {
            let (env, log) = (env.clone(), log.clone());
            env.clone().spawn(async move {
                for _ in 0..20 {
                    let draw = env.random_below(5);
                    env.sleep(Duration::from_millis(draw)).await;
                    log.lock().unwrap().push((task, draw, env.now().as_millis()));
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    Arc::try_unwrap(log).unwrap().into_inner().unwrap()
}

#[test]
fn the_same_seed_gives_the_same_order_of_events() {
    for seed in 0..20 {
        assert_eq!(simulate(seed, scenario), simulate(seed, scenario), "seed {seed}");
    }
}

#[test]
fn another_seed_gives_another_order() {
    assert_ne!(simulate(1, scenario), simulate(2, scenario));
}

#[test]
fn tasks_that_never_wait_are_also_reordered_by_the_seed() {
    let order = |seed| {
        simulate(seed, |env| async move {
            let order = Arc::new(Mutex::new(Vec::new()));
            let tasks: Vec<_> = (0..6)
                .map(|task| {
                    let order = order.clone();
                    env.spawn(async move { order.lock().unwrap().push(task) })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
            order.lock().unwrap().clone()
        })
    };
    let orders: std::collections::BTreeSet<Vec<i32>> = (0..50).map(order).collect();
    assert!(orders.len() > 5, "50 seeds showed only {} orders", orders.len());
}

#[test]
fn the_virtual_clock_moves_only_by_sleeping() {
    simulate(3, |env| async move {
        assert_eq!(env.now(), SIMULATION_START);
        env.blocking(|| ()).await;
        assert_eq!(env.now(), SIMULATION_START);
        env.sleep(Duration::from_millis(1_500)).await;
        assert_eq!(env.now(), SIMULATION_START.after(Duration::from_millis(1_500)));
    });
}

#[test]
fn a_timeout_drops_what_is_late_and_keeps_what_is_in_time() {
    simulate(4, |env| async move {
        let late = env.timeout(Duration::from_millis(5), env.sleep(Duration::from_millis(6))).await;
        assert!(late.is_err());
        let in_time = env.timeout(Duration::from_millis(7), env.sleep(Duration::from_millis(6))).await;
        assert!(in_time.is_ok());
    });
}

#[test]
fn awaiting_a_task_that_panicked_gives_an_error() {
    simulate(5, |env| async move {
        let task = env.spawn(async { panic!("the reason") });
        assert_eq!(task.await, Err::<(), _>(TaskError::Panicked("the reason".to_owned())));
        let task = env.spawn(std::future::pending::<()>());
        task.cancel();
        assert_eq!(task.await, Err(TaskError::Cancelled));
    });
}

#[test]
fn jitter_stays_within_a_quarter() {
    simulate(6, |env| async move {
        for _ in 0..1_000 {
            let jittered = env.jitter(Duration::from_millis(100));
            assert!((75..=125).contains(&jittered.as_millis()), "{jittered:?}");
        }
        assert_eq!(env.jitter(Duration::ZERO), Duration::ZERO);
    });
}

#[test]
fn the_real_environment_works() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    runtime.block_on(async {
        let env = Env::real();
        assert!(env.now() > SIMULATION_START);
        assert_ne!(env.random(), env.random());
        let before = env.instant();
        env.sleep(Duration::from_millis(2)).await;
        assert!(env.instant() - before >= Duration::from_millis(2));
        assert_eq!(env.blocking(|| 7).await, 7);
        assert_eq!(env.spawn(async { 8 }).await, Ok(8));
        env.thread("seriatim-test", || ()).unwrap().join().unwrap();
        env.shutdown().cancel();
        env.clone().shutdown().cancelled().await;
    });
}
