//! Every order of steps in a small world, up to a depth.

use std::cell::RefCell;
use std::collections::HashMap;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use async_trait::async_trait;
use seriatim_env::Env;
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{
    Append, AppendFuture, Batch, BulletinBackend, Digest, Durability, Entry, Log, LogBackend, LogError,
    Owner, ReadEntries, ReadLimit, Store, Taken,
};
use seriatim_types::{
    AppendId, Partition, PartitionOffset, SequenceId, Timestamp, WorkspaceId, WorkspaceKind,
};

use super::{Buffers, Core, Generation, Phase, draw};
use crate::cache::Cache;
use crate::checkpoint::{self, CheckpointKey};
use crate::definition::Definition;
use crate::shared::Shared;
use crate::stored::Parts;
use crate::unflushed::{Unflushed, Writing};
use crate::workspace_map::WorkspaceMap;
use crate::{Derived as _, Event, IgnoredNumbers, Numbers, NumbersKey, Options, Recovery, Sequence, Stored};

const PARTITION: Partition = Partition::new(1, 0);
const KIND: WorkspaceKind = WorkspaceKind::new(1);
const INVOICE: SequenceId = SequenceId::new(20);
const WORKSPACES: [WorkspaceId; 2] = [WorkspaceId::new(1), WorkspaceId::new(2)];
const DEPTH: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Begin(WorkspaceId),
    Draw,
    DropTransaction,
    Stage,
    DropGroup,
    Seal,
    Commit,
    /// The entries are in the log, and settling finds them there.
    ReplyLost,
    /// The entries are not in the log, and settling finds that.
    RequestLost,
    /// The entries are in the log, and nobody is left who knows.
    CrashBehindAppend,
    StartFlush,
    FlushOk,
    /// Nothing was written.
    FlushFails,
    /// The values were written, the checkpoint was not.
    FlushHalf,
    Evict,
    Crash,
}

/// The log of a world, as a recovery reads it.
#[derive(Debug)]
struct WorldLog(Vec<Vec<u8>>);

#[async_trait]
impl LogBackend for WorldLog {
    async fn read(
        &self,
        _: Partition,
        from: PartitionOffset,
        limit: ReadLimit,
    ) -> Result<ReadEntries, LogError> {
        let mut read = ReadEntries::new(from);
        let before = usize::try_from(from.get() - 1).unwrap();
        for bytes in self.0.iter().skip(before).take(limit.entries) {
            read.push(bytes).unwrap();
        }
        Ok(read)
    }

    async fn take(&self, _: &[Partition]) -> Result<Vec<Taken>, LogError> {
        unreachable!("a recovery only reads")
    }

    fn append(&self, _: Append<'_>) -> AppendFuture {
        unreachable!("a recovery only reads")
    }

    async fn tail(&self, _: Partition) -> Result<PartitionOffset, LogError> {
        unreachable!("a recovery knows the tail")
    }

    async fn committed(&self, _: Partition, _: PartitionOffset) -> Result<(), LogError> {
        unreachable!("a recovery follows nothing")
    }

    async fn partitions(&self) -> Result<Vec<Partition>, LogError> {
        unreachable!("a recovery has one partition")
    }

    fn bulletin(&self) -> Arc<dyn BulletinBackend> {
        unreachable!("a recovery posts nothing")
    }

    async fn close(&self) -> Result<(), LogError> {
        Ok(())
    }
}

/// What a recovery has made of what survived a crash: many ways lead to the same survivors, which are recovered once.
type Recoveries = Rc<RefCell<HashMap<Survivors, Recovered>>>;
/// The log, the event folded last into each stored value, and the checkpoint. The values follow from these.
type Survivors = (Vec<Vec<u8>>, [Option<PartitionOffset>; 2], PartitionOffset);

#[derive(Clone)]
struct Recovered {
    stored: WorkspaceMap<Numbers>,
    checkpoint: PartitionOffset,
    core: Core,
    unflushed: Unflushed,
}

/// A partition with all that survives a crash, and all that does not.
#[derive(Clone)]
struct World {
    env: Env,
    owner: Arc<Owner>,
    recoveries: Recoveries,
    // Survives.
    log: Vec<Vec<u8>>,
    /// What the log says of each workspace, behind each of its events and in front of the first.
    truths: Vec<[Numbers; 2]>,
    stored: WorkspaceMap<Numbers>,
    checkpoint: PartitionOffset,
    // Does not.
    core: Core,
    buffers: Buffers,
    unflushed: Unflushed,
    writing: Option<Arc<Writing>>,
    /// The transaction under way: its workspace and how much it has drawn.
    transaction: Option<(WorkspaceId, u64)>,
}

