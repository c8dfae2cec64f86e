//! Tests that need several threads, or a hold.

use std::sync::Arc;
use std::time::Duration;

use seriatim_env::{Env, simulate};
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{Log, Store};
use seriatim_storage_testing::faulty::{Faults, FaultyStore, Operation};

use crate::definition::shop;
use crate::{App, Change, Engine, Options, Request};

#[test]
fn a_held_partition_is_completely_flushed_even_if_a_flush_starts_at_the_same_time() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    runtime.block_on(async {
        let env = Env::real();
        let options = Options { flush_at: 1, ..Options::default() };
        let (log, store) = (Log::new(MemoryLog::new()), Store::new(MemoryStore::new()));
        let engine = Engine::open(env, log, store, [App::new(shop())], options).await.unwrap();
        let workspace = engine.create_workspace("shop", "store", None).await.unwrap().0.id;
        let partition = engine.running("shop").unwrap().partition_of(workspace);
        for _ in 0..1_000 {
            let request = Request::changes([Change::create("Customer", 1).field("name", "A")]);
            engine.submit("shop", workspace, &request).await.unwrap();
            let held = partition.hold().await.unwrap();
            let state = partition.state();
            assert_eq!((state.unflushed, state.checkpoint), (0, state.next_offset));
            drop(held);
        }
        engine.close().await;
    });
}

#[test]
fn a_read_that_a_recovery_has_overtaken_is_made_again() {
    simulate(1, |env| async move {
        let options = Options { begin_wait: Duration::from_secs(600), ..Options::default() };
        let faults = Faults::new(&env);
        let store = Store::new(FaultyStore::new(Arc::new(MemoryStore::new()), &faults));
        let log = Log::new(MemoryLog::new());
        let engine = Engine::open(env.clone(), log, store, [App::new(shop())], options).await.unwrap();
        let workspace = engine.create_workspace("shop", "store", None).await.unwrap().0.id;
        let partition = engine.running("shop").unwrap().partition_of(workspace);
        let customer = || Request::changes([Change::create("Customer", 1).field("name", "A")]);
        engine.submit("shop", workspace, &customer()).await.unwrap();
        partition.hold().await.unwrap();
        // The store answers this one late, and all others at once.
        faults.reset_counts();
        faults.delay(Operation::ScanPage, Duration::from_secs(100));
        let reading = {
            let engine = engine.clone();
            env.spawn(
                async move { engine.records("shop", workspace, "Customer", None, 9).await.unwrap().len() },
            )
        };
        while faults.count(Operation::ScanPage) == 0 {
            env.sleep(Duration::from_micros(1)).await;
        }
        faults.delay(Operation::ScanPage, Duration::ZERO);
        engine.submit("shop", workspace, &customer()).await.unwrap();
        partition.hold().await.unwrap().recover().await;
        assert_eq!(reading.await.unwrap(), 2, "it has what was committed before the recovery");
        engine.close().await;
    });
}
