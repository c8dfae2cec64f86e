//! What a partition derives and answers from, owned or standby: shared by its task, its flusher, its recovery and all readers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use seriatim_env::watch;
use seriatim_env::{Env, Task};
use seriatim_sequencer::{Busy, Committed, Derived, Numbers, ReadError, Recovery};
use seriatim_storage::{Held, Log, LogError, ReadLimit};
use seriatim_types::sync::Mutex;
use seriatim_types::{Partition, PartitionOffset, Timestamp, WorkspaceId};

use super::sweep::{self, Sweeper};
use super::tails::TailReads;
use crate::command::apply::Derivation;
use crate::command::event_clock::EventClock;
use crate::derive::recovery::{self, Start};
use crate::derive::{DerivedPartition, Values, flusher};
use crate::engine::options::Options;
use crate::metrics::PartitionMetrics;
use crate::operate::fence::Fence;
use crate::read::follow::Watchers;

/// A partition that derives from its log, without a queue and a sequencer. Only the task of an owned partition has those. It stays
/// the same when a standby is promoted and when an owned partition is released.
#[derive(Debug)]
pub(crate) struct RunningPartition {
    pub(crate) env: Env,
    pub(crate) log: Log,
    pub(crate) partition: Partition,
    pub(crate) derivation: Arc<Derivation>,
    pub(crate) options: Options,
    /// Everything that is derived from the partition's log.
    pub(crate) derived: Arc<DerivedPartition<Derivation>>,
    /// The followers of each workspace.
    pub(crate) watchers: Watchers,
    pub(crate) metrics: PartitionMetrics,
    pub(crate) fence: Arc<Fence>,
    pub(crate) clock: Arc<EventClock>,
    pub(crate) sweeper: Sweeper,
    /// Reads of the log's tail, shared by readers that need them at the same time.
    pub(super) tails: TailReads,
    /// Whether the next recovery continues where a standby ended.
    warm: AtomicBool,
    /// Writes the overlay to the store.
    flusher: Mutex<Option<Task<()>>>,
    /// Who holds the partition, if another owner has taken it over from this one.
    deposed: Mutex<Option<Held>>,
}

/// What a [`RunningPartition`] is made of.
pub(super) struct Parts {
    pub(super) env: Env,
    pub(super) log: Log,
    pub(super) partition: Partition,
    pub(super) options: Options,
    pub(super) derived: Arc<DerivedPartition<Derivation>>,
    pub(super) fence: Arc<Fence>,
    pub(super) clock: Arc<EventClock>,
}

impl RunningPartition {
    /// Starts the flusher. Nothing is derived until a recovery or a standby begins.
    pub(super) fn start(parts: Parts) -> Arc<Self> {
        let Parts { env, log, partition, options, derived, fence, clock } = parts;
        let shared = Arc::new(Self {
            env,
            log,
            partition,
            derivation: derived.derivation.clone(),
            options,
            derived,
            watchers: Watchers::default(),
            metrics: PartitionMetrics::new(partition),
            fence,
            clock,
            sweeper: Sweeper::default(),
            tails: TailReads::default(),
            warm: AtomicBool::new(false),
            flusher: Mutex::default(),
            deposed: Mutex::default(),
        });
        let flushing = shared.clone();
        let flusher = shared.env.spawn(async move {
            flusher::run(&flushing.derived, || sweep::run(&flushing)).await;
        });
        *shared.flusher.lock() = Some(flusher);
        shared
    }

    /// Ends the flusher, and flushes what is left. Everything unflushed is in the log: flushing it only makes the next start
    /// faster. A partition that has stopped does not flush.
    pub(super) async fn end_flushing(&self) {
        let flusher = self.flusher.lock().take();
        if let Some(flusher) = flusher {
            flusher.cancel();
        }
        if self.derived.halted().is_none() {
            // The flusher has logged an error. The next recovery reads everything from the log.
            let _ = flusher::flush_all(&self.derived).await;
        }
    }

    /// Makes the next recovery continue where the overlay is.
    pub(super) fn stay_warm(&self) {
        self.warm.store(true, Ordering::Release);
    }

    /// Records that another owner has taken the partition over.
    pub(super) fn depose(&self, held: Held) {
        *self.deposed.lock() = Some(held);
        self.derived.notify();
    }

    /// Who holds the partition, if another owner has taken it over.
    pub(crate) fn deposed(&self) -> Option<Held> {
        self.deposed.lock().clone()
    }

    pub(super) fn forget_deposition(&self) {
        *self.deposed.lock() = None;
    }

    /// The time of the event before `next`, from the log; zero if there is none.
    pub(super) async fn time_before(&self, next: PartitionOffset) -> Result<Timestamp, LogError> {
        let Some(last) = PartitionOffset::new(next.get() - 1) else { return Ok(Timestamp::from_millis(0)) };
        let read = self.log.read(self.partition, last, ReadLimit::entries(1)).await?;
        let entry = read.iter().next();
        let missing =
            || LogError::Corrupt(format!("event {last} of partition {} is missing", self.partition));
        entry.map(|(_, entry)| entry.time()).ok_or_else(missing)
    }
}

impl Derived for RunningPartition {
    type Values = Values;

    async fn read(self: Arc<Self>, workspaces: Vec<WorkspaceId>) -> Vec<Result<Option<Numbers>, ReadError>> {
        self.derived.read_numbers(&workspaces).await
    }

    fn publish(&self, committed: &Committed<'_>, values: Values) {
        self.derived.publish(committed, values);
        self.watchers.wake(committed.numbers().map(|(workspace, _)| workspace));
    }

    fn backlog(&self) -> Option<Busy> {
        self.derived.backlog()
    }

    fn subscribe(&self) -> watch::Receiver<()> {
        self.derived.changes.subscribe()
    }

    fn recover(self: Arc<Self>, recovery: Recovery) {
        let start = if self.warm.swap(false, Ordering::AcqRel) { Start::Warm } else { Start::Cold };
        let recovering = recovery::start(self.derived.clone(), recovery, start);
        let env = self.env.clone();
        drop(env.spawn(async move {
            recovering.await;
            self.watchers.wake_all();
        }));
    }
}
