//! A partition, as an engine has it: owned, standby or elsewhere.
//!
//! ```text
//!                 own: take over, apply the rest
//!   elsewhere ──► standby ◄─────────────────────► owned
//!        standby      release: execute what is queued
//!
//! owned       one task owns the log, the sequencer and the overlay: it numbers commands
//! standby     follows the log of another owner: it derives the same, and answers reads
//! elsewhere   neither
//! ```

mod append;
pub(crate) mod async_projector;
mod collect;
mod conclude;
mod execute;
mod group;
mod hold;
mod load;
mod message;
mod moves;
mod new_keys;
mod owned;
mod projector_offset;
mod queue_budget;
mod reading;
mod running;
mod standby;
mod sweep;
mod tails;
mod task;
#[cfg(test)]
mod tests;

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use futures_util::future::select;
use seriatim_env::watch;
use seriatim_env::{Env, Shutdown};
use seriatim_storage::{Holder, Log, Owner, Store};
use seriatim_types::Partition;
use seriatim_types::sync::Mutex;
use tokio::sync::{OwnedMutexGuard, oneshot};

use self::async_projector::AsyncProjector;
use self::owned::Owned;
use self::standby::Standby;
use crate::command::apply::Derivation;
use crate::command::event_clock::EventClock;
use crate::command::prepared::Prepared;
use crate::command::request::Answer;
use crate::derive::{self, Budget, DerivedPartition, Limits, Observer, Stretch, lock};
use crate::engine::options::Options;
use crate::error::{SubmitError, not_here};
use crate::metrics::DerivedMetrics;
use crate::operate::fence::Fence;

pub(crate) use queue_budget::QueueBudget;
pub(crate) use reading::Currency;
pub(crate) use running::RunningPartition;
pub(crate) use sweep::Position;

/// What a partition is made of, whatever it is to the engine.
#[derive(Debug, Clone)]
pub(crate) struct Parts {
    pub(crate) env: Env,
    pub(crate) log: Log,
    pub(crate) store: Store,
    pub(crate) derivation: Arc<Derivation>,
    pub(crate) options: Options,
    pub(crate) budget: Arc<Budget>,
    pub(crate) queue: Arc<QueueBudget>,
    pub(crate) fence: Arc<Fence>,
    pub(crate) clock: Arc<EventClock>,
    /// The name under which this engine takes partitions.
    pub(crate) holder: Holder,
    /// Projectors that run while the partition is owned.
    pub(crate) projectors: Vec<Arc<dyn AsyncProjector>>,
    /// Memory that follows the partition's log.
    pub(crate) observer: Option<Arc<dyn Observer>>,
    /// Sends a change when a partition of the application becomes owned, or is no longer owned.
    pub(crate) places: watch::Sender<()>,
}

/// A partition of an engine, whatever it is to the engine at the moment.
#[derive(Debug)]
pub(crate) struct PartitionHandle {
    pub(crate) partition: Partition,
    parts: Parts,
    place: Mutex<Place>,
    /// How often this engine has become the owner. Changed with `place`.
    tenures: AtomicU64,
    /// Held while the partition moves or is held, so that one follows the other.
    moving: Arc<tokio::sync::Mutex<()>>,
    /// Ends what waits for the log, because the engine closes.
    closing: Shutdown,
    /// What was derived last. It may still be writing to the store after it has ended.
    derived: Mutex<Weak<DerivedPartition<Derivation>>>,
}

/// What a partition is to this engine.
#[derive(Debug, Clone)]
enum Place {
    /// This engine does nothing with it. Its holder, if it is known.
    Elsewhere(Option<Holder>),
    /// This engine follows its log.
    Standby(Arc<Standby>),
    /// This engine numbers its commands.
    Owned(Arc<Owned>),
}

