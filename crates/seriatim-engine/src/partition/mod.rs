//! A partition: one task owns its log, its sequencer and its overlay.

mod append;
pub(crate) mod async_projector;
mod collect;
mod conclude;
mod execute;
mod group;
mod hold;
mod load;
mod message;
mod new_keys;
mod projector_offset;
mod queue_budget;
mod reading;
mod running;
mod sweep;
mod task;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use seriatim_env::{Env, Task};
use seriatim_sequencer::{Sequencer, Status, StatusHandle};
use seriatim_storage::{Log, Owner, Store};
use seriatim_types::Partition;
use seriatim_types::sync::Mutex;
use tokio::sync::{mpsc, oneshot};

use self::async_projector::AsyncProjector;
use crate::command::apply::Derivation;
use crate::command::event_clock::EventClock;
use crate::command::prepared::Prepared;
use crate::command::request::Answer;
use crate::derive::{self, Budget, DerivedPartition, Limits, Stretch, flusher, lock};
use crate::engine::options::Options;
use crate::error::SubmitError;
use crate::metrics::{DerivedMetrics, PartitionMetrics};
use crate::operate::fence::Fence;
use crate::read::follow::Watchers;

use message::{HoldRequest, Message, Submission};
pub(crate) use queue_budget::QueueBudget;
use queue_budget::QueueShare;
pub(crate) use running::RunningPartition;
pub(crate) use sweep::Position;
use sweep::Sweeper;
use task::PartitionTask;

/// A handle on a partition. The partition's task ends when the partition is closed, or when the last handle is dropped.
#[derive(Debug)]
pub(crate) struct PartitionHandle {
    pub(crate) shared: Arc<RunningPartition>,
    queue: mpsc::Sender<Message>,
    queue_bytes: Arc<QueueShare>,
    status: StatusHandle,
    task: Mutex<Option<Task<()>>>,
    /// Asynchronous projectors. They end when the partition is closed.
    followers: Mutex<Vec<Task<()>>>,
}

