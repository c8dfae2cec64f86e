//! What was open when a partition arrives continues.

use std::sync::Arc;
use std::time::Duration;

use seriatim_engine::{PartitionStatus, SubmitError};
use seriatim_types::ErrorKind;

use crate::application::{NAME, Workflows};
use crate::homes::Home;
use crate::inner::Inner;
use crate::messages::Messages;
use crate::workflow::Item;

/// Open runs that are read together after a start.
const PAGE: usize = 256;
/// How long a page of open runs waits for those before it, at most.
const RESUME_WAIT: Duration = Duration::from_secs(1);

/// Finds the open runs of a partition, and those that have ended with messages that are not delivered.
pub(crate) struct Resume {
    pub(crate) inner: Arc<Inner>,
    pub(crate) home: Arc<Home>,
}

impl Resume {
    /// Finds every open run, and has it read or lets it sleep. If the partition cannot be read, that is tried again.
    pub(crate) async fn run(&self) {
        self.inner.wait_unfenced().await;
        let partition = self.home.partition;
        loop {
            match self.is_stopped() {
                Ok(true) => {}
                Ok(false) => match self.resume().await {
                    Ok(()) => return,
                    Err(error) if error.kind() == ErrorKind::Closed => return,
                    // Another engine has taken it over.
                    Err(SubmitError::NotHere { holder, .. }) => return self.inner.lose(&self.home, holder),
                    Err(error) => {
                        tracing::warn!(%partition, %error, "open runs could not be read; it is tried again");
                    }
                },
                Err(error) if error.kind() == ErrorKind::Closed => return,
                Err(error) => {
                    tracing::warn!(%error, "the partitions of workflows could not be read; it is tried again");
                }
            }
            self.inner.env.sleep(self.inner.env.jitter(self.inner.options.retry)).await;
        }
    }

    /// Whether the partition accepts nothing at the moment, and cannot be read.
    fn is_stopped(&self) -> Result<bool, SubmitError> {
        let states = self.inner.engine.partitions(NAME)?;
        let found = states.into_iter().find(|state| state.partition.id == self.home.partition);
        Ok(found.is_none_or(|state| matches!(state.status, PartitionStatus::Stopped(_))))
    }

    async fn resume(&self) -> Result<(), SubmitError> {
        let (workflows, partition) = (Workflows::new(&self.inner.engine), self.home.partition);
        let mut after = None;
        loop {
            let page = workflows.open_runs(partition, after, PAGE).await?;
            for (workspace, _, waiting) in &page {
                match waiting {
                    Some(waiting) => {
                        self.inner.table.let_sleep(*workspace, &self.home, *waiting, &self.inner.alarms);
                    }
                    None => self.inner.push_at(&self.home, *workspace, Item::Wake),
                }
            }
            // Those of a partition that has stopped meanwhile do not end, and keep no other from being found.
            let below = self.inner.drivers.below(2 * self.inner.options.active_max.max(PAGE));
            let _ = self.inner.env.timeout(RESUME_WAIT, below).await;
            match page.last() {
                Some((last, ..)) if page.len() == PAGE => after = Some(*last),
                _ => break,
            }
        }
        let mut after = None;
        loop {
            let page = workflows.undelivered(partition, after, PAGE).await?;
            let last = page.last().filter(|_| page.len() == PAGE).map(|(last, row)| (*last, row.run));
            for (workspace, row) in page {
                let messages =
                    Messages::new(self.inner.clone(), self.home.clone(), workspace, row.run, row.id.clone());
                messages.deliver_remaining_of(row);
            }
            match last {
                Some(last) => after = Some(last),
                None => break,
            }
        }
        Ok(())
    }
}
