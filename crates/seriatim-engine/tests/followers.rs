//! Following logs, by hand and by asynchronous projectors.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use seriatim_engine::definition::shop;
use seriatim_engine::{App, AsyncProjector, Change, Engine, Options, Projected, Request};
use seriatim_env::{Env, simulate};
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{Log, Store};
use seriatim_types::{ErrorKind, PartitionOffset, WorkspaceId, WorkspaceOffset};

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

async fn invoice(engine: &Engine, workspace: WorkspaceId) {
    let request = Request::changes([Change::create("Invoice", 1)]);
    engine.submit("shop", workspace, &request).await.unwrap();
}

#[test]
fn a_follower_gets_what_is_there_and_then_what_comes() {
    simulate(1, |env| async move {
        let engine = open(&env, &MemoryLog::new(), &MemoryStore::new(env.clone()), &Mail::default()).await;
        let corner = engine.create_workspace("shop", "store", None).await.unwrap().0.id;
        let other = engine.create_workspace("shop", "store", None).await.unwrap().0.id;
        for _ in 0..5 {
            invoice(&engine, corner).await;
        }
        let from = WorkspaceOffset::new(2).unwrap();
        let mut follower = engine.follow_workspace("shop", corner, from).await.unwrap();
        assert_eq!(follower.next(3).await.unwrap().len(), 3);
        assert_eq!(follower.next(3).await.unwrap().len(), 1);
        assert_eq!(follower.offset().get(), 6);
        // What happens elsewhere does not wake it.
        invoice(&engine, other).await;
        assert!(env.timeout(Duration::from_secs(60), follower.next(3)).await.is_err());
        let waiting =
            env.spawn(async move { follower.next(3).await.unwrap()[0].place.workspace_offset.get() });
        env.sleep(Duration::from_secs(1)).await;
        invoice(&engine, corner).await;
        assert_eq!(waiting.await.unwrap(), 6);

        let partition = engine.partition_of("shop", corner).unwrap();
        let mut follower = engine.follow_partition("shop", partition, PartitionOffset::FIRST).unwrap();
        assert_eq!(follower.next(100).await.unwrap().len(), 6);
        assert_eq!(follower.offset().get(), 7);

        let mut late =
            engine.follow_workspace("shop", corner, WorkspaceOffset::new(7).unwrap()).await.unwrap();
        let waiting = env.spawn(async move { late.next(1).await.unwrap_err().kind() });
        env.sleep(Duration::from_secs(1)).await;
        engine.close().await;
        assert_eq!(waiting.await.unwrap(), ErrorKind::Closed, "it does not wait for ever");
    });
}
