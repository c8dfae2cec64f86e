//! A partition that another engine owns and this one follows: it derives the same, so that it can answer reads and be promoted.

use std::sync::Arc;

use seriatim_env::{Shutdown, Task};
use seriatim_sequencer::Busy;
use seriatim_types::PartitionOffset;
use seriatim_types::sync::Mutex;

use super::{PartitionStatus, RunningPartition};
use crate::derive::{Round, flusher, lock, recovery};
use crate::error::SubmitError;

/// Follows the log of a partition until it is ended or dropped.
#[derive(Debug)]
pub(super) struct Standby {
    pub(super) shared: Arc<RunningPartition>,
    following: Mutex<Following>,
}

/// The task that follows.
#[derive(Debug)]
struct Following {
    task: Option<Task<()>>,
    /// Ends the task.
    stop: Shutdown,
    /// Whether the partition itself ends with the standby: not after a promotion.
    closes: bool,
}

impl Standby {
    /// A standby that does not follow yet.
    pub(super) fn new(shared: Arc<RunningPartition>) -> Arc<Self> {
        let stop = shared.derived.stop.child_token();
        Arc::new(Self { shared, following: Mutex::new(Following { task: None, stop, closes: true }) })
    }

    /// Begins to follow: where the overlay is if it is filled, else at the checkpoint.
    pub(super) fn follow(&self) {
        let mut following = self.following.lock();
        if !following.closes {
            return;
        }
        following.stop = self.shared.derived.stop.child_token();
        let (shared, stop) = (self.shared.clone(), following.stop.clone());
        let task = self.shared.env.spawn(async move {
            let applied = |workspaces: &[_]| shared.watchers.wake(workspaces.iter().copied());
            let standing_by = stop.run_until_cancelled(recovery::stand_by(&shared.derived, &applied));
            // A panic stops the partition.
            if let Ok(Some(reason)) = shared.derived.guard("the standby", standing_by).await {
                tracing::error!(partition = %shared.partition, %reason, "the standby cannot continue: it stops");
                shared.derived.halt(&reason.to_string());
            }
        });
        following.task = Some(task);
    }

    /// Ends following. What was applied remains in the overlay.
    pub(super) async fn end(&self) {
        let task = {
            let mut following = self.following.lock();
            following.stop.cancel();
            following.task.take()
        };
        if let Some(task) = task {
            // An error means that it has panicked, and the partition has stopped.
            let _ = task.await;
        }
    }

    /// Ends following, and keeps the partition for its promotion.
    pub(super) async fn end_for_promotion(&self) {
        self.following.lock().closes = false;
        self.end().await;
    }

    /// Ends everything of the partition.
    pub(super) async fn close(&self, flush: bool) {
        self.end().await;
        if flush {
            let flushing = self.shared.end_flushing();
            let _ = self.shared.env.timeout(self.shared.options.close_timeout, flushing).await;
        }
        self.abandon("it is closed");
    }

    /// Ends everything of the partition at once. No further write to the store begins, and readers that wait get an error.
    pub(super) fn abandon(&self, reason: &str) {
        self.shared.derived.halt(reason);
        self.shared.watchers.close();
        self.shared.derived.stop.cancel();
    }

    /// Waits until everything is applied that was in the log when this was called. No longer than `begin_wait` if `is_bounded`.
    ///
    /// # Errors
    ///
    /// [`Busy::Recovering`] when that time is over; the error of the log; why the standby has stopped.
    pub(super) async fn catch_up(&self, is_bounded: bool) -> Result<Round, SubmitError> {
        let shared = &self.shared;
        let catching_up = async {
            let tail = shared.tails.read(|| shared.log.tail(shared.partition)).await?;
            shared.log.hint_tail(shared.partition, tail);
            self.reach(tail).await
        };
        if !is_bounded {
            return catching_up.await;
        }
        let within = shared.options.begin_wait;
        shared.env.timeout(within, catching_up).await.unwrap_or(Err(SubmitError::Busy(Busy::Recovering)))
    }

    /// Waits until everything before `offset` is applied.
    pub(super) async fn reach(&self, offset: PartitionOffset) -> Result<Round, SubmitError> {
        let derived = &self.shared.derived;
        let mut changes = derived.changes.subscribe();
        loop {
            changes.mark_unchanged();
            if let Some(round) = lock(&derived.overlay).reached(offset) {
                return Ok(round);
            }
            if let Some(reason) = derived.halted() {
                let partition = self.shared.partition.to_string();
                return Err(SubmitError::Stopped { partition, reason });
            }
            // There is never an error, because `derived` has the sender.
            let _ = changes.changed().await;
        }
    }

    /// Stops following and flushes everything, so that the stored values do not change until
    /// [`Standby::follow`].
    pub(super) async fn pause(&self) -> Result<(), SubmitError> {
        self.end().await;
        lock(&self.shared.derived.overlay).hold(true);
        flusher::flush_all(&self.shared.derived).await?;
        self.shared.derived.sync().await?;
        Ok(())
    }

    pub(super) fn status(&self) -> PartitionStatus {
        match self.shared.derived.halted() {
            Some(reason) => PartitionStatus::Stopped(reason),
            None => PartitionStatus::Standby,
        }
    }
}

impl Drop for Standby {
    fn drop(&mut self) {
        let following = self.following.lock();
        following.stop.cancel();
        if following.closes {
            self.shared.derived.stop.cancel();
        }
    }
}
