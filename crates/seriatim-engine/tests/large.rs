//! Records and rows that grow: beyond a limit growth is refused, and what an earlier version has let grow is kept.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::{Value as Json, json};
use seriatim_engine::definition::{
    Application, CommandDefinition, DocumentDefinition, DocumentKind, FieldType, KindDefinition,
};
use seriatim_engine::doctor::{Doctor, Report, Treatment};
use seriatim_engine::limits::{COMMAND_DERIVED_BYTES_MAX, LOAD_BYTES_MAX};
use seriatim_engine::{
    Answer, App, Change, Engine, Found, Options, PartitionStatus, Projected, Request, Rows, SubmitError,
    projector,
};
use seriatim_env::{Env, simulate};
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{
    Batch, ClusteringRange, Digest, Durability, Entries, Header, Key, Log, Pair, ReadLimit, Store,
    StoreBackend, StoreError, Write,
};
use seriatim_storage_testing::faulty::{Faults, FaultyLog, Operation};
use seriatim_types::{ErrorKind, Partition, PartitionOffset, RecordId, WorkspaceId};

const MEGABYTE: usize = 1_000_000;
const FIELDS: usize = 18;

/// A text of one megabyte, which says where it belongs.
fn megabyte(place: usize) -> String {
    char::from(b'a' + u8::try_from(place % 26).unwrap()).to_string().repeat(MEGABYTE)
}

/// Adds the argument's text to a row, or cuts the row to a length.
fn pile(event: &Projected<'_>, rows: &mut Rows<'_>) -> Result<(), String> {
    let Some(args) = event.event.json_argument() else { return Ok(()) };
    let name = args["row"].as_str().unwrap_or("pile");
    rows.fold(&[name.into()], |row| {
        let mut text = row.as_ref().and_then(Json::as_str).unwrap_or("").to_owned();
        text.push_str(args["add"].as_str().unwrap_or(""));
        text.truncate(args["cut"].as_u64().map_or(usize::MAX, |cut| usize::try_from(cut).unwrap()));
        Some(json!(text))
    });
    Ok(())
}

fn app() -> App {
    let mut album = DocumentDefinition::new("Album", DocumentKind::C);
    for place in 0..FIELDS {
        album = album.field(format!("f{place}"), FieldType::Text);
    }
    let definition = Application::builder("vault")
        .partitions(1)
        .document(album)
        .command(CommandDefinition::with_json("Pile"))
        .kind(KindDefinition::new("store"));
    App::new(definition.build().unwrap()).projector(projector("pile", pile))
}

fn options() -> Options {
    Options { flush_interval: Duration::from_millis(50), ..Options::default() }
}

struct Vault {
    env: Env,
    log: MemoryLog,
    store: MemoryStore,
    engine: Engine,
    workspace: WorkspaceId,
    album: RecordId,
}

impl Vault {
    async fn open(env: &Env) -> Self {
        let (log, store) = (MemoryLog::new(), MemoryStore::new());
        Self::open_on(env, log, store).await
    }

    /// Opens it with an album and a row that are there.
    async fn open_on(env: &Env, log: MemoryLog, store: MemoryStore) -> Self {
        let (open_log, open_store) = (Log::new(log.reopen()), Store::new(store.reopen()));
        let engine = Engine::open(env.clone(), open_log, open_store, [app()], options()).await.unwrap();
        assert!(engine.wait_ready(Duration::from_secs(60)).await, "{:?}", engine.partitions("vault"));
        let (workspace, _) = engine.create_workspace("vault", "store", Some("first")).await.unwrap();
        let create = Request::changes([Change::create("Album", 1).field("f0", "cover")]);
        let create = create.idempotency_key("the album");
        let created = engine.submit("vault", workspace.id, &create).await.unwrap();
        let album = created.id(1).unwrap();
        Self { env: env.clone(), log, store, engine, workspace: workspace.id, album }
    }

    async fn reopen(self) -> Self {
        self.engine.close().await;
        Self::open_on(&self.env, self.log, self.store).await
    }

