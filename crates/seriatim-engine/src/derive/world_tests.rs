//! Every order of steps in a small world, up to a depth: the sequencer on its overlay, recovery and settling included.

use std::sync::Arc;
use std::time::Duration;

use seriatim_env::{Env, SIMULATION_START, simulate};
use seriatim_sequencer::{
    Definition, Event, IgnoredNumbers, Numbers, Pin, Sealed, Sequence, Sequencer, Settled,
};
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{Log, Store};
use seriatim_types::{Partition, PartitionOffset, SequenceId, WorkspaceId, WorkspaceKind};

use super::ahead::Stretch;
use super::budget::{Budget, Limits};
use super::checkpoint::Checkpoint;
use super::derives::NumbersOnly;
use super::draft::lock;
use super::flusher;
use super::overlay::{FlushStart, Writing};
use super::partition::{DerivedPartition, Parts, read_missing_numbers};
use crate::alone::StoredNumbers;
use crate::metrics::DerivedMetrics;

const PARTITION: Partition = Partition::new(1, 0);
const KIND: WorkspaceKind = WorkspaceKind::new(1);
const INVOICE: SequenceId = SequenceId::new(20);
const WORKSPACES: [WorkspaceId; 2] = [WorkspaceId::new(1), WorkspaceId::new(2)];
const DEPTH_FROM_FRESH: usize = 9;

/// More than thirty times as many worlds begin at a used partition as at a fresh one. A quick run is one step shorter from there.
fn depth_from_used() -> usize {
    if std::env::var_os("SERIATIM_FULL").is_some() { 8 } else { 7 }
}

/// Nothing is kept in memory, one workspace is, or both are.
const CACHES: [usize; 3] = [0, 2, 100];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// A transaction of one of the workspaces; the first one opens a group.
    Begin(usize),
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
    /// The entries are in the log, and the process has crashed before it knew that.
    CrashAfterAppend,
    StartFlush,
    FlushOk,
    FlushFails,
    Crash,
}

/// Which steps are possible.
#[derive(Debug, Clone, Default)]
struct Outline {
    /// Events in the log, in the open or sealed group, and before the checkpoint.
    logged: usize,
    staged: usize,
    flushed: usize,
    group: Option<Group>,
    /// Numbers that the transaction under way has drawn.
    transaction: Option<u64>,
    /// Where the checkpoint will be when the write under way has returned.
    writing: Option<usize>,
    touched: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Group {
    Open,
    Sealed,
}

impl Outline {
    fn steps(&self) -> Vec<Step> {
        // A crash of a world in which nothing has happened gives the same world.
        let mut steps: Vec<Step> = self.touched.then_some(Step::Crash).into_iter().collect();
        match (self.group, self.transaction) {
            (Some(Group::Sealed), _) => {
                steps.extend([Step::Commit, Step::ReplyLost, Step::RequestLost, Step::CrashAfterAppend]);
            }
            (_, Some(drawn)) => {
                steps.extend([Step::Stage, Step::DropTransaction]);
                steps.extend((drawn < 2).then_some(Step::Draw));
            }
            (group, None) => {
                steps.push(Step::Begin(0));
                // As long as nothing has happened, one workspace is like the other.
                steps.extend(self.touched.then_some(Step::Begin(1)));
                steps.extend(group.map(|_| Step::DropGroup));
                steps.extend((self.staged > 0).then_some(Step::Seal));
            }
        }
        if self.writing.is_some() {
            steps.extend([Step::FlushOk, Step::FlushFails]);
        } else if self.logged > self.flushed {
            steps.push(Step::StartFlush);
        }
        steps
    }

    fn take(&mut self, step: Step) {
        self.touched = true;
        match step {
            Step::Begin(_) => (self.group, self.transaction) = (Some(Group::Open), Some(0)),
            Step::Draw => self.transaction = self.transaction.map(|drawn| drawn + 1),
            Step::DropTransaction => self.transaction = None,
            Step::Stage => (self.transaction, self.staged) = (None, self.staged + 1),
            Step::Seal => self.group = Some(Group::Sealed),
            Step::DropGroup | Step::RequestLost => (self.group, self.staged) = (None, 0),
            Step::Commit | Step::ReplyLost => self.append(),
            Step::CrashAfterAppend => {
                self.append();
                self.crash();
            }
            Step::StartFlush => self.writing = Some(self.logged),
            Step::FlushOk => self.flushed = self.writing.take().unwrap(),
            Step::FlushFails => self.writing = None,
            Step::Crash => self.crash(),
        }
    }

