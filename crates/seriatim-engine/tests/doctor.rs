//! The doctor: an undamaged storage is clean, and each kind of damage is found, named and repaired.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use serde_json::json;
use seriatim_engine::definition::shop;
use seriatim_engine::doctor::{Doctor, DoctorError, Finding, Progress, Report, Treatment, Trouble};
use seriatim_engine::{
    App, Change, Engine, Options, PartitionStatus, Projected, Request, Rows, StoreKey, SubmitError, Unfence,
    projector,
};
use seriatim_env::{Env, simulate};
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{Batch, Durability, Log, LogIdentity, Store};
use seriatim_storage_file::{FileOptions, FileStorage};
use seriatim_types::{ErrorKind, WorkspaceId};

/// Counts invoices by customer, and takes a row away when the customer is told to go.
fn count(event: &Projected<'_>, rows: &mut Rows<'_>) -> Result<(), String> {
    for row in event.event.created() {
        let name = event.schema.document(row.document).map_or("?", |document| &document.name);
        rows.fold(&[name.into()], |row| Some(json!(row.and_then(|row| row.as_u64()).unwrap_or(0) + 1)));
        if name == "Settings" {
            rows.fold(&["Customer".into()], |_| None);
        }
    }
    Ok(())
}

fn app() -> App {
    App::new(shop()).projector(projector("counts", count))
}

async fn open(env: &Env, log: Log, store: Store, options: Options) -> Engine {
    let engine = Engine::open(env.clone(), log, store, [app()], options).await.unwrap();
    assert!(engine.wait_ready(Duration::from_secs(60)).await);
    engine
}

fn invoice() -> Request {
    Request::changes([Change::create("Invoice", 1).field("total", "1.50")])
}

/// A bit of everything: singletons, O documents, child records, updates, keys, several partitions.
async fn work(engine: &Engine) -> Vec<WorkspaceId> {
    let mut workspaces = Vec::new();
    for name in ["corner", "market", "harbour", "station", "airport"] {
        let (workspace, _) = engine.create_workspace("shop", "store", Some(name)).await.unwrap();
        workspaces.push(workspace.id);
    }
    for (place, workspace) in workspaces[..4].iter().enumerate() {
        let submit = async |request: Request| engine.submit("shop", *workspace, &request).await.unwrap();
        let customer = submit(Request::changes([Change::create("Customer", 1).field("name", "Ada")])).await;
        submit(Request::changes([Change::create("Settings", 1).field("currency", "EUR")])).await;
        let order = json!({"id": 1, "fields": {"note": "soon"},
            "children": [{"create": "OrderLine", "id": 2, "fields": {"item": "tea", "quantity": 3}, "children": []}]});
        submit(Request::new("PlaceOrder").args(order)).await;
        for number in 0..=place {
            let line = Change::create("InvoiceLine", 2).parent(1).field("text", "tea");
            let create = Change::create("Invoice", 1).field("customer", customer.id(1).unwrap().get());
            let created =
                submit(Request::changes([create, line]).idempotency_key(format!("key {number}"))).await;
            let update = Change::update(created.id(1).unwrap()).field("total", "9.90");
            submit(Request::changes([update])).await;
        }
    }
    workspaces
}

fn scratch() -> Store {
    Store::new(MemoryStore::new())
}

async fn run(env: &Env, log: &Log, store: &Store, treatment: Treatment) -> Report {
    let doctor = Doctor::new(env.clone(), log.clone(), store.clone(), [app()]);
    doctor.run(&scratch(), treatment, &mut |_| {}).await.unwrap()
}

struct World {
    env: Env,
    log: Log,
    store: Store,
    application: u32,
    workspaces: Vec<WorkspaceId>,
}

impl World {
    /// Memory with some work done, and the engine closed.
    async fn new(env: Env) -> Self {
        let (log, store) = (Log::new(MemoryLog::new()), Store::new(MemoryStore::new()));
        // All of them count as the same log, so that one can stand for what another has become.
        log.identify(LogIdentity::from_bytes([1; 16])).await.unwrap();
        let engine = open(&env, log.clone(), store.clone(), Options::default()).await;
        let workspaces = work(&engine).await;
        let application = engine.schema("shop").unwrap().id().get();
        engine.close().await;
        Self { env, log, store, application, workspaces }
    }

