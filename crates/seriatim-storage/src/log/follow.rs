//! Following a partition.

use std::sync::Arc;

use seriatim_types::{Partition, PartitionOffset};

use super::{LogBackend, LogError, ReadLimit};
use crate::ReadEntries;

/// Reads a partition from an offset on and waits where it ends. There is no queue behind it: it is woken by the
/// committed offset and reads again from the log, so a slow follower costs nothing but its own time.
#[derive(Debug, Clone)]
pub struct Follower {
    backend: Arc<dyn LogBackend>,
    partition: Partition,
    next: PartitionOffset,
}

impl Follower {
    pub(super) fn new(backend: Arc<dyn LogBackend>, partition: Partition, next: PartitionOffset) -> Self {
        Self { backend, partition, next }
    }

    /// The offset that it reads next.
    #[must_use]
    pub fn offset(&self) -> PartitionOffset {
        self.next
    }

    /// At least one entry, as soon as there is one. Cancel-safe: nothing is skipped.
    ///
    /// # Errors
    ///
    /// [`LogError`]; the follower can be asked again and goes on where it was.
    pub async fn next(&mut self, limit: ReadLimit) -> Result<ReadEntries, LogError> {
        loop {
            self.backend.committed(self.partition, self.next).await?;
            let entries = self.backend.read(self.partition, self.next, limit).await?;
            if !entries.is_empty() || limit.entries == 0 {
                self.next = entries.next();
                return Ok(entries);
            }
        }
    }
}
