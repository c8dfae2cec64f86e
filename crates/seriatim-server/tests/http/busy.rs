//! Each cause of `busy`: recovery, backlog, a full queue, too many requests. Each answer has `Retry-After`.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use seriatim_engine::Options;
use seriatim_env::Env;
use seriatim_server::ServerOptions;
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{
    Append, AppendFuture, Held, Log, LogBackend, LogError, LogIdentity, ReadEntries, ReadLimit, Store, Take,
    TakeOver,
};
use seriatim_storage_testing::faulty::{Fault, Faults, FaultyLog, FaultyStore, Operation};
use seriatim_types::{Epoch, Partition, PartitionOffset};
use tokio::sync::Semaphore;

use crate::server::Setup;

/// A storage with faults that the test controls.
fn faulty() -> (Setup, Faults) {
    let env = Env::real();
    let faults = Faults::new(&env);
    let log = Log::new(FaultyLog::new(Arc::new(MemoryLog::new()), &faults));
    let store = Store::new(FaultyStore::new(Arc::new(MemoryStore::new()), &faults));
    (Setup { log, store, storage: None, ..Setup::new() }, faults)
}

/// A log whose entries of applications cannot be read until the test adds permits to `reads`.
#[derive(Debug)]
struct BlockedLog {
    log: MemoryLog,
    reads: Arc<Semaphore>,
}

#[async_trait]
impl LogBackend for BlockedLog {
    async fn take_over(
        &self,
        partitions: &[(Partition, Option<Epoch>)],
        take: &Take,
    ) -> Result<Vec<TakeOver>, LogError> {
        self.log.take_over(partitions, take).await
    }

    async fn holder(&self, partition: Partition) -> Result<Option<Held>, LogError> {
        self.log.holder(partition).await
    }

    async fn identity(&self, create: Option<LogIdentity>) -> Result<Option<LogIdentity>, LogError> {
        self.log.identity(create).await
    }

    fn append(&self, append: Append<'_>) -> AppendFuture {
        self.log.append(append)
    }

    async fn read(
        &self,
        partition: Partition,
        from: PartitionOffset,
        limit: ReadLimit,
    ) -> Result<ReadEntries, LogError> {
        if partition.application.get() >= 16 {
            let _ = self.reads.acquire().await;
        }
        self.log.read(partition, from, limit).await
    }

    async fn tail(&self, partition: Partition) -> Result<PartitionOffset, LogError> {
        self.log.tail(partition).await
    }

    async fn committed(&self, partition: Partition, offset: PartitionOffset) -> Result<(), LogError> {
        self.log.committed(partition, offset).await
    }

    async fn partitions(&self) -> Result<Vec<Partition>, LogError> {
        self.log.partitions().await
    }

    fn bulletin(&self) -> Arc<dyn seriatim_storage::BulletinBackend> {
        self.log.bulletin()
    }

    async fn close(&self) -> Result<(), LogError> {
        self.log.close().await
    }
}

#[tokio::test]
async fn a_partition_that_recovers_is_busy() {
    let log = MemoryLog::new();
    let first = Setup { log: Log::new(log.reopen()), storage: None, ..Setup::new() }.start().await;
    let workspace = first.shop().await;
    let commands = format!("{workspace}/commands");
    let invoice = json!({"changes": [{"create": "Invoice", "id": 1}]});
    assert_eq!(first.post(&commands, &invoice).await.status, 201);
    first.stop().await;

    // The store is empty: everything is derived again from the log, which cannot be read yet.
    let reads = Arc::new(Semaphore::new(0));
    let blocked = Log::new(BlockedLog { log: log.reopen(), reads: reads.clone() });
    let server = Setup { log: blocked, storage: None, ready: false, ..Setup::new() }.start().await;
    let refused = server.post(&commands, &invoice).await;
    assert!(refused.body["detail"].as_str().unwrap().contains("recover"), "{refused:?}");
    let detail = refused.body["detail"].as_str().unwrap().to_owned();
    assert!(detail.starts_with("server is busy: "), "{detail}");
    refused.is_problem(503, "busy", &detail);
    let ready = server.get("/readyz").await;
    assert_eq!((ready.status, &ready.body["troubles"]), (503, &json!(["recovering"])), "{ready:?}");
    assert_eq!(ready.body["partitions"][0]["trouble"], "recovering");
    let states = server.get("/v1/apps/shop/partitions").await.body;
    assert!(states.as_array().unwrap().iter().any(|state| state["status"] == "recovering"), "{states}");

    reads.add_permits(1_000);
    assert!(server.engine.wait_ready(Duration::from_secs(60)).await);
    assert_eq!(server.post(&commands, &invoice).await.body["numbers"]["1"]["number"], 2);
    assert_eq!(server.get("/readyz").await.status, 200);
    server.stop().await;
}

