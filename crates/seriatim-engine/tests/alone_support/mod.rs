//! A desk where numbers are asked for, on every kind of storage.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its own part of this")]

mod store_over;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use seriatim_engine::StoreKey;
use seriatim_engine::alone::{Options, Sequencer};
use seriatim_env::{Env, simulate};
use seriatim_sequencer::{Definition, Event, Pin, Sealed, Sequence, Settled, builtin};
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{Log, ReadLimit, Store, StoreBackend};
use seriatim_storage_file::{FileOptions, FileStorage, StoreOptions, TreeStore};
use seriatim_storage_testing::faulty::{Faults, FaultyLog, FaultyStore, Operations};
use seriatim_types::{Number, Partition, PartitionOffset, SequenceId, WorkspaceId, WorkspaceKind};

pub use store_over::StoreOver;

pub const KIND: WorkspaceKind = WorkspaceKind::new(1);
pub const INVOICE: SequenceId = SequenceId::new(20);
pub const TICKET: SequenceId = SequenceId::new(21);
pub const PARTITION: Partition = Partition::new(1, 0);
/// Longer than anything here takes, and not so long that a failing test seems to hang.
pub const TIMEOUT: Duration = Duration::from_secs(20);

/// Record ids, an invoice number from 1, and a ticket number in two short ranges.
pub fn definition() -> Definition {
    let mut sequences = builtin::record_sequences();
    sequences.push(Sequence::new(INVOICE, 1));
    sequences.push(Sequence::with_ranges(TICKET, &[10..=12, 20..=21]));
    Definition::new([(KIND, sequences), (WorkspaceKind::new(2), builtin::single_record_sequence())]).unwrap()
}

pub fn workspace(number: u64) -> WorkspaceId {
    WorkspaceId::new(WorkspaceId::FIRST.get() + number)
}

pub fn offset(number: u64) -> PartitionOffset {
    PartitionOffset::new(number).unwrap()
}

/// Under which key a partition's checkpoint is stored.
pub fn checkpoint_key(partition: Partition) -> StoreKey {
    let (application, id) = (partition.application.get().to_be_bytes(), partition.id.get().to_be_bytes());
    StoreKey::new(&[&application[..], &id].concat(), b"k")
}

/// The stored checkpoint, from its documented bytes.
pub async fn stored_checkpoint(store: &Store, partition: Partition) -> u64 {
    let stored = store.get(checkpoint_key(partition).as_key()).await.unwrap();
    stored.map_or(1, |bytes| u64::from_be_bytes(bytes[1..9].try_into().unwrap()))
}

/// A log and a store, a handle on what goes wrong with them, and what is opened on them.
pub struct Desk {
    pub env: Env,
    pub log: Log,
    pub store: Store,
    pub faults: Faults,
    pub definition: Arc<Definition>,
    pub partition: Partition,
    pub options: Options,
    pub new_store: NewStore,
}

/// Makes a store that has nothing, of the same kind.
pub type NewStore = Arc<dyn Fn() -> Arc<dyn StoreBackend>>;

impl Desk {
    /// Memory that fails when it is told to.
    pub fn memory(env: &Env) -> Self {
        let faults = Faults::new(env);
        let log = Log::new(FaultyLog::new(Arc::new(MemoryLog::new()), &faults));
        let store = Store::new(FaultyStore::new(Arc::new(MemoryStore::new()), &faults));
        Self::new(env, log, store, faults)
    }

    pub fn new(env: &Env, log: Log, store: Store, faults: Faults) -> Self {
        let (definition, options) = (Arc::new(definition()), Options::default());
        let new_store: NewStore = Arc::new(|| Arc::new(MemoryStore::new()));
        Self { env: env.clone(), log, store, faults, definition, partition: PARTITION, options, new_store }
    }

    /// The same log, and a store that has nothing.
    pub fn with_empty_store(&self) -> Self {
        let store = Store::new(FaultyStore::new((self.new_store)(), &self.faults));
        Self {
            env: self.env.clone(),
            log: self.log.clone(),
            store,
            faults: self.faults.clone(),
            definition: self.definition.clone(),
            partition: self.partition,
            options: self.options,
            new_store: self.new_store.clone(),
        }
    }

    /// Opens a sequencer, which recovers.
    pub async fn open(&self) -> Sequencer {
        let owner = self.log.take(self.partition).await.unwrap();
        Sequencer::open(
            self.env.clone(),
            self.log.clone(),
            self.store.clone(),
            owner,
            self.definition.clone(),
            self.options,
        )
    }

    /// Opens a sequencer, and waits until it has recovered.
    pub async fn open_ready(&self) -> Sequencer {
        let mut sequencer = self.open().await;
        sequencer.wait(TIMEOUT).await.unwrap();
        sequencer
    }

