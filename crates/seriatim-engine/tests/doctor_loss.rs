//! A log that has lost events under a store that has seen them: a rebuild fences, and says what the store knew.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use seriatim_engine::definition::{Application, KindDefinition, shop};
use seriatim_engine::doctor::{Doctor, DoctorError, Lost, Report, Treatment};
use seriatim_engine::{
    App, Change, Engine, NextRequest, OpenError, Options, Request, Scope, StoreKey, SubmitError, Unfence,
};
use seriatim_env::{Env, simulate};
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{Batch, Digest, Durability, Entries, Header, Log, Store};
use seriatim_storage_testing::faulty::{Fault, Faults, FaultyLog, FaultyStore, Operation};
use seriatim_types::{ErrorKind, Partition, PartitionOffset, WorkspaceId, WorkspaceKind, WorkspaceOffset};

const SYS: Partition = Partition::new(1, 0);

struct World {
    env: Env,
    log: MemoryLog,
    store: MemoryStore,
}

impl World {
    /// Two shops, a series and a block sequence.
    async fn new(env: &Env) -> Self {
        let world = Self { env: env.clone(), log: MemoryLog::new(), store: MemoryStore::new() };
        let engine = world.open().await.unwrap();
        for name in ["corner", "market"] {
            let (made, _) = engine.create_workspace("shop", "store", Some(name)).await.unwrap();
            invoice(&engine, made.id).await.unwrap();
        }
        engine.blocks().put("b", 1, 10).await.unwrap();
        engine.blocks().allocate("b", 3).await.unwrap();
        next(&engine, "s", 2).await.unwrap();
        engine.close().await;
        world
    }

    /// A world whose log has lost what this does, while its store has seen it.
    async fn after_losing(env: &Env, loss: Loss) -> Self {
        let world = Self::new(env).await;
        let log = world.log.copy();
        let engine = world.open().await.unwrap();
        loss.happen(&engine).await;
        engine.close().await;
        Self { log, ..world }
    }

    async fn open(&self) -> Result<Engine, OpenError> {
        let (log, store) = (Log::new(self.log.reopen()), Store::new(self.store.reopen()));
        let apps = [App::new(shop())];
        let engine = Engine::open(self.env.clone(), log, store, apps, Options::default()).await?;
        // A partition may have stopped.
        engine.wait_ready(Duration::from_secs(60)).await;
        Ok(engine)
    }

    async fn rebuild_on(&self, log: Log, store: Store) -> Result<Report, DoctorError> {
        let scratch = Store::new(MemoryStore::new());
        let doctor = Doctor::new(self.env.clone(), log, store, [App::new(shop())]);
        doctor.run(&scratch, Treatment::Rebuild, &mut |_| {}).await
    }

    async fn rebuild(&self) -> Report {
        let (log, store) = (Log::new(self.log.reopen()), Store::new(self.store.reopen()));
        self.rebuild_on(log, store).await.unwrap()
    }
}

#[derive(Debug, Clone, Copy)]
enum Loss {
    /// One event of the registry, and nothing else.
    OneOfTheRegistry,
    /// Events of a shop alone.
    Invoices,
    /// A bit of everything.
    Everything,
}

impl Loss {
    async fn happen(self, engine: &Engine) {
        match self {
            Self::OneOfTheRegistry => {
                engine.tokens().create(&["*:admin".parse::<Scope>().unwrap()], None).await.unwrap();
            }
            Self::Invoices => invoices(engine).await,
            Self::Everything => {
                invoices(engine).await;
                let (lost, _) = engine.create_workspace("shop", "store", Some("lost")).await.unwrap();
                invoice(engine, lost.id).await.unwrap();
                engine.blocks().allocate("b", 30).await.unwrap();
                engine.blocks().put("c", 1, 10).await.unwrap();
                engine.blocks().allocate("c", 5).await.unwrap();
                next(engine, "s", 4).await.unwrap();
                next(engine, "new", 3).await.unwrap();
            }
        }
    }
}

async fn invoices(engine: &Engine) {
    let corner = named(engine, "corner").await;
    for _ in 0..3 {
        invoice(engine, corner).await.unwrap();
    }
}

async fn named(engine: &Engine, name: &str) -> WorkspaceId {
    engine.workspace_named("shop", name).await.unwrap().unwrap()
}

async fn invoice(engine: &Engine, shop: WorkspaceId) -> Result<i64, SubmitError> {
    let request = Request::changes([Change::create("Invoice", 1).field("total", "1")]);
    Ok(engine.submit("shop", shop, &request).await?.number(1, "number").unwrap())
}

async fn next(engine: &Engine, series: &str, count: u64) -> Result<u64, SubmitError> {
    let request = NextRequest { count, ..NextRequest::default() };
    engine.series().next(series, &request).await.map(|taken| taken.number)
}

fn bounds(lost: &Lost) -> Vec<(&str, u64, bool)> {
    let ids = |name: &str| name.ends_with("sys.RecordId");
    let bounds = lost.bounds.iter().filter(|bound| !ids(&bound.name));
    bounds.map(|bound| (&*bound.name, bound.highest, bound.known)).collect()
}

