//! Idempotency keys leave the store after their window, by the events' own time, and no others do.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use seriatim_engine::doctor::{Doctor, Report, Treatment, Trouble};
use seriatim_engine::{Engine, Options, Request};
use seriatim_env::{Env, simulate};
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{Batch, ClusteringRange, Durability, Key, Log, Pair, Store, StoreBackend, StoreError};
use seriatim_storage_testing::faulty::{Faults, FaultyStore, Operation};
use seriatim_types::{Partition, WorkspaceId};
use support::{invoice, open_with, options, till, workspace};

const WINDOW: Duration = Duration::from_secs(60);

fn with_window() -> Options {
    Options { idempotency_window: Some(WINDOW), ..options() }
}

fn keyed(key: impl Into<String>) -> Request {
    invoice("1").idempotency_key(key.into())
}

/// The idempotency keys that a store has of a workspace.
async fn keys(store: &Store, partition: Partition, workspace: WorkspaceId) -> BTreeSet<String> {
    let scope = scope(workspace);
    let pairs = store.scan(&storage(partition), ClusteringRange::prefix(&scope)).take(10_000).await.unwrap();
    pairs.iter().map(|(key, _)| String::from_utf8(key[scope.len()..].to_vec()).unwrap()).collect()
}

fn storage(partition: Partition) -> Vec<u8> {
    [&partition.application.get().to_be_bytes()[..], &partition.id.get().to_be_bytes()].concat()
}

/// What the clustering parts of a workspace's idempotency keys begin with.
fn scope(workspace: WorkspaceId) -> Vec<u8> {
    [&b"x"[..], &workspace.get().to_be_bytes()].concat()
}

fn set<const N: usize>(keys: [&str; N]) -> BTreeSet<String> {
    keys.map(str::to_owned).into()
}

struct Desk {
    env: Env,
    log: MemoryLog,
    store: MemoryStore,
    engine: Engine,
    shop: WorkspaceId,
}

impl Desk {
    async fn open(env: &Env) -> Self {
        Self::open_on(env, MemoryLog::new(), MemoryStore::new()).await
    }

    async fn open_on(env: &Env, log: MemoryLog, store: MemoryStore) -> Self {
        let (open_log, open_store) = (Log::new(log.reopen()), Store::new(store.reopen()));
        let engine = open_with(env, open_log, open_store, with_window()).await;
        let shop = workspace(&engine, "shop").await;
        Self { env: env.clone(), log, store, engine, shop }
    }

    async fn reopen(self) -> Self {
        self.engine.close().await;
        Self::open_on(&self.env, self.log, self.store).await
    }

    /// Whether the command was done before.
    async fn repeats(&self, request: &Request) -> bool {
        self.engine.submit("till", self.shop, request).await.unwrap().repeated
    }

    fn partition(&self) -> Partition {
        let application = self.engine.schema("till").unwrap().id();
        Partition { application, id: self.engine.partition_of("till", self.shop).unwrap() }
    }

    async fn keys(&self) -> BTreeSet<String> {
        keys(&Store::new(self.store.clone()), self.partition(), self.shop).await
    }

    /// Waits until the store has just these keys.
    async fn has_only<const N: usize>(&self, expected: [&str; N]) {
        let expected = set(expected);
        let becomes = async {
            while self.keys().await != expected {
                self.env.sleep(Duration::from_millis(10)).await;
            }
        };
        let waited = self.env.timeout(Duration::from_secs(30), becomes).await;
        assert!(waited.is_ok(), "{:?} are there, not {expected:?}", self.keys().await);
    }

    async fn doctor(&self, treatment: Treatment) -> Report {
        let scratch = Store::new(MemoryStore::new());
        self.engine.doctor(&scratch, treatment, &mut |_| {}).await.unwrap()
    }
}

/// The doctor of a storage that no engine holds.
async fn examine(env: &Env, log: &MemoryLog, store: &MemoryStore, treatment: Treatment) -> Report {
    examine_store(env, log, Store::new(store.reopen()), treatment).await
}

async fn examine_store(env: &Env, log: &MemoryLog, store: Store, treatment: Treatment) -> Report {
    let scratch = Store::new(MemoryStore::new());
    let doctor = Doctor::new(env.clone(), Log::new(log.reopen()), store, [till()]);
    doctor.run(&scratch, treatment, &mut |_| {}).await.unwrap()
}

