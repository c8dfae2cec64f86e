//! Partitions move between engines on real threads, under load: nothing is lost, nothing happens twice, and there is no gap.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "how long a hand-over takes is part of the result")]

mod several;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use seriatim_engine::{Engine, NextRequest, Options};
use seriatim_env::{Env, Instant};
use seriatim_storage::Store;
use seriatim_storage::memory::MemoryStore;
use seriatim_types::sync::Mutex;
use seriatim_types::{ErrorKind, Partition};
use several::{World, memory, own_everything, stand_by_everything};

const CLIENTS: usize = 64;
const SERIES: &str = "invoices";

/// What the clients have seen.
#[derive(Default)]
struct Seen {
    /// The number that each key got.
    numbers: Mutex<BTreeMap<String, u64>>,
    /// When each number was answered, and by which engine.
    answers: Mutex<Vec<(Instant, usize)>>,
    in_doubt: AtomicU64,
    repeated: AtomicU64,
}

fn request(key: &str) -> NextRequest {
    NextRequest { idempotency_key: Some(key.to_owned()), ..NextRequest::default() }
}

/// Takes numbers, each with a key of its own, and repeats a request with its key until it is answered.
async fn client(env: Env, engines: [Engine; 2], id: usize, stop: Arc<AtomicBool>, seen: Arc<Seen>) {
    let mut at = id % 2;
    for round in 0_u64.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let key = format!("{id}-{round}");
        let number = loop {
            match engines[at].series().next(SERIES, &request(&key)).await {
                Ok(taken) => {
                    seen.repeated.fetch_add(u64::from(taken.repeated), Ordering::Relaxed);
                    seen.answers.lock().push((env.instant(), at));
                    break taken.number;
                }
                Err(error) => {
                    let kind = error.kind();
                    seen.in_doubt.fetch_add(u64::from(kind == ErrorKind::InDoubt), Ordering::Relaxed);
                    assert!(
                        matches!(kind, ErrorKind::Unavailable | ErrorKind::Busy | ErrorKind::InDoubt),
                        "{error}"
                    );
                    at = 1 - at;
                    tokio::task::yield_now().await;
                }
            }
        };
        let before = seen.numbers.lock().insert(key.clone(), number);
        assert_eq!(before, None, "{key}");
    }
}

/// The times between the last answer of one engine and the first of the other, ascending.
fn gaps(answers: &[(Instant, usize)]) -> Vec<Duration> {
    let moved = answers.windows(2).filter(|pair| pair[0].1 != pair[1].1);
    let mut gaps: Vec<Duration> = moved.map(|pair| pair[1].0.saturating_duration_since(pair[0].0)).collect();
    gaps.sort();
    gaps
}

async fn hand_over(engines: &[Engine; 2], partition: Partition, round: usize) {
    let (from, to) = (&engines[round % 2], &engines[(round + 1) % 2]);
    // Every third one is forced: the owner is not asked.
    if !round.is_multiple_of(3) {
        from.release(partition).await.unwrap();
    }
    to.own(partition).await.unwrap();
    if round.is_multiple_of(3) {
        from.stand_by(partition).await.unwrap();
    }
}

#[test]
fn partitions_move_back_and_forth_under_load() {
    let rounds = if std::env::var_os("SERIATIM_FULL").is_some() { 10_000 } else { 1_000 };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    runtime.block_on(async {
        let env = Env::real();
        let options = Options { flush_interval: Duration::from_millis(20), flush_at: 500, ..Options::default() };
        let world = World::new(&env, options);
        let first = world.join("first", memory(), vec![]).await;
        own_everything(&first).await;
        let second = world.join("second", memory(), vec![]).await;
        stand_by_everything(&second).await;
        let workspace = {
            first.series().next(SERIES, &request("the first one")).await.unwrap();
            first.series().state(SERIES).await.unwrap().workspace
        };
        let application = first.partitions("series").unwrap()[0].partition.application;
        let partition = Partition { application, id: first.partition_of("series", workspace).unwrap() };
        let engines = [first, second];
        let (stop, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(Seen::default()));
        let clients: Vec<_> = (0..CLIENTS)
            .map(|id| env.spawn(client(env.clone(), engines.clone(), id, stop.clone(), seen.clone())))
            .collect();
        for round in 0..rounds {
            hand_over(&engines, partition, round).await;
            // Each engine gets some work done before the next move.
            let enough = seen.numbers.lock().len() + 20;
            while seen.numbers.lock().len() < enough {
                env.sleep(Duration::from_micros(200)).await;
            }
        }
        stop.store(true, Ordering::Relaxed);
        for client in clients {
            client.await.unwrap();
        }
        let owner = &engines[rounds % 2];
        let numbers = seen.numbers.lock().clone();
        let mut taken: Vec<u64> = numbers.values().copied().collect();
        taken.sort_unstable();
        let all: Vec<u64> = (2..2 + taken.len() as u64).collect();
        assert_eq!(taken, all, "every number is there, once");
        let audit = owner.audit("series", workspace, "Number").await.unwrap();
        assert!(audit.is_complete(), "{audit:?}");
        assert_eq!(audit.numbers.count, taken.len() as u64 + 1);
        for (key, number) in numbers.iter().step_by(7) {
            let again = owner.series().next(SERIES, &request(key)).await.unwrap();
            assert_eq!((again.number, again.repeated), (*number, true), "{key}");
        }
        let scratch = || Store::new(MemoryStore::new());
        for engine in &engines {
            let report = engine
                .doctor(&scratch(), seriatim_engine::doctor::Treatment::Check, &mut |_| {})
                .await
                .unwrap();
            assert!(report.is_clean(), "{report:?}");
        }
        let mut answers = std::mem::take(&mut *seen.answers.lock());
        answers.sort_by_key(|(at, _)| *at);
        let gaps = gaps(&answers);
        let at = |percent: usize| gaps[(gaps.len() - 1) * percent / 100];
        println!(
            "{rounds} hand-overs, {} numbers, {} in doubt, {} repeated; between the engines' answers: p50 {:?}, p99 {:?}",
            taken.len(),
            seen.in_doubt.load(Ordering::Relaxed),
            seen.repeated.load(Ordering::Relaxed),
            at(50),
            at(99),
        );
        world.close().await;
    });
}