/// What a partition is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartitionStatus {
    /// A recovery makes the derived data agree with the log.
    Recovering {
        /// The offset at which the recovery began.
        from: u64,
        /// The offset of the event that the recovery applies next.
        at: u64,
        /// The offset at which the log ends.
        tail: u64,
    },
    /// The partition accepts commands.
    Ready,
    /// Another engine owns the partition, and this one follows its log.
    Standby,
    /// Another engine owns the partition, or none does. This one does nothing with it.
    Elsewhere {
        /// The name of its holder, if it is known.
        holder: Option<Holder>,
    },
    /// The partition accepts no commands, for this reason.
    Stopped(String),
}

/// The state of a partition at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionState {
    /// The partition.
    pub partition: Partition,
    /// What the partition is doing.
    pub status: PartitionStatus,
    /// The offset of the next event, as far as it is known.
    pub next_offset: u64,
    /// Everything before this offset was flushed: it is in the store, durable or not.
    pub checkpoint: u64,
    /// Values that wait to be flushed.
    pub unflushed: usize,
    /// Events that are not derived durably: they are replayed after a crash.
    pub uncheckpointed_events: u64,
    /// The same, in bytes of the log.
    pub uncheckpointed_bytes: u64,
    /// Commands in the queue; a group in progress counts as one more.
    pub waiting: usize,
    /// Why the last flush failed. `None` if it succeeded. Commands are still executed until the limit of unflushed values is
    /// reached. Nothing is lost, because everything is in the log.
    pub store_failure: Option<String>,
}

impl PartitionHandle {
    /// A partition that is elsewhere.
    pub(crate) fn new(partition: Partition, parts: Parts) -> Self {
        let (place, closing) = (Mutex::new(Place::Elsewhere(None)), Shutdown::new());
        let (tenures, moving, derived) = (AtomicU64::new(0), Arc::default(), Mutex::default());
        Self { partition, parts, place, tenures, moving, closing, derived }
    }

    /// Owns a partition that was just taken, and returns at once: it recovers by itself. For an engine that opens.
    pub(crate) fn start(&self, owner: Owner) {
        let owned = self.start_owned(self.run(), owner);
        self.set_place(Place::Owned(owned));
    }

    fn place(&self) -> Place {
        self.place.lock().clone()
    }

    fn set_place(&self, place: Place) {
        let mut present = self.place.lock();
        if matches!(place, Place::Owned(_)) {
            self.tenures.fetch_add(1, Ordering::Relaxed);
        }
        *present = place;
        drop(present);
        self.parts.places.send_replace(());
    }

    fn start_owned(&self, shared: Arc<RunningPartition>, owner: Owner) -> Arc<Owned> {
        Owned::start(shared, owner, &self.parts.queue, &self.parts.projectors)
    }

    /// What is shared by the tasks of the partition, from scratch: nothing is derived yet.
    fn run(&self) -> Arc<RunningPartition> {
        let Parts { env, log, store, derivation, options, budget, fence, clock, observer, .. } = &self.parts;
        // One half is divided among the partitions. The other half is available to any partition that needs it.
        let limits = Limits {
            flush_at: options.flush_at,
            divided_keys: options.unflushed_max / 2,
            divided_bytes: options.unflushed_bytes_max / 2,
            divided_ahead: Stretch {
                events: options.uncheckpointed_events_max / 2,
                bytes: options.uncheckpointed_bytes_max / 2,
            },
        };
        let derived = Arc::new(DerivedPartition::new(derive::Parts {
            env: env.clone(),
            log: log.clone(),
            store: store.clone(),
            partition: self.partition,
            derivation: derivation.clone(),
            limits,
            budget: budget.clone(),
            flush_interval: options.flush_interval,
            retry: options.retry,
            metrics: DerivedMetrics::new("seriatim_engine", self.partition),
            observer: observer.clone(),
        }));
        *self.derived.lock() = Arc::downgrade(&derived);
        RunningPartition::start(running::Parts {
            env: env.clone(),
            log: log.clone(),
            partition: self.partition,
            options: *options,
            derived,
            fence: fence.clone(),
            clock: clock.clone(),
        })
    }

