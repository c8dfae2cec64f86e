//! A group in progress: its entries and what they change. The memory is reused by the next group, so nothing is allocated.

use std::sync::Arc;

use seriatim_storage::{Draw, Entries, Owner, Raise};
use seriatim_types::{PartitionOffset, SequenceId, WorkspaceId, WorkspaceKind};

use crate::Numbers;
use crate::cache::SlotIndex;
use crate::nexts::Nexts;

/// What a group changes in one workspace.
#[derive(Debug, Clone)]
pub(crate) struct ChangedWorkspace {
    pub(crate) slot: SlotIndex,
    pub(crate) workspace: WorkspaceId,
    pub(crate) numbers: Box<Numbers>,
}

/// Everything that belongs to one group.
#[derive(Debug)]
pub(crate) struct Buffers {
    /// The owner that appends the entries. It moves with the group, so that no reference has to be counted per group.
    pub(crate) owner: Arc<Owner>,
    pub(crate) entries: Entries,
    /// The offset of the first entry.
    pub(crate) at: PartitionOffset,
    /// The offset of the next entry to be staged.
    pub(crate) next: PartitionOffset,
    /// Only the first `live` are used. The others are kept for their memory.
    changed: Vec<ChangedWorkspace>,
    live: usize,
    /// The numbers of the transaction in progress. Boxed, so that staging and committing only swap pointers.
    pub(crate) working: Box<Numbers>,
    /// Per slot: the first number of the current run of draws in the transaction.
    pub(crate) starts: Nexts,
    pub(crate) draws: Vec<Draw>,
    pub(crate) raises: Vec<Raise>,
    /// How many numbers the transaction in progress has drawn.
    pub(crate) drawn: u64,
    /// How many numbers the staged transactions have drawn.
    pub(crate) staged_draws: u64,
}

impl Buffers {
    pub(crate) fn new(owner: Arc<Owner>, at: PartitionOffset) -> Self {
        Self {
            entries: Entries::new(owner.next_append_id()),
            owner,
            at,
            next: at,
            changed: Vec::new(),
            live: 0,
            working: Box::new(Numbers::fresh(WorkspaceKind::new(0), None)),
            starts: std::iter::empty().collect(),
            draws: Vec::new(),
            raises: Vec::new(),
            drawn: 0,
            staged_draws: 0,
        }
    }

    /// Removes everything and keeps the memory.
    #[inline]
    pub(crate) fn reset(&mut self, owner: &Arc<Owner>, at: PartitionOffset) {
        if !Arc::ptr_eq(&self.owner, owner) {
            self.owner = owner.clone();
        }
        self.entries.reset(owner.next_append_id());
        (self.at, self.next) = (at, at);
        self.live = 0;
        self.staged_draws = 0;
    }

    /// Clears draws and raises. New runs begin at the working numbers.
    #[inline]
    pub(crate) fn begin_runs(&mut self) {
        self.starts.clone_from(&self.working.nexts);
        self.draws.clear();
        self.raises.clear();
        self.drawn = 0;
    }

    /// What the staged transactions change, one item per workspace.
    #[inline]
    pub(crate) fn changed(&self) -> &[ChangedWorkspace] {
        &self.changed[..self.live]
    }

    #[inline]
    pub(crate) fn changed_mut(&mut self) -> &mut [ChangedWorkspace] {
        &mut self.changed[..self.live]
    }

    /// The numbers of a workspace that is already staged, and the working ones.
    pub(crate) fn staged_and_working(&mut self, place: u32) -> (&Numbers, &mut Numbers) {
        (&self.changed[place as usize].numbers, &mut self.working)
    }

    /// Makes the working numbers those of the staged workspace. Returns their index among the changes.
    #[inline]
    pub(crate) fn stage_working(
        &mut self,
        slot: SlotIndex,
        workspace: WorkspaceId,
        staged: Option<u32>,
    ) -> u32 {
        let place = staged.map_or(self.live, |place| place as usize);
        if let Some(changed) = self.changed.get_mut(place) {
            (changed.slot, changed.workspace) = (slot, workspace);
            std::mem::swap(&mut changed.numbers, &mut self.working);
        } else {
            let numbers = self.working.clone();
            self.changed.push(ChangedWorkspace { slot, workspace, numbers });
        }
        self.live = self.live.max(place + 1);
        u32::try_from(place).expect("an append has fewer entries")
    }

    /// Whether the transaction in progress has drawn from a sequence.
    pub(crate) fn has_drawn(&self, slot: usize, sequence: SequenceId) -> bool {
        self.starts[slot] != self.working.nexts[slot]
            || self.draws.iter().any(|draw| draw.sequence == sequence)
    }

    /// Ends the current run of draws of a slot, so that its sequence can continue at another number.
    #[inline]
    pub(crate) fn end_run(&mut self, slot: usize, sequence: SequenceId) {
        let (first, next) = (self.starts[slot], self.working.nexts[slot]);
        if let Some(count) = next.get().checked_sub(first.get()).filter(|count| *count > 0) {
            self.drawn += count;
            self.draws.push(Draw { sequence, first, count });
        }
    }
}