fn definition() -> Arc<Definition> {
    Arc::new(Definition::new([(KIND, vec![Sequence::new(INVOICE, 1)])]).unwrap())
}

fn offset_of(index: usize) -> PartitionOffset {
    PartitionOffset::FIRST.advance(index as u64).unwrap()
}

impl World {
    async fn new(env: Env, owner: Arc<Owner>) -> Self {
        let (core, unflushed) = Self::empty(definition());
        let mut world = Self {
            env,
            recoveries: Recoveries::default(),
            buffers: Buffers::new(owner.clone(), PartitionOffset::FIRST),
            owner,
            log: vec![],
            truths: vec![WORKSPACES.map(|_| Numbers::fresh(KIND, core.definition.kind(KIND)))],
            stored: WorkspaceMap::default(),
            checkpoint: PartitionOffset::FIRST,
            core,
            unflushed,
            writing: None,
            transaction: None,
        };
        world.recover().await;
        world
    }

    fn empty(definition: Arc<Definition>) -> (Core, Unflushed) {
        (Core::new(definition, 100, Generation::unique()), Unflushed::new(&Options::default()))
    }

    fn steps(&self) -> Vec<Step> {
        // A crash of a world in which nothing has happened gives the same world.
        let fresh = self.log.is_empty() && self.core.phase == Phase::Ready && self.core.cache.weight() == 0;
        let mut steps: Vec<Step> = (!fresh).then_some(Step::Crash).into_iter().collect();
        match (self.core.phase, self.transaction) {
            (Phase::Open, Some((_, drawn))) => {
                steps.extend([Step::Stage, Step::DropTransaction]);
                steps.extend((drawn < 2).then_some(Step::Draw));
            }
            (Phase::Ready | Phase::Open, _) => {
                steps.extend(WORKSPACES.map(Step::Begin));
                if self.core.phase == Phase::Open {
                    steps.push(Step::DropGroup);
                    steps.extend((!self.buffers.entries.is_empty()).then_some(Step::Seal));
                }
            }
            _ => steps.extend([Step::Commit, Step::ReplyLost, Step::RequestLost, Step::CrashBehindAppend]),
        }
        if self.writing.is_some() {
            steps.extend([Step::FlushOk, Step::FlushFails, Step::FlushHalf]);
        } else if self.unflushed.has_work() {
            steps.push(Step::StartFlush);
        }
        // A transaction under way borrows the sequencer, so that nothing can be loaded, and nothing evicted.
        let evictable = self.core.cache.weight() > 0 && self.transaction.is_none();
        steps.extend(evictable.then_some(Step::Evict));
        steps
    }

    async fn take(&mut self, step: Step) {
        match step {
            Step::Begin(workspace) => self.begin(workspace),
            Step::Draw => self.draw(),
            Step::DropTransaction => self.transaction = None,
            Step::Stage => self.stage(),
            Step::DropGroup => self.core.discard(&self.buffers),
            Step::Seal => self.core.seal(),
            Step::Commit | Step::ReplyLost => {
                self.append();
                self.publish();
            }
            Step::RequestLost => self.core.discard(&self.buffers),
            Step::CrashBehindAppend => {
                self.append();
                self.crash().await;
            }
            Step::StartFlush => self.writing = self.unflushed.start_flush(),
            Step::FlushOk => {
                let writing = self.writing.take().unwrap();
                self.write_values(&writing);
                self.checkpoint = writing.next;
                self.unflushed.flushed(writing);
            }
            Step::FlushFails => {
                let writing = self.writing.take().unwrap();
                self.unflushed.failed(&writing);
            }
            Step::FlushHalf => {
                let writing = self.writing.take().unwrap();
                self.write_values(&writing);
                self.unflushed.failed(&writing);
            }
            Step::Evict => self.core.cache.evict_all(),
            Step::Crash => self.crash().await,
        }
    }

    fn read(&self, workspace: WorkspaceId) -> Option<Numbers> {
        self.unflushed.get(workspace).or_else(|| self.stored.get(&workspace)).cloned()
    }

    fn begin(&mut self, workspace: WorkspaceId) {
        if self.core.phase == Phase::Ready {
            self.core.open(&mut self.buffers, &self.owner);
            // Not the owner's own: the same steps give the same bytes, whatever other worlds have done.
            let counter = self.log.len() as u64;
            self.buffers.entries.reset(AppendId { epoch: self.owner.epoch(), counter });
        }
        let read = self.read(workspace);
        let cached = self.core.pin_cached(KIND, workspace);
        let pin = cached.unwrap_or_else(|| self.core.admit(KIND, workspace, read)).unwrap();
        self.core.begin(&mut self.buffers, &pin).unwrap();
        self.transaction = Some((workspace, 0));
    }

