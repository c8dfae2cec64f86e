//! Fourth part of the step: append a closed group to the log.

use futures_util::future::Either;
use seriatim_storage::{AppendError, Receipt};

use super::group::ClosedGroup;
use super::task::PartitionTask;

impl PartitionTask {
    /// Appends a group. While the log writes it, the next commands are taken from the queue and loaded.
    pub(super) async fn append(&mut self, group: &ClosedGroup) -> Result<Receipt, AppendError> {
        let commands = u32::try_from(group.answers.pending.len()).unwrap_or(u32::MAX);
        self.shared.metrics.group_commands.record(f64::from(commands));
        let started = self.shared.env.instant();
        let (log, sealed) = (&self.shared.log, &group.sealed);
        let (owner, at, entries) = (sealed.owner(), sealed.at(), sealed.entries());
        // The call itself submits the append. The future only waits for the result.
        let appending = if self.shared.options.trust_level.verifies_events() {
            Either::Left(log.append(owner, at, entries))
        } else {
            Either::Right(log.append_unverified(owner, at, entries))
        };
        self.drain();
        self.start_loading();
        let appended = appending.await;
        self.shared.metrics.append_seconds.record((self.shared.env.instant() - started).as_secs_f64());
        appended
    }
}
