//! Every order of steps in a small world, up to a depth.

use std::sync::Arc;

use seriatim_storage::memory::MemoryLog;
use seriatim_storage::{Digest, Entry, Log, Owner};
use seriatim_types::{Partition, PartitionOffset, SequenceId, Timestamp, WorkspaceId, WorkspaceKind};

use super::{Buffers, Core, Generation, Phase, draw};
use crate::cache::Cache;
use crate::definition::Definition;
use crate::unflushed::{Unflushed, Writing};
use crate::workspace_map::WorkspaceMap;
use crate::{Event, IgnoredNumbers, Numbers, Options, Sequence};

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

/// A partition with all that survives a crash, and all that does not.
#[derive(Clone)]
struct World {
    owner: Arc<Owner>,
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
    fn new(owner: Arc<Owner>) -> Self {
        let (core, unflushed) = Self::empty(definition());
        let mut world = Self {
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
        world.recover();
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

    fn take(&mut self, step: Step) {
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
                self.crash();
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
            Step::Crash => self.crash(),
        }
    }

    fn read(&self, workspace: WorkspaceId) -> Option<Numbers> {
        self.unflushed.get(workspace).or_else(|| self.stored.get(&workspace)).cloned()
    }

    fn begin(&mut self, workspace: WorkspaceId) {
        if self.core.phase == Phase::Ready {
            self.core.open(&mut self.buffers, &self.owner);
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

    fn crash(&mut self) {
        (self.core, self.unflushed) = Self::empty(self.core.definition.clone());
        (self.writing, self.transaction) = (None, None);
        self.recover();
    }

    /// What the recovery task does, without its waiting.
    fn recover(&mut self) {
        self.unflushed.restart(self.core.generation, self.checkpoint);
        for (index, bytes) in self.log.iter().enumerate() {
            let (offset, entry) = (offset_of(index), Entry::decode(bytes).unwrap());
            if offset < self.checkpoint {
                continue;
            }
            let kind = self.core.definition.kind(KIND);
            let read = self.read(entry.workspace());
            let mut numbers = read.unwrap_or_else(|| Numbers::fresh(KIND, kind));
            numbers.fold(kind, offset, &entry, &mut IgnoredNumbers::default()).unwrap();
            self.unflushed.put(entry.workspace(), &numbers);
            self.unflushed.advance(offset.next().unwrap(), entry.size());
        }
        self.core.recovered(offset_of(self.log.len()), None);
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
fn walk(world: &World, depth: usize, path: &mut Vec<Step>) -> u64 {
    let mut seen = 1;
    if depth == 0 {
        return seen;
    }
    for step in world.steps() {
        path.push(step);
        let mut next = world.clone();
        let told = Tell(path);
        next.take(step);
        next.check();
        std::mem::forget(told);
        seen += walk(&next, depth - 1, path);
        path.pop();
    }
    seen
}

/// Names the way to a world in which something is wrong.
struct Tell<'a>(&'a [Step]);

impl Drop for Tell<'_> {
    fn drop(&mut self) {
        eprintln!("after {:?}", self.0);
    }
}

/// A partition with an event of each workspace, of which the first is in the store and the second is not.
fn used(mut world: World) -> World {
    let steps = |workspace| [Step::Begin(workspace), Step::Draw, Step::Stage, Step::Seal, Step::Commit];
    steps(WORKSPACES[0])
        .into_iter()
        .chain([Step::StartFlush, Step::FlushOk])
        .for_each(|step| world.take(step));
    steps(WORKSPACES[1]).into_iter().for_each(|step| world.take(step));
    world
}

#[test]
fn no_order_of_steps_repeats_or_skips_a_number() {
    let owner = seriatim_env::simulate(1, |_| async {
        Log::new(MemoryLog::new()).take(Partition::new(1, 0)).await.unwrap()
    });
    let fresh = World::new(Arc::new(owner));
    let from_fresh = walk(&fresh, DEPTH, &mut vec![]);
    let from_used = walk(&used(fresh), DEPTH, &mut vec![]);
    println!("{from_fresh} worlds from a fresh partition and {from_used} from a used one, to depth {DEPTH}");
    assert!(from_fresh > 50_000 && from_used > 100_000, "{from_fresh} and {from_used}");
}