    /// The same log under an empty store.
    async fn reopen_without_store(self) -> Self {
        self.engine.close().await;
        let store = MemoryStore::new();
        Self::open_on(&self.env, self.log, store).await
    }

    async fn submit(&self, request: &Request) -> Result<Answer, SubmitError> {
        self.engine.submit("vault", self.workspace, request).await
    }

    async fn set(&self, place: usize, text: &str) -> Result<Answer, SubmitError> {
        let change = Change::update(self.album).field(&format!("f{place}"), text);
        self.submit(&Request::changes([change])).await
    }

    async fn pile(&self, args: Json) -> Result<Answer, SubmitError> {
        self.submit(&Request::new("Pile").args(args)).await
    }

    /// How long each field of the album is.
    async fn lengths(&self) -> Vec<usize> {
        let found = self.engine.record("vault", self.workspace, self.album).await.unwrap();
        let Some(Found::Record(record)) = found else { panic!("{found:?}") };
        let listed = self.engine.records("vault", self.workspace, "Album", None, 10).await.unwrap();
        assert_eq!(listed, std::slice::from_ref(&record));
        let text = |value: &seriatim_engine::Value| value.to_json().as_str().unwrap().len();
        record.fields.iter().map(|(_, value)| text(value)).collect()
    }

    async fn piled(&self) -> usize {
        let rows = self.engine.view("vault", self.workspace, "pile", &[], None, 10).await.unwrap();
        rows.iter().map(|(_, row)| row.as_str().unwrap().len()).sum()
    }

    /// Waits until everything is in the store.
    async fn flushed(&self) {
        let flushed = async {
            loop {
                let states = self.engine.partitions("vault").unwrap();
                let state = &states[0];
                assert_eq!(state.status, PartitionStatus::Ready);
                if state.checkpoint == state.next_offset {
                    return;
                }
                self.env.sleep(Duration::from_millis(10)).await;
            }
        };
        self.env.timeout(Duration::from_secs(60), flushed).await.expect("it is flushed");
    }

    fn partition(&self) -> Partition {
        Partition { application: self.engine.schema("vault").unwrap().id(), ..Partition::new(0, 0) }
    }

    /// Writes events to the log as a version without these limits has done, while the engine is closed.
    async fn append_and_reopen(self, bodies: Vec<Vec<u8>>) -> Self {
        let partition = self.partition();
        let kind = self.engine.schema("vault").unwrap().kind_by_name("store").unwrap().id;
        self.engine.close().await;
        let log = Log::new(self.log.reopen());
        let mut at = PartitionOffset::FIRST;
        let mut last = None;
        loop {
            let read = log.read(partition, at, ReadLimit::default()).await.unwrap();
            for (offset, entry) in read.iter() {
                last = Some((entry.chain(), entry.workspace_offset(), entry.time()));
                at = offset.next().unwrap();
            }
            if read.is_empty() {
                break;
            }
        }
        let (mut chain, mut offset, time) = last.unwrap();
        let owner = log.take(partition).await.unwrap();
        for body in bodies {
            offset = offset.next().unwrap();
            let header = Header {
                workspace: self.workspace,
                kind,
                workspace_offset: offset,
                time,
                body_digest: Digest::of(&body),
                draws: &[],
                raises: &[],
            };
            let mut entries = Entries::new(owner.next_append_id());
            chain = entries.push(&header, chain, &body).unwrap();
            log.append(&owner, at, &entries).await.unwrap();
            at = at.next().unwrap();
        }
        Self::open_on(&self.env, self.log, self.store).await
    }

    /// An update of one field, as it is in the log.
    fn update_body(&self, place: usize, text: &str) -> Vec<u8> {
        let album = self.engine.schema("vault").unwrap().document_by_name("Album").unwrap();
        let field = album.field(&format!("f{place}")).unwrap();
        let mut body = b"\x01\x00".to_vec();
        put_text(&mut body, "sys.Change");
        body.extend([1, 2]);
        put_varint(&mut body, album.id.get().into());
        put_varint(&mut body, self.album.get());
        // No raw id, no parent, one field.
        body.extend([0, 0, 1]);
        put_varint(&mut body, field.id.get().into());
        body.push(1);
        put_text(&mut body, text);
        body
    }

