//! A partition that this engine owns: it numbers commands.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use seriatim_env::Task;
use seriatim_sequencer::{Sequencer, Status, StatusHandle, StopReason};
use seriatim_storage::Owner;
use seriatim_types::sync::Mutex;
use tokio::sync::{mpsc, oneshot};

use super::async_projector::{self, AsyncProjector};
use super::message::{HoldRequest, Message, Submission};
use super::queue_budget::{QueueBudget, QueueShare};
use super::task::PartitionTask;
use super::{PartitionStatus, RunningPartition};
use crate::command::prepared::Prepared;
use crate::command::request::Answer;
use crate::error::{SubmitError, not_here};

/// A handle on the task of an owned partition. The task ends when the partition is closed or released, or when the last handle is
/// dropped.
#[derive(Debug)]
pub(super) struct Owned {
    pub(super) shared: Arc<RunningPartition>,
    queue: mpsc::Sender<Message>,
    queue_bytes: Arc<QueueShare>,
    pub(super) status: StatusHandle,
    task: Mutex<Option<Task<()>>>,
    /// Whether the partition was given up. Set before its queue is closed.
    released: AtomicBool,
    /// Asynchronous projectors. They end when the partition is closed, released or deposed.
    followers: Mutex<Vec<Task<()>>>,
}

impl Owned {
    /// Starts the task, its recovery and the asynchronous projectors, and returns at once.
    pub(super) fn start(
        shared: Arc<RunningPartition>,
        owner: Owner,
        queue: &Arc<QueueBudget>,
        projectors: &[Arc<dyn AsyncProjector>],
    ) -> Arc<Self> {
        let (env, options) = (shared.env.clone(), shared.options);
        let queue_bytes = queue.share();
        let definition = shared.derivation.schema.sequences().clone();
        let cache = options.cache_numbers / queue.shares();
        let sequencer = Sequencer::new(env.clone(), owner, definition, cache, shared.clone());
        let status = sequencer.status_handle();
        let (sender, commands) = mpsc::channel(options.queue_max);
        let task = PartitionTask::new(shared.clone(), sequencer, commands, queue.clone());
        let task = Mutex::new(Some(env.spawn(task.run())));
        let follow = |projector: &Arc<dyn AsyncProjector>| {
            env.spawn(async_projector::run(shared.clone(), status.clone(), projector.clone()))
        };
        let followers = Mutex::new(projectors.iter().map(follow).collect());
        let released = AtomicBool::new(false);
        Arc::new(Self { shared, queue: sender, queue_bytes, status, task, released, followers })
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
    pub(super) async fn submit(&self, prepared: Prepared) -> Result<Answer, SubmitError> {
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

    /// Why the queue is closed.
    pub(super) fn closed(&self) -> SubmitError {
        if let Some(held) = self.shared.deposed() {
            return not_here(self.shared.partition, Some(held.take.holder));
        }
        if self.released.load(Ordering::Acquire) {
            return not_here(self.shared.partition, None);
        }
        let partition = self.shared.partition.to_string();
        let stopped = self.shared.derived.halted();
        stopped.map_or(SubmitError::Closed, |reason| SubmitError::Stopped { partition, reason })
    }

    /// Whether the task has ended: the partition was taken over by another owner, or has stopped.
    pub(super) fn has_ended(&self) -> bool {
        self.queue.is_closed()
    }

    /// Holds the partition between two groups, with everything flushed, until the guard is dropped.
    pub(super) async fn hold(&self) -> Result<oneshot::Sender<oneshot::Sender<()>>, SubmitError> {
        let (ready_sender, ready) = oneshot::channel();
        let (guard, release) = oneshot::channel();
        let message = Message::Hold(HoldRequest { ready: ready_sender, release });
        self.queue.send(message).await.map_err(|_| self.closed())?;
        ready.await.map_err(|_| self.closed())??;
        Ok(guard)
    }

    /// Ends the task: queued commands are executed first. With [`Message::Stop`] everything unflushed is flushed; with
    /// [`Message::Release`] the flusher continues. If storage does not answer within
    /// [`Options::close_timeout`](crate::Options::close_timeout), this returns without that. The log then still has everything
    /// that was committed.
    pub(super) async fn end(&self, message: Message) -> bool {
        let task = self.task.lock().take();
        let ending = async {
            // An error means that the task has already ended.
            let _ = self.queue.send(message).await;
            if let Some(task) = task {
                let _ = task.await;
            }
        };
        let has_ended = self.shared.env.timeout(self.shared.options.close_timeout, ending).await.is_ok();
        if !has_ended {
            tracing::warn!(partition = %self.shared.partition, "storage does not answer: the partition is closed without a flush, and the next start recovers from the log");
        }
        has_ended
    }

    /// Executes what is queued, and ends the task and the asynchronous projectors. The partition can become a standby then. `false`
    /// if storage did not answer.
    pub(super) async fn release(&self) -> bool {
        self.released.store(true, Ordering::Release);
        let has_ended = self.end(Message::Release).await;
        // The status of a sequencer that was dropped ends the asynchronous projectors.
        self.shared.derived.notify();
        self.end_followers().await;
        has_ended
    }

    /// Ends everything of the partition.
    pub(super) async fn close(&self) {
        if self.end(Message::Stop).await && self.has_ended() {
            // Also if the task had ended before: then the flusher still runs.
            let flushing = self.shared.end_flushing();
            let _ = self.shared.env.timeout(self.shared.options.close_timeout, flushing).await;
        }
        self.shared.watchers.close();
        self.shared.derived.stop.cancel();
        self.end_followers().await;
    }

    pub(super) fn state(&self) -> PartitionStatus {
        if let Some(held) = self.shared.deposed() {
            return PartitionStatus::Elsewhere { holder: Some(held.take.holder) };
        }
        match (self.shared.derived.halted(), self.status.status()) {
            (Some(reason), _) => PartitionStatus::Stopped(reason),
            (None, Status::None) => PartitionStatus::Recovering { from: 1, at: 1, tail: 1 },
            (None, Status::Recovering { from, at, tail }) => {
                PartitionStatus::Recovering { from: from.get(), at: at.get(), tail: tail.get() }
            }
            (None, Status::Ready | Status::InTransaction) => PartitionStatus::Ready,
            (None, Status::Stopped(StopReason::Deposed(held))) => {
                PartitionStatus::Elsewhere { holder: Some(held.take.holder) }
            }
            (None, Status::Stopped(reason)) => PartitionStatus::Stopped(reason.to_string()),
            (None, Status::Finished) => PartitionStatus::Stopped("it is closed".to_owned()),
        }
    }

    /// Commands in the queue; a group in progress counts as one more.
    pub(super) fn waiting(&self) -> usize {
        let in_group = usize::from(matches!(self.status.status(), Status::InTransaction));
        self.queue.max_capacity() - self.queue.capacity() + in_group
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // A task that runs ends by itself, because its queue is closed. One that was deposed has left the flusher running.
        if self.task.lock().is_some() && self.queue.is_closed() {
            self.shared.derived.stop.cancel();
        }
    }
}