#[test]
fn keys_leave_the_store_after_their_window_and_one_that_was_used_again_stays() {
    simulate(1, |env| async move {
        let desk = Desk::open(&env).await;
        for number in 0..10 {
            assert!(!desk.repeats(&keyed(format!("key {number}"))).await);
        }
        assert!(!desk.repeats(&keyed("again")).await);
        env.sleep(WINDOW / 2).await;
        assert!(!desk.repeats(&keyed("later")).await);
        assert!(desk.doctor(Treatment::Check).await.is_clean());
        assert_eq!(desk.keys().await.len(), 12);
        // Its window is over, so it is a new command.
        env.sleep(WINDOW / 2 + Duration::from_millis(1)).await;
        assert!(!desk.repeats(&keyed("again")).await);
        desk.has_only(["again", "later"]).await;
        assert!(desk.repeats(&keyed("again")).await && desk.repeats(&keyed("later")).await);
        let report = desk.doctor(Treatment::Check).await;
        assert!(report.is_clean(), "{report:?}");
        // After a restart as before, and nothing is swept twice.
        let desk = desk.reopen().await;
        assert!(desk.repeats(&keyed("again")).await && desk.repeats(&keyed("later")).await);
        env.sleep(WINDOW * 2).await;
        assert!(!desk.repeats(&Request::new("Ping").idempotency_key("last")).await);
        desk.has_only(["last"]).await;
        assert!(!desk.repeats(&keyed("key 3")).await);
        desk.engine.close().await;
        assert!(examine(&env, &desk.log, &desk.store, Treatment::Check).await.is_clean());
        // What was swept does not come back when everything is in order.
        let report = examine(&env, &desk.log, &desk.store, Treatment::Rebuild).await;
        assert!(report.is_clean() && report.written == 0, "{report:?}");
        let left = keys(&Store::new(desk.store.reopen()), desk.partition(), desk.shop).await;
        assert_eq!(left, set(["last", "key 3"]));
    });
}

#[test]
fn a_store_made_anew_has_expired_keys_until_they_are_swept_again() {
    simulate(1, |env| async move {
        let desk = Desk::open(&env).await;
        desk.repeats(&keyed("old")).await;
        env.sleep(WINDOW * 2).await;
        desk.repeats(&keyed("new")).await;
        desk.has_only(["new"]).await;
        desk.engine.close().await;
        // Rebuilt from the log alone it has both, and that is right too.
        let emptied = MemoryStore::new();
        let report = examine(&env, &desk.log, &emptied, Treatment::Rebuild).await;
        assert!(report.is_repaired(), "{report:?}");
        assert!(examine(&env, &desk.log, &emptied, Treatment::Check).await.is_clean());
        let rebuilt = Desk::open_on(&env, desk.log, emptied).await;
        assert!(rebuilt.repeats(&keyed("new")).await);
        rebuilt.has_only(["new"]).await;
        assert!(rebuilt.doctor(Treatment::Check).await.is_clean());
        rebuilt.engine.close().await;
    });
}

#[test]
fn the_doctor_misses_a_key_that_nothing_has_swept() {
    simulate(1, |env| async move {
        let desk = Desk::open(&env).await;
        desk.repeats(&keyed("old")).await;
        env.sleep(WINDOW * 2).await;
        desk.repeats(&keyed("new")).await;
        desk.has_only(["new"]).await;
        desk.engine.close().await;
        let storage = storage(desk.partition());
        let mut batch = Batch::new();
        batch.remove(Key::new(&storage, &[&scope(desk.shop)[..], b"new"].concat()));
        let store = Store::new(desk.store.reopen());
        store.write(batch, Durability::Synced).await.unwrap();
        let report = examine(&env, &desk.log, &desk.store, Treatment::Repair).await;
        assert_eq!((report.found, report.findings[0].trouble), (1, Trouble::Missing), "{report:?}");
        assert!(report.findings[0].what.starts_with("idempotency key \"new\""), "{report:?}");
        // Where the position cannot be read, nothing counts as swept, and the expired key is restored.
        let position = Key::new(&storage, b"s");
        let mut damaged = store.get(position).await.unwrap().expect("it is stored").to_vec();
        damaged[7] += 1;
        store.put(position, &damaged).await.unwrap();
        let report = examine(&env, &desk.log, &desk.store, Treatment::Repair).await;
        assert!(report.is_repaired() && report.found == 2, "{report:?}");
        assert!(examine(&env, &desk.log, &desk.store, Treatment::Check).await.is_clean());
        let left = keys(&store, desk.partition(), desk.shop).await;
        assert_eq!(left, set(["new", "old"]));
        let desk = Desk::open_on(&env, desk.log, desk.store).await;
        desk.has_only(["new"]).await;
        desk.engine.close().await;
    });
}

