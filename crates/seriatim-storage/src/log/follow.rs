//! Following a partition.

use std::sync::Arc;

use seriatim_types::{Partition, PartitionOffset};

use super::{LogBackend, LogError, ReadLimit};
use crate::ReadEntries;

/// Reads a partition from an offset on, and waits for more entries at its end. A follower has no queue: when the tail
/// rises, it is woken and reads from the log again. So a slow follower uses no memory and delays no one.
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

    /// The offset that the follower reads next.
    #[must_use]
    pub fn offset(&self) -> PartitionOffset {
        self.next
    }

    /// The next entries, at least one. Waits until there is one. Cancel-safe: no entry is skipped.
    ///
    /// # Errors
    ///
    /// [`LogError`]. The follower stays at its offset: call `next` again to continue.
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
