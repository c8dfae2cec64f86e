//! Where committed numbers live between the log and the store.

use std::future::Future;
use std::sync::Arc;

use seriatim_storage::StoreError;
use seriatim_types::{Partition, PartitionOffset, WorkspaceId};
use tokio::sync::watch;

use crate::core::{Buffers, Generation};
use crate::shared::Shared;
use crate::{BadValue, Busy, Numbers, StopReason};

/// Where committed numbers live, and everything else that is derived from the log: an overlay in front of a store, with its
/// flusher and checkpoint, or a test's map.
pub trait Derived: Send + Sync + 'static {
    /// What a group changes besides numbers. It is sealed with the group, and published or dropped with it.
    type Values: Send;

    /// The numbers of workspaces, in their order: from the overlay, else from the store, in one read. `None` means that
    /// the workspace has no event; what cannot be read is an error, never `None`.
    fn read(
        self: Arc<Self>,
        workspaces: Vec<WorkspaceId>,
    ) -> impl Future<Output = Vec<Result<Option<Numbers>, ReadError>>> + Send + 'static;

    /// Takes over what a group has changed: its numbers, the values that it was sealed with and its offset, in one step.
    /// Does not wait for storage. Never called for a group that is discarded or in doubt.
    fn publish(&self, committed: &Committed<'_>, values: Self::Values);

    /// Why no group may be opened just now.
    fn backlog(&self) -> Option<Busy>;

    /// Told when room may have been made, and when a recovery has ended.
    fn subscribe(&self) -> watch::Receiver<()>;

    /// Starts to make everything derived agree with the log, from the checkpoint on, and returns at once. Whatever an
    /// earlier recovery still does counts no more.
    fn recover(self: Arc<Self>, recovery: Recovery);
}

/// Why the numbers of a workspace could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The store does not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What it answers is damaged.
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

    /// The numbers of each workspace of the group, once.
    pub fn numbers(&self) -> impl Iterator<Item = (WorkspaceId, &'a Numbers)> {
        self.buffers.changed().iter().map(|changed| (changed.workspace, &*changed.numbers))
    }

    /// The offset behind the group.
    #[must_use]
    pub fn next(&self) -> PartitionOffset {
        self.buffers.next
    }

    /// How many bytes its entries have.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.buffers.entries.as_bytes().len()
    }
}

/// A recovery under way, in the hands of whoever does it. When a later one has begun, nothing that is said here counts.
#[derive(Debug)]
pub struct Recovery {
    shared: Arc<Shared>,
    generation: Generation,
    partition: Partition,
    tail: PartitionOffset,
}

impl Recovery {
    pub(crate) fn new(
        shared: Arc<Shared>,
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

    /// Where the log ends: the scan goes up to here.
    #[must_use]
    pub fn tail(&self) -> PartitionOffset {
        self.tail
    }

    /// Tells how far it is: from where it began, and which event comes next.
    pub fn progress(&self, from: PartitionOffset, at: PartitionOffset) {
        self.shared.progress(self.generation, from, at);
    }

    /// Everything up to the tail is applied: groups may be opened.
    pub fn recovered(self) {
        self.shared.end_recovery(self.generation, Ok(self.tail));
    }

    /// There is no going on: groups are refused with this reason.
    pub fn stopped(self, reason: StopReason) {
        self.shared.end_recovery(self.generation, Err(reason));
    }
}
