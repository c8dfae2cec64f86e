//! An owner that sleeps while another engine takes its partitions over, and wakes up then.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "how many points there were is part of the result")]

mod several;
mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use seriatim_engine::doctor::{Doctor, Treatment};
use seriatim_engine::{Engine, Event, NextRequest, Options, SubmitError};
use seriatim_env::watch;
use seriatim_env::{Env, Task, simulate};
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{
    Append, AppendFuture, Batch, BulletinBackend, ClusteringRange, Durability, Held, Key, Log, LogBackend,
    LogError, LogIdentity, Pair, ReadEntries, ReadLimit, Store, StoreBackend, StoreError, Take, TakeOver,
};
use seriatim_types::{Epoch, ErrorKind, Partition, PartitionOffset, WorkspaceId};
use several::{World, memory, own_everything, stand_by_everything};
use support::{customer, invoice, till};

/// Where an engine can fall asleep: before and after each operation of its log and its store.
#[derive(Debug, Clone)]
struct Points(watch::Sender<Sleep>);

#[derive(Debug, Default)]
struct Sleep {
    /// Points that were passed since they are counted.
    passed: u64,
    counts: bool,
    /// The engine falls asleep at this point.
    at: Option<u64>,
    asleep: bool,
}

impl Points {
    fn new() -> Self {
        Self(watch::Sender::new(Sleep::default()))
    }

    /// Counts from here on, and sleeps at a point.
    fn count(&self, at: Option<u64>) {
        self.0.send_modify(|sleep| (sleep.counts, sleep.passed, sleep.at) = (true, 0, at));
    }

    /// Passes a point. While the engine is asleep, every operation of it stops here.
    async fn pass(&self) {
        self.0.send_modify(|sleep| {
            if sleep.counts {
                sleep.passed += 1;
                sleep.asleep |= sleep.at == Some(sleep.passed);
            }
        });
        // This value has the sender.
        let _ = self.0.subscribe().wait_for(|sleep| !sleep.asleep).await;
    }

    async fn around<T>(&self, operation: impl Future<Output = T>) -> T {
        self.pass().await;
        let answer = operation.await;
        self.pass().await;
        answer
    }

    fn wake_up(&self) -> u64 {
        self.0.send_modify(|sleep| (sleep.counts, sleep.asleep) = (false, false));
        self.0.borrow().passed
    }

    fn is_asleep(&self) -> bool {
        self.0.borrow().asleep
    }

    async fn fallen_asleep(&self) {
        let _ = self.0.subscribe().wait_for(|sleep| sleep.asleep).await;
    }
}

#[derive(Debug)]
struct SleepingLog(MemoryLog, Points);

#[async_trait]
impl LogBackend for SleepingLog {
    async fn take_over(
        &self,
        partitions: &[(Partition, Option<Epoch>)],
        take: &Take,
    ) -> Result<Vec<TakeOver>, LogError> {
        self.1.around(self.0.take_over(partitions, take)).await
    }

    async fn holder(&self, partition: Partition) -> Result<Option<Held>, LogError> {
        self.1.around(self.0.holder(partition)).await
    }

    async fn identity(&self, create: Option<LogIdentity>) -> Result<Option<LogIdentity>, LogError> {
        self.1.around(self.0.identity(create)).await
    }

    fn append(&self, append: Append<'_>) -> AppendFuture {
        let (log, points, entries) = (self.0.clone(), self.1.clone(), append.entries.clone());
        let Append { partition, epoch, at, verified, .. } = append;
        Box::pin(async move {
            points.pass().await;
            let answer = log.append(Append { partition, epoch, at, entries: &entries, verified }).await;
            points.pass().await;
            answer
        })
    }

    async fn read(
        &self,
        partition: Partition,
        from: PartitionOffset,
        limit: ReadLimit,
    ) -> Result<ReadEntries, LogError> {
        self.1.around(self.0.read(partition, from, limit)).await
    }

    async fn tail(&self, partition: Partition) -> Result<PartitionOffset, LogError> {
        self.1.around(self.0.tail(partition)).await
    }

    async fn committed(&self, partition: Partition, offset: PartitionOffset) -> Result<(), LogError> {
        self.1.around(self.0.committed(partition, offset)).await
    }

    async fn partitions(&self) -> Result<Vec<Partition>, LogError> {
        self.1.around(self.0.partitions()).await
    }

    fn bulletin(&self) -> Arc<dyn BulletinBackend> {
        self.0.bulletin()
    }

    async fn close(&self) -> Result<(), LogError> {
        self.0.close().await
    }
}

#[derive(Debug)]
struct SleepingStore(MemoryStore, Points);

#[async_trait]
impl StoreBackend for SleepingStore {
    async fn get(&self, key: Key<'_>) -> Result<Option<Bytes>, StoreError> {
        self.1.around(self.0.get(key)).await
    }

