//! The task that owns a partition. It repeats one step:
//!
//! ```text
//! collect ───► load ───► group ───► append ───► conclude
//! commands,    what      one        to the      publish what it changes,
//! and room     they      group      log         answer its callers
//! for a group  read
//! ```
//!
//! There is one group at a time. While the log writes that group, the task takes the next commands from the queue and loads them.
//! Nothing of a group is visible and no caller is answered before the log has confirmed the group.

use std::sync::Arc;

use seriatim_sequencer::Sequencer;
use seriatim_types::Timestamp;
use tokio::sync::mpsc;

use super::QueueBudget;
use super::RunningPartition;
use super::load::{Batch, Loading};
use super::message::{HoldRequest, Message, Submission};
use crate::derive::{Draft, Round};
use crate::error::{SubmitError, not_here};

pub(crate) struct PartitionTask {
    pub(super) shared: Arc<RunningPartition>,
    pub(super) sequencer: Sequencer<RunningPartition>,
    pub(super) queue: mpsc::Receiver<Message>,
    queues: Arc<QueueBudget>,
    /// The number of owned partitions for which the cache was bounded.
    sharing: usize,
    /// Commands that are not loaded yet.
    pub(super) waiting: Vec<Submission>,
    /// Commands whose workspaces are being read.
    pub(super) loading: Option<Loading>,
    /// Commands that can be staged.
    pub(super) batch: Batch,
    /// A hold that was requested and has not begun.
    pub(super) hold: Option<HoldRequest>,
    pub(super) ending: bool,
    /// Whether the partition becomes a standby when the task ends.
    pub(super) releasing: bool,
    /// The time of the last event. The times of a partition's events never decrease.
    pub(super) last_time: Timestamp,
    /// The recovery after which `last_time` was read from the log.
    pub(super) timed: Option<Round>,
    /// Memory for what a command changes, reused for every command.
    pub(super) draft: Draft,
    /// Memory for the body of an event, reused for every event.
    pub(super) body: Vec<u8>,
}

impl PartitionTask {
    pub(crate) fn new(
        shared: Arc<RunningPartition>,
        sequencer: Sequencer<RunningPartition>,
        queue: mpsc::Receiver<Message>,
        queues: Arc<QueueBudget>,
    ) -> Self {
        Self {
            shared,
            sequencer,
            queue,
            sharing: queues.shares(),
            queues,
            waiting: Vec::new(),
            loading: None,
            batch: Batch::default(),
            hold: None,
            ending: false,
            releasing: false,
            last_time: Timestamp::from_millis(0),
            timed: None,
            draft: Draft::default(),
            body: Vec::new(),
        }
    }

    /// Runs until the partition is closed, or until an error or a panic stops it. At the end every command that is still
    /// queued is refused: none of them was staged, so nothing of them was executed.
    pub(crate) async fn run(mut self) {
        let (shared, stop) = (self.shared.clone(), self.shared.derived.stop.clone());
        let worked =
            shared.derived.guard("the partition's task", stop.run_until_cancelled(self.work())).await;
        let end = match worked {
            Ok(Some(Ok(()))) if self.releasing => not_here(shared.partition, None),
            Ok(Some(Ok(())) | None) => SubmitError::Closed,
            Ok(Some(Err(reason))) => {
                match &reason {
                    // The overlay has everything that is committed, and nothing else: it can become a standby.
                    SubmitError::NotHere { .. } => {
                        tracing::info!(partition = %shared.partition, %reason, "the partition is no longer owned");
                    }
                    SubmitError::Stopped { reason, .. } => {
                        tracing::error!(partition = %shared.partition, %reason, "the partition has stopped");
                        shared.derived.halt(reason);
                    }
                    other => {
                        tracing::error!(partition = %shared.partition, reason = %other, "the partition has stopped");
                        shared.derived.halt(&other.to_string());
                    }
                }
                reason
            }
            Err(panic) => self.defect(&panic),
        };
        self.queue.close();
        self.give_up_loading().await;
        while let Ok(message) = self.queue.try_recv() {
            self.take(message);
        }
        self.refuse_all(&end);
        if let Some(hold) = self.hold.take() {
            // An error means that the caller no longer waits.
            let _ = hold.ready.send(Err(end));
        }
        // The engine syncs the store once, after all partitions have ended. A partition that is released or deposed continues to
        // flush: its overlay has committed events only.
        if !self.releasing && shared.deposed().is_none() {
            shared.end_flushing().await;
        }
    }

    /// Divides the bound of all caches among the partitions that are owned at the moment.
    pub(super) fn bound_cache(&mut self) {
        let sharing = self.queues.shares();
        if sharing != self.sharing {
            self.sharing = sharing;
            self.sequencer.set_cache_bound(self.shared.options.cache_numbers / sharing);
        }
    }

    async fn work(&mut self) -> Result<(), SubmitError> {
        while self.collect().await? {
            self.load().await?;
            let Some(group) = self.form_group().await else { continue };
            let appended = self.append(&group).await;
            self.conclude(group, appended).await?;
        }
        Ok(())
    }

    /// The error with which the partition stops, for a reason that no caller can correct.
    pub(super) fn defect(&self, reason: &str) -> SubmitError {
        SubmitError::Stopped { partition: self.shared.partition.to_string(), reason: reason.to_owned() }
    }
}