    fn append(&mut self) {
        self.logged += self.staged;
        (self.group, self.staged) = (None, 0);
    }

    fn crash(&mut self) {
        let (logged, flushed, touched) = (self.logged, self.flushed, self.logged > 0);
        *self = Self { logged, flushed, touched, ..Self::default() };
    }
}

/// Whether a step has no visible effect by itself. Its effect is visible after the next step.
fn is_silent(step: Step) -> bool {
    matches!(step, Step::Begin(_) | Step::DropTransaction | Step::DropGroup | Step::Seal | Step::StartFlush)
}

/// Every sequence of `depth` steps, except those whose last step has no visible effect. Neighbouring sequences have the longest
/// possible common beginning.
fn ways(outline: &Outline, depth: usize, way: &mut Vec<Step>, take: &mut impl FnMut(&[Step])) {
    if depth == 0 {
        return take(way);
    }
    for step in outline.steps().into_iter().filter(|step| depth > 1 || !is_silent(*step)) {
        let mut next = outline.clone();
        next.take(step);
        way.push(step);
        ways(&next, depth - 1, way, take);
        way.pop();
    }
}

fn offset_of(index: usize) -> PartitionOffset {
    PartitionOffset::FIRST.advance(index as u64).unwrap()
}

/// What a world has besides its sequencer.
struct Rest {
    env: Env,
    log: Log,
    store: Store,
    definition: Arc<Definition>,
    derived: Arc<DerivedPartition<NumbersOnly>>,
    writing: Option<Arc<Writing>>,
    /// What the log says of each workspace: before the first event, and after each.
    truths: Vec<[Numbers; 2]>,
    /// How many numbers the log has given to each workspace.
    drawn: [u64; 2],
}

/// Why a group is over.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Done,
    Crashed,
}

impl Rest {
    async fn flush(&mut self, step: Step) {
        match step {
            Step::StartFlush => {
                let start = lock(&self.derived.overlay).start_flush();
                // A recovery may have flushed it.
                if let FlushStart::Begun(writing) = start {
                    self.writing = Some(writing);
                }
            }
            Step::FlushOk => {
                let Some(writing) = self.writing.take() else { return };
                flusher::write(&self.derived, &writing).await.unwrap();
                lock(&self.derived.overlay).flushed(&writing, 0);
            }
            Step::FlushFails => {
                if let Some(writing) = self.writing.take() {
                    lock(&self.derived.overlay).failed(&writing);
                }
            }
            other => unreachable!("{other:?} is no step of a flush"),
        }
    }

    async fn append(&mut self, sealed: &Sealed) -> seriatim_storage::Receipt {
        assert_eq!(sealed.at(), offset_of(self.truths.len() - 1), "a group goes to the end of the log");
        for entry in sealed.entries().iter() {
            let mut truth = self.truths.last().unwrap().clone();
            let place = WORKSPACES.iter().position(|workspace| *workspace == entry.workspace()).unwrap();
            let (kind, at) = (self.definition.kind(KIND), offset_of(self.truths.len() - 1));
            truth[place].fold(kind, at, &entry, &mut IgnoredNumbers::default()).unwrap();
            self.truths.push(truth);
            self.drawn[place] += entry.draws().map(|draw| draw.count).sum::<u64>();
        }
        self.log.append(sealed.owner(), sealed.at(), sealed.entries()).await.unwrap()
    }

    /// What the store has agrees with the log up to the checkpoint at least, and what is read agrees with all of it.
    async fn check(&self) {
        let tail = offset_of(self.truths.len() - 1);
        let checkpoint = match Checkpoint::read(&self.store, PARTITION).await.unwrap() {
            Checkpoint::At(mark) => mark.next,
            Checkpoint::Absent => PartitionOffset::FIRST,
            other => panic!("{other:?}"),
        };
        assert!(checkpoint <= tail);
        let at_checkpoint = &self.truths[usize::try_from(checkpoint.get() - 1).unwrap()];
        let nothing = vec![None; 2];
        let stored =
            read_missing_numbers(&self.store, PARTITION, &self.definition, &WORKSPACES, nothing).await;
        let found = self.derived.read_numbers(&WORKSPACES).await;
        for (place, (stored, found)) in stored.into_iter().zip(found).enumerate() {
            let folded = stored.unwrap().as_ref().and_then(Numbers::folded);
            assert_eq!(folded, at_checkpoint[place].folded(), "values and checkpoint are written together");
            let truth = &self.truths[self.truths.len() - 1][place];
            let fresh = &self.truths[0][place];
            assert_eq!(
                found.unwrap().as_ref().unwrap_or(fresh),
                truth,
                "what is read disagrees with the log"
            );
        }
    }
}