    /// The partition's tasks, if it is owned or a standby.
    pub(crate) fn running(&self) -> Option<Arc<RunningPartition>> {
        match self.place() {
            Place::Elsewhere(_) => None,
            Place::Standby(standby) => Some(standby.shared.clone()),
            Place::Owned(owned) => Some(owned.shared.clone()),
        }
    }

    /// Whether this engine numbers the partition's commands.
    pub(crate) fn is_owned(&self) -> bool {
        matches!(self.place(), Place::Owned(owned) if !owned.has_ended())
    }

    /// Which of this engine's ownerships of the partition is the present one, from 1. `None` if this engine is not the owner. One
    /// that has stopped because of a fault is still the owner; one that knows that another has taken over is not.
    pub(crate) fn tenure(&self) -> Option<u64> {
        let place = self.place.lock();
        let is_owner = matches!(&*place, Place::Owned(owned) if owned.shared.deposed().is_none());
        is_owner.then(|| self.tenures.load(Ordering::Relaxed))
    }

    /// Whether this engine is to number the partition's commands. It may have stopped, or be closed.
    pub(crate) fn is_ours(&self) -> bool {
        self.tenure().is_some()
    }

    /// Whether the log says that this engine holds the partition.
    pub(crate) async fn is_holder(&self) -> Result<bool, SubmitError> {
        let held = self.parts.log.holder(self.partition).await?;
        Ok(held.is_some_and(|held| held.take.holder == self.parts.holder))
    }

    /// The error of a call that only the owner can answer.
    pub(crate) fn not_here(&self) -> SubmitError {
        let holder = match self.place() {
            Place::Elsewhere(holder) => holder,
            Place::Standby(_) => None,
            Place::Owned(owned) => owned.shared.deposed().map(|held| held.take.holder),
        };
        not_here(self.partition, holder)
    }

    /// Queues a command and waits for its answer. Dropping the future does not cancel the command.
    pub(crate) async fn submit(&self, prepared: Prepared) -> Result<Answer, SubmitError> {
        match self.place() {
            Place::Owned(owned) => owned.submit(prepared).await,
            Place::Standby(_) | Place::Elsewhere(_) => Err(self.not_here()),
        }
    }

    /// Waits until a recovery has ended. A standby is ready when it has applied what was in the log when it began. A partition
    /// that is elsewhere has nothing to wait for.
    pub(crate) async fn wait_ready(&self) -> Result<(), SubmitError> {
        if self.running().is_none() {
            return Ok(());
        }
        let mut places = self.parts.places.subscribe();
        loop {
            places.mark_unchanged();
            let Some(shared) = self.running() else { return Err(self.not_here()) };
            let mut changes = shared.derived.changes.subscribe();
            match self.state().status {
                PartitionStatus::Standby if lock(&shared.derived.overlay).caught_up().is_none() => {}
                PartitionStatus::Ready | PartitionStatus::Standby => return Ok(()),
                PartitionStatus::Elsewhere { holder } => return Err(not_here(self.partition, holder)),
                PartitionStatus::Stopped(reason) => {
                    let partition = self.partition.to_string();
                    return Err(SubmitError::Stopped { partition, reason });
                }
                PartitionStatus::Recovering { .. } => {}
            }
            // The end of a recovery sends a change, and so does a move.
            select(pin!(changes.changed()), pin!(places.changed())).await;
        }
    }

