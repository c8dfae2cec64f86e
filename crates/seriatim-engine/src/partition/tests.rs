//! Tests that need several threads.

use seriatim_env::Env;
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{Log, Store};

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