    async fn get_many(&self, keys: &[Key<'_>]) -> Result<Vec<Option<Bytes>>, StoreError> {
        self.1.around(self.0.get_many(keys)).await
    }

    async fn scan_page(
        &self,
        partition: &[u8],
        range: &ClusteringRange,
        limit: usize,
    ) -> Result<Vec<Pair>, StoreError> {
        self.1.around(self.0.scan_page(partition, range, limit)).await
    }

    async fn write(&self, batch: Batch, durability: Durability) -> Result<(), StoreError> {
        self.1.around(self.0.write(batch, durability)).await
    }

    async fn sync(&self) -> Result<(), StoreError> {
        self.1.around(self.0.sync()).await
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.0.close().await
    }
}

/// Small, so that much is flushed and synced in a short time.
fn options() -> Options {
    Options {
        unflushed_max: 60,
        uncheckpointed_events_max: 16,
        flush_at: 6,
        flush_interval: Duration::from_millis(20),
        begin_wait: Duration::from_secs(1),
        retry: Duration::from_millis(20),
        close_timeout: Duration::from_secs(5),
        ..Options::default()
    }
}

/// What a request gives out: a place in a workspace's log, or a number.
type Given = Result<(WorkspaceId, u64), SubmitError>;

/// A request with its key.
#[derive(Debug, Clone, Copy)]
enum Ask {
    Invoice(&'static str),
    Customer(&'static str),
    Number(&'static str),
}

const ASKS: [Ask; 14] = [
    Ask::Invoice("a"),
    Ask::Number("bills"),
    Ask::Customer("b"),
    Ask::Invoice("a"),
    Ask::Invoice("b"),
    Ask::Number("bills"),
    Ask::Number("orders"),
    Ask::Invoice("a"),
    Ask::Customer("a"),
    Ask::Invoice("c"),
    Ask::Number("bills"),
    Ask::Invoice("c"),
    Ask::Invoice("b"),
    Ask::Number("orders"),
];

async fn ask(engine: &Engine, shops: &BTreeMap<&'static str, WorkspaceId>, ask: Ask, key: &str) -> Given {
    let (shop, request) = match ask {
        Ask::Invoice(shop) => (shop, invoice("1.00")),
        Ask::Customer(shop) => (shop, customer("Ada")),
        Ask::Number(series) => {
            let request = NextRequest { idempotency_key: Some(key.to_owned()), ..NextRequest::default() };
            let taken = engine.series().next(series, &request).await?;
            let workspace = engine.series().state(series).await.map(|state| state.workspace);
            return Ok((workspace.unwrap_or(WorkspaceId::FIRST), taken.number));
        }
    };
    let answer = engine.submit("till", shops[shop], &request.idempotency_key(key)).await?;
    Ok((shops[shop], answer.workspace_offset.get()))
}

/// All requests, two at a time, so that some are one group; and the registry is read and written in between.
fn work(env: &Env, engine: &Engine, shops: &BTreeMap<&'static str, WorkspaceId>) -> Task<Vec<Given>> {
    let (env, engine, shops) = (env.clone(), engine.clone(), shops.clone());
    env.clone().spawn(async move {
        let mut given = Vec::new();
        for (pair, asks) in ASKS.chunks(2).enumerate() {
            let asking: Vec<_> = asks
                .iter()
                .enumerate()
                .map(|(place, one)| {
                    let (engine, shops, one) = (engine.clone(), shops.clone(), *one);
                    env.spawn(
                        async move { ask(&engine, &shops, one, &format!("{}", pair * 2 + place)).await },
                    )
                })
                .collect();
            for answer in asking {
                given.push(answer.await.unwrap());
            }
            let _ = engine.create_workspace("till", "store", Some(&format!("shop {pair}"))).await;
            // The flusher's turn.
            env.sleep(Duration::from_millis(7)).await;
        }
        given
    })
}

/// The keys of the events of a log, each once, and their places.
async fn keys_in(log: &MemoryLog) -> BTreeMap<String, (WorkspaceId, u64)> {
    let mut keys = BTreeMap::new();
    for partition in log.partitions().await.unwrap() {
        let read = log.read(partition, PartitionOffset::FIRST, ReadLimit::entries(10_000)).await.unwrap();
        for (_, entry) in read.iter() {
            let event = Event::decode(entry.body()).unwrap();
            let Some(used) = event.idempotency.filter(|_| partition.application.get() > 1) else { continue };
            let place = (entry.workspace(), entry.workspace_offset().get());
            let before = keys.insert(format!("{} of {}", used.key, entry.workspace()), place);
            assert_eq!(before, None, "key {} has two events", used.key);
        }
    }
    keys
}

async fn assert_clean(engine: &Engine) {
    let report = engine.doctor(&memory(), Treatment::Check, &mut |_| {}).await.unwrap();
    assert!(report.is_clean(), "{}: {report:?}", engine.holder());
}

/// Whether the owner has slept, and how many points it passed.
#[derive(Debug)]
struct Night {
    slept: bool,
    points: u64,
    acknowledged: usize,
    in_doubt: usize,
    refused: usize,
}

fn night(seed: u64, at: Option<u64>) -> Night {
    simulate(seed, |env| async move {
        let world = World::new(&env, options());
        let points = Points::new();
        let (log, store) = (SleepingLog(world.log.reopen(), points.clone()), MemoryStore::new());
        let store = Store::new(SleepingStore(store, points.clone()));
        let first = world.join_on("first", Log::new(log), store, vec![till()]).await.unwrap();
        own_everything(&first).await;
        let second = world.join("second", memory(), vec![till()]).await;
        stand_by_everything(&second).await;
        let mut shops = BTreeMap::new();
        for name in ["a", "b", "c"] {
            shops.insert(name, support::workspace(&first, name).await);
        }
        points.count(at);
        let working = work(&env, &first, &shops);
        let _ = env.timeout(Duration::from_secs(3), points.fallen_asleep()).await;
        let slept = points.is_asleep();
        // The registry is last: the others need it.
        let mut partitions = second.every_partition();
        partitions.rotate_left(1);
        for partition in partitions {
            env.timeout(Duration::from_secs(60), second.own(partition)).await.expect("it owns").unwrap();
        }
        for (place, one) in ASKS.iter().take(6).enumerate() {
            ask(&second, &shops, *one, &format!("of the second {place}")).await.unwrap();
        }
        env.sleep(Duration::from_millis(200)).await;
        for (_, state) in second.all_partitions() {
            assert_eq!(state.checkpoint, state.next_offset, "everything is flushed: {state:?}");
        }
        let passed = points.wake_up();
        let given = env.timeout(Duration::from_secs(120), working).await.expect("answers").unwrap();
        let in_log = keys_in(&world.log).await;
        let mut night = Night { slept, points: passed, acknowledged: 0, in_doubt: 0, refused: 0 };
        for (place, answer) in given.iter().enumerate() {
            let found = in_log.keys().any(|key| key.starts_with(&format!("{place} of ")));
            match answer {
                Ok(_) => {
                    assert!(found, "{place} was acknowledged");
                    night.acknowledged += 1;
                }
                Err(error) if error.kind() == ErrorKind::InDoubt => night.in_doubt += 1,
                Err(error) => {
                    assert!(!found, "{place} was refused: {error}");
                    night.refused += 1;
                }
            }
            let again = ask(&second, &shops, ASKS[place], &format!("{place}")).await.unwrap();
            if let Ok(given) = answer {
                assert_eq!(again.1, given.1, "{place}");
            }
        }
        check(&env, &world, &first, &second, at.unwrap_or(0).is_multiple_of(4)).await;
        night
    })
}

/// What both have derived is what the log says, and nothing is missing or twice. `rebuilds`: also compares their stores with one
/// that is rebuilt.
async fn check(env: &Env, world: &World, first: &Engine, second: &Engine, rebuilds: bool) {
    for partition in first.every_partition() {
        first.stand_by(partition).await.unwrap();
    }
    assert!(first.wait_ready(Duration::from_secs(60)).await);
    assert_clean(second).await;
    assert_clean(first).await;
    keys_in(&world.log).await;
    for name in ["bills", "orders"] {
        let workspace = second.series().state(name).await.unwrap().workspace;
        let audit = second.audit("series", workspace, "Number").await.unwrap();
        assert!(audit.is_complete(), "{audit:?}");
    }
    world.close().await;
    if !rebuilds && std::env::var_os("SERIATIM_FULL").is_none() {
        return;
    }
    // A store that is rebuilt from the log alone is the same.
    let (rebuilt, log) = (memory(), Log::new(world.log.reopen()));
    let third = world.join_on("third", log.clone(), rebuilt.clone(), vec![till()]).await.unwrap();
    stand_by_everything(&third).await;
    third.close().await;
    for store in [rebuilt, second.store().clone(), first.store().clone()] {
        let doctor = Doctor::new(env.clone(), log.clone(), store, [till()]);
        let report = doctor.run(&memory(), Treatment::Check, &mut |_| {}).await.unwrap();
        assert!(report.is_clean(), "{report:?}");
    }
}

#[test]
fn a_sleeping_owner_wakes_up() {
    let awake = night(1, None);
    assert!(!awake.slept);
    assert_eq!(awake.acknowledged, ASKS.len());
    let (mut acknowledged, mut in_doubt, mut refused) = (0, 0, 0);
    let points = awake.points;
    let mut slept = 0;
    for at in 1..=points {
        let night = night(1, Some(at));
        slept += u64::from(night.slept);
        acknowledged += night.acknowledged;
        in_doubt += night.in_doubt;
        refused += night.refused;
    }
    println!(
        "{points} points, {slept} nights: {acknowledged} acknowledged, {refused} refused, {in_doubt} in doubt"
    );
    assert!(slept > 150, "{slept} of {points} points");
    assert!(refused > 0 && acknowledged > 0);
}