    /// Holds the partition between two groups, with everything flushed, until the guard is dropped. It does not move meanwhile, and
    /// a standby does not follow. Waits for at most [`Options::close_timeout`].
    pub(crate) async fn hold(&self) -> Result<PartitionHold, SubmitError> {
        let holding = async {
            let moving = self.moving.clone().lock_owned().await;
            let held = match self.place() {
                Place::Owned(owned) => HeldPartition::Owned(owned.hold().await?),
                Place::Standby(standby) => {
                    let paused = PausedStandby(standby);
                    paused.0.pause().await?;
                    HeldPartition::Standby(paused)
                }
                Place::Elsewhere(_) => return Err(self.not_here()),
            };
            Ok(PartitionHold { held, _moving: moving })
        };
        let within = self.parts.options.close_timeout;
        let not_idle = SubmitError::NotIdle { partition: self.partition.to_string(), within };
        self.parts.env.timeout(within, holding).await.unwrap_or(Err(not_idle))
    }

    /// Ends everything of the partition. Queued commands are executed first, and everything unflushed is flushed. A move that waits
    /// for the log ends, and none begins after this.
    pub(crate) async fn close(&self) {
        self.closing.cancel();
        let Parts { env, options, .. } = &self.parts;
        // Without the turn if the partition is held and storage does not answer.
        let _turn = env.timeout(options.close_timeout, self.moving.lock()).await;
        match self.place() {
            Place::Elsewhere(_) => {}
            Place::Standby(standby) => standby.close(true).await,
            Place::Owned(owned) => owned.close().await,
        }
    }

    pub(crate) fn state(&self) -> PartitionState {
        let (status, shared, waiting) = match self.place() {
            Place::Elsewhere(holder) => (PartitionStatus::Elsewhere { holder }, None, 0),
            Place::Standby(standby) => (standby.status(), Some(standby.shared.clone()), 0),
            Place::Owned(owned) => (owned.state(), Some(owned.shared.clone()), owned.waiting()),
        };
        let Some(shared) = shared else { return PartitionState::elsewhere(self.partition, status) };
        let store_failure = shared.derived.store_failure();
        shared.derived.settle();
        let overlay = lock(&shared.derived.overlay);
        PartitionState {
            partition: self.partition,
            status,
            next_offset: overlay.next().get(),
            checkpoint: overlay.checkpoint().get(),
            unflushed: overlay.keys(),
            uncheckpointed_events: overlay.ahead().events,
            uncheckpointed_bytes: overlay.ahead().bytes,
            waiting,
            store_failure,
        }
    }
}

impl PartitionState {
    fn elsewhere(partition: Partition, status: PartitionStatus) -> Self {
        Self {
            partition,
            status,
            next_offset: 1,
            checkpoint: 1,
            unflushed: 0,
            uncheckpointed_events: 0,
            uncheckpointed_bytes: 0,
            waiting: 0,
            store_failure: None,
        }
    }
}

/// Holds a partition between two groups until this guard is dropped.
#[derive(Debug)]
pub(crate) struct PartitionHold {
    held: HeldPartition,
    /// The partition does not move meanwhile. Dropped last.
    _moving: OwnedMutexGuard<()>,
}

#[derive(Debug)]
enum HeldPartition {
    Owned(oneshot::Sender<oneshot::Sender<()>>),
    Standby(PausedStandby),
}

impl PartitionHold {
    /// Releases the partition and starts a recovery, because the stored values were changed during the hold. Returns when the
    /// recovery has begun, or when the partition has ended.
    pub(crate) async fn recover(self) {
        match self.held {
            HeldPartition::Owned(guard) => {
                let (sender, begun) = oneshot::channel();
                if guard.send(sender).is_ok() {
                    // An error means that the partition has ended.
                    let _ = begun.await;
                }
            }
            HeldPartition::Standby(paused) => {
                // The overlay is empty, because everything is flushed. The standby begins at the checkpoint again.
                lock(&paused.0.shared.derived.overlay).suspend();
            }
        }
    }
}

/// A standby that follows again when this is dropped.
#[derive(Debug)]
struct PausedStandby(Arc<Standby>);

impl Drop for PausedStandby {
    fn drop(&mut self) {
        lock(&self.0.shared.derived.overlay).hold(false);
        self.0.follow();
    }
}
