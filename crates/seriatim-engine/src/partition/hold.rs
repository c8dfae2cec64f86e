//! Between two groups: the partition is held, or recovers.

use seriatim_sequencer::Busy;
use seriatim_types::ErrorKind;

use super::message::HoldRequest;
use super::task::PartitionTask;
use crate::derive::{Fetched, flusher, lock};
use crate::error::SubmitError;

impl PartitionTask {
    /// Flushes everything and waits to be released.
    pub(super) async fn wait_for_release(&mut self, hold: HoldRequest) -> Result<(), SubmitError> {
        let HoldRequest { ready, release } = hold;
        // Before the flush: what is swept after it would change what is stored.
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
            // The one who asked may have gone.
            let _ = begun.send(());
        }
        Ok(())
    }

    /// Forgets everything and begins again from the checkpoint, because what is stored was changed from outside.
    async fn recover(&mut self) -> Result<(), SubmitError> {
        let owner = loop {
            match self.shared.log.take(self.shared.partition).await {
                Ok(owner) => break owner,
                Err(error) if error.kind() == ErrorKind::Unavailable => {
                    tracing::warn!(partition = %self.shared.partition, %error, "a recovery waits for the log");
                    self.shared.env.sleep(self.shared.env.jitter(self.shared.options.retry)).await;
                }
                Err(error) => return Err(error.into()),
            }
        };
        // The commands stay: their pins are stale now, so they are loaded again.
        self.batch.fetched = Fetched::default();
        self.sequencer.recover(owner).map_err(|error| self.defect(&error.to_string()))
    }
}