    async fn doctor(&self, treatment: Treatment) -> Report {
        let scratch = Store::new(MemoryStore::new());
        self.engine.doctor(&scratch, treatment, &mut |_| {}).await.unwrap()
    }

    /// The storage partition of everything that is derived.
    fn storage(&self) -> Vec<u8> {
        let Partition { application, id } = self.partition();
        [&application.get().to_be_bytes()[..], &id.get().to_be_bytes()].concat()
    }

    /// How many parts of values the store has.
    async fn parts(&self) -> usize {
        let store = Store::new(self.store.clone());
        store.scan(&self.storage(), ClusteringRange::prefix(b"z")).take(1_000).await.unwrap().len()
    }
}

/// A `Pile` command, as it is in the log.
fn pile_body(args: &Json) -> Vec<u8> {
    let mut body = b"\x01\x04".to_vec();
    put_text(&mut body, "Pile");
    put_text(&mut body, &args.to_string());
    body.push(0);
    body
}

fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 128 {
        bytes.push(u8::try_from(value & 127).unwrap() | 128);
        value >>= 7;
    }
    bytes.push(u8::try_from(value).unwrap());
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    put_varint(bytes, text.len() as u64);
    bytes.extend(text.as_bytes());
}

fn with_vault<F: Future<Output = ()>>(scenario: impl FnOnce(Vault) -> F) {
    simulate(1, |env| async move {
        let scenario = scenario(Vault::open(&env).await);
        env.timeout(Duration::from_secs(3_600), scenario).await.expect("nothing hangs");
    });
}

#[test]
fn a_record_does_not_grow_beyond_what_can_be_stored_and_the_partition_keeps_numbering() {
    with_vault(|vault| async move {
        let mut last = 1;
        let mut refused = None;
        for place in 0..FIELDS {
            match vault.set(place, &megabyte(place)).await {
                Ok(answer) => {
                    assert!(refused.is_none(), "a smaller record is refused, and a larger one is not");
                    last = answer.workspace_offset.get();
                }
                Err(error) => refused = Some(error),
            }
        }
        let error = refused.expect("the record is too large");
        assert_eq!(error.kind(), ErrorKind::TooLarge);
        let text = error.to_string();
        let named = format!("record {} of type Album, workspace {}", vault.album, vault.workspace);
        assert!(text.contains(&named) && text.contains("8388608"), "{text}");
        // No number was taken, and what fits is done, in this workspace and in others of the partition.
        assert_eq!(vault.set(0, "cover").await.unwrap().workspace_offset.get(), last + 1);
        let (other, _) = vault.engine.create_workspace("vault", "store", Some("other")).await.unwrap();
        let create = Request::changes([Change::create("Album", 1)]);
        vault.engine.submit("vault", other.id, &create).await.unwrap();
        vault.flushed().await;
        let lengths = vault.lengths().await;
        let vault = vault.reopen().await;
        assert_eq!(vault.lengths().await, lengths);
        assert_eq!(vault.parts().await, 0);
        assert!(vault.doctor(Treatment::Check).await.is_clean());
        vault.engine.close().await;
    });
}

#[test]
fn a_row_does_not_grow_beyond_what_can_be_stored() {
    with_vault(|vault| async move {
        let error = loop {
            match vault.pile(json!({"add": megabyte(0).repeat(3)})).await {
                Ok(answer) => assert!(answer.workspace_offset.get() < 8, "the row grows without end"),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::TooLarge);
        let named = format!("row [\"pile\"] of view pile, workspace {}", vault.workspace);
        assert!(error.to_string().contains(&named), "{error}");
        vault.pile(json!({"cut": 3})).await.unwrap();
        // Nor does a key.
        let error = vault.pile(json!({"row": "k".repeat(20_000)})).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge);
        assert!(error.to_string().contains("key"), "{error}");
        vault.pile(json!({"add": "x"})).await.unwrap();
        vault.flushed().await;
        assert_eq!(vault.reopen().await.piled().await, 4);
    });
}

