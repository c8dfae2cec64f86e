//! A crash before, inside and behind every single write leaves nothing lost, nothing twice and nothing half.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "how many points there were is part of the result")]

mod support;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::{Value as Json, json};
use seriatim_engine::{Change, Engine, Event, Options, Request, Value};
use seriatim_env::{Env, simulate};
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{
    Append, AppendError, AppendFuture, Batch, ClusteringRange, Durability, Entry, Held, Key, Log, LogBackend,
    LogError, LogIdentity, Pair, ReadEntries, ReadLimit, Store, StoreBackend, StoreError, Take, TakeOver,
    Write,
};
use seriatim_types::{Epoch, Partition, PartitionOffset, RecordId, WorkspaceId, WorkspaceOffset};

/// When the machine stops, at a write of the log or of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    /// The write has no effect.
    Before,
    /// The operation has its effect, and its caller receives an error.
    Inside,
    /// It has its effect, its caller is told, and that is the last thing that works.
    Behind,
}

/// What a crash leaves of the store's writes that were not synced: how many of them, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    All,
    None,
    Some(usize),
}

/// The machine: it counts writes, and stops.
#[derive(Debug)]
struct Machine {
    /// Writes until the crash, and what kind of crash it is.
    crash: Option<(u64, Moment)>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    writes: u64,
    dead: bool,
}

impl Machine {
    fn new(crash: Option<(u64, Moment)>) -> Arc<Self> {
        Arc::new(Self { crash, state: Mutex::default() })
    }

    fn is_dead(&self) -> bool {
        self.state.lock().unwrap().dead
    }

    fn writes(&self) -> u64 {
        self.state.lock().unwrap().writes
    }

    /// Counts a write: whether it has an effect, and whether its caller is told.
    fn write(&self) -> (bool, bool) {
        let mut state = self.state.lock().unwrap();
        if state.dead {
            return (false, false);
        }
        state.writes += 1;
        match self.crash {
            Some((at, moment)) if at == state.writes => {
                state.dead = true;
                (moment != Moment::Before, moment == Moment::Behind)
            }
            _ => (true, true),
        }
    }
}

/// A log that stops with its machine. What it has is synced.
#[derive(Debug)]
struct DyingLog {
    log: MemoryLog,
    machine: Arc<Machine>,
}

fn no_log() -> LogError {
    LogError::Unavailable("the machine has stopped".to_owned())
}

impl DyingLog {
    fn alive(&self) -> Result<(), LogError> {
        if self.machine.is_dead() { Err(no_log()) } else { Ok(()) }
    }
}

#[async_trait]
impl LogBackend for DyingLog {
    async fn take_over(
        &self,
        partitions: &[(Partition, Option<Epoch>)],
        take: &Take,
    ) -> Result<Vec<TakeOver>, LogError> {
        let (happens, told) = self.machine.write();
        let taken = if happens { self.log.take_over(partitions, take).await } else { Err(no_log()) };
        if told { taken } else { Err(no_log()) }
    }

    async fn holder(&self, partition: Partition) -> Result<Option<Held>, LogError> {
        self.log.holder(partition).await
    }

    async fn identity(&self, create: Option<LogIdentity>) -> Result<Option<LogIdentity>, LogError> {
        self.log.identity(create).await
    }

    fn append(&self, append: Append<'_>) -> AppendFuture {
        let (partition, at) = (append.partition, append.at);
        let (happens, told) = self.machine.write();
        let answer = happens.then(|| self.log.append(append));
        Box::pin(async move {
            let answer = match answer {
                Some(answer) => Some(answer.await),
                None => None,
            };
            let doubt =
                || AppendError::InDoubt { partition, at, reason: "the machine has stopped".to_owned() };
            answer.filter(|_| told).unwrap_or_else(|| Err(doubt()))
        })
    }

    async fn read(
        &self,
        partition: Partition,
        from: PartitionOffset,
        limit: ReadLimit,
    ) -> Result<ReadEntries, LogError> {
        self.alive()?;
        self.log.read(partition, from, limit).await
    }

    async fn tail(&self, partition: Partition) -> Result<PartitionOffset, LogError> {
        self.alive()?;
        self.log.tail(partition).await
    }