    async fn run(&self, treatment: Treatment) -> Report {
        run(&self.env, &self.log, &self.store, treatment).await
    }

    async fn open(&self) -> Engine {
        open(&self.env, self.log.clone(), self.store.clone(), Options::default()).await
    }

    /// A key by the layout of `keys.rs`.
    fn key_of(&self, family: u8, workspace: WorkspaceId, rest: &[u8]) -> StoreKey {
        // The shop has four partitions.
        let partition = u16::try_from(workspace.get() % 4).unwrap();
        let storage = [&self.application.to_be_bytes()[..], &partition.to_be_bytes()].concat();
        StoreKey::new(&storage, &[&[family][..], &workspace.get().to_be_bytes(), rest].concat())
    }

    fn key(&self, family: u8, workspace: WorkspaceId, number: u64) -> StoreKey {
        self.key_of(family, workspace, &number.to_be_bytes())
    }

    /// The key of an invoice.
    fn invoice_key(&self, workspace: WorkspaceId, id: u64) -> StoreKey {
        let kind = invoice_type(self).to_be_bytes();
        self.key_of(b'w', workspace, &[&kind[..], &id.to_be_bytes()].concat())
    }

    fn numbers_key(&self, workspace: WorkspaceId) -> StoreKey {
        self.key_of(b'n', workspace, &[])
    }

    async fn get(&self, key: &StoreKey) -> Vec<u8> {
        self.store.get(key.as_key()).await.unwrap().unwrap().to_vec()
    }

    async fn set(&self, key: &StoreKey, value: Option<&[u8]>) {
        let mut batch = Batch::new();
        match value {
            Some(value) => batch.put(key.as_key(), value),
            None => batch.remove(key.as_key()),
        }
        self.store.write(batch, Durability::Synced).await.unwrap();
    }
}

const FIRST_W: u64 = 322_680_000_131_072;

#[test]
fn what_an_engine_leaves_is_clean() {
    simulate(1, |env| async move {
        let world = World::new(env.clone()).await;
        let report = world.run(Treatment::Check).await;
        assert!(report.is_clean() && report.unchecked.is_empty(), "{report:?}");
        // The registry, 8 of series, 4 of the shop.
        assert_eq!(report.checked.partitions, 13);
        assert_eq!(
            (report.checked.workspace_log, report.checked.idempotency_keys),
            (report.checked.events, 11)
        );
        assert_eq!((report.checked.numbers, report.checked.records, report.unapplied), (5, 28, 0));
        // Deriving it all again in another store gives the same, and the doctor of a running engine says so too.
        let engine = world.open().await;
        let mut told: Vec<Progress> = Vec::new();
        let report =
            engine.doctor(&scratch(), Treatment::Repair, &mut |progress| told.push(progress)).await.unwrap();
        assert!(report.is_clean(), "{report:?}");
        assert!(told.iter().any(|progress| progress.done == progress.total && progress.total > 0));
        engine.close().await;
    });
}

/// Counts events, and refuses an event whose row it could not read yet.
fn count_strictly(_: &Projected<'_>, rows: &mut Rows<'_>) -> Result<(), String> {
    let mut counted = None;
    rows.fold(&["events".into()], |row| {
        counted = Some(row.and_then(|row| row.as_u64()).unwrap_or(0) + 1);
        counted.map(|count| json!(count))
    });
    counted.map(drop).ok_or_else(|| "its row was not read".to_owned())
}