#[test]
fn a_rebuild_fences_and_says_what_the_store_knew() {
    simulate(1, |env| async move {
        let world = World::after_losing(&env, Loss::Everything).await;
        let told: Arc<Mutex<Vec<Lost>>> = Arc::default();
        let (log, store) = (Log::new(world.log.reopen()), Store::new(world.store.reopen()));
        let doctor = Doctor::new(env.clone(), log, store, [App::new(shop())]);
        let keep = told.clone();
        let doctor = doctor.on_loss(move |lost| keep.lock().unwrap().push(lost.clone()));
        let scratch = Store::new(MemoryStore::new());
        let report = doctor.run(&scratch, Treatment::Rebuild, &mut |_| {}).await.unwrap();
        assert!(report.is_repaired(), "{report:?}");
        let lost = report.lost.unwrap();
        assert_eq!(*told.lock().unwrap(), std::slice::from_ref(&lost));
        let mut applications: Vec<u32> = lost.partitions.iter().map(|lost| lost.application.get()).collect();
        applications.dedup();
        assert_eq!(applications, [1, 2, 16], "{lost:?}");
        let mut found = bounds(&lost);
        found.sort_unstable();
        let expected = [
            ("blocks/b", 33, true),
            ("blocks/c", 5, false),
            ("series/new", 3, true),
            ("series/s", 6, true),
            ("shop/corner/InvoiceNumber", 4, true),
            ("shop/lost/InvoiceNumber", 1, false),
        ];
        assert_eq!(found, expected);
        assert_eq!(lost.total, lost.bounds.len() as u64);
        let engine = world.open().await.unwrap();
        assert!(engine.fenced().is_some());
        let corner = named(&engine, "corner").await;
        assert_eq!(invoice(&engine, corner).await.unwrap_err().kind(), ErrorKind::Fenced);
        assert_eq!(next(&engine, "s", 1).await.unwrap_err().kind(), ErrorKind::Fenced);
        let known = lost.bounds.iter().filter(|bound| bound.known);
        let known = known.map(|bound| (bound.name.clone(), bound.highest)).collect();
        engine.unfence(&Unfence::HighestAndSkip(known, 100)).await.unwrap();
        assert_eq!(invoice(&engine, corner).await.unwrap(), 5);
        assert_eq!(invoice(&engine, named(&engine, "market").await).await.unwrap(), 102);
        assert_eq!((next(&engine, "s", 1).await.unwrap(), next(&engine, "new", 1).await.unwrap()), (7, 4));
        assert_eq!(engine.blocks().allocate("b", 1).await.unwrap().first, 34);
        assert_eq!(engine.workspace_named("shop", "lost").await.unwrap(), None);
        let (made, _) = engine.create_workspace("shop", "store", Some("lost")).await.unwrap();
        assert!(made.id.get() > corner.get() + (1 << 40));
        engine.close().await;
        assert!(world.rebuild().await.lost.is_none(), "a whole log is not fenced again");
    });
}

/// Opens it, if it opens: then everything that has lost events is fenced or has stopped.
async fn assert_gives_out_nothing(world: &World, when: &str) {
    let Ok(engine) = world.open().await else { return };
    let corner = named(&engine, "corner").await;
    let error = invoice(&engine, corner).await.unwrap_err();
    let has_stopped = matches!(error, SubmitError::Stopped { .. });
    assert!(engine.fenced().is_some() || has_stopped, "{when}: {error}");
    engine.close().await;
}

#[test]
fn a_crash_while_it_rebuilds_leaves_nothing_that_gives_out_numbers() {
    for loss in [Loss::OneOfTheRegistry, Loss::Invoices, Loss::Everything] {
        for operation in [Operation::Append, Operation::Write] {
            for fault in [Fault::LoseRequest, Fault::LoseReply] {
                let mut crashes = 0;
                while simulate(1, |env| crash_rebuild(env, loss, operation, fault, crashes + 1)) {
                    crashes += 1;
                }
                assert!(crashes > 0, "{loss:?}, {operation:?}, {fault:?}");
            }
        }
    }
}

/// Rebuilds until storage crashes at an operation, and again afterwards. Says whether it had so many.
async fn crash_rebuild(env: Env, loss: Loss, operation: Operation, fault: Fault, nth: u64) -> bool {
    let world = World::after_losing(&env, loss).await;
    let before = tail(&world, SYS).await;
    let faults = Faults::new(&env);
    faults.crash_at(operation, nth, fault);
    let log = Log::new(FaultyLog::new(Arc::new(world.log.reopen()), &faults));
    let store = Store::new(FaultyStore::new(Arc::new(world.store.reopen()), &faults));
    let rebuilt = world.rebuild_on(log, store).await;
    let has_crashed = faults.has_crashed();
    let when = format!("{loss:?}, {operation:?} {nth}, {fault:?}");
    if has_crashed {
        let is_whole = rebuilt.as_ref().is_ok_and(Report::is_repaired);
        assert!(!is_whole, "{when}: {rebuilt:?}");
        if tail(&world, SYS).await == before {
            // Not fenced yet, so everything that the store knows is still there.
            let known = world.what_is_known().await;
            assert!(!known.is_empty() || matches!(loss, Loss::OneOfTheRegistry), "{when}");
        }
        assert_gives_out_nothing(&world, &when).await;
        let again = world.rebuild().await;
        assert!(again.is_repaired(), "{when}: {again:?}");
    }
    let engine = world.open().await.unwrap();
    assert!(engine.fenced().is_some(), "{when}");
    engine.unfence(&Unfence::Skip(100)).await.unwrap();
    let corner = named(&engine, "corner").await;
    assert!(invoice(&engine, corner).await.unwrap() >= 102, "{when}");
    engine.close().await;
    has_crashed
}

