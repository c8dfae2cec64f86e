//! The interface to the committed numbers and everything else that is derived from the log.

use std::future::Future;
use std::sync::Arc;

use seriatim_env::watch;
use seriatim_storage::{EntryMark, StoreError};
use seriatim_types::{Partition, PartitionOffset, WorkspaceId};

use crate::core::{Buffers, Generation};
use crate::shared_status::SharedStatus;
use crate::{BadValue, Busy, Numbers, StopReason};

/// Holds committed numbers and everything else that is derived from the log. An implementation is an overlay on a store,
/// with its flusher and checkpoint, or a map in a test.
pub trait Derived: Send + Sync + 'static {
    /// What a group changes in addition to numbers. It is sealed with the group, and published or dropped with it.
    type Values: Send;

    /// The numbers of workspaces, in the given order: from the overlay, or else from the store, in one read. `None` means
    /// that the workspace has no event. A failed read is an error, never `None`.
    fn read(
        self: Arc<Self>,
        workspaces: Vec<WorkspaceId>,
    ) -> impl Future<Output = Vec<Result<Option<Numbers>, ReadError>>> + Send + 'static;

    /// Adds what a group has changed: its numbers, the values that it was sealed with, and its offset, in one step. Does
    /// not wait for storage. Never called for a group that is discarded or in doubt.
    fn publish(&self, committed: &Committed<'_>, values: Self::Values);

    /// The reason why no group may be opened at present, or `None`.
    fn backlog(&self) -> Option<Busy>;

    /// Notified when the backlog may have become smaller, and when a recovery has ended.
    fn subscribe(&self) -> watch::Receiver<()>;

    /// Starts to make everything derived agree with the log, from the checkpoint on, and returns at once. Results of an
    /// earlier recovery no longer count.
    fn recover(self: Arc<Self>, recovery: Recovery);
}

/// Why the numbers of a workspace could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The stored value is damaged.
    #[error(transparent)]
    Bad(#[from] BadValue),
}

/// What a committed group has changed.
#[derive(Debug)]
pub struct Committed<'a> {
    buffers: &'a Buffers,
}

impl<'a> Committed<'a> {
    pub(crate) fn new(buffers: &'a Buffers) -> Self {
        Self { buffers }
    }

    /// The numbers of each workspace of the group. Each workspace occurs once.
    pub fn numbers(&self) -> impl Iterator<Item = (WorkspaceId, &'a Numbers)> {
        self.buffers.changed().iter().map(|changed| (changed.workspace, &*changed.numbers))
    }

    /// The offset after the group.
    #[must_use]
    pub fn next(&self) -> PartitionOffset {
        self.buffers.next
    }

    /// What identifies the group's last entry; `None` if the group has no entries.
    #[must_use]
    pub fn last(&self) -> Option<EntryMark> {
        self.buffers.entries.last_mark()
    }

    /// How many bytes the group's entries have.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.buffers.entries.as_bytes().len()
    }
}

/// A recovery in progress. The code that recovers reports its progress and its end here. After a later recovery has begun,
/// reports have no effect.
#[derive(Debug)]
pub struct Recovery {
    shared: Arc<SharedStatus>,
    generation: Generation,
    partition: Partition,
    tail: PartitionOffset,
}

impl Recovery {
    pub(crate) fn new(
        shared: Arc<SharedStatus>,
        generation: Generation,
        partition: Partition,
        tail: PartitionOffset,
    ) -> Self {
        Self { shared, generation, partition, tail }
    }

    /// The partition.
    #[must_use]
    pub fn partition(&self) -> Partition {
        self.partition
    }

    /// The end of the log, up to which events are applied.
    #[must_use]
    pub fn tail(&self) -> PartitionOffset {
        self.tail
    }

    /// Reports the progress: the event it began with, and the next event.
    pub fn progress(&self, from: PartitionOffset, at: PartitionOffset) {
        self.shared.progress(self.generation, from, at);
    }

    /// Reports that everything up to the tail is applied. From now on groups may be opened.
    pub fn recovered(self) {
        self.shared.end_recovery(self.generation, Ok(self.tail));
    }

    /// Reports that recovery is not possible. From now on groups are refused with this reason.
    pub fn stopped(self, reason: StopReason) {
        self.shared.end_recovery(self.generation, Err(reason));
    }
}