#[test]
fn what_a_recovery_reads_in_several_rounds_is_no_damage() {
    simulate(1, |env| async move {
        let strict = || {
            let views = ["one", "two", "three"];
            views
                .into_iter()
                .fold(App::new(shop()), |app, view| app.projector(projector(view, count_strictly)))
        };
        let (log, store) = (MemoryLog::new(), MemoryStore::new());
        let reopened = || (Log::new(log.reopen()), Store::new(store.reopen()));
        let (log, kept) = reopened();
        let engine = Engine::open(env.clone(), log, kept, [strict()], Options::default()).await.unwrap();
        let (corner, _) = engine.create_workspace("shop", "store", Some("corner")).await.unwrap();
        for _ in 0..5 {
            engine.submit("shop", corner.id, &invoice()).await.unwrap();
        }
        engine.close().await;
        // A new store: the recovery applies every event.
        let (log, _) = reopened();
        let empty = Store::new(MemoryStore::new());
        let engine = Engine::open(env.clone(), log.clone(), empty.clone(), [strict()], Options::default())
            .await
            .unwrap();
        assert!(engine.wait_ready(Duration::from_secs(60)).await);
        engine.close().await;
        let doctor = Doctor::new(env.clone(), log, empty, [strict()]);
        let report = doctor.run(&scratch(), Treatment::Check, &mut |_| {}).await.unwrap();
        assert!(report.is_clean(), "{report:?}");
    });
}

#[test]
fn what_an_engine_leaves_on_files_is_clean() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let (directory, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let env = Env::real();
        let storage = FileStorage::open(&env, directory.path(), FileOptions::default()).await.unwrap();
        let scratch = FileStorage::open(&env, other.path(), FileOptions::default()).await.unwrap();
        let (log, store) = (storage.log().clone(), storage.store().clone());
        let engine = open(&env, log.clone(), store.clone(), Options::default()).await;
        work(&engine).await;
        engine.close().await;
        let doctor = Doctor::new(env.clone(), log.clone(), store.clone(), [app()]);
        let report = doctor.run(scratch.store(), Treatment::Check, &mut |_| {}).await.unwrap();
        assert!(report.is_clean() && report.checked.records == 28, "{report:?}");
        // A scratch store is good for one look.
        let doctor = Doctor::new(env.clone(), log.clone(), store.clone(), [app()]);
        let error = doctor.run(scratch.store(), Treatment::Check, &mut |_| {}).await.unwrap_err();
        assert!(matches!(error, DoctorError::ScratchUsed), "{error}");
        // Without a store everything is missing, and comes back.
        let emptied = Store::new(MemoryStore::new());
        let report = run(&env, &log, &emptied, Treatment::Check).await;
        assert!(report.is_clean() && report.unapplied == report.checked.events, "{report:?}");
        let rebuilt = run(&env, &log, &emptied, Treatment::Rebuild).await;
        assert!(rebuilt.is_repaired() && rebuilt.written == rebuilt.checked.values(), "{rebuilt:?}");
        let report = run(&env, &log, &emptied, Treatment::Check).await;
        assert!(report.is_clean() && report.unapplied == 0, "{report:?}");
        let engine = open(&env, log, emptied, Options::default()).await;
        let corner = engine.workspace_named("shop", "corner").await.unwrap().unwrap();
        let answer = engine.submit("shop", corner, &invoice()).await.unwrap();
        assert_eq!(answer.number(1, "number"), Some(2));
        engine.close().await;
    });
}