#[test]
fn an_oversized_record_of_a_log_is_kept_and_may_only_shrink() {
    with_vault(|vault| async move {
        vault.flushed().await;
        let bodies = (0..FIELDS).map(|place| vault.update_body(place, &megabyte(place))).collect();
        let vault = vault.append_and_reopen(bodies).await;
        vault.flushed().await;
        assert_eq!(vault.lengths().await, [MEGABYTE; FIELDS]);
        assert_eq!(vault.parts().await, 5);
        assert!(vault.doctor(Treatment::Check).await.is_clean());
        // It is read from the store after a restart, and from the log alone without the store.
        let vault = vault.reopen().await;
        assert_eq!(vault.lengths().await, [MEGABYTE; FIELDS]);
        let vault = vault.reopen_without_store().await;
        assert_eq!(vault.lengths().await, [MEGABYTE; FIELDS]);
        // It does not grow; what leaves its size as it is, or makes it smaller, is done.
        let error = vault.set(3, &"x".repeat(MEGABYTE + 1)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge);
        vault.set(3, &megabyte(7)).await.unwrap();
        vault.flushed().await;
        assert_eq!((vault.lengths().await, vault.parts().await), (vec![MEGABYTE; FIELDS], 5));
        assert!(vault.doctor(Treatment::Check).await.is_clean());
        let vault = vault.reopen().await;
        // Once it fits one value, its parts are gone.
        vault.set(3, "").await.unwrap();
        vault.set(4, "").await.unwrap();
        vault.flushed().await;
        assert_eq!((vault.lengths().await[3], vault.parts().await), (0, 0));
        assert!(vault.doctor(Treatment::Check).await.is_clean());
        let vault = vault.reopen().await;
        assert_eq!(vault.lengths().await.iter().sum::<usize>(), (FIELDS - 2) * MEGABYTE);
        vault.engine.close().await;
    });
}

#[test]
fn an_oversized_row_of_a_log_is_kept_and_may_only_shrink() {
    with_vault(|vault| async move {
        // As few events as can make it: a row is read and written whole for each.
        let bodies = (0..3).map(|place| pile_body(&json!({"add": megabyte(place).repeat(6)}))).collect();
        let vault = vault.append_and_reopen(bodies).await;
        vault.flushed().await;
        assert_eq!((vault.piled().await, vault.parts().await), (18 * MEGABYTE, 5));
        let vault = vault.reopen().await;
        assert_eq!(vault.pile(json!({"add": "x"})).await.unwrap_err().kind(), ErrorKind::TooLarge);
        vault.pile(json!({"cut": 17 * MEGABYTE})).await.unwrap();
        vault.flushed().await;
        let vault = vault.reopen().await;
        assert_eq!(vault.piled().await, 17 * MEGABYTE);
        vault.pile(json!({"cut": 1})).await.unwrap();
        vault.flushed().await;
        assert_eq!((vault.piled().await, vault.parts().await), (1, 0));
        assert!(vault.doctor(Treatment::Check).await.is_clean());
        vault.engine.close().await;
    });
}