    fn draw(&mut self) {
        let (workspace, drawn) = self.transaction.unwrap();
        let kind = self.core.definition.kind(KIND).unwrap();
        let number = draw(kind, &mut self.buffers, INVOICE).unwrap();
        let staged = self.buffers.entries.iter().filter(|entry| entry.workspace() == workspace);
        let staged: u64 = staged.flat_map(|entry| entry.draws()).map(|draw| draw.count).sum();
        assert_eq!(number.get(), self.logged(workspace) + staged + drawn + 1);
        self.transaction = Some((workspace, drawn + 1));
    }

    /// Numbers that the log has given to a workspace.
    fn logged(&self, workspace: WorkspaceId) -> u64 {
        let entries = self.log.iter().map(|bytes| Entry::decode(bytes).unwrap());
        let draws = entries.filter(|entry| entry.workspace() == workspace).flat_map(|entry| entry.draws());
        draws.map(|draw| draw.count).sum()
    }

    fn stage(&mut self) {
        let (workspace, _) = self.transaction.take().unwrap();
        let slot = self.core.cache.find(workspace).unwrap();
        let event = Event { time: Timestamp::from_millis(0), body: b"", body_digest: Digest::ZERO };
        let kind = self.core.definition.kind(KIND).unwrap();
        Core::stage(&mut self.core.cache, &mut self.buffers, kind, slot, &event).unwrap();
    }

    fn append(&mut self) {
        assert_eq!(self.buffers.at, offset_of(self.log.len()), "a group goes to the end of the log");
        for entry in self.buffers.entries.iter() {
            let (kind, offset) = (self.core.definition.kind(KIND), offset_of(self.log.len()));
            let mut truth = self.truths[self.log.len()].clone();
            let place = WORKSPACES.iter().position(|workspace| *workspace == entry.workspace()).unwrap();
            truth[place].fold(kind, offset, &entry, &mut IgnoredNumbers::default()).unwrap();
            self.truths.push(truth);
            self.log.push(entry.as_bytes().to_vec());
        }
    }

    fn publish(&mut self) {
        for changed in self.buffers.changed() {
            self.unflushed.put(changed.workspace, &changed.numbers);
        }
        self.unflushed.advance(self.buffers.next, self.buffers.entries.as_bytes().len());
        self.core.commit(&mut self.buffers);
    }

    fn write_values(&mut self, writing: &Writing) {
        self.stored.extend(writing.values.iter().map(|(id, numbers)| (*id, numbers.clone())));
    }

    async fn crash(&mut self) {
        (self.core, self.unflushed) = Self::empty(self.core.definition.clone());
        (self.writing, self.transaction) = (None, None);
        self.recover().await;
    }

    /// A store with what survives, in its stored form.
    async fn store(&self) -> Store {
        let store = Store::new(MemoryStore::new());
        let mut batch = Batch::new();
        for (workspace, numbers) in &self.stored {
            let mut value = Vec::new();
            numbers.encode(&self.core.definition, &mut value);
            batch.put(NumbersKey::new(PARTITION, *workspace).as_key(), &value);
        }
        if self.checkpoint > PartitionOffset::FIRST {
            batch.put(CheckpointKey::new(PARTITION).as_key(), &checkpoint::encode(self.checkpoint));
        }
        store.write(batch, Durability::Synced).await.unwrap();
        store
    }

    async fn recover(&mut self) {
        let folded = WORKSPACES.map(|workspace| self.stored.get(&workspace).and_then(Numbers::folded));
        let survivors = (self.log.clone(), folded, self.checkpoint);
        let known = self.recoveries.borrow().get(&survivors).cloned();
        if let Some(Recovered { stored, checkpoint, core, unflushed }) = known {
            (self.stored, self.checkpoint, self.core, self.unflushed) = (stored, checkpoint, core, unflushed);
            return;
        }
        self.run_recovery().await;
        let (stored, core, unflushed) = (self.stored.clone(), self.core.clone(), self.unflushed.clone());
        let recovered = Recovered { stored, checkpoint: self.checkpoint, core, unflushed };
        self.recoveries.borrow_mut().insert(survivors, recovered);
    }