    /// Numbers one event with these draws; commits it.
    pub async fn number(
        &self,
        sequencer: &mut Sequencer,
        id: WorkspaceId,
        draws: &[SequenceId],
    ) -> Vec<Number> {
        let pin = sequencer.load(KIND, id).await.unwrap();
        let (sealed, numbers) = seal_one(sequencer, &pin, draws);
        self.commit(sequencer, sealed).await;
        numbers
    }

    /// Draws one invoice number, and commits its event.
    pub async fn invoice(&self, sequencer: &mut Sequencer, id: WorkspaceId) -> u64 {
        self.number(sequencer, id, &[INVOICE]).await[0].get()
    }

    /// The same, after waiting for room.
    pub async fn invoice_when_ready(&self, sequencer: &mut Sequencer, id: WorkspaceId) -> u64 {
        sequencer.wait(TIMEOUT).await.unwrap();
        self.invoice(sequencer, id).await
    }

    pub async fn commit(&self, sequencer: &mut Sequencer, sealed: Sealed) {
        let receipt = self.log.append(sealed.owner(), sealed.at(), sealed.entries()).await.unwrap();
        sequencer.commit(sealed, receipt).unwrap();
    }

    pub async fn settle(&self, sequencer: &mut Sequencer, sealed: Sealed) -> Settled {
        sequencer.settle(sealed, &self.log).await.unwrap()
    }

    /// Everything in the log.
    pub async fn events(&self) -> Vec<Logged> {
        let mut events = Vec::new();
        let mut at = PartitionOffset::FIRST;
        loop {
            let page = self.log.read(self.partition, at, ReadLimit::default()).await.unwrap();
            if page.is_empty() {
                return events;
            }
            at = page.next();
            events.extend(page.iter().map(|(offset, entry)| Logged {
                offset: offset.get(),
                workspace: entry.workspace(),
                workspace_offset: entry.workspace_offset().get(),
                draws: entry.draws().map(|draw| (draw.sequence, draw.first.get(), draw.count)).collect(),
                chain: entry.chain(),
                bytes: entry.as_bytes().to_vec(),
            }));
        }
    }
}

/// An event as the log has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logged {
    pub offset: u64,
    pub workspace: WorkspaceId,
    pub workspace_offset: u64,
    pub draws: Vec<(SequenceId, u64, u64)>,
    pub chain: seriatim_storage::Digest,
    pub bytes: Vec<u8>,
}

/// Stages one event with these draws in a group of its own, and seals it.
pub fn seal_one(sequencer: &mut Sequencer, pin: &Pin, draws: &[SequenceId]) -> (Sealed, Vec<Number>) {
    let mut group = sequencer.group().unwrap();
    let mut transaction = group.begin(pin).unwrap();
    let numbers = draws.iter().map(|sequence| transaction.draw(*sequence).unwrap()).collect();
    transaction.stage(&event()).unwrap();
    (group.seal(), numbers)
}

pub fn event() -> Event<'static> {
    Event::new(seriatim_env::SIMULATION_START, b"event")
}

/// Runs a scenario on memory, on memory that takes its time in ten different orders, and on files.
pub fn on_memory<F: Future<Output = ()>>(scenario: impl FnOnce(Desk) -> F) {
    simulate(1, |env| async move { scenario(Desk::memory(&env)).await });
}

pub fn on_slow_memory<F: Future<Output = ()>>(scenario: impl Fn(Desk) -> F) {
    for seed in 0..10 {
        simulate(seed, |env| {
            let desk = Desk::memory(&env);
            desk.faults.delay(Operations::ALL, Duration::from_millis(20));
            scenario(desk)
        });
    }
}

pub fn on_files<F: Future<Output = ()>>(scenario: impl FnOnce(Desk) -> F) {
    let directory = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let env = Env::real();
        let storage = FileStorage::open(&env, directory.path(), FileOptions::default()).await.unwrap();
        let faults = Faults::new(&env);
        let store = FaultyStore::new(Arc::new(StoreOver(storage.store().clone())), &faults);
        let mut desk = Desk::new(&env, storage.log().clone(), Store::new(store), faults);
        let (place, made) = (directory.path().to_owned(), AtomicUsize::new(0));
        desk.new_store = Arc::new(move || {
            let path = place.join(format!("another-store-{}", made.fetch_add(1, Ordering::Relaxed)));
            Arc::new(TreeStore::open(env.clone(), &path, StoreOptions::default()).unwrap())
        });
        scenario(desk).await;
        storage.close().await.unwrap();
    });
}

/// One test for each kind of storage.
#[macro_export]
macro_rules! on_every_storage {
    ($($name:ident),* $(,)?) => {$(
        mod $name {
            #[test]
            fn on_memory() {
                super::alone_support::on_memory(super::$name);
            }

            #[test]
            fn on_slow_memory() {
                super::alone_support::on_slow_memory(super::$name);
            }

            #[test]
            fn on_files() {
                super::alone_support::on_files(super::$name);
            }
        }
    )*};
}
