//! Inputs of activities that wait for an attempt: bounded in memory, and the same on every attempt.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::World;
use common::gate::Gate;
use seriatim_env::simulate;
use seriatim_storage::memory::MemoryStore;
use seriatim_storage::{Log, Store};
use seriatim_workflow::{ActivityOptions, Context, Exit, Failure, Registry, RetryPolicy};
use seriatim_workflow_host::{Activities, ActivityContext, HostOptions};

const RUNS: usize = 5;
const ACTIVITIES: usize = 50;
const BYTES: usize = 64 << 10;

/// Each activity fails twice, and waits half a minute after each.
fn workflows() -> Registry {
    Registry::new().workflow("many", |ctx: Context, run: usize| async move {
        let retry_policy = RetryPolicy {
            initial_interval: Duration::from_secs(30),
            backoff_coefficient: 1.0,
            ..RetryPolicy::default()
        };
        let options = ActivityOptions { retry_policy: Some(retry_policy), ..ActivityOptions::default() };
        let begun: Vec<_> = (0..ACTIVITIES)
            .map(|number| ctx.activity::<_, usize>("take", input(run, number)).options(options.clone()))
            .collect();
        let mut taken = 0;
        for activity in begun.into_iter().map(IntoFuture::into_future).collect::<Vec<_>>() {
            taken += activity.await?;
        }
        Ok::<_, Exit>(taken)
    })
}

fn input(run: usize, number: usize) -> String {
    let text = format!("{run}/{number};");
    text.repeat(BYTES / text.len())
}

/// How many attempts have had which input, by what it begins with.
type Seen = Arc<Mutex<BTreeMap<String, u32>>>;

fn activities(seen: &Seen) -> Activities {
    let seen = seen.clone();
    Activities::new().register("take", move |ctx: ActivityContext, text: String| {
        let first = text.split(';').next().unwrap().to_owned();
        assert!(text.split_terminator(';').all(|part| part == first), "not mixed up");
        assert!(text.len() > BYTES - 20);
        *seen.lock().unwrap().entry(first).or_default() += 1;
        async move {
            match ctx.info().attempt {
                3 => Ok(1_usize),
                _ => Err(Failure::application("No", "not yet")),
            }
        }
    })
}

/// Events that were read, and bytes that were kept, while all activities wait for their second attempt.
fn waiting(pending_bytes: usize) -> (usize, usize) {
    let found = Arc::new(Mutex::new((0, 0)));
    let out = found.clone();
    simulate(1, |env| async move {
        let (gate, seen) = (Gate::new(), Seen::default());
        let (log, store) = (Log::new(gate.clone()), Store::new(MemoryStore::new()));
        let options = || HostOptions { pending_bytes, ..HostOptions::default() };
        let world = World::on(&env, log, store, workflows(), activities(&seen), options()).await;
        for run in 0..RUNS {
            world.start("many", &format!("many-{run}"), &run).await;
        }
        world.sleep_ms(15_000).await;
        let kept = world.host.pending_bytes();
        let attempts = || -> Vec<u32> { seen.lock().unwrap().values().copied().collect() };
        assert_eq!(attempts(), [1; RUNS * ACTIVITIES]);
        let first = gate.take_count();
        world.sleep_ms(30_000).await;
        assert_eq!(attempts(), [2; RUNS * ACTIVITIES]);
        *out.lock().unwrap() = (first + gate.take_count(), kept);
        // After a restart they are all read.
        let world = world.again_with(workflows(), activities(&seen), options()).await;
        assert_eq!(world.host.pending_bytes(), 0);
        for run in 0..RUNS {
            assert_eq!(world.result::<usize>(&format!("many-{run}")).await, ACTIVITIES);
        }
        assert_eq!(attempts(), [3; RUNS * ACTIVITIES]);
        assert_eq!(world.host.pending_bytes(), 0);
        world.close().await;
    });
    let found = found.lock().unwrap();
    *found
}

#[test]
fn inputs_beyond_the_bound_are_read_when_an_attempt_begins() {
    let (read, kept) = waiting(1 << 20);
    assert!((1 << 19..=1 << 20).contains(&kept), "{kept}");
    // Sixteen fit, give or take; the others are read for both attempts, those of one event together.
    assert!((2 * (RUNS - 1)..=2 * RUNS * ACTIVITIES).contains(&read), "{read}");
}

#[test]
fn inputs_within_the_bound_are_not_read_again() {
    let (read, kept) = waiting(64 << 20);
    assert_eq!(read, 0);
    assert!(kept > RUNS * ACTIVITIES * (BYTES - 20), "{kept}");
}
