//! How far each partition is durable, for readers and followers. They never take the queue's lock, so no number of them can
//! delay the committer.

use std::collections::HashMap;

use seriatim_env::watch;
use seriatim_storage::{Held, LogError};
use seriatim_types::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use seriatim_types::{Partition, PartitionOffset};

use super::index::SegmentIndex;

type Channels = HashMap<Partition, watch::Sender<PartitionOffset>>;

/// The tails of all partitions; `None` when the log is closed.
#[derive(Debug)]
pub(super) struct Tails(RwLock<Option<Channels>>);

impl Tails {
    pub(super) fn new(index: &SegmentIndex) -> Self {
        let channel = |(partition, held): (Partition, Held)| (partition, watch::Sender::new(held.tail));
        Self(RwLock::new(Some(index.partitions().map(channel).collect())))
    }

    fn read(&self) -> RwLockReadGuard<'_, Option<Channels>> {
        self.0.read()
    }

    fn write(&self) -> RwLockWriteGuard<'_, Option<Channels>> {
        self.0.write()
    }

    /// The tail of a partition.
    pub(super) fn get(&self, partition: Partition) -> Result<PartitionOffset, LogError> {
        let channels = self.read();
        let channels = channels.as_ref().ok_or(LogError::Closed)?;
        Ok(channels.get(&partition).map_or(PartitionOffset::FIRST, |tail| *tail.borrow()))
    }

    /// A partition's tail, as a channel to wait on.
    pub(super) fn subscribe(
        &self,
        partition: Partition,
    ) -> Result<watch::Receiver<PartitionOffset>, LogError> {
        if let Some(tail) = self.read().as_ref().ok_or(LogError::Closed)?.get(&partition) {
            return Ok(tail.subscribe());
        }
        let mut channels = self.write();
        Ok(channel(channels.as_mut().ok_or(LogError::Closed)?, partition).subscribe())
    }

    /// Advances tails and wakes the tasks that wait for them.
    pub(super) fn advance(&self, tails: impl Iterator<Item = (Partition, PartitionOffset)>) {
        for (partition, tail) in tails {
            let known = match self.read().as_ref().map(|channels| channels.get(&partition)) {
                None => return,
                Some(Some(channel)) => {
                    channel.send_replace(tail);
                    true
                }
                Some(None) => false,
            };
            if !known && let Some(channels) = self.write().as_mut() {
                channel(channels, partition).send_replace(tail);
            }
        }
    }

    /// Drops all channels: tasks that wait get the error that the log is closed.
    pub(super) fn close(&self) {
        self.write().take();
    }
}

fn channel(channels: &mut Channels, partition: Partition) -> &watch::Sender<PartitionOffset> {
    channels.entry(partition).or_insert_with(|| watch::Sender::new(PartitionOffset::FIRST))
}
