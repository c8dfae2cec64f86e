//! Commands and recovery while flushes end at every step: what was fetched is outdated again and again, and everything is
//! done once and as if nothing had been flushed.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use seriatim_engine::doctor::Treatment;
use seriatim_engine::{Change, Engine, Options, Request};
use seriatim_env::{Env, simulate};
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{Log, Store};
use seriatim_storage_testing::faulty::{Faults, FaultyLog, FaultyStore, Operations};
use support::{customer, open_with, options, workspace};

/// Flushes as soon as anything waits.
fn often() -> Options {
    Options { flush_interval: Duration::from_micros(1), flush_at: 1, ..options() }
}

/// Every operation of the storage takes a random while, so that flushes end between any two steps of the others.
async fn open(env: &Env, log: &MemoryLog, store: &MemoryStore, options: Options) -> Engine {
    let faults = Faults::new(env);
    faults.delay(Operations::ALL, Duration::from_micros(20));
    let log = Log::new(FaultyLog::new(Arc::new(log.reopen()), &faults));
    let store = Store::new(FaultyStore::new(Arc::new(store.reopen()), &faults));
    open_with(env, log, store, options).await
}

async fn assert_clean(engine: &Engine) {
    let scratch = Store::new(MemoryStore::new());
    let report = engine.doctor(&scratch, Treatment::Check, &mut |_| {}).await.unwrap();
    assert!(report.is_clean(), "{report:?}");
}

#[test]
fn commands_that_read_much_are_done_once_while_flushes_end_at_every_step() {
    for seed in 1..=6 {
        simulate(seed, |env| async move {
            let (log, store) = (MemoryLog::new(), MemoryStore::new());
            let engine = open(&env, &log, &store, often()).await;
            let shop = workspace(&engine, "shop").await;
            // Two rounds of reads for each of them.
            let mut customers = Vec::new();
            for number in 0..10 {
                let answer = engine.submit("till", shop, &customer(&format!("{number}"))).await.unwrap();
                customers.push(answer.ids[0].1);
            }
            let mut tasks = Vec::new();
            for round in 0..20 {
                let bill = json!({"customers": customers.iter().map(|id| id.get()).collect::<Vec<_>>()});
                let bill = Request::new("Bill").args(bill).idempotency_key(format!("bill {round}"));
                let update =
                    Request::changes([Change::update(customers[round % 10]).field("name", "changed")]);
                for request in [bill.clone(), update, bill] {
                    let engine = engine.clone();
                    tasks.push(env.spawn(async move { engine.submit("till", shop, &request).await }));
                }
            }
            for task in tasks {
                task.await.unwrap().unwrap();
            }
            // Each bill once, each change, each customer.
            let rows = engine.view("till", shop, "count", &[], None, 1).await.unwrap();
            assert_eq!(rows[0].1, json!(10 + 20 + 20));
            assert_clean(&engine).await;
            engine.close().await;
        });
    }
}

#[test]
fn a_recovery_applies_every_event_once_while_flushes_end_at_every_step() {
    for seed in 1..=6 {
        simulate(seed, |env| async move {
            let (log, store) = (MemoryLog::new(), MemoryStore::new());
            let rarely = Options { flush_interval: Duration::from_secs(3_600), ..options() };
            let engine = open(&env, &log, &store, rarely).await;
            let shop = workspace(&engine, "shop").await;
            let answer = engine.submit("till", shop, &customer("A")).await.unwrap();
            let id = answer.ids[0].1;
            for number in 0..1_500 {
                let update = Request::changes([Change::update(id).field("name", format!("{number}"))]);
                engine.submit("till", shop, &update).await.unwrap();
            }
            // As after a crash: nothing was flushed.
            let log = log.reopen();
            let store = MemoryStore::new();
            let engine = open(&env, &log, &store, often()).await;
            let rows = engine.view("till", shop, "count", &[], None, 1).await.unwrap();
            assert_eq!(rows[0].1, json!(1_501));
            assert_clean(&engine).await;
            engine.close().await;
        });
    }
}
