//! Where committed numbers live between the log and the store.

use std::future::Future;
use std::sync::Arc;

use seriatim_env::{Env, Task};
use seriatim_storage::{Log, LogError, ReadEntries, ReadLimit, StoreError};
use seriatim_types::{Partition, PartitionOffset, WorkspaceId};

use crate::cache::Cache;
use crate::core::{Buffers, Generation};
use crate::shared::{Recovered, Shared};
use crate::{BadValue, Busy, Numbers, StopReason};

/// An overlay in front of a store, with its flusher and checkpoint: [`Stored`](crate::Stored) where the sequencer is
/// used alone, the engine's own where numbers are one of many things that are derived from the log.
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

/// What one read of a recovery asks for. More than a large frame, because a frame that a page ends in is read and checked
/// again for the next one; not much more, because two pages are what a recovery holds of the log.
const PAGE: ReadLimit = ReadLimit { entries: 4_096, bytes: 512 << 10 };

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

    pub(crate) fn generation(&self) -> Generation {
        self.generation
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

    /// Starts to read the log from an offset, in a task of its own, so that a page is read while the one before it is
    /// taken in; nothing at the tail.
    #[must_use]
    pub fn start_reading(
        &self,
        env: &Env,
        log: &Log,
        from: PartitionOffset,
    ) -> Option<Task<Result<ReadEntries, LogError>>> {
        let left = self.tail.since(from).filter(|left| *left > 0)?;
        let entries = usize::try_from(left).unwrap_or(usize::MAX).min(PAGE.entries);
        let (log, partition) = (log.clone(), self.partition);
        let read = async move { log.read(partition, from, ReadLimit { entries, ..PAGE }).await };
        Some(env.spawn(read))
    }

    /// Whether no later recovery has begun.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.shared.is_current(self.generation)
    }

    /// Tells how far it is: from where it began, and which event comes next.
    pub fn progress(&self, from: PartitionOffset, at: PartitionOffset) {
        self.shared.progress(self.generation, from, at);
    }

    /// Everything up to the tail is applied: groups may be opened.
    pub fn recovered(self) {
        self.recovered_with(None);
    }

    pub(crate) fn recovered_with(self, cache: Option<Cache>) {
        let next = self.tail;
        self.shared.end_recovery(self.generation, Ok(Recovered { next, cache }));
    }

    /// There is no going on: groups are refused with this reason.
    pub fn stopped(self, reason: StopReason) {
        self.shared.end_recovery(self.generation, Err(reason));
    }
}
