//! What readers see while a partition recovers: what was acknowledged, or that it is busy; never less.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use seriatim_engine::{Change, Engine, Found, NextRequest, Options, PartitionStatus, Request, SubmitError};
use seriatim_env::watch;
use seriatim_env::{Env, simulate};
use seriatim_sequencer::Busy;
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{
    Append, AppendFuture, Held, Log, LogBackend, LogError, LogIdentity, ReadEntries, ReadLimit, Store, Take,
    TakeOver,
};
use seriatim_storage_testing::faulty::{Fault, Faults, FaultyLog, FaultyStore, Operation};
use seriatim_types::{Epoch, Partition, PartitionOffset, RecordId, WorkspaceId, WorkspaceOffset};
use support::{customer, invoice, options, till, workspace};

/// What reads of the log do, those of the registry excepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reads {
    Pass,
    Wait,
    Corrupt,
}

/// A log whose reads can be held, so that an engine opens and its applications do not finish their recovery.
#[derive(Debug, Clone)]
struct HeldLog {
    log: MemoryLog,
    reads: watch::Sender<Reads>,
}

#[async_trait]
impl LogBackend for HeldLog {
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
        if partition.application.get() != 1 {
            let reads = *self.reads.subscribe().wait_for(|reads| *reads != Reads::Wait).await.unwrap();
            if reads == Reads::Corrupt {
                return Err(LogError::Corrupt("as it was told".to_owned()));
            }
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

/// A till that was opened again after a crash that lost everything derived, in the middle of its recovery.
struct Desk {
    reads: watch::Sender<Reads>,
    engine: Engine,
    shop: WorkspaceId,
    ada: RecordId,
    order: RecordId,
}

impl Desk {
    async fn open(env: &Env, reads: Reads, options: Options) -> Self {
        let (log, store) = (MemoryLog::new(), MemoryStore::new());
        let faults = Faults::new(env);
        let open = async |reads: &watch::Sender<Reads>| {
            let log = Log::new(HeldLog { log: log.reopen(), reads: reads.clone() });
            let store = Store::new(FaultyStore::new(Arc::new(store.reopen()), &faults));
            Engine::open(env.clone(), log, store, [till()], options).await.unwrap()
        };
        let engine = open(&watch::Sender::new(Reads::Pass)).await;
        assert!(engine.wait_ready(Duration::from_secs(60)).await);
        let shop = workspace(&engine, "shop").await;
        faults.fail(Operation::Write, Fault::Refuse);
        let ada = engine.submit("till", shop, &customer("Ada")).await.unwrap().id(1).unwrap();
        engine.submit("till", shop, &invoice("1")).await.unwrap();
        let order = Request::new("PlaceOrder").args(json!({"id": 1}));
        let order = engine.submit("till", shop, &order).await.unwrap().id(1).unwrap();
        engine.series().next("tea", &NextRequest::default()).await.unwrap();
        engine.close().await;
        faults.heal();
        let gate = watch::Sender::new(reads);
        let engine = open(&gate).await;
        Self { reads: gate, engine, shop, ada, order }
    }

    fn let_pass(&self) {
        self.reads.send_replace(Reads::Pass);
    }

    /// What everything that reads answers, by its name: what it found, or why nothing.
    async fn read_all(&self) -> Vec<(&'static str, Result<String, SubmitError>)> {
        let (engine, shop) = (&self.engine, self.shop);
        let series = engine.series();
        let rename = Request::changes([Change::update(self.ada).field("name", "Ada L.")]);
        let first = WorkspaceOffset::FIRST;
        let record = async |id| {
            let found = engine.record("till", shop, id).await?;
            Ok(match found {
                Some(Found::Record(_)) => "a record".to_owned(),
                Some(Found::InEvent { .. }) => "in its event".to_owned(),
                None => "absent".to_owned(),
            })
        };
        vec![
            ("record", record(self.ada).await),
            ("record in its event", record(self.order).await),
            (
                "records",
                engine.records("till", shop, "Customer", None, 9).await.map(|found| found.len().to_string()),
            ),
            ("events", engine.events("till", shop, first, 9).await.map(|found| found.len().to_string())),
            (
                "view",
                engine
                    .view("till", shop, "count", &[], None, 9)
                    .await
                    .map(|rows| format!("{:?}", rows[..].first().map(|row| row.1.clone()))),
            ),
            (
                "sequences",
                engine.sequences("till", shop).await.map(|all| {
                    let found = all.iter().find(|sequence| &*sequence.name == "InvoiceNumber");
                    found.unwrap().next.unwrap().to_string()
                }),
            ),
            ("series state", series.state("tea").await.map(|state| format!("{:?}", state.next))),
            ("who", series.who("tea", 1).await.map(|issued| issued.number.to_string())),
            ("void", series.void("tea", 1, "spilt", Some("v")).await.map(|()| "done".to_owned())),
            ("update", engine.submit("till", shop, &rename).await.map(|_| "done".to_owned())),
        ]
    }
}

fn run<F: Future<Output = ()>>(scenario: impl FnOnce(Env) -> F) {
    simulate(1, |env| async move {
        env.timeout(Duration::from_secs(3_600), scenario(env.clone())).await.expect("nothing hangs");
    });
}

const EVERYTHING: [(&str, &str); 10] = [
    ("record", "a record"),
    ("record in its event", "in its event"),
    ("records", "1"),
    ("events", "3"),
    ("view", "Some(Number(3))"),
    ("sequences", "2"),
    ("series state", "Some(2)"),
    ("who", "1"),
    ("void", "done"),
    ("update", "done"),
];

#[test]
fn everything_that_reads_is_busy_while_a_recovery_does_not_end() {
    run(|env| async move {
        let desk = Desk::open(&env, Reads::Wait, options()).await;
        for (what, answer) in desk.read_all().await {
            assert_eq!(answer, Err(SubmitError::Busy(Busy::Recovering)), "{what}");
        }
        desk.let_pass();
        assert!(desk.engine.wait_ready(Duration::from_secs(60)).await);
        for ((what, answer), expected) in desk.read_all().await.into_iter().zip(EVERYTHING) {
            assert_eq!((what, answer.as_deref()), (expected.0, Ok(expected.1)));
        }
        desk.engine.close().await;
    });
}

#[test]
fn everything_that_reads_waits_for_a_recovery_that_ends_in_time() {
    run(|env| async move {
        let patient = Options { begin_wait: Duration::from_secs(600), ..options() };
        let desk = Arc::new(Desk::open(&env, Reads::Wait, patient).await);
        let reading = {
            let desk = desk.clone();
            env.spawn(async move { desk.read_all().await })
        };
        env.sleep(Duration::from_secs(60)).await;
        desk.let_pass();
        for ((what, answer), expected) in reading.await.unwrap().into_iter().zip(EVERYTHING) {
            assert_eq!((what, answer.as_deref()), (expected.0, Ok(expected.1)));
        }
        desk.engine.close().await;
    });
}

#[test]
fn a_partition_that_stopped_before_it_had_recovered_is_not_read() {
    run(|env| async move {
        let desk = Desk::open(&env, Reads::Corrupt, options()).await;
        let is_stopped = |status| matches!(status, PartitionStatus::Stopped(_));
        let id = desk.engine.partition_of("till", desk.shop).unwrap();
        let stopped = || {
            let partitions = desk.engine.partitions("till").unwrap();
            partitions.into_iter().any(|state| state.partition.id == id && is_stopped(state.status))
        };
        while !stopped() {
            env.sleep(Duration::from_millis(1)).await;
        }
        for (what, answer) in desk.read_all().await {
            let error = answer.unwrap_err();
            assert!(matches!(error, SubmitError::Stopped { .. }), "{what}: {error}");
            assert!(error.to_string().contains("as it was told"), "{what}: {error}");
        }
        desk.engine.close().await;
    });
}

/// An engine that has committed something and flushed nothing, on a log to which somebody else has appended.
struct Usurped {
    faults: Faults,
    engine: Engine,
    shop: WorkspaceId,
    /// What the engine has committed.
    ada: RecordId,
    /// What the other one has committed.
    eve: RecordId,
}

impl Usurped {
    async fn open(env: &Env, options: Options) -> Self {
        let (log, store) = (MemoryLog::new(), MemoryStore::new());
        let faults = Faults::new(env);
        let faulty_log = Log::new(FaultyLog::new(Arc::new(log.clone()), &faults));
        let faulty_store = Store::new(FaultyStore::new(Arc::new(store), &faults));
        let engine = support::open_with(env, faulty_log, faulty_store, options).await;
        let shop = workspace(&engine, "shop").await;
        faults.fail(Operation::Write, Fault::Refuse);
        let ada = engine.submit("till", shop, &customer("Ada")).await.unwrap().id(1).unwrap();
        let other_store = Store::new(MemoryStore::new());
        let other = support::open_with(env, Log::new(log.clone()), other_store, options).await;
        let eve = other.submit("till", shop, &customer("Eve")).await.unwrap().id(1).unwrap();
        Self { faults, engine, shop, ada, eve }
    }

    /// The answer of an append is lost. Settling it shows that another owner has taken over; then this one takes the partition back.
    async fn take_back(&self) {
        self.faults.fail_nth(Operation::Append, 1, Fault::LoseRequest);
        let error = self.engine.submit("till", self.shop, &customer("Bob")).await.unwrap_err();
        assert!(matches!(error, SubmitError::NotWritten(_)), "{error}");
        let refused = self.engine.submit("till", self.shop, &customer("Bob")).await.unwrap_err();
        assert!(matches!(refused, SubmitError::NotHere { holder: Some(_), .. }), "{refused}");
        let application = self.engine.schema("till").unwrap().id();
        let id = self.engine.partition_of("till", self.shop).unwrap();
        self.engine.own(Partition { application, id }).await.unwrap();
    }
}

#[test]
fn what_waits_to_be_flushed_is_not_missed_when_a_partition_is_taken_back() {
    run(|env| async move {
        let usurped = Usurped::open(&env, options()).await;
        let Usurped { faults, engine, shop, ada, eve } = &usurped;
        usurped.take_back().await;
        for id in [*ada, *eve] {
            let found = engine.record("till", *shop, id).await.unwrap();
            assert!(matches!(found, Some(Found::Record(_))), "{id}: {found:?}");
        }
        let bob = engine.submit("till", *shop, &customer("Bob")).await.unwrap();
        assert_eq!(bob.workspace_offset.get(), 3);
        faults.heal();
        engine.close().await;
    });
}