/// What a partition is made of.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) env: Env,
    pub(crate) log: Log,
    pub(crate) store: Store,
    pub(crate) owner: Owner,
    pub(crate) derivation: Arc<Derivation>,
    pub(crate) options: Options,
    pub(crate) budget: Arc<Budget>,
    pub(crate) queue: Arc<QueueBudget>,
    /// The number of partitions that share the limits of the process.
    pub(crate) sharing: usize,
    pub(crate) fence: Arc<Fence>,
    pub(crate) clock: Arc<EventClock>,
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
    /// Starts the task, the flusher and recovery, and returns at once.
    pub(crate) fn start(parts: Parts) -> Self {
        let Parts { env, log, store, owner, derivation, options, budget, queue, sharing, fence, clock } =
            parts;
        let partition = owner.partition();
        let sharing = sharing.max(1);
        let limits = Limits {
            flush_at: options.flush_at.min((options.unflushed_max / sharing).max(1)),
            // One half is divided among the partitions. The other half is available to any partition that needs it.
            own_keys: options.unflushed_max / 2 / sharing,
            own_bytes: options.unflushed_bytes_max / 2 / sharing,
            own_ahead: Stretch {
                events: options.uncheckpointed_events_max / 2 / sharing as u64,
                bytes: options.uncheckpointed_bytes_max / 2 / sharing as u64,
            },
        };
        let queue_bytes = queue.share(sharing);
        let derived = Arc::new(DerivedPartition::new(derive::Parts {
            env: env.clone(),
            log: log.clone(),
            store,
            partition,
            derivation: derivation.clone(),
            limits,
            budget,
            flush_interval: options.flush_interval,
            retry: options.retry,
            metrics: DerivedMetrics::new("seriatim_engine", partition),
        }));
        let shared = Arc::new(RunningPartition {
            env: env.clone(),
            log,
            partition,
            derivation,
            options,
            derived,
            watchers: Watchers::default(),
            metrics: PartitionMetrics::new(partition),
            fence,
            clock,
            sweeper: Sweeper::default(),
        });
        let definition = shared.derivation.schema.sequences().clone();
        let cache = options.cache_numbers / sharing;
        let sequencer = Sequencer::new(env.clone(), owner, definition, cache, shared.clone());
        let status = sequencer.status_handle();
        let (queue, commands) = mpsc::channel(options.queue_max);
        let flusher = env.spawn({
            let shared = shared.clone();
            async move { flusher::run(&shared.derived, || sweep::run(&shared)).await }
        });
        let task = PartitionTask::new(shared.clone(), sequencer, commands, flusher);
        let task = env.spawn(task.run());
        let task = Mutex::new(Some(task));
        Self { shared, queue, queue_bytes, status, task, followers: Mutex::default() }
    }

    /// Has an asynchronous projector follow the partition until it is closed.
    pub(crate) fn follow(&self, projector: Arc<dyn AsyncProjector>) {
        let following = async_projector::run(self.shared.clone(), self.status.clone(), projector);
        let follower = self.shared.env.spawn(following);
        self.followers.lock().push(follower);
    }

    /// Waits until the asynchronous projectors have stored their offsets.
    async fn end_followers(&self) {
        let followers = self.followers.lock().split_off(0);
        for follower in followers {
            // If an offset was not stored, the projector receives those events again at the next start.
            let _ = self.shared.env.timeout(self.shared.options.close_timeout, follower).await;
        }
    }

    /// Queues a command and waits for its answer. Dropping the future does not cancel the command.
    pub(crate) async fn submit(&self, prepared: Prepared) -> Result<Answer, SubmitError> {
        let queued = self.shared.env.instant();
        let Some(permit) = self.queue_bytes.take(prepared.size()) else {
            self.shared.metrics.refused.increment(1);
            return Err(SubmitError::QueueBytesFull(self.queue_bytes.bytes()));
        };
        let (sender, answer) = oneshot::channel();
        let message = Message::Command(Submission::new(prepared, sender, permit));
        match self.queue.try_send(message) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(_)) => {
                self.shared.metrics.refused.increment(1);
                return Err(SubmitError::QueueFull(self.shared.options.queue_max));
            }
            Err(mpsc::error::TrySendError::Closed(_)) => return Err(self.closed()),
        }
        let answer = answer.await;
        self.shared.metrics.command_seconds.record((self.shared.env.instant() - queued).as_secs_f64());
        answer.unwrap_or_else(|_| Err(SubmitError::InDoubt("the partition has ended".to_owned())))
    }

    fn closed(&self) -> SubmitError {
        let partition = self.shared.partition.to_string();
        let stopped = self.shared.derived.halted();
        stopped.map_or(SubmitError::Closed, |reason| SubmitError::Stopped { partition, reason })
    }

    /// Waits until a recovery has ended.
    pub(crate) async fn wait_ready(&self) -> Result<(), SubmitError> {
        let mut changes = self.shared.derived.changes.subscribe();
        loop {
            changes.mark_unchanged();
            match self.state().status {
                PartitionStatus::Ready => return Ok(()),
                PartitionStatus::Stopped(reason) => {
                    let partition = self.shared.partition.to_string();
                    return Err(SubmitError::Stopped { partition, reason });
                }
                PartitionStatus::Recovering { .. } => {}
            }
            // The end of a recovery sends a change.
            let _ = changes.changed().await;
        }
    }

    /// Holds the partition between two groups, with everything flushed, until the guard is dropped. Waits for at most
    /// [`Options::close_timeout`].
    pub(crate) async fn hold(&self) -> Result<PartitionHold, SubmitError> {
        let (ready_sender, ready) = oneshot::channel();
        let (guard, release) = oneshot::channel();
        let message = Message::Hold(HoldRequest { ready: ready_sender, release });
        let holding = async {
            self.queue.send(message).await.map_err(|_| self.closed())?;
            ready.await.map_err(|_| self.closed())?
        };
        let within = self.shared.options.close_timeout;
        match self.shared.env.timeout(within, holding).await {
            Ok(held) => held.map(|()| PartitionHold { guard }),
            Err(_) => Err(SubmitError::NotIdle { partition: self.shared.partition.to_string(), within }),
        }
    }

    /// Ends the task. Queued commands are executed first, and everything unflushed is flushed. If storage does not answer
    /// within [`Options::close_timeout`], the task ends without that. The log then still has everything that was committed.
    pub(crate) async fn close(&self) {
        let task = self.task.lock().take();
        let ending = async {
            // An error means that the task has already ended.
            let _ = self.queue.send(Message::Stop).await;
            if let Some(task) = task {
                let _ = task.await;
            }
        };
        if self.shared.env.timeout(self.shared.options.close_timeout, ending).await.is_err() {
            tracing::warn!(partition = %self.shared.partition, "storage does not answer: the partition is closed without a flush, and the next start recovers from the log");
        }
        self.shared.watchers.close();
        self.shared.derived.stop.cancel();
        self.end_followers().await;
    }

    pub(crate) fn state(&self) -> PartitionState {
        let status = match (self.shared.derived.halted(), self.status.status()) {
            (Some(reason), _) => PartitionStatus::Stopped(reason),
            (None, Status::None) => PartitionStatus::Recovering { from: 1, at: 1, tail: 1 },
            (None, Status::Recovering { from, at, tail }) => {
                PartitionStatus::Recovering { from: from.get(), at: at.get(), tail: tail.get() }
            }
            (None, Status::Ready | Status::InTransaction) => PartitionStatus::Ready,
            (None, Status::Stopped(reason)) => PartitionStatus::Stopped(reason.to_string()),
            (None, Status::Finished) => PartitionStatus::Stopped("it is closed".to_owned()),
        };
        let in_group = usize::from(matches!(self.status.status(), Status::InTransaction));
        let store_failure = self.shared.derived.store_failure();
        self.shared.derived.settle();
        let overlay = lock(&self.shared.derived.overlay);
        PartitionState {
            partition: self.shared.partition,
            status,
            next_offset: overlay.next().get(),
            checkpoint: overlay.checkpoint().get(),
            unflushed: overlay.keys(),
            uncheckpointed_events: overlay.ahead().events,
            uncheckpointed_bytes: overlay.ahead().bytes,
            waiting: self.queue.max_capacity() - self.queue.capacity() + in_group,
            store_failure,
        }
    }
}

/// Holds a partition between two groups until this guard is dropped.
#[derive(Debug)]
pub(crate) struct PartitionHold {
    guard: oneshot::Sender<oneshot::Sender<()>>,
}

impl PartitionHold {
    /// Releases the partition and starts a recovery, because the stored values were changed during the hold. Returns when the
    /// recovery has begun, or when the partition has ended.
    pub(crate) async fn recover(self) {
        let (sender, begun) = oneshot::channel();
        if self.guard.send(sender).is_ok() {
            // An error means that the partition has ended.
            let _ = begun.await;
        }
    }
}