#[test]
fn the_doctor_finds_and_restores_what_is_missing_of_an_oversized_record() {
    with_vault(|vault| async move {
        let bodies = (0..FIELDS).map(|place| vault.update_body(place, &megabyte(place))).collect();
        let vault = vault.append_and_reopen(bodies).await;
        vault.flushed().await;
        let expected = all(&vault).await;
        vault.engine.close().await;
        let (log, store) = (Log::new(vault.log.reopen()), Store::new(vault.store.reopen()));
        let scratch = || Store::new(MemoryStore::new());
        // One part is lost: found, and restored.
        let (clustering, _) = expected.iter().find(|(clustering, _)| clustering.starts_with(b"z")).unwrap();
        let (storage, mut batch) = (vault.storage(), Batch::new());
        batch.remove(Key::new(&storage, clustering));
        store.write(batch, Durability::Synced).await.unwrap();
        let doctor = || Doctor::new(vault.env.clone(), log.clone(), store.clone(), [app()]);
        let report = doctor().run(&scratch(), Treatment::Repair, &mut |_| {}).await.unwrap();
        assert!(report.is_repaired() && report.found == 1, "{report:?}");
        assert!(report.findings[0].what.contains("of type Album"), "{report:?}");
        assert_eq!(all(&vault).await, expected);
        // Rebuilt from nothing it is the same, byte for byte.
        let emptied = Store::new(MemoryStore::new());
        let rebuilt = Doctor::new(vault.env.clone(), log.clone(), emptied.clone(), [app()]);
        let report = rebuilt.run(&scratch(), Treatment::Rebuild, &mut |_| {}).await.unwrap();
        assert!(report.is_repaired(), "{report:?}");
        for (clustering, value) in &expected {
            let found = emptied.get(Key::new(&storage, clustering)).await.unwrap();
            assert!(found.as_deref() == Some(&value[..]), "{}", clustering.escape_ascii());
        }
        let check = Doctor::new(vault.env.clone(), log.clone(), emptied, [app()]);
        assert!(check.run(&scratch(), Treatment::Check, &mut |_| {}).await.unwrap().is_clean());
    });
}

/// A store that remembers the largest batch, and the most that was read at once.
#[derive(Debug)]
struct Weighed {
    store: MemoryStore,
    largest: Arc<AtomicUsize>,
    largest_read: Arc<AtomicUsize>,
}

#[async_trait]
impl StoreBackend for Weighed {
    async fn get(&self, key: Key<'_>) -> Result<Option<Bytes>, StoreError> {
        self.store.get(key).await
    }

