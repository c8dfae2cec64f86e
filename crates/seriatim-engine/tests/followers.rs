//! Asynchronous projectors: each event at least once, in order, with an offset of their own.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use seriatim_engine::definition::shop;
use seriatim_engine::{App, AsyncProjector, Change, Engine, Options, Projected, Request};
use seriatim_env::{Env, simulate};
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{Log, Store};

/// Remembers what it was given; fails once at each event that has a number divisible by three.
#[derive(Debug, Clone, Default)]
struct Mail {
    sent: Arc<Mutex<Vec<u64>>>,
    failed: Arc<Mutex<Vec<u64>>>,
}

#[async_trait]
impl AsyncProjector for Mail {
    fn name(&self) -> &str {
        "mail"
    }

    async fn take(&self, event: Projected<'_>) -> Result<(), String> {
        let offset = event.place.workspace_offset.get();
        let mut failed = self.failed.lock().unwrap();
        if offset.is_multiple_of(3) && !failed.contains(&offset) {
            failed.push(offset);
            return Err("the mail server is away".to_owned());
        }
        self.sent.lock().unwrap().push(offset);
        Ok(())
    }
}

async fn open(env: &Env, log: &MemoryLog, store: &MemoryStore, mail: &Mail) -> Engine {
    let (log, store) = (Log::new(log.reopen()), Store::new(store.reopen()));
    let app = App::new(shop()).async_projector(mail.clone());
    let engine = Engine::open(env.clone(), log, store, [app], Options::default()).await.unwrap();
    assert!(engine.wait_ready(Duration::from_secs(60)).await);
    engine
}

#[test]
fn an_asynchronous_projector_goes_on_where_it_was_and_repeats_what_failed() {
    simulate(1, |env| async move {
        let (log, store) = (MemoryLog::new(), MemoryStore::new(env.clone()));
        let mail = Mail::default();
        for life in 1..=3 {
            let engine = open(&env, &log, &store, &mail).await;
            let (corner, _) = engine.create_workspace("shop", "store", Some("corner")).await.unwrap();
            for _ in 0..10 {
                let request = Request::changes([Change::create("Invoice", 1)]);
                engine.submit("shop", corner.id, &request).await.unwrap();
            }
            // Three failures of each ten, half a second apart.
            env.sleep(Duration::from_secs(10)).await;
            assert_eq!(*mail.sent.lock().unwrap(), (1..=10 * life).collect::<Vec<u64>>());
            engine.close().await;
        }
        assert_eq!(mail.failed.lock().unwrap().len(), 10);
    });
}
