//! First part of the step: take commands from the queue, and wait until there is room for a group.

use seriatim_sequencer::{Busy, StopReason};

use super::message::Message;
use super::task::PartitionTask;
use crate::error::{SubmitError, stopped};
use crate::limits::GROUP_COMMANDS_MAX;

impl PartitionTask {
    /// Waits until there is a command and a group can be opened. `false`: no more commands will come.
    ///
    /// A hold is served here, between two groups, and only when no command is waiting, loading or loaded. If there is no room
    /// within `begin_wait`, the waiting commands are refused as busy. An error means that the partition has stopped.
    pub(super) async fn collect(&mut self) -> Result<bool, SubmitError> {
        self.bound_cache();
        loop {
            // A hold that arrived while commands were in progress is served without waiting for another message.
            if self.is_idle() && self.hold.is_none() {
                if self.ending {
                    return Ok(false);
                }
                let Some(message) = self.queue.recv().await else { return Ok(false) };
                self.take(message);
            }
            // Callers that were just answered can run and may send their next command. One group of all these commands costs
            // one write. A group of the first command alone would make the others wait for that write.
            tokio::task::yield_now().await;
            self.drain();
            if self.is_idle()
                && let Some(hold) = self.hold.take()
            {
                self.wait_for_release(hold).await?;
                continue;
            }
            match self.wait_for_room().await {
                Ok(()) => return Ok(true),
                Err(Busy::Stopped(reason)) => return Err(stopped(self.shared.partition, &reason)),
                Err(busy) => {
                    self.give_up_loading().await;
                    self.refuse_all(&SubmitError::Busy(busy));
                }
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.batch.commands.is_empty() && self.loading.is_none()
    }

    pub(super) fn take(&mut self, message: Message) {
        match message {
            Message::Command(submission) => self.waiting.push(submission),
            Message::Hold(hold) => self.hold = Some(hold),
            Message::Stop => self.ending = true,
            Message::Release => (self.ending, self.releasing) = (true, true),
        }
    }

    /// Takes queued messages without waiting, until there are enough commands for one group. Takes nothing after a hold or a
    /// stop.
    pub(super) fn drain(&mut self) {
        while self.hold.is_none()
            && !self.ending
            && self.waiting.len() + self.batch.commands.len() < GROUP_COMMANDS_MAX
            && let Ok(message) = self.queue.try_recv()
        {
            self.take(message);
        }
    }

    /// Refuses all commands that are not staged.
    pub(super) fn refuse_all(&mut self, error: &SubmitError) {
        let loaded = self.batch.commands.drain(..).map(|(submission, _)| submission);
        for submission in self.waiting.drain(..).chain(loaded) {
            self.shared.metrics.refused.increment(1);
            submission.answer(Err(error.clone()));
        }
    }

    /// Waits until a group can be opened, no longer than `begin_wait`.
    pub(super) async fn wait_for_room(&mut self) -> Result<(), Busy> {
        let mut changes = self.shared.derived.changes.subscribe();
        let deadline = self.shared.env.instant() + self.shared.options.begin_wait;
        loop {
            changes.mark_unchanged();
            if let Some(reason) = self.shared.derived.halted() {
                return Err(Busy::Stopped(StopReason::Internal(reason)));
            }
            let busy = match self.sequencer.check_room() {
                Ok(()) => return Ok(()),
                Err(busy @ (Busy::Recovering | Busy::Backlogged { .. })) => busy,
                Err(busy) => return Err(busy),
            };
            let left = deadline.saturating_duration_since(self.shared.env.instant());
            if self.shared.env.timeout(left, changes.changed()).await.is_err() {
                // Another partition may have made room. That sends no change to this partition.
                return self.sequencer.check_room().map_err(|_| busy);
            }
        }
    }
}