    async fn get_many(&self, keys: &[Key<'_>]) -> Result<Vec<Option<Bytes>>, StoreError> {
        let found = self.store.get_many(keys).await?;
        self.largest_read.fetch_max(found.iter().flatten().map(Bytes::len).sum(), Ordering::Relaxed);
        Ok(found)
    }

    async fn scan_page(
        &self,
        partition: &[u8],
        range: &ClusteringRange,
        limit: usize,
    ) -> Result<Vec<Pair>, StoreError> {
        self.store.scan_page(partition, range, limit).await
    }

    async fn write(&self, batch: Batch, durability: Durability) -> Result<(), StoreError> {
        let size = |write: &Write| write.value.as_ref().map_or(0, Bytes::len);
        self.largest.fetch_max(batch.iter().map(size).sum(), Ordering::Relaxed);
        self.store.write(batch, durability).await
    }

    async fn sync(&self) -> Result<(), StoreError> {
        self.store.sync().await
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.store.close().await
    }
}

#[test]
fn small_changes_of_large_records_are_read_and_flushed_within_the_bounds_of_bytes() {
    const RECORDS: usize = 40;
    const BOUND: usize = 8 * MEGABYTE;
    simulate(1, |env| async move {
        let (log, store) = (MemoryLog::new(), MemoryStore::new());
        let faults = Faults::new(&env);
        let largest = Arc::new(AtomicUsize::new(0));
        let open_log = Log::new(FaultyLog::new(Arc::new(log.reopen()), &faults));
        let largest_read = Arc::new(AtomicUsize::new(0));
        let weighed =
            Weighed { store: store.clone(), largest: largest.clone(), largest_read: largest_read.clone() };
        let open_store = Store::new(weighed);
        let options = Options { unflushed_bytes_max: BOUND, ..options() };
        let engine = Engine::open(env.clone(), open_log, open_store, [app()], options).await.unwrap();
        assert!(engine.wait_ready(Duration::from_secs(60)).await);
        let (workspace, _) = engine.create_workspace("vault", "store", Some("first")).await.unwrap();
        let (workspace, mut albums) = (workspace.id, Vec::new());
        for place in 0..RECORDS {
            let create = Request::changes([Change::create("Album", 1).field("f0", megabyte(place))]);
            albums.push(engine.submit("vault", workspace, &create).await.unwrap().id(1).unwrap());
        }
        let album = albums[0];
        let vault = Vault { env: env.clone(), log, store, engine, workspace, album };
        vault.flushed().await;
        largest.store(0, Ordering::Relaxed);
        largest_read.store(0, Ordering::Relaxed);
        let spawn = |request: Request| {
            let engine = vault.engine.clone();
            env.spawn(async move { engine.submit("vault", workspace, &request).await })
        };
        // They wait together, and are a few bytes each in the log.
        let hold = faults.hold(Operation::Append);
        let mut tasks = vec![spawn(Request::new("Pile").args(json!({})))];
        hold.reached(1).await;
        let update = |album: &RecordId| Request::changes([Change::update(*album).field("f1", "x")]);
        tasks.extend(albums.iter().map(|album| spawn(update(album))));
        env.sleep(Duration::from_micros(1)).await;
        hold.release();
        for task in tasks {
            task.await.unwrap().unwrap();
        }
        vault.flushed().await;
        let largest = largest.load(Ordering::Relaxed);
        // A group is closed after the command that passes the bound.
        assert!((MEGABYTE..BOUND + 2 * MEGABYTE).contains(&largest), "{largest} bytes in one flush");
        let largest_read = largest_read.load(Ordering::Relaxed);
        let bound = LOAD_BYTES_MAX + 2 * MEGABYTE;
        assert!((MEGABYTE..bound).contains(&largest_read), "{largest_read} bytes read at once");
        let records = vault.engine.records("vault", workspace, "Album", None, 100).await.unwrap();
        assert!(records.len() == RECORDS && records.iter().all(|record| record.fields.len() == 2));
        vault.engine.close().await;
    });
}

#[test]
fn a_recovery_of_small_changes_of_large_records_keeps_to_the_bounds_of_bytes() {
    const RECORDS: usize = 40;
    const BOUND: usize = 8 * MEGABYTE;
    simulate(1, |env| async move {
        let vault = Vault::open(&env).await;
        let mut albums = Vec::new();
        for place in 0..RECORDS {
            let create = Request::changes([Change::create("Album", 1).field("f0", megabyte(place))]);
            albums.push(vault.submit(&create).await.unwrap().id(1).unwrap());
        }
        for album in &albums {
            vault.submit(&Request::changes([Change::update(*album).field("f1", "x")])).await.unwrap();
        }
        vault.engine.close().await;
        // Everything is derived anew: the updates lie in one page of the log.
        let (largest, largest_read) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let store = MemoryStore::new();
        let weighed =
            Weighed { store: store.clone(), largest: largest.clone(), largest_read: largest_read.clone() };
        let (log, options) =
            (Log::new(vault.log.reopen()), Options { unflushed_bytes_max: BOUND, ..options() });
        let engine = Engine::open(env.clone(), log, Store::new(weighed), [app()], options).await.unwrap();
        assert!(engine.wait_ready(Duration::from_secs(60)).await);
        let vault = Vault { engine, store, ..vault };
        vault.flushed().await;
        // What a chunk derives comes on top of what waits already.
        let bound = BOUND + LOAD_BYTES_MAX + 2 * MEGABYTE;
        let largest = largest.load(Ordering::Relaxed);
        assert!((MEGABYTE..bound).contains(&largest), "{largest} bytes in one flush");
        let largest_read = largest_read.load(Ordering::Relaxed);
        assert!(
            (MEGABYTE..LOAD_BYTES_MAX + 2 * MEGABYTE).contains(&largest_read),
            "{largest_read} bytes read"
        );
        assert!(vault.doctor(Treatment::Check).await.is_clean());
        vault.engine.close().await;
    });
}

/// The album and everything that belongs to it, as it is stored.
async fn all(vault: &Vault) -> Vec<(Vec<u8>, Vec<u8>)> {
    let scope = [b"c", &vault.workspace.get().to_be_bytes()[..]].concat();
    let store = Store::new(vault.store.reopen());
    let mut found = Vec::new();
    for scope in [scope.clone(), [b"z", &scope[..]].concat()] {
        let range = ClusteringRange::prefix(&scope);
        let pairs = store.scan(&vault.storage(), range).take(1_000).await.unwrap();
        found.extend(pairs.into_iter().map(|(key, value)| (key.to_vec(), value.to_vec())));
    }
    found
}

#[test]
fn one_command_does_not_read_more_than_a_command_may_change() {
    const RECORDS: usize = 100;
    simulate(1, |env| async move {
        let store = MemoryStore::new();
        let (largest, largest_read) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let weighed = Weighed { store: store.clone(), largest, largest_read: largest_read.clone() };
        let (log, open_store) = (MemoryLog::new(), Store::new(weighed));
        let open_log = Log::new(log.reopen());
        let engine = Engine::open(env.clone(), open_log, open_store, [app()], options()).await.unwrap();
        assert!(engine.wait_ready(Duration::from_secs(60)).await);
        let (workspace, _) = engine.create_workspace("vault", "store", Some("first")).await.unwrap();
        let (workspace, mut albums) = (workspace.id, Vec::new());
        for place in 0..RECORDS {
            let create = Request::changes([Change::create("Album", 1).field("f0", megabyte(place))]);
            albums.push(engine.submit("vault", workspace, &create).await.unwrap().id(1).unwrap());
        }
        let vault = Vault { env, log, store, engine, workspace, album: albums[0] };
        vault.flushed().await;
        largest_read.store(0, Ordering::Relaxed);
        let update = |albums: &[RecordId]| {
            Request::changes(albums.iter().map(|album| Change::update(*album).field("f1", "x")))
        };
        let refused = vault.engine.submit("vault", workspace, &update(&albums)).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::TooLarge, "{refused}");
        let largest_read = largest_read.load(Ordering::Relaxed);
        assert!(largest_read <= COMMAND_DERIVED_BYTES_MAX, "{largest_read} bytes in one read");
        // Less of it is done, and so is what comes after.
        vault.engine.submit("vault", workspace, &update(&albums[..20])).await.unwrap();
        vault.engine.close().await;
    });
}