async fn tail(world: &World, partition: Partition) -> u64 {
    Log::new(world.log.reopen()).tail(partition).await.unwrap().get()
}

impl World {
    /// The names that a rebuild tells before it changes anything.
    async fn what_is_known(&self) -> Vec<String> {
        let scratch = Store::new(MemoryStore::new());
        let told: Arc<Mutex<Vec<String>>> = Arc::default();
        let keep = told.clone();
        // Its log takes no appends, so that it stops there.
        let faults = Faults::new(&self.env);
        faults.fail(Operation::Append, Fault::Refuse);
        let log = Log::new(FaultyLog::new(Arc::new(self.log.reopen()), &faults));
        let store = Store::new(self.store.reopen());
        let doctor = Doctor::new(self.env.clone(), log, store, [App::new(shop())]).on_loss(move |lost| {
            keep.lock().unwrap().extend(lost.bounds.iter().map(|bound| bound.name.clone()));
        });
        let error = doctor.run(&scratch, Treatment::Rebuild, &mut |_| {}).await.unwrap_err();
        assert!(matches!(error, DoctorError::NotFenced(_)), "{error}");
        std::mem::take(&mut told.lock().unwrap())
    }
}

#[test]
fn the_number_of_an_application_whose_definition_is_lost_is_not_given_to_another() {
    simulate(1, |env| async move {
        let world = World::after_losing(&env, Loss::OneOfTheRegistry).await;
        let log = Log::new(world.log.reopen());
        let lost = Partition::new(17, 0);
        let owner = log.take(lost).await.unwrap();
        let mut entries = Entries::new(owner.next_append_id());
        let header = Header {
            workspace: WorkspaceId::FIRST,
            kind: WorkspaceKind::new(1),
            workspace_offset: WorkspaceOffset::FIRST,
            time: env.now(),
            body_digest: Digest::of(b"an event"),
            draws: &[],
            raises: &[],
        };
        entries.push(&header, Digest::ZERO, b"an event").unwrap();
        log.append(&owner, PartitionOffset::FIRST, &entries).await.unwrap();
        let report = world.rebuild().await;
        assert_eq!(report.unchecked, [lost]);
        let another = Application::builder("another").partitions(1).kind(KindDefinition::new("k")).build();
        let apps = [App::new(shop()), App::new(another.unwrap())];
        let (log, store) = (Log::new(world.log.reopen()), Store::new(world.store.reopen()));
        let engine = Engine::open(env, log, store, apps, Options::default()).await.unwrap();
        assert_eq!(engine.schema("another").unwrap().id().get(), 18);
        engine.close().await;
    });
}

#[test]
fn an_engine_that_runs_does_not_remove_what_its_store_knows_of_lost_events() {
    simulate(1, |env| async move {
        let world = World::new(&env).await;
        let engine = world.open().await.unwrap();
        let corner = named(&engine, "corner").await;
        let application = engine.schema("shop").unwrap().id();
        let id = engine.partition_of("shop", corner).unwrap();
        let key = seriatim_sequencer::NumbersKey::new(Partition { application, id }, corner);
        let key = StoreKey::new(key.as_key().partition, key.as_key().clustering);
        let store = Store::new(world.store.reopen());
        let mut bytes = store.get(key.as_key()).await.unwrap().unwrap().to_vec();
        let end = bytes.len() - 4;
        bytes[11..19].copy_from_slice(&1_000_u64.to_be_bytes());
        let checksum = crc32fast::hash(&bytes[..end]);
        bytes[end..].copy_from_slice(&checksum.to_be_bytes());
        let mut batch = Batch::new();
        batch.put(key.as_key(), &bytes);
        store.write(batch, Durability::Synced).await.unwrap();
        let scratch = Store::new(MemoryStore::new());
        let report = engine.doctor(&scratch, Treatment::Rebuild, &mut |_| {}).await.unwrap();
        assert_eq!(report.problems.len(), 1, "{report:?}");
        assert_eq!(report.problems[0].partition, Partition { application, id });
        assert!(matches!(report.problems[0].error, DoctorError::FoldedBeyondTail { .. }), "{report:?}");
        assert_eq!(store.get(key.as_key()).await.unwrap().unwrap(), bytes);
        engine.close().await;
        let report = world.rebuild().await;
        assert!(report.is_repaired() && report.lost.is_some(), "{report:?}");
    });
}
