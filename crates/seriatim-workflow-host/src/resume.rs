//! What was open when a host starts continues.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use seriatim_engine::{PartitionStatus, SubmitError};
use seriatim_types::{ErrorKind, PartitionId};

use crate::application::{NAME, Workflows};
use crate::inner::Inner;
use crate::messages::Messages;
use crate::workflow::Item;

/// Open runs that are read together after a start.
const PAGE: usize = 256;
/// How long a page of open runs waits for those before it, at most.
const RESUME_WAIT: Duration = Duration::from_secs(1);

/// Finds the open runs, and those that have ended with messages that are not delivered.
pub(crate) struct Resume {
    pub(crate) inner: Arc<Inner>,
}

impl Resume {
    /// Finds every open run, and has it read or lets it sleep. A partition that is not ready, or cannot be read, does not
    /// delay the others.
    pub(crate) async fn run(self) {
        self.inner.wait_unfenced().await;
        let mut done = BTreeSet::new();
        loop {
            let states = match self.inner.engine.partitions(NAME) {
                Ok(states) => states,
                Err(error) if error.kind() == ErrorKind::Closed => return,
                Err(error) => {
                    tracing::warn!(%error, "the partitions of workflows could not be read; it is tried again");
                    Vec::new()
                }
            };
            let (count, is_known) = (states.len(), !states.is_empty());
            for state in states {
                let partition = state.partition.id;
                if !matches!(state.status, PartitionStatus::Ready) || done.contains(&partition) {
                    continue;
                }
                match self.resume_partition(partition).await {
                    Ok(()) => drop(done.insert(partition)),
                    Err(error) if error.kind() == ErrorKind::Closed => return,
                    Err(error) => {
                        tracing::warn!(%partition, %error, "open runs could not be read; it is tried again");
                    }
                }
            }
            if is_known && done.len() == count {
                return;
            }
            self.inner.env.sleep(self.inner.env.jitter(self.inner.options.retry)).await;
        }
    }

    async fn resume_partition(&self, partition: PartitionId) -> Result<(), SubmitError> {
        let workflows = Workflows::new(&self.inner.engine);
        let mut after = None;
        loop {
            let page = workflows.open_runs(partition, after, PAGE).await?;
            for (workspace, _, waiting) in &page {
                match waiting {
                    Some(waiting) => self.inner.table.let_sleep(*workspace, *waiting, &self.inner.alarms),
                    None => self.inner.push(*workspace, Item::Wake),
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
                Messages::new(self.inner.clone(), workspace, row.run, row.id.clone())
                    .deliver_remaining_of(row);
            }
            match last {
                Some(last) => after = Some(last),
                None => break,
            }
        }
        Ok(())
    }
}