struct World {
    cache: usize,
    sequencer: Sequencer<StoredNumbers>,
    rest: Rest,
}

impl World {
    async fn new(env: &Env, cache: usize) -> Self {
        let definition = Definition::new([(KIND, vec![Sequence::new(INVOICE, 1)])]).unwrap();
        let definition = Arc::new(definition);
        let (log, store) = (Log::new(MemoryLog::new()), Store::new(MemoryStore::new()));
        let (sequencer, derived) = open(env, &log, &store, &definition, (cache, 100)).await;
        let fresh = WORKSPACES.map(|_| Numbers::fresh(KIND, definition.kind(KIND)));
        let env = env.clone();
        let (writing, truths, drawn) = (None, vec![fresh], [0; 2]);
        let rest = Rest { env, log, store, definition, derived, writing, truths, drawn };
        Self { cache, sequencer, rest }
    }

    /// Only the log and the store are left. A first recovery may have one value waiting, so it flushes on the way.
    async fn crash(&mut self) {
        self.rest.derived.stop.cancel();
        self.rest.writing = None;
        for keys_max in [1, 100] {
            let Rest { env, log, store, definition, .. } = &self.rest;
            (self.sequencer, self.rest.derived) =
                open(env, log, store, definition, (self.cache, keys_max)).await;
        }
    }

    /// Takes steps, and checks the state after each of them except the first `unchecked`.
    async fn take(&mut self, way: &[Step], unchecked: usize) {
        let mut steps = Steps { way, at: 0, unchecked };
        while let Some(step) = steps.next(&self.rest).await {
            let end = match step {
                Step::Begin(place) => self.group(place, &mut steps).await,
                Step::Crash => End::Crashed,
                flush => {
                    self.rest.flush(flush).await;
                    End::Done
                }
            };
            if end == End::Crashed {
                self.crash().await;
            }
        }
    }

    /// A group, to its end or to the end of the steps.
    async fn group(&mut self, place: usize, steps: &mut Steps<'_>) -> End {
        let Self { sequencer, rest, .. } = self;
        let mut pins: Vec<Pin> = Vec::new();
        for workspace in WORKSPACES {
            pins.push(sequencer.load(KIND, workspace).await.unwrap());
        }
        let mut group = sequencer.group().unwrap();
        let (mut step, mut staged) = (Step::Begin(place), [0; 2]);
        loop {
            match step {
                Step::Begin(place) => {
                    let mut transaction = group.begin(&pins[place]).unwrap();
                    let mut drawn = 0;
                    loop {
                        match steps.next(rest).await {
                            Some(Step::Draw) => {
                                let number = transaction.draw(INVOICE).unwrap();
                                drawn += 1;
                                assert_eq!(number.get(), rest.drawn[place] + staged[place] + drawn);
                            }
                            Some(Step::Stage) => {
                                transaction.stage(&Event::new(SIMULATION_START, b"")).unwrap();
                                staged[place] += drawn;
                                break;
                            }
                            Some(Step::DropTransaction) => break,
                            Some(Step::Crash) => return End::Crashed,
                            Some(flush) => rest.flush(flush).await,
                            None => return End::Done,
                        }
                    }
                }
                Step::DropGroup => return End::Done,
                Step::Seal => {
                    let sealed = group.seal();
                    drop(pins);
                    return self.conclude(sealed, steps).await;
                }
                Step::Crash => return End::Crashed,
                flush => rest.flush(flush).await,
            }
            match steps.next(rest).await {
                Some(next) => step = next,
                None => return End::Done,
            }
        }
    }

    /// The end of a sealed group.
    async fn conclude(&mut self, sealed: Sealed, steps: &mut Steps<'_>) -> End {
        let Self { sequencer, rest, .. } = self;
        loop {
            match steps.next(rest).await {
                Some(Step::Commit) => {
                    let receipt = rest.append(&sealed).await;
                    sequencer.commit(sealed, receipt).unwrap();
                    return End::Done;
                }
                Some(Step::ReplyLost) => {
                    rest.append(&sealed).await;
                    let settled = sequencer.settle(sealed, &rest.log).await.unwrap();
                    assert_eq!(settled, Settled::Committed);
                    return End::Done;
                }
                Some(Step::RequestLost) => {
                    let settled = sequencer.settle(sealed, &rest.log).await.unwrap();
                    assert_eq!(settled, Settled::Discarded);
                    return End::Done;
                }
                Some(Step::CrashAfterAppend) => {
                    rest.append(&sealed).await;
                    return End::Crashed;
                }
                Some(Step::Crash) => return End::Crashed,
                Some(flush) => rest.flush(flush).await,
                None => return End::Done,
            }
        }
    }
}