/// A store that stops to write after so many writes.
#[derive(Debug)]
struct Dying {
    store: MemoryStore,
    left: AtomicUsize,
}

impl Dying {
    fn lives(&self) -> bool {
        let take = |left: usize| left.checked_sub(1);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }
}

#[async_trait]
impl StoreBackend for Dying {
    async fn get(&self, key: Key<'_>) -> Result<Option<Bytes>, StoreError> {
        self.store.get(key).await
    }

    async fn get_many(&self, keys: &[Key<'_>]) -> Result<Vec<Option<Bytes>>, StoreError> {
        self.store.get_many(keys).await
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
        let dead = || StoreError::Unavailable("it has stopped".to_owned());
        if self.lives() { self.store.write(batch, durability).await } else { Err(dead()) }
    }

    async fn sync(&self) -> Result<(), StoreError> {
        self.store.sync().await
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.store.close().await
    }
}

/// Lives on a store that stops after so many writes, then begins again with what is there. Whether it came to the end.
async fn live_and_recover(env: &Env, writes: usize) -> bool {
    let desk = Desk::open(env).await;
    for number in 0..6 {
        desk.repeats(&keyed(format!("key {number}"))).await;
    }
    env.sleep(WINDOW / 2).await;
    desk.repeats(&keyed("later")).await;
    desk.engine.close().await;
    env.sleep(WINDOW / 2 + Duration::from_secs(1)).await;
    let dying = Arc::new(Dying { store: desk.store.reopen(), left: AtomicUsize::new(writes) });
    let short = Options { close_timeout: Duration::from_secs(1), ..with_window() };
    let engine = open_with(env, Log::new(desk.log.reopen()), Store::from_arc(dying.clone()), short).await;
    // Swept from here on, while some keys are used again.
    for key in ["new", "key 1", "newer", "key 2", "key 1"] {
        engine.submit("till", desk.shop, &keyed(key)).await.unwrap();
        env.sleep(Duration::from_millis(70)).await;
    }
    engine.close().await;
    let came_to_the_end = dying.left.load(Ordering::Relaxed) > 0;
    let left = Dying { store: desk.store.reopen(), left: AtomicUsize::new(0) };
    let report = examine_store(env, &desk.log, Store::new(left), Treatment::Check).await;
    assert!(report.is_clean(), "{writes} writes: {report:?}");
    let desk = Desk::open_on(env, desk.log, desk.store).await;
    for key in ["key 1", "key 2", "new", "newer", "later"] {
        assert!(desk.repeats(&keyed(key)).await, "{key} was done before, {writes} writes");
    }
    desk.has_only(["key 1", "key 2", "later", "new", "newer"]).await;
    let report = desk.doctor(Treatment::Check).await;
    assert!(report.is_clean(), "{writes} writes: {report:?}");
    desk.engine.close().await;
    came_to_the_end
}

#[test]
fn a_crash_at_any_write_of_a_sweep_is_harmless() {
    let mut writes = 0;
    while !simulate(1, |env| async move { live_and_recover(&env, writes).await }) {
        writes += 1;
        assert!(writes < 1_000);
    }
    assert!(writes >= 4, "there are only {writes} writes");
}

#[test]
fn nothing_is_swept_while_the_doctor_looks() {
    simulate(1, |env| async move {
        let (log, store, faults) = (MemoryLog::new(), MemoryStore::new(), Faults::new(&env));
        let faulty = Store::new(FaultyStore::new(Arc::new(store.reopen()), &faults));
        // One key with each flush, so that a sweep takes long.
        let slowly = Options { flush_at: 1, ..with_window() };
        let engine = open_with(&env, Log::new(log.reopen()), faulty, slowly).await;
        let desk = Desk { shop: workspace(&engine, "shop").await, env: env.clone(), log, store, engine };
        for number in 0..300 {
            assert!(!desk.repeats(&keyed(format!("key {number:03}"))).await);
        }
        env.sleep(2 * WINDOW).await;
        assert!(!desk.repeats(&keyed("last")).await);
        faults.delay(Operation::ScanPage, Duration::from_millis(100));
        let report = desk.doctor(Treatment::Check).await;
        assert!(report.is_clean(), "{report:?}");
        assert!(desk.keys().await.len() > 2, "the sweep was over before the doctor looked");
        faults.heal();
        desk.has_only(["last"]).await;
    });
}