/// Damages a world, and says what is to be found.
type Damage = fn(&World) -> std::pin::Pin<Box<dyn Future<Output = Vec<(Trouble, &'static str)>> + '_>>;

const DAMAGES: &[(&str, Damage)] = &[
    ("a record with another byte", |world| {
        Box::pin(async {
            let key = world.invoice_key(world.workspaces[0], FIRST_W + 2);
            let mut bytes = world.get(&key).await;
            *bytes.last_mut().unwrap() ^= 1;
            world.set(&key, Some(&bytes)).await;
            vec![(Trouble::Different, "record 322680000131074 of type Invoice, workspace 140737488486400")]
        })
    }),
    ("no entry in the workspace's log", |world| {
        Box::pin(async {
            world.set(&world.key(b'l', world.workspaces[1], 2), None).await;
            vec![(Trouble::Missing, "place of event 2 in the log, workspace 140737488486401")]
        })
    }),
    ("a counter that is too high", |world| {
        Box::pin(async {
            let key = world.numbers_key(world.workspaces[2]);
            let mut bytes = world.get(&key).await;
            let end = bytes.len() - 4;
            // The last sequence is the application's own.
            bytes[end - 1] += 1;
            let checksum = crc32fast::hash(&bytes[..end]);
            bytes[end..].copy_from_slice(&checksum.to_be_bytes());
            world.set(&key, Some(&bytes)).await;
            vec![(Trouble::Different, "numbers of workspace 140737488486402")]
        })
    }),
    ("damaged numbers", |world| {
        Box::pin(async {
            world.set(&world.numbers_key(world.workspaces[2]), Some(b"?")).await;
            vec![(Trouble::Different, "numbers of workspace 140737488486402")]
        })
    }),
    ("no numbers", |world| {
        Box::pin(async {
            world.set(&world.numbers_key(world.workspaces[2]), None).await;
            vec![(Trouble::Missing, "numbers of workspace 140737488486402")]
        })
    }),
    ("a record where the next id leads", |world| {
        Box::pin(async {
            let next = FIRST_W + 2 + 2;
            world.set(&world.invoice_key(world.workspaces[0], next), Some(b"x")).await;
            vec![(Trouble::Unexplained, "record 322680000131076 of type Invoice, workspace 140737488486400")]
        })
    }),
    ("a record far from every id", |world| {
        Box::pin(async {
            world.set(&world.invoice_key(world.workspaces[0], 1 << 62), Some(b"x")).await;
            let what = "record 4611686018427387904 of type Invoice, workspace 140737488486400";
            vec![(Trouble::Unexplained, what)]
        })
    }),
    ("a part that no value leads to", |world| {
        Box::pin(async {
            let value = world.invoice_key(world.workspaces[0], FIRST_W + 2);
            let clustering = [b"z", value.clustering(), &[0; 12]].concat();
            world.set(&StoreKey::new(value.partition(), &clustering), Some(b"x")).await;
            let what = "part 0 of record 322680000131074 of type Invoice, workspace 140737488486400";
            vec![(Trouble::Unexplained, what)]
        })
    }),
    ("numbers in a partition that does not have the workspace", |world| {
        Box::pin(async {
            let (here, there) =
                (world.numbers_key(world.workspaces[0]), world.numbers_key(world.workspaces[1]));
            let bytes = world.get(&here).await;
            world.set(&StoreKey::new(there.partition(), here.clustering()), Some(&bytes)).await;
            vec![(Trouble::Unexplained, "numbers of workspace 140737488486400")]
        })
    }),
    ("what no engine writes", |world| {
        Box::pin(async {
            world.set(&world.key(b'y', world.workspaces[0], 1), Some(b"x")).await;
            vec![(Trouble::Unexplained, "a key that no engine writes")]
        })
    }),
    ("an id in a workspace without events", |world| {
        Box::pin(async {
            world.set(&world.key(b'i', world.workspaces[4], FIRST_W), Some(b"x")).await;
            vec![(Trouble::Unexplained, "entry of id 322680000131072, workspace 140737488486404")]
        })
    }),
    ("an entry where the next event leads", |world| {
        Box::pin(async {
            world.set(&world.key(b'l', world.workspaces[0], 6), Some(&1_u64.to_be_bytes())).await;
            vec![(Trouble::Unexplained, "place of event 6 in the log, workspace 140737488486400")]
        })
    }),
    ("a damaged checkpoint", |world| {
        Box::pin(async {
            let key = checkpoint_key(world, 0);
            let mut bytes = world.get(&key).await;
            bytes[7] ^= 1;
            world.set(&key, Some(&bytes)).await;
            vec![(Trouble::Different, "the checkpoint")]
        })
    }),
    ("no checkpoint", |world| {
        Box::pin(async {
            world.set(&checkpoint_key(world, 1), None).await;
            vec![(Trouble::Missing, "the checkpoint")]
        })
    }),
    ("no row of a view", |world| {
        Box::pin(async {
            let key = world.key_of(b'v', world.workspaces[3], b"\0\x06counts\x02Invoice\0\0");
            world.set(&key, None).await;
            vec![(Trouble::Missing, "row [\"Invoice\"] of view counts, workspace 140737488486403")]
        })
    }),
    ("no idempotency key and no id", |world| {
        Box::pin(async {
            let workspace = world.workspaces[0];
            world.set(&world.key_of(b'x', workspace, b"key 0"), None).await;
            world.set(&world.key(b'i', workspace, FIRST_W), None).await;
            vec![
                (Trouble::Missing, "entry of id 322680000131072, workspace 140737488486400"),
                (Trouble::Missing, "idempotency key \"key 0\", workspace 140737488486400"),
            ]
        })
    }),
    ("a name that the registry has forgotten", |world| {
        Box::pin(async {
            let row = b"v\0\0\0\0\0\0\0\x01\0\x05names\x02shop\0\0\x02corner\0\0";
            world.set(&StoreKey::new(b"\0\0\0\x01\0\0", row), None).await;
            vec![(Trouble::Missing, "row [\"shop\", \"corner\"] of view names, workspace 1")]
        })
    }),
];

fn invoice_type(world: &World) -> u16 {
    let accepted = seriatim_engine::definition::Accepted::accept(
        None,
        seriatim_types::ApplicationId::new(world.application),
        &shop(),
    );
    let schema = seriatim_engine::definition::Schema::new(&accepted.unwrap()).unwrap();
    schema.document_by_name("Invoice").unwrap().id.get()
}

fn checkpoint_key(world: &World, partition: u16) -> StoreKey {
    let storage = [&world.application.to_be_bytes()[..], &partition.to_be_bytes()].concat();
    StoreKey::new(&storage, b"k")
}

/// A stored checkpoint of which the bytes before the checksum are given.
fn with_checksum(bytes: &[u8]) -> Vec<u8> {
    [bytes, &crc32fast::hash(bytes).to_be_bytes()].concat()
}

#[test]
fn a_checkpoint_of_before_there_were_versions_is_whole_and_is_recovered_from() {
    simulate(1, |env| async move {
        let world = World::new(env).await;
        let key = checkpoint_key(&world, 0);
        let present = world.get(&key).await;
        let (version, offset) = present[..9].split_first().unwrap();
        assert_eq!((*version, &present[73..]), (2, &with_checksum(&present[..73])[73..]));
        world.set(&key, Some(&with_checksum(offset))).await;
        assert!(world.run(Treatment::Check).await.is_clean());
        let engine = world.open().await;
        continues_from_the_log(&engine, &world.workspaces).await;
        engine.close().await;
        assert_eq!(world.get(&key).await[0], 2);
    });
}

#[test]
fn a_newer_checkpoint_stops_its_partition_and_no_treatment_changes_it() {
    simulate(1, |env| async move {
        let world = World::new(env).await;
        let (key, newer) = (checkpoint_key(&world, 0), with_checksum(b"\x03 how far, and more"));
        world.set(&key, Some(&newer)).await;
        for treatment in [Treatment::Check, Treatment::Repair, Treatment::Rebuild] {
            let report = world.run(treatment).await;
            let [problem] = &report.problems[..] else { panic!("{report:?}") };
            assert!(matches!(problem.error, DoctorError::NewerCheckpoint(_)), "{report:?}");
            assert_eq!(world.get(&key).await, newer);
        }
        let (log, store) = (world.log.clone(), world.store.clone());
        let engine = Engine::open(world.env.clone(), log, store, [app()], Options::default()).await.unwrap();
        assert!(!engine.wait_ready(Duration::from_secs(60)).await);
        let stopped = engine.partitions("shop").unwrap().into_iter().filter_map(|state| match state.status {
            PartitionStatus::Stopped(reason) => Some(reason),
            _ => None,
        });
        let [reason] = &stopped.collect::<Vec<_>>()[..] else { panic!("one partition") };
        assert!(reason.contains("version 3") && reason.contains("use a newer program"), "{reason}");
        assert!(!reason.contains("damaged"), "{reason}");
        engine.close().await;
        assert_eq!(world.get(&key).await, newer);
    });
}

fn words(report: &Report) -> Vec<(Trouble, &str)> {
    report.findings.iter().map(|Finding { trouble, what, .. }| (*trouble, &**what)).collect()
}

/// Every workspace continues from where the log ends.
async fn continues_from_the_log(engine: &Engine, workspaces: &[WorkspaceId]) {
    for (place, workspace) in workspaces.iter().enumerate() {
        let answer = engine.submit("shop", *workspace, &invoice()).await.unwrap();
        let taken = if place < 4 { i64::try_from(place).unwrap() + 1 } else { 0 };
        assert_eq!(answer.number(1, "number"), Some(taken + 1), "{workspace}");
    }
}

#[test]
fn each_damage_is_found_named_and_repaired() {
    for (name, damage) in DAMAGES {
        simulate(1, |env| async move {
            let world = World::new(env).await;
            let expected = damage(&world).await;
            let report = world.run(Treatment::Check).await;
            assert_eq!(words(&report), expected, "{name}: {report:?}");
            assert!(!report.is_clean() && report.found == expected.len() as u64, "{name}");
            let report = world.run(Treatment::Repair).await;
            assert_eq!(words(&report), expected, "a check has changed nothing: {name}");
            assert!(report.is_repaired(), "{name}: {report:?}");
            let report = world.run(Treatment::Check).await;
            assert!(report.is_clean(), "{name}: {report:?}");
            let engine = world.open().await;
            continues_from_the_log(&engine, &world.workspaces).await;
            engine.close().await;
            let report = world.run(Treatment::Check).await;
            assert!(report.is_clean(), "{name}: {report:?}");
        });
    }
}

#[test]
fn each_damage_is_also_repaired_by_a_rebuild() {
    for (name, damage) in DAMAGES {
        simulate(1, |env| async move {
            let world = World::new(env).await;
            damage(&world).await;
            assert!(world.run(Treatment::Rebuild).await.is_repaired(), "{name}");
            let report = world.run(Treatment::Check).await;
            assert!(report.is_clean(), "{name}: {report:?}");
        });
    }
}

#[test]
fn each_damage_is_repaired_while_the_engine_runs() {
    for (name, damage) in DAMAGES {
        simulate(1, |env| async move {
            let world = World::new(env.clone()).await;
            let engine = world.open().await;
            let expected = damage(&world).await;
            let report = engine.doctor(&scratch(), Treatment::Repair, &mut |_| {}).await.unwrap();
            assert_eq!(words(&report), expected, "{name}: {report:?}");
            assert!(report.is_repaired(), "{name}: {report:?}");
            continues_from_the_log(&engine, &world.workspaces).await;
            let report = engine.doctor(&scratch(), Treatment::Check, &mut |_| {}).await.unwrap();
            assert!(report.is_clean(), "{name}: {report:?}");
            engine.close().await;
        });
    }
}

#[test]
fn a_workspace_that_a_planted_record_blocks_continues_after_a_repair() {
    simulate(1, |env| async move {
        let world = World::new(env.clone()).await;
        let engine = world.open().await;
        let blocked = world.workspaces[0];
        world.set(&world.invoice_key(blocked, FIRST_W + 4), Some(b"x")).await;
        for _ in 0..2 {
            let error = engine.submit("shop", blocked, &invoice()).await.unwrap_err();
            assert!(matches!(error, SubmitError::Taken { .. }), "{error}");
            assert_eq!(error.kind(), ErrorKind::Conflict);
        }
        // The others continue.
        engine.submit("shop", world.workspaces[1], &invoice()).await.unwrap();
        let report = engine.doctor(&scratch(), Treatment::Repair, &mut |_| {}).await.unwrap();
        assert_eq!((report.found, report.removed, report.is_repaired()), (1, 1, true));
        let answer = engine.submit("shop", blocked, &invoice()).await.unwrap();
        assert_eq!(answer.number(1, "number"), Some(2));
        assert_eq!(answer.id(1).unwrap().get(), FIRST_W + 4);
        engine.close().await;
    });
}

#[test]
fn numbers_in_memory_are_repaired_with_the_stored_ones() {
    simulate(1, |env| async move {
        let world = World::new(env.clone()).await;
        let (_, raise) = DAMAGES.iter().find(|(name, _)| *name == "a counter that is too high").unwrap();
        raise(&world).await;
        let engine = world.open().await;
        // Refused, but the numbers are in memory now.
        let late = invoice().expected_offset(1);
        let error = engine.submit("shop", world.workspaces[2], &late).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        let report = engine.doctor(&scratch(), Treatment::Repair, &mut |_| {}).await.unwrap();
        assert!(report.is_repaired() && report.found == 1, "{report:?}");
        continues_from_the_log(&engine, &world.workspaces).await;
        engine.close().await;
    });
}

#[test]
fn commands_continue_during_a_check() {
    simulate(1, |env| async move {
        let world = World::new(env.clone()).await;
        let engine = world.open().await;
        let (writer, workspace) = (engine.clone(), world.workspaces[0]);
        let mut seen = Vec::new();
        let writing = env.spawn(async move {
            for _ in 0..1_000 {
                writer.submit("shop", workspace, &invoice()).await.unwrap();
            }
        });
        // Several holds, while commands are under way.
        for _ in 0..3 {
            let report = engine.doctor(&scratch(), Treatment::Repair, &mut |_| {}).await.unwrap();
            assert!(report.is_clean(), "{report:?}");
            seen.push(report.checked.records);
        }
        assert!(seen[0] < 28 + 1_000, "the commands were done before the first look: {seen:?}");
        writing.await.unwrap();
        let report = engine.doctor(&scratch(), Treatment::Check, &mut |_| {}).await.unwrap();
        assert!(report.is_clean(), "{report:?}");
        assert_eq!(report.checked.records, 28 + 1_000);
        engine.close().await;
    });
}

#[test]
fn what_a_crash_has_left_unapplied_is_no_damage() {
    simulate(1, |env| async move {
        let world = World::new(env.clone()).await;
        let options = Options { flush_interval: Duration::from_secs(3_600), ..Options::default() };
        let engine = open(&env, world.log.clone(), world.store.clone(), options).await;
        let workspace = world.workspaces[0];
        engine.submit("shop", workspace, &invoice()).await.unwrap();
        engine.submit("shop", workspace, &invoice()).await.unwrap();
        // As after a crash: the log is two events ahead of the store.
        let report = world.run(Treatment::Check).await;
        assert!(report.is_clean() && report.unapplied == 2, "{report:?}");
        assert_eq!(report.checked.events, report.checked.workspace_log + 2);
        // What lies there is compared with what the log said then.
        world.set(&world.key(b'l', workspace, 6), Some(&1_u64.to_be_bytes())).await;
        let report = world.run(Treatment::Repair).await;
        assert!(report.removed == 1 && report.is_repaired(), "{report:?}");
        assert!(world.run(Treatment::Check).await.is_clean());
        let rebuilt = world.run(Treatment::Rebuild).await;
        assert!(rebuilt.is_repaired() && rebuilt.unapplied == 0, "{rebuilt:?}");
        let report = world.run(Treatment::Check).await;
        assert!(report.is_clean() && report.unapplied == 0, "{report:?}");
    });
}

#[test]
fn a_log_that_has_lost_events_is_reported_and_only_a_rebuild_continues() {
    simulate(1, |env| async move {
        let short = World::new(env.clone()).await;
        let long = World::new(env.clone()).await;
        let engine = long.open().await;
        for _ in 0..3 {
            engine.submit("shop", long.workspaces[0], &invoice()).await.unwrap();
        }
        engine.create_workspace("shop", "store", Some("lost")).await.unwrap();
        engine.close().await;
        // The store of the one with the log of the other.
        let world = World { store: long.store.clone(), ..short };
        for treatment in [Treatment::Check, Treatment::Repair] {
            let doctor = Doctor::new(env.clone(), world.log.clone(), world.store.clone(), [app()]);
            let error = doctor.run(&scratch(), treatment, &mut |_| {}).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            assert!(matches!(error, DoctorError::CheckpointBeyondTail { .. }), "{error}");
            assert!(error.to_string().contains("the log has lost events"), "{error}");
        }
        let report = world.run(Treatment::Rebuild).await;
        assert!(report.is_repaired() && report.removed > 0 && report.lost.is_some(), "{report:?}");
        let report = world.run(Treatment::Check).await;
        assert!(report.is_clean(), "{report:?}");
        let engine = world.open().await;
        engine.unfence(&Unfence::Complete).await.unwrap();
        continues_from_the_log(&engine, &world.workspaces).await;
        assert_eq!(engine.workspace_named("shop", "lost").await.unwrap(), None);
        engine.close().await;
    });
}

#[test]
fn numbers_that_have_seen_a_lost_event_are_told() {
    simulate(1, |env| async move {
        let world = World::new(env).await;
        let key = world.numbers_key(world.workspaces[0]);
        let mut bytes = world.get(&key).await;
        let end = bytes.len() - 4;
        bytes[11..19].copy_from_slice(&1_000_u64.to_be_bytes());
        let checksum = crc32fast::hash(&bytes[..end]);
        bytes[end..].copy_from_slice(&checksum.to_be_bytes());
        world.set(&key, Some(&bytes)).await;
        // Keys of ids are compared before those of numbers. Nevertheless they are not repaired.
        let lost = world.key(b'i', world.workspaces[0], FIRST_W);
        world.set(&lost, None).await;
        let report = world.run(Treatment::Repair).await;
        let problem = &report.problems[0];
        assert!(matches!(problem.error, DoctorError::FoldedBeyondTail { .. }), "{report:?}");
        assert_eq!((problem.error.kind(), report.written, report.is_clean()), (ErrorKind::Corrupt, 0, false));
        assert_eq!(world.store.get(lost.as_key()).await.unwrap(), None);
        assert!(world.run(Treatment::Rebuild).await.is_repaired());
        assert!(world.run(Treatment::Check).await.is_clean());
    });
}

#[test]
fn rows_of_a_view_that_the_given_code_does_not_keep_are_left_alone() {
    simulate(1, |env| async move {
        let world = World::new(env.clone()).await;
        for treatment in [Treatment::Check, Treatment::Repair, Treatment::Rebuild] {
            let (log, store) = (world.log.clone(), world.store.clone());
            let doctor = Doctor::new(env.clone(), log, store, [App::new(shop())]);
            let report = doctor.run(&scratch(), treatment, &mut |_| {}).await.unwrap();
            assert!(report.is_clean(), "{report:?}");
        }
        assert!(world.run(Treatment::Check).await.is_clean(), "the rows are still there");
    });
}

#[test]
fn a_partition_of_an_unknown_application_is_named() {
    simulate(1, |env| async move {
        let world = World::new(env.clone()).await;
        let doctor = Doctor::new(env.clone(), world.log.clone(), world.store.clone(), []);
        let report = doctor.run(&scratch(), Treatment::Check, &mut |_| {}).await.unwrap();
        assert_eq!((report.checked.partitions, report.unchecked.len(), report.is_clean()), (9, 4, true));
    });
}

#[test]
fn applications_that_were_not_given_are_looked_at_by_their_accepted_definition() {
    simulate(11, |env| async move {
        let (log, store) = (Log::new(MemoryLog::new()), scratch());
        let apps = [App::new(shop())];
        let engine =
            Engine::open(env.clone(), log.clone(), store.clone(), apps, Options::default()).await.unwrap();
        work(&engine).await;
        engine.close().await;
        let known = Engine::stored_applications(env.clone(), log.clone(), store.clone()).await.unwrap();
        assert_eq!(known, [shop()]);
        let told = Doctor::new(env.clone(), log.clone(), store.clone(), [App::new(shop())]);
        let told = told.run(&scratch(), Treatment::Check, &mut |_| {}).await.unwrap();
        let untold = Doctor::new(env.clone(), log.clone(), store.clone(), []).with_accepted();
        let untold = untold.run(&scratch(), Treatment::Check, &mut |_| {}).await.unwrap();
        assert!(untold.is_clean() && untold.unchecked.is_empty(), "{untold:?}");
        assert_eq!(untold.checked, told.checked);
        let ignored = Doctor::new(env.clone(), log, store, [])
            .run(&scratch(), Treatment::Check, &mut |_| {})
            .await
            .unwrap();
        assert_eq!(ignored.unchecked.len(), 4, "the partitions of the shop");
    });
}