/// The sequence of steps of a world.
struct Steps<'a> {
    way: &'a [Step],
    at: usize,
    unchecked: usize,
}

impl Steps<'_> {
    /// Checks the state after the last step, and returns the next step.
    async fn next(&mut self, rest: &Rest) -> Option<Step> {
        if (self.unchecked + 1..=self.way.len()).contains(&self.at) {
            let told = Tell(&self.way[..self.at]);
            rest.check().await;
            std::mem::forget(told);
        }
        self.at += 1;
        self.way.get(self.at - 1).copied()
    }
}

/// A sequencer that has recovered, with room in its cache and in its overlay.
async fn open(
    env: &Env,
    log: &Log,
    store: &Store,
    definition: &Arc<Definition>,
    (cache, keys_max): (usize, usize),
) -> (Sequencer<StoredNumbers>, Arc<DerivedPartition<NumbersOnly>>) {
    let far = Stretch { events: 1_000, bytes: 1 << 20 };
    let derived = Arc::new(DerivedPartition::new(Parts {
        env: env.clone(),
        log: log.clone(),
        store: store.clone(),
        partition: PARTITION,
        derivation: Arc::new(NumbersOnly(definition.clone())),
        limits: Limits { flush_at: 100, divided_ahead: far, ..Limits::default() },
        budget: Arc::new(Budget::new(keys_max, usize::MAX, far)),
        flush_interval: Duration::from_secs(1),
        retry: Duration::from_secs(1),
        metrics: DerivedMetrics::new("seriatim_sequencer", PARTITION),
        observer: None,
    }));
    let owner = log.take(PARTITION).await.unwrap();
    let stored = Arc::new(StoredNumbers(derived.clone()));
    let mut sequencer = Sequencer::new(env.clone(), owner, definition.clone(), cache, stored);
    while sequencer.next_offset().is_none() {
        // It may have recovered and have no room.
        let _ = sequencer.wait(Duration::from_millis(1)).await;
    }
    (sequencer, derived)
}

/// Prints the steps of a world in which a check failed.
struct Tell<'a>(&'a [Step]);

impl Drop for Tell<'_> {
    fn drop(&mut self) {
        eprintln!("after {:?}", self.0);
    }
}

/// An event of each workspace, of which the first is in the store and the second is not.
const USED: [Step; 12] = [
    Step::Begin(0),
    Step::Draw,
    Step::Stage,
    Step::Seal,
    Step::Commit,
    Step::StartFlush,
    Step::FlushOk,
    Step::Begin(1),
    Step::Draw,
    Step::Stage,
    Step::Seal,
    Step::Commit,
];

/// Runs every sequence of steps after the first steps. Returns the number of worlds.
fn explore(first: &[Step], depth: usize) -> u64 {
    let mut outline = Outline::default();
    first.iter().for_each(|step| outline.take(*step));
    let mut all: Vec<Vec<Step>> = Vec::new();
    ways(&outline, depth, &mut first.to_vec(), &mut |way| all.push(way.to_vec()));
    simulate(1, |env| async move {
        let (mut worlds, mut last) = (0, first.to_vec());
        for (number, way) in all.into_iter().enumerate() {
            let same = way.iter().zip(&last).take_while(|(one, other)| one == other).count();
            worlds += (way.len() - same) as u64;
            let mut world = World::new(&env, CACHES[number % CACHES.len()]).await;
            world.take(&way, same).await;
            world.rest.derived.stop.cancel();
            last = way;
        }
        worlds
    })
}

#[test]
fn no_order_of_steps_from_a_fresh_partition_repeats_or_skips_a_number() {
    let worlds = explore(&[], DEPTH_FROM_FRESH);
    println!("{worlds} worlds from a fresh partition, to depth {DEPTH_FROM_FRESH}");
    assert!(worlds > 10_000, "{worlds}");
}

#[test]
fn no_order_of_steps_from_a_used_partition_repeats_or_skips_a_number() {
    let depth = depth_from_used();
    let worlds = explore(&USED, depth);
    println!("{worlds} worlds from a used partition, to depth {depth}");
    assert!(worlds > 10_000, "{worlds}");
}