    /// Runs the recovery task on what survives. Two values that wait are too many for it, so it flushes on the way.
    async fn run_recovery(&mut self) {
        let (generation, tail) = (self.core.generation, offset_of(self.log.len()));
        let shared = Arc::new(Shared::new(generation, self.env.shutdown().child_token()));
        let stored = Stored::start(Parts {
            env: self.env.clone(),
            log: Log::new(WorldLog(self.log.clone())),
            store: self.store().await,
            partition: PARTITION,
            definition: self.core.definition.clone(),
            options: Options { unflushed_max: 1, ..Options::default() },
            shared: shared.clone(),
        });
        shared.begin_recovery(generation, tail);
        let mut changes = shared.subscribe();
        stored.clone().recover(Recovery::new(shared.clone(), generation, PARTITION, tail));
        let recovered = loop {
            if let Some(recovered) = shared.take_recovered(generation) {
                break recovered;
            }
            assert_eq!(shared.stopped(), None, "recovery has stopped");
            changes.changed().await.unwrap();
        };
        self.unflushed = stored.unflushed().clone();
        self.checkpoint = stored.read_checkpoint().await.unwrap();
        for workspace in WORKSPACES {
            let key = NumbersKey::new(PARTITION, workspace);
            if let Some(bytes) = stored.store.get(key.as_key()).await.unwrap() {
                let numbers = Numbers::decode(&self.core.definition, &bytes).unwrap();
                self.stored.insert(workspace, numbers);
            }
        }
        // Ends its flusher, which has nothing to do here.
        shared.stop.cancel();
        self.core.recovered(recovered.next, recovered.cache);
    }

    fn check(&mut self) {
        let tail = offset_of(self.log.len());
        assert!(self.checkpoint <= tail);
        let at_checkpoint = usize::try_from(self.checkpoint.get() - 1).unwrap();
        for (place, workspace) in WORKSPACES.into_iter().enumerate() {
            let stored = self.stored.get(&workspace).and_then(Numbers::folded);
            assert!(stored >= self.truths[at_checkpoint][place].folded(), "a checkpoint in front of a value");
            assert!(stored.is_none_or(|folded| folded < tail), "a value in front of the log");
            let slot = self.core.cache.find(workspace).map(|slot| self.core.cache.slot(slot));
            let cached = slot.filter(|slot| slot.loaded).map(|slot| Numbers::clone(&slot.numbers));
            let found = cached.or_else(|| self.read(workspace));
            let truth = &self.truths[self.log.len()][place];
            let fresh = &self.truths[0][place];
            assert_eq!(found.as_ref().unwrap_or(fresh), truth, "memory disagrees with the log");
        }
    }
}

impl Cache {
    fn evict_all(&mut self) {
        let bound = std::mem::replace(self.weight_max_mut(), 0);
        self.shrink();
        *self.weight_max_mut() = bound;
    }
}

/// Walks every continuation of a world; returns how many worlds it has seen.
fn walk<'a>(
    world: &'a World,
    depth: usize,
    path: &'a mut Vec<Step>,
) -> Pin<Box<dyn Future<Output = u64> + 'a>> {
    Box::pin(async move {
        let mut seen = 1;
        if depth == 0 {
            return seen;
        }
        for step in world.steps() {
            path.push(step);
            let mut next = world.clone();
            let told = Tell(path);
            next.take(step).await;
            next.check();
            std::mem::forget(told);
            seen += walk(&next, depth - 1, path).await;
            path.pop();
        }
        seen
    })
}

/// Names the way to a world in which something is wrong.
struct Tell<'a>(&'a [Step]);

impl Drop for Tell<'_> {
    fn drop(&mut self) {
        eprintln!("after {:?}", self.0);
    }
}

/// A partition with an event of each workspace, of which the first is in the store and the second is not.
async fn used(mut world: World) -> World {
    let event = |workspace| [Step::Begin(workspace), Step::Draw, Step::Stage, Step::Seal, Step::Commit];
    let flush = [Step::StartFlush, Step::FlushOk];
    for step in event(WORKSPACES[0]).into_iter().chain(flush).chain(event(WORKSPACES[1])) {
        world.take(step).await;
    }
    world
}

#[test]
fn no_order_of_steps_repeats_or_skips_a_number() {
    let (from_fresh, from_used, recoveries) = seriatim_env::simulate(1, |env| async move {
        let owner = Log::new(MemoryLog::new()).take(PARTITION).await.unwrap();
        let fresh = World::new(env, Arc::new(owner)).await;
        let from_fresh = walk(&fresh, DEPTH, &mut vec![]).await;
        let used = used(fresh).await;
        let from_used = walk(&used, DEPTH, &mut vec![]).await;
        (from_fresh, from_used, used.recoveries.borrow().len())
    });
    println!("{from_fresh} worlds from a fresh partition and {from_used} from a used one, to depth {DEPTH}");
    println!("{recoveries} different logs and stores were recovered");
    assert!(recoveries > 100, "{recoveries}");
    assert!(from_fresh > 50_000 && from_used > 100_000, "{from_fresh} and {from_used}");
}