#[test]
fn the_doctor_keeps_to_the_bounds_of_bytes_where_records_are_large() {
    const RECORDS: usize = 60;
    simulate(1, |env| async move {
        let vault = Vault::open(&env).await;
        let mut albums = Vec::new();
        for place in 0..RECORDS {
            let create = Request::changes([Change::create("Album", 1).field("f0", megabyte(place))]);
            albums.push(vault.submit(&create).await.unwrap().id(1).unwrap());
        }
        // These lie in one page of the log, and each of them reads and writes a megabyte.
        for album in &albums {
            vault.submit(&Request::changes([Change::update(*album).field("f1", "x")])).await.unwrap();
        }
        vault.engine.close().await;
        let (largest, largest_read) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let scratch = MemoryStore::new();
        let weighed =
            Weighed { store: scratch, largest: largest.clone(), largest_read: largest_read.clone() };
        let (log, store) = (Log::new(vault.log.reopen()), Store::new(vault.store.reopen()));
        let doctor = Doctor::new(env, log, store, [app()]);
        let report = doctor.run(&Store::new(weighed), Treatment::Check, &mut |_| {}).await.unwrap();
        assert!(report.is_clean(), "{report:?}");
        let bound = LOAD_BYTES_MAX + 2 * MEGABYTE;
        for (what, bytes) in [("written", largest), ("read", largest_read)] {
            let bytes = bytes.load(Ordering::Relaxed);
            assert!((MEGABYTE..bound).contains(&bytes), "{bytes} bytes {what} at once");
        }
    });
}