    async fn committed(&self, partition: Partition, offset: PartitionOffset) -> Result<(), LogError> {
        self.log.committed(partition, offset).await
    }

    async fn partitions(&self) -> Result<Vec<Partition>, LogError> {
        self.alive()?;
        self.log.partitions().await
    }

    fn bulletin(&self) -> Arc<dyn seriatim_storage::BulletinBackend> {
        self.log.bulletin()
    }

    async fn close(&self) -> Result<(), LogError> {
        Ok(())
    }
}

/// What the store has on disk, and the batches that it has told and would lose.
#[derive(Debug, Default)]
struct Disk {
    synced: Vec<Write>,
    buffered: Vec<Vec<Write>>,
    /// How many batches were synced.
    durable: u64,
}

/// A store that stops with its machine. What is buffered is seen at once and lost in a crash, from any point on.
#[derive(Debug)]
struct DyingStore {
    /// What is seen.
    seen: MemoryStore,
    disk: Arc<Mutex<Disk>>,
    machine: Arc<Machine>,
}

fn no_store() -> StoreError {
    StoreError::Unavailable("the machine has stopped".to_owned())
}

impl DyingStore {
    fn alive(&self) -> Result<(), StoreError> {
        if self.machine.is_dead() { Err(no_store()) } else { Ok(()) }
    }

    async fn apply(&self, writes: Vec<Write>) {
        self.disk.lock().unwrap().buffered.push(writes.clone());
        let mut batch = Batch::new();
        writes.into_iter().for_each(|write| batch.push(write));
        self.seen.write(batch, Durability::Buffered).await.unwrap();
    }

    fn sync_now(&self) {
        let mut disk = self.disk.lock().unwrap();
        let buffered = std::mem::take(&mut disk.buffered);
        disk.durable += buffered.len() as u64;
        disk.synced.extend(buffered.into_iter().flatten());
    }
}

#[async_trait]
impl StoreBackend for DyingStore {
    async fn get(&self, key: Key<'_>) -> Result<Option<Bytes>, StoreError> {
        self.alive()?;
        self.seen.get(key).await
    }