#[tokio::test]
async fn a_backlogged_partition_is_busy() {
    let (mut setup, faults) = faulty();
    let begin_wait = Duration::from_millis(20);
    setup.engine = Options { unflushed_max: 40, flush_at: 10, begin_wait, ..Options::default() };
    let server = setup.start().await;
    let workspace = server.shop().await;
    let invoice = json!({"changes": [{"create": "Invoice", "id": 1}]});
    faults.fail(Operation::Write, Fault::Refuse);
    let mut done = 0;
    let refused = loop {
        let reply = server.post(&format!("{workspace}/commands"), &invoice).await;
        if reply.status != 201 {
            break reply;
        }
        done += 1;
        assert!(done < 100, "memory is bounded");
    };
    let detail = refused.body["detail"].as_str().unwrap().to_owned();
    assert!(detail.starts_with("server is busy: ") && detail.contains("flush"), "{detail}");
    refused.is_problem(503, "busy", &detail);
    faults.heal();
    server.stop().await;
}

#[tokio::test]
async fn a_full_queue_is_busy() {
    let (mut setup, faults) = faulty();
    setup.engine = Options { queue_max: 1, ..Options::default() };
    let server = setup.start().await;
    server.post("/v1/series/a/next", &json!({})).await;
    let hold = faults.hold(Operation::Append);
    let mut tasks = vec![server.post_later("/v1/series/a/next", &json!({}))];
    hold.reached(1).await;
    // One command is being appended. Of the next three, one waits in the queue, and the others find it full.
    tasks.extend((0..3).map(|_| server.post_later("/v1/series/a/next", &json!({}))));
    let (mut refused, mut waiting) = (0, Vec::new());
    while refused < 2 {
        assert!(!tasks.is_empty(), "no request was refused");
        for mut task in std::mem::take(&mut tasks) {
            match server.env.timeout(Duration::from_millis(20), &mut task).await {
                Ok(reply) => {
                    let text = "server is busy: 1 commands wait in this partition; try again after a moment";
                    reply.unwrap().is_problem(503, "busy", text);
                    refused += 1;
                }
                Err(_) => tasks.push(task),
            }
        }
    }
    waiting.append(&mut tasks);
    hold.release();
    for task in waiting {
        assert_eq!(task.await.unwrap().status, 201);
    }
    server.stop().await;
}

#[tokio::test]
async fn too_many_requests_at_once_are_busy_and_health_is_not() {
    let (mut setup, faults) = faulty();
    setup.options = ServerOptions { requests_max: 1, ..ServerOptions::default() };
    let server = setup.start().await;
    server.post("/v1/series/a/next", &json!({})).await;
    let hold = faults.hold(Operation::Append);
    let waiting = server.post_later("/v1/series/a/next", &json!({}));
    hold.reached(1).await;
    let refused = server.get("/v1/series").await;
    let text = "server is busy: too many requests are in progress; try again after a moment";
    refused.is_problem(503, "busy", text);
    assert_eq!(server.get("/livez").await.status, 200);
    hold.release();
    assert_eq!(waiting.await.unwrap().body["number"], 2);
    assert_eq!(server.get("/v1/series").await.status, 200);
    server.stop().await;
}
