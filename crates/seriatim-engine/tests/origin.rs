//! A checkpoint names the log it was derived from. A log that was cut back under it stops its partition, and another log makes it
//! useless.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::time::Duration;

use seriatim_engine::doctor::{Doctor, DoctorError, Report, Treatment};
use seriatim_engine::{Engine, PartitionStatus, Unfence};
use seriatim_env::{Env, simulate};
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{ClusteringRange, Key, Log, LogIdentity, Pair, Store};
use seriatim_types::{ErrorKind, Partition, PartitionOffset, WorkspaceId};
use support::{customer, invoice, options, till, workspace};

const IDENTITY: LogIdentity = LogIdentity::from_bytes([7; 16]);

struct World {
    env: Env,
    log: MemoryLog,
    store: MemoryStore,
}

impl World {
    /// One workspace with two invoices, in a log with this identity.
    async fn new(env: &Env, identity: LogIdentity) -> Self {
        let world = Self { env: env.clone(), log: MemoryLog::new(), store: MemoryStore::new() };
        world.log().identify(identity).await.unwrap();
        let engine = world.open().await;
        let shop = workspace(&engine, "shop").await;
        for _ in 0..2 {
            number(&engine, shop).await;
        }
        engine.close().await;
        world
    }

    fn log(&self) -> Log {
        Log::new(self.log.reopen())
    }

    fn store(&self) -> Store {
        Store::new(self.store.reopen())
    }

    /// A partition may have stopped.
    async fn open(&self) -> Engine {
        let opened = Engine::open(self.env.clone(), self.log(), self.store(), [till()], options()).await;
        let engine = opened.unwrap();
        engine.wait_ready(Duration::from_secs(60)).await;
        engine
    }

    async fn examine(&self, treatment: Treatment) -> Result<Report, DoctorError> {
        let scratch = Store::new(MemoryStore::new());
        let doctor = Doctor::new(self.env.clone(), self.log(), self.store(), [till()]);
        doctor.run(&scratch, treatment, &mut |_| {}).await
    }

    /// Everything that the store has of a partition.
    async fn pairs(&self, partition: Partition) -> Vec<Pair> {
        self.store().scan(&storage(partition), ClusteringRange::all()).all().await.unwrap()
    }

    async fn checkpoint(&self, partition: Partition) -> Vec<u8> {
        let found = self.store().get(Key::new(&storage(partition), b"k")).await.unwrap();
        found.unwrap().to_vec()
    }
}

fn storage(partition: Partition) -> Vec<u8> {
    let (application, id) = (partition.application.get(), partition.id.get());
    [&application.to_be_bytes()[..], &id.to_be_bytes()].concat()
}

async fn number(engine: &Engine, shop: WorkspaceId) -> i64 {
    engine.submit("till", shop, &invoice("1")).await.unwrap().number(1, "number").unwrap()
}

async fn named(engine: &Engine) -> (WorkspaceId, Partition) {
    let shop = engine.workspace_named("till", "shop").await.unwrap().unwrap();
    let id = engine.partition_of("till", shop).unwrap();
    (shop, Partition { application: engine.schema("till").unwrap().id(), id })
}

fn status(engine: &Engine, partition: Partition) -> PartitionStatus {
    let states = engine.partitions("till").unwrap();
    states.into_iter().find(|state| state.partition == partition).unwrap().status
}

#[test]
fn a_flush_writes_the_identity_of_the_log_and_the_entry_before_the_checkpoint() {
    simulate(1, |env| async move {
        let world = World::new(&env, IDENTITY).await;
        let engine = world.open().await;
        let (shop, partition) = named(&engine).await;
        number(&engine, shop).await;
        engine.close().await;
        let log = world.log();
        let tail = log.tail(partition).await.unwrap();
        let last = PartitionOffset::new(tail.get() - 1).unwrap();
        let read = log.read(partition, last, seriatim_storage::ReadLimit::entries(1)).await.unwrap();
        let (_, entry) = read.iter().next().unwrap();
        let expected = [
            &[2][..],
            &tail.get().to_be_bytes(),
            IDENTITY.as_bytes(),
            &entry.append_id().epoch.get().to_be_bytes(),
            &entry.append_id().counter.to_be_bytes(),
            entry.chain().as_bytes(),
        ]
        .concat();
        assert_eq!(world.checkpoint(partition).await[..73], expected);
    });
}