    async fn get_many(&self, keys: &[Key<'_>]) -> Result<Vec<Option<Bytes>>, StoreError> {
        self.alive()?;
        self.seen.get_many(keys).await
    }

    async fn scan_page(
        &self,
        partition: &[u8],
        range: &ClusteringRange,
        limit: usize,
    ) -> Result<Vec<Pair>, StoreError> {
        self.alive()?;
        self.seen.scan_page(partition, range, limit).await
    }

    async fn write(&self, batch: Batch, durability: Durability) -> Result<(), StoreError> {
        let (happens, told) = self.machine.write();
        if happens {
            self.apply(batch.into_iter().collect()).await;
        }
        if !told {
            return Err(StoreError::InDoubt("the machine has stopped".to_owned()));
        }
        if durability == Durability::Synced {
            self.sync().await?;
        }
        Ok(())
    }

    async fn sync(&self) -> Result<(), StoreError> {
        let (happens, told) = self.machine.write();
        if happens {
            self.sync_now();
        }
        if told { Ok(()) } else { Err(no_store()) }
    }

    fn written(&self) -> u64 {
        let disk = self.disk.lock().unwrap();
        disk.durable + disk.buffered.len() as u64
    }

    fn durable(&self) -> u64 {
        self.disk.lock().unwrap().durable
    }

    async fn close(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// What survives.
#[derive(Debug, Clone)]
struct World {
    env: Env,
    log: MemoryLog,
    disk: Arc<Mutex<Disk>>,
}

impl World {
    fn new(env: &Env) -> Self {
        Self { env: env.clone(), log: MemoryLog::new(), disk: Arc::default() }
    }

    /// The machine has stopped: this much is left of what was buffered.
    fn crash(&self, kept: Kept) {
        let mut disk = self.disk.lock().unwrap();
        let buffered = std::mem::take(&mut disk.buffered);
        let count = buffered.len();
        let kept = match kept {
            Kept::All => 0..count,
            Kept::None => 0..0,
            Kept::Some(kept) => 0..kept.min(count),
        };
        disk.synced.extend(buffered[kept].iter().flatten().cloned());
    }

    fn buffered(&self) -> usize {
        self.disk.lock().unwrap().buffered.len()
    }

    /// Starts a machine on what there is.
    async fn start(&self, crash: Option<(u64, Moment)>) -> (Arc<Machine>, Log, Store) {
        let machine = Machine::new(crash);
        let seen = MemoryStore::new();
        let mut batch = Batch::new();
        self.disk.lock().unwrap().synced.iter().for_each(|write| batch.push(write.clone()));
        seen.write(batch, Durability::Synced).await.unwrap();
        let log = Log::new(DyingLog { log: self.log.clone(), machine: machine.clone() });
        let store = Store::new(DyingStore { seen, disk: self.disk.clone(), machine: machine.clone() });
        (machine, log, store)
    }

    /// Opens an engine; `None` if the machine stops on the way.
    async fn open(&self, machine: &Machine, log: Log, store: Store) -> Option<Engine> {
        // Small, so that much is flushed in a short life.
        let options = Options {
            unflushed_max: 30,
            // So that the store is synced on the way.
            uncheckpointed_events_max: 12,
            flush_at: 6,
            flush_interval: Duration::from_millis(20),
            begin_wait: Duration::from_secs(1),
            cache_numbers: 1_000,
            cached_workspaces: 100,
            retry: Duration::from_millis(50),
            close_timeout: Duration::from_millis(200),
            ..Options::default()
        };
        let opening = Engine::open(self.env.clone(), log, store, [support::till()], options);
        let opened = self.env.timeout(Duration::from_secs(5), opening).await;
        match opened {
            Ok(Ok(engine)) => {
                let ready = engine.wait_ready(Duration::from_secs(5)).await;
                assert!(ready || machine.is_dead(), "{:?}", engine.partitions("till"));
                Some(engine)
            }
            Ok(Err(error)) => {
                assert!(machine.is_dead(), "{error}");
                None
            }
            Err(_) => {
                assert!(machine.is_dead(), "it hangs");
                None
            }
        }
    }
}

/// What a client has been promised: by idempotency key, where the event stands.
type Promises = BTreeMap<String, (WorkspaceId, u64)>;

/// The commands of a life. They are the same in every life, so that a client that comes back repeats itself.
fn commands() -> Vec<(&'static str, Request)> {
    let invoice = |raw: u16| Change::create("Invoice", raw).field("total", "1.00");
    let change = |changes: Vec<Change>| Request::changes(changes);
    vec![
        ("a", change(vec![Change::create("Customer", 1).field("name", "Ada")])),
        ("b", change(vec![invoice(1), invoice(2)])),
        ("a", change(vec![invoice(1).field("paid", false)])),
        ("a", change(vec![Change::create("Settings", 1).field("currency", "EUR"), invoice(2)])),
        ("b", Request::new("Bill").args(json!({"customers": []}))),
        (
            "a",
            Request::new("PlaceOrder").args(json!({"id": 1, "children": [{"create": "OrderLine", "id": 2}]})),
        ),
        ("a", change(vec![Change::update(RecordId::new(65_536)).field("currency", "CHF")])),
        ("b", change(vec![invoice(7)])),
        ("a", change(vec![Change::update(RecordId::new(65_536)).field("currency", Json::Null), invoice(3)])),
        ("c", change(vec![invoice(1)])),
    ]
}

/// A life: both workspaces, then every command, in pairs so that some are one group, each with the key of its place.
async fn live(env: &Env, machine: &Machine, engine: &Engine, promises: &Arc<Mutex<Promises>>) {
    let mut shops = BTreeMap::new();
    for name in ["a", "b", "c"] {
        let Ok((workspace, _)) = engine.create_workspace("till", "store", Some(name)).await else { return };
        shops.insert(name, workspace.id);
    }
    let commands: Vec<_> = commands().into_iter().enumerate().collect();
    for pair in commands.chunks(2) {
        let tasks: Vec<_> = pair
            .iter()
            .map(|(place, (shop, request))| {
                let (engine, shop, promises) = (engine.clone(), shops[shop], promises.clone());
                let key = format!("{place}");
                let request = request.clone().idempotency_key(&*key);
                env.spawn(async move {
                    if let Ok(answer) = engine.submit("till", shop, &request).await {
                        let place = (shop, answer.workspace_offset.get());
                        let before = promises.lock().unwrap().insert(key, place);
                        assert!(before.is_none_or(|before| before == place), "one key, one answer");
                    }
                })
            })
            .collect();
        for task in tasks {
            // A command whose machine has stopped may never be answered.
            let _ = env.timeout(Duration::from_secs(2), task).await;
        }
        if machine.is_dead() {
            return;
        }
        // The flusher's turn.
        env.sleep(Duration::from_millis(7)).await;
    }
}

/// What the log says: entries by workspace, and the records that follow from them.
#[derive(Debug, Default)]
struct Model {
    events: BTreeMap<WorkspaceId, Vec<Event>>,
    records: BTreeMap<(WorkspaceId, u64), BTreeMap<u16, Value>>,
    keys: BTreeMap<String, (WorkspaceId, u64)>,
}

impl Model {
    /// Reads every header and body of the till's partitions; checks that everything drawn is dense.
    async fn read(world: &World) -> Self {
        let mut model = Self::default();
        let mut next = BTreeMap::new();
        for partition in world.log.partitions().await.unwrap() {
            let read =
                world.log.read(partition, PartitionOffset::FIRST, ReadLimit::entries(10_000)).await.unwrap();
            for (offset, entry) in read.iter() {
                check_header(partition, offset, &entry, &mut next);
                if partition.application.get() >= 16 {
                    model.apply(&entry);
                }
            }
        }
        model
    }

    fn apply(&mut self, entry: &Entry<'_>) {
        let event = Event::decode(entry.body()).unwrap();
        let workspace = entry.workspace();
        let used = event.idempotency.as_ref().unwrap();
        let before = self.keys.insert(used.key.to_string(), (workspace, entry.workspace_offset().get()));
        assert_eq!(before, None, "key {} has two events", used.key);
        for change in &event.changes {
            let row = change.row();
            let record = self.records.entry((workspace, row.id.get())).or_default();
            for (field, value) in &row.fields {
                match value {
                    Value::Null => drop(record.remove(&field.get())),
                    value => drop(record.insert(field.get(), value.clone())),
                }
            }
        }
        self.events.entry(workspace).or_default().push(event);
    }
}

/// Workspace offsets and the numbers of each sequence follow each other.
fn check_header(
    partition: Partition,
    offset: PartitionOffset,
    entry: &Entry<'_>,
    next: &mut BTreeMap<(Partition, WorkspaceId, u64), u64>,
) {
    let place = (partition, entry.workspace());
    let expected = next.entry((place.0, place.1, u64::MAX)).or_insert(1);
    assert_eq!(entry.workspace_offset().get(), *expected, "{offset} of {partition}");
    *expected += 1;
    for draw in entry.draws() {
        let first = draw.first.get();
        let expected = next.entry((place.0, place.1, u64::from(draw.sequence.get()))).or_insert(first);
        assert_eq!(first, *expected, "{draw:?} at {offset} of {partition}");
        *expected += draw.count;
    }
}

/// Everything promised is there, once, and everything derived is what the log says.
async fn check(world: &World, engine: &Engine, promises: &Promises) -> usize {
    let model = Model::read(world).await;
    for (key, place) in promises {
        assert_eq!(model.keys.get(key), Some(place), "the command with key {key} was acknowledged");
    }
    for (workspace, events) in &model.events {
        let found = engine.events("till", *workspace, WorkspaceOffset::FIRST, 10_000).await.unwrap();
        let found: Vec<Event> = found.into_iter().map(|placed| placed.event).collect();
        assert_eq!(&found, events);
        let rows = engine.view("till", *workspace, "count", &[], None, 10).await.unwrap();
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].1, json!(events.len()), "each event is counted once");
        let mut records = BTreeMap::new();
        for document in ["Customer", "Settings", "Invoice", "InvoiceLine"] {
            for record in engine.records("till", *workspace, document, None, 1_000).await.unwrap() {
                let fields: BTreeMap<u16, Value> =
                    record.fields.iter().map(|(field, value)| (field.get(), value.clone())).collect();
                records.insert((*workspace, record.id.get()), fields);
            }
        }
        let expected: BTreeMap<_, _> = model
            .records
            .iter()
            .filter(|((owner, _), _)| owner == workspace)
            .map(|(key, fields)| (*key, fields.clone()))
            .collect();
        assert_eq!(records, expected);
    }
    model.keys.len()
}

/// Lives until the crash, once more until a second one if there is one, then lives on and looks at everything. Says
/// how many writes the first life made, the second life made before it was ready, and what was buffered at the crash.
fn scenario(seed: u64, first: Option<(u64, Moment)>, kept: Kept, second: Option<(u64, Moment)>) -> Lives {
    simulate(seed, |env| async move {
        let world = World::new(&env);
        let promises = Arc::new(Mutex::new(Promises::new()));
        let (machine, log, store) = world.start(first).await;
        if let Some(engine) = world.open(&machine, log, store).await {
            live(&env, &machine, &engine, &promises).await;
            engine.close().await;
        }
        let (writes, crashed, buffered) = (machine.writes(), machine.is_dead(), world.buffered());
        world.crash(kept);
        if second.is_some() {
            let (machine, log, store) = world.start(second).await;
            if let Some(engine) = world.open(&machine, log, store).await {
                live(&env, &machine, &engine, &promises).await;
                engine.close().await;
            }
            world.crash(kept);
        }
        let (machine, log, store) = world.start(None).await;
        let engine = world.open(&machine, log, store).await.unwrap();
        let recovery = machine.writes();
        let kept = promises.lock().unwrap().clone();
        check(&world, &engine, &kept).await;
        live(&env, &machine, &engine, &promises).await;
        let all = promises.lock().unwrap().clone();
        assert_eq!(all.len(), commands().len(), "the last life does everything");
        assert_eq!(check(&world, &engine, &all).await, commands().len());
        engine.close().await;
        Lives { writes, crashed, buffered, recovery }
    })
}

#[derive(Debug)]
struct Lives {
    writes: u64,
    crashed: bool,
    buffered: usize,
    recovery: u64,
}

const MOMENTS: [Moment; 3] = [Moment::Before, Moment::Inside, Moment::Behind];

/// What a crash keeps of so many buffered writes besides all of them: nothing and every prefix, of which a quick run
/// takes one.
fn prefixes(at: u64, buffered: usize) -> Vec<Kept> {
    let all = 1..buffered;
    let picked: Vec<usize> = match std::env::var_os("SERIATIM_FULL") {
        Some(_) => all.collect(),
        None => all.cycle().nth(usize::try_from(at).unwrap()).into_iter().collect(),
    };
    std::iter::once(Kept::None).chain(picked.into_iter().map(Kept::Some)).collect()
}

/// Every write, each moment, and every prefix of what is buffered then.
#[test]
fn a_crash_at_every_write() {
    let mut points = 0;
    let writes = scenario(1, None, Kept::All, None).writes;
    for at in 1..=writes {
        for moment in MOMENTS {
            let lives = scenario(1, Some((at, moment)), Kept::All, None);
            assert!(lives.crashed, "write {at} of {writes}");
            points += 1;
            for kept in prefixes(at, lives.buffered) {
                scenario(1, Some((at, moment)), kept, None);
                points += 1;
            }
        }
    }
    println!("{writes} writes, {points} crash points");
    assert!(writes > 30 && points > 200, "{writes} writes, {points} points");
}

#[test]
fn a_second_crash_at_every_write_of_the_recovery_from_the_first() {
    let mut points = 0;
    let writes = scenario(1, None, Kept::All, None).writes;
    // Early, in the middle, and late in the first life; nothing, something and all of the buffered writes kept.
    let every = usize::try_from(writes / 10).unwrap().max(1);
    for first in (1..=writes).step_by(every) {
        for kept in [Kept::None, Kept::Some(1), Kept::All] {
            let first = Some((first, Moment::Inside));
            let recovery = scenario(2, first, kept, None).recovery;
            // A quick run takes every other one.
            let step = if std::env::var_os("SERIATIM_FULL").is_some() { 1 } else { 2 };
            for second in (1..=recovery + 6).step_by(step) {
                let moment = MOMENTS[usize::try_from(second % 3).unwrap()];
                scenario(2, first, kept, Some((second, moment)));
                points += 1;
            }
        }
    }
    println!("{points} second crashes");
    assert!(points > 100, "{points}");
}
