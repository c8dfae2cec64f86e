//! Between two groups: the partition is held, or starts a recovery.

use seriatim_sequencer::Busy;
use seriatim_storage::TakeOverError;
use seriatim_types::ErrorKind;

use super::message::HoldRequest;
use super::task::PartitionTask;
use crate::derive::{Fetched, flusher, lock};
use crate::error::SubmitError;

impl PartitionTask {
    /// Flushes and syncs everything, reports that, and waits for the release. If the release asks for a recovery, it is started.
    /// A failed flush is reported to the caller that requested the hold; the partition continues.
    pub(super) async fn wait_for_release(&mut self, hold: HoldRequest) -> Result<(), SubmitError> {
        let HoldRequest { ready, release } = hold;
        // Before the flush: a later sweep would change the stored values during the hold.
        lock(&self.shared.derived.overlay).hold(true);
        let settled = match self.wait_for_room().await {
            Ok(()) | Err(Busy::Backlogged { .. }) => {
                let flushed = flusher::flush_all(&self.shared.derived).await;
                let synced = if flushed.is_ok() { self.shared.derived.sync().await } else { flushed };
                synced.map_err(SubmitError::Store)
            }
            Err(busy) => Err(SubmitError::Busy(busy)),
        };
        let begun = if ready.send(settled).is_ok() { release.await.ok() } else { None };
        lock(&self.shared.derived.overlay).hold(false);
        if let Some(begun) = begun {
            self.recover().await?;
            // An error means that the caller no longer waits.
            let _ = begun.send(());
        }
        Ok(())
    }

    /// Forgets everything in memory and recovers from the checkpoint, because the stored values were changed from outside. Takes
    /// the partition over with the epoch that it holds, and retries that while the log is unavailable. If another owner has taken
    /// it over, this one ends. Any other error stops the partition.
    async fn recover(&mut self) -> Result<(), SubmitError> {
        let log = self.shared.log.clone();
        let owner = loop {
            match self.sequencer.take_over(&log).await {
                Ok(owner) => break owner,
                Err(TakeOverError::Deposed { held, .. }) => return Err(self.deposed_by(held)),
                Err(error) if error.kind() == ErrorKind::Unavailable => {
                    tracing::warn!(partition = %self.shared.partition, %error, "the log is not available: the recovery retries");
                    self.shared.env.sleep(self.shared.env.jitter(self.shared.options.retry)).await;
                }
                Err(error) => return Err(self.defect(&error.to_string())),
            }
        };
        // The commands remain. The recovery makes their pins stale, so they are loaded again.
        self.batch.fetched = Fetched::default();
        self.sequencer.recover(owner).map_err(|error| self.defect(&error.to_string()))
    }
}
