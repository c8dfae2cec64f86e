//! What is committed and not in the store yet.
//!
//! ```text
//! log:  [ checkpoint ........ writing.next ........ next )
//!         in the store behind here  being written    waiting
//! ```

use std::collections::hash_map::Entry;
use std::sync::Arc;

use seriatim_types::{PartitionOffset, WorkspaceId};

use crate::core::Generation;
use crate::workspace_map::WorkspaceMap;
use crate::{Busy, Numbers, Options};

/// The overlay of a sequencer that is used alone. Pure; whoever shares it puts it behind one lock, so that values and
/// offset are seen together or not at all.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Unflushed {
    keys_max: usize,
    flush_at: usize,
    events_max: u64,
    bytes_max: u64,
    /// Whose values these are; `None` between two recoveries, so that what an earlier one still does is refused.
    generation: Option<Generation>,
    waiting: WorkspaceMap<Numbers>,
    writing: Option<Arc<Writing>>,
    /// Workspaces in either of them.
    keys: usize,
    /// Everything before this offset is in here or in the store.
    next: PartitionOffset,
    /// Everything before this offset is in the store.
    checkpoint: PartitionOffset,
    /// Bytes of the entries from the checkpoint up to `next`.
    bytes: u64,
    /// A map for the next round, kept for its memory.
    spare: WorkspaceMap<Numbers>,
}

/// What the flusher is writing.
#[derive(Debug)]
pub(crate) struct Writing {
    pub(crate) values: WorkspaceMap<Numbers>,
    /// The checkpoint, once the values are durable.
    pub(crate) next: PartitionOffset,
    bytes: u64,
}

impl Unflushed {
    /// Nothing, until the first recovery begins.
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            keys_max: options.unflushed_max,
            flush_at: options.flush_at,
            events_max: options.uncheckpointed_events_max,
            bytes_max: options.uncheckpointed_bytes_max,
            generation: None,
            waiting: WorkspaceMap::default(),
            writing: None,
            keys: 0,
            next: PartitionOffset::FIRST,
            checkpoint: PartitionOffset::FIRST,
            bytes: 0,
            spare: WorkspaceMap::default(),
        }
    }

    /// Forgets what waits, because a recovery will find it in the log again. A write that is under way goes on, and must
    /// have returned before the recovery reads: otherwise an older value could be written over a newer one.
    pub(crate) fn suspend(&mut self) {
        self.generation = None;
        self.waiting.clear();
        self.keys = 0;
        self.bytes = 0;
    }

    /// Begins again at a checkpoint.
    pub(crate) fn restart(&mut self, generation: Generation, checkpoint: PartitionOffset) {
        debug_assert!(self.generation.is_none() && self.writing.is_none());
        self.generation = Some(generation);
        (self.next, self.checkpoint) = (checkpoint, checkpoint);
    }

    /// Whether these are the values of this recovery.
    pub(crate) fn belongs_to(&self, generation: Generation) -> bool {
        self.generation == Some(generation)
    }

    /// The numbers of a workspace, if they wait.
    pub(crate) fn get(&self, workspace: WorkspaceId) -> Option<&Numbers> {
        let writing = || self.writing.as_ref()?.values.get(&workspace);
        self.waiting.get(&workspace).or_else(writing)
    }

    /// Takes in one workspace's numbers. Part of [`Unflushed::advance`]: both under the same lock.
    #[inline]
    pub(crate) fn put(&mut self, workspace: WorkspaceId, numbers: &Numbers) {
        match self.waiting.entry(workspace) {
            Entry::Occupied(mut waiting) => waiting.get_mut().clone_from(numbers),
            Entry::Vacant(place) => {
                place.insert(numbers.clone());
                let writing = self.writing.as_ref();
                let written = writing.is_some_and(|writing| writing.values.contains_key(&workspace));
                self.keys += usize::from(!written);
            }
        }
    }

    /// Moves the end of what is applied.
    pub(crate) fn advance(&mut self, next: PartitionOffset, bytes: usize) {
        debug_assert!(next >= self.next);
        self.next = next;
        self.bytes += bytes as u64;
    }

    pub(crate) fn keys(&self) -> usize {
        self.keys
    }

    pub(crate) fn events(&self) -> u64 {
        self.next.since(self.checkpoint).unwrap_or(0)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    /// Whether so much waits that a flush should not wait for the timer. Half of the way to the distance at which
    /// groups are refused counts too, or one busy workspace would be refused between two timers.
    pub(crate) fn wants_flush(&self) -> bool {
        self.has_work()
            && (self.waiting.len() >= self.flush_at
                || self.keys > self.keys_max
                || self.events() > self.events_max / 2
                || self.bytes > self.bytes_max / 2)
    }

    /// Whether anything waits at all.
    pub(crate) fn has_work(&self) -> bool {
        self.generation.is_some() && self.writing.is_none() && self.next > self.checkpoint
    }

    /// Why no group may be opened.
    pub(crate) fn backlog(&self) -> Option<Busy> {
        let (unflushed, events, bytes) = (self.keys, self.events(), self.bytes);
        (unflushed > self.keys_max || events > self.events_max || bytes > self.bytes_max)
            .then_some(Busy::Backlogged { unflushed, events, bytes })
    }

    /// Hands out everything that waits, to be written. `None` if there is nothing, or a write is under way.
    pub(crate) fn start_flush(&mut self) -> Option<Arc<Writing>> {
        if !self.has_work() {
            return None;
        }
        let spare = std::mem::take(&mut self.spare);
        let writing = Arc::new(Writing {
            values: std::mem::replace(&mut self.waiting, spare),
            next: self.next,
            bytes: self.bytes,
        });
        self.writing = Some(writing.clone());
        Some(writing)
    }

    /// The write has returned: what it held leaves, unless it has changed since.
    pub(crate) fn flushed(&mut self, writing: Arc<Writing>) {
        self.writing = None;
        self.keys = self.waiting.len();
        if self.generation.is_some() {
            self.checkpoint = writing.next;
            self.bytes -= writing.bytes;
        }
        // The flusher brings the last handle, so that the map's memory comes back.
        if let Ok(mut writing) = Arc::try_unwrap(writing) {
            writing.values.clear();
            self.spare = writing.values;
        }
    }

    /// The write has failed, or nobody knows: what it held waits again, unless it has changed since.
    pub(crate) fn failed(&mut self, writing: &Writing) {
        self.writing = None;
        if self.generation.is_none() {
            return;
        }
        for (workspace, numbers) in &writing.values {
            self.waiting.entry(*workspace).or_insert_with(|| numbers.clone());
        }
        self.keys = self.waiting.len();
    }
}

#[cfg(test)]
#[path = "unflushed_tests.rs"]
mod tests;