/// Whether the log is only cut back, or was continued with other events, as far as before or farther.
#[derive(Debug, Clone, Copy)]
enum After {
    Cut,
    Continued(usize),
}

async fn rewind(env: Env, after: After) {
    let when = format!("{after:?}");
    let long = World::new(&env, IDENTITY).await;
    let short = World { env: env.clone(), log: long.log.copy(), store: MemoryStore::new() };
    let engine = long.open().await;
    let (shop, partition) = named(&engine).await;
    for _ in 0..3 {
        number(&engine, shop).await;
    }
    engine.close().await;
    // The log is as it was before, also its epochs, and the store has seen the rest.
    let world = World { env: env.clone(), log: short.log.reopen(), store: long.store };
    if let After::Continued(events) = after {
        let engine = short.open().await;
        for _ in 0..events {
            engine.submit("till", shop, &customer("another")).await.unwrap();
        }
        engine.close().await;
    }
    let evidence = world.pairs(partition).await;
    let engine = world.open().await;
    let PartitionStatus::Stopped(reason) = status(&engine, partition) else { panic!("{when}") };
    assert!(reason.contains("the log has lost events"), "{when}: {reason}");
    let is_rewound = matches!(after, After::Continued(events) if events >= 3);
    assert_eq!(reason.contains("follows the entry of append"), is_rewound, "{when}: {reason}");
    assert!(engine.submit("till", shop, &invoice("1")).await.is_err(), "{when}");
    engine.close().await;
    for treatment in [Treatment::Check, Treatment::Repair] {
        let report = world.examine(treatment).await.unwrap();
        let problem = report.problems.iter().find(|problem| problem.partition == partition).unwrap();
        assert_eq!(problem.error.kind(), ErrorKind::Corrupt, "{when}: {}", problem.error);
        let rewound = matches!(problem.error, DoctorError::LogRewound { .. });
        assert_eq!(rewound, is_rewound, "{when}: {}", problem.error);
    }
    assert_eq!(world.pairs(partition).await, evidence, "{when}: the evidence is kept");
    let report = world.examine(Treatment::Rebuild).await.unwrap();
    let lost = report.lost.clone().unwrap();
    assert!(report.is_repaired() && lost.partitions == [partition], "{when}: {report:?}");
    let bound = lost.bounds.iter().find(|bound| bound.name == "till/shop/InvoiceNumber").unwrap();
    assert_eq!((bound.highest, bound.known), (5, true), "{when}");
    let engine = world.open().await;
    let error = engine.submit("till", shop, &invoice("1")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fenced, "{when}: {error}");
    let highest = [("till/shop/InvoiceNumber".to_owned(), 5)].into();
    engine.unfence(&Unfence::HighestAndSkip(highest, 1)).await.unwrap();
    assert_eq!(number(&engine, shop).await, 6, "{when}: no number is given out twice");
    engine.close().await;
    assert!(world.examine(Treatment::Check).await.unwrap().is_clean(), "{when}");
}

#[test]
fn a_rewound_log_stops_and_keeps_the_evidence() {
    for after in [
        After::Cut,
        After::Continued(1),
        After::Continued(2),
        After::Continued(3),
        After::Continued(4),
        After::Continued(20),
    ] {
        simulate(1, |env| rewind(env, after));
    }
}

#[test]
fn a_foreign_log_rebuilds_local_state() {
    simulate(1, |env| async move {
        let other = World::new(&env, LogIdentity::from_bytes([8; 16])).await;
        let engine = other.open().await;
        let (shop, partition) = named(&engine).await;
        for _ in 0..3 {
            number(&engine, shop).await;
        }
        engine.close().await;
        // As many events as the other log has, more, and fewer.
        for events in [3, 20, 0] {
            let mine = World::new(&env, IDENTITY).await;
            let engine = mine.open().await;
            for _ in 0..events {
                engine.submit("till", shop, &customer("Ada")).await.unwrap();
            }
            engine.close().await;
            let world = World { env: env.clone(), log: mine.log, store: MemoryStore::new() };
            copy(&other.store(), &world.store()).await;
            let report = world.examine(Treatment::Check).await.unwrap();
            assert!(!report.is_clean() && report.problems.is_empty(), "{report:?}");
            let engine = world.open().await;
            assert_eq!(status(&engine, partition), PartitionStatus::Ready, "{events}");
            assert_eq!(number(&engine, shop).await, 3, "{events}: numbers continue those of the log");
            engine.close().await;
            let report = world.examine(Treatment::Check).await.unwrap();
            assert!(report.is_clean() && report.unapplied == 0, "{report:?}");
            assert_eq!(world.checkpoint(partition).await[9..25], *IDENTITY.as_bytes());
        }
    });
}

#[test]
fn a_rebuild_of_a_foreign_store_fences_nothing() {
    simulate(1, |env| async move {
        let other = World::new(&env, LogIdentity::from_bytes([8; 16])).await;
        let engine = other.open().await;
        let (shop, _) = named(&engine).await;
        for _ in 0..3 {
            number(&engine, shop).await;
        }
        engine.close().await;
        for treatment in [Treatment::Repair, Treatment::Rebuild] {
            let mine = World::new(&env, IDENTITY).await;
            let world = World { env: env.clone(), log: mine.log, store: MemoryStore::new() };
            copy(&other.store(), &world.store()).await;
            let report = world.examine(treatment).await.unwrap();
            assert!(report.is_repaired() && report.lost.is_none() && report.written > 0, "{report:?}");
            assert!(world.examine(Treatment::Check).await.unwrap().is_clean());
            let engine = world.open().await;
            assert_eq!(number(&engine, shop).await, 3);
            engine.close().await;
        }
    });
}

async fn copy(from: &Store, to: &Store) {
    // The applications here are 1 (sys), 2 (series) and 16 (till).
    for application in [1_u32, 2, 16] {
        for id in 0..8_u16 {
            let storage = [&application.to_be_bytes()[..], &id.to_be_bytes()].concat();
            for (key, value) in from.scan(&storage, ClusteringRange::all()).all().await.unwrap() {
                to.put(Key::new(&storage, &key), &value).await.unwrap();
            }
        }
    }
}

#[test]
fn a_checkpoint_of_an_earlier_version_is_used_and_replaced_by_the_next_flush() {
    simulate(1, |env| async move {
        let world = World::new(&env, IDENTITY).await;
        let engine = world.open().await;
        let (shop, partition) = named(&engine).await;
        engine.close().await;
        for version in [&[1][..], &[]] {
            let current = world.checkpoint(partition).await;
            let old = [version, &current[1..9]].concat();
            let old = [&old[..], &crc32fast::hash(&old).to_be_bytes()].concat();
            world.store().put(Key::new(&storage(partition), b"k"), &old).await.unwrap();
            let engine = world.open().await;
            assert_eq!(status(&engine, partition), PartitionStatus::Ready);
            engine.close().await;
            assert_eq!(world.checkpoint(partition).await, old, "nothing was flushed");
            let report = world.examine(Treatment::Repair).await.unwrap();
            assert!(report.problems.is_empty(), "{report:?}");
            let repaired = world.checkpoint(partition).await;
            assert_eq!((repaired[0], &repaired[9..25]), (2, &IDENTITY.as_bytes()[..]));
            world.store().put(Key::new(&storage(partition), b"k"), &old).await.unwrap();
            let engine = world.open().await;
            number(&engine, shop).await;
            engine.close().await;
            let new = world.checkpoint(partition).await;
            assert_eq!((new[0], &new[9..25]), (2, &IDENTITY.as_bytes()[..]));
        }
    });
}

#[test]
fn looking_at_a_storage_gives_its_log_no_identity() {
    simulate(1, |env| async move {
        let world = World { env: env.clone(), log: MemoryLog::new(), store: MemoryStore::new() };
        world.examine(Treatment::Check).await.unwrap();
        assert_eq!(world.log().identity().await.unwrap(), None);
        let engine = world.open().await;
        engine.close().await;
        let created = world.log().identity().await.unwrap();
        assert!(created.is_some());
        world.open().await.close().await;
        assert_eq!(world.log().identity().await.unwrap(), created);
    });
}
