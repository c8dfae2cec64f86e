//! The numbers of the most recently used workspaces. The cache is bounded by how many numbers it has.

use std::sync::Arc;

use seriatim_types::{WorkspaceId, WorkspaceKind};

use crate::Numbers;
use crate::definition::{Definition, KindIndex};
use crate::workspace_map::WorkspaceMap;

/// The end of a list of slots.
const NONE: u32 = u32::MAX;

/// The place of a workspace in the cache. Valid while the slot is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlotIndex(u32);

/// Keeps a slot from being evicted.
#[derive(Debug, Clone)]
pub(crate) struct Hold {
    _held: Arc<()>,
}

#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) workspace: WorkspaceId,
    /// `None` if the definition does not have the workspace's kind.
    pub(crate) kind: Option<KindIndex>,
    /// The numbers by the log. Not valid before `loaded`.
    pub(crate) numbers: Box<Numbers>,
    /// Whether the numbers have been read. Before that the slot only reserves the place.
    pub(crate) loaded: bool,
    /// The index of this workspace in the group's changes. A staged slot is never evicted.
    pub(crate) staged: Option<u32>,
    /// How many numbers it counts for: added when the slot was filled, subtracted when it is evicted.
    weight: usize,
    held: Arc<()>,
    newer: u32,
    older: u32,
}

impl Slot {
    fn in_use(&self) -> bool {
        self.staged.is_some() || Arc::strong_count(&self.held) > 1
    }
}

/// Evicts the least recently used slots first. Held and staged slots are not evicted, so the bound may be exceeded.
#[derive(Debug)]
pub(crate) struct Cache {
    slots: Vec<Slot>,
    free: Vec<u32>,
    places: WorkspaceMap<u32>,
    newest: u32,
    oldest: u32,
    weight: usize,
    weight_max: usize,
    pub(crate) evictions: u64,
}

impl Cache {
    /// An empty cache for at most `weight_max` numbers.
    pub(crate) fn new(weight_max: usize) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            places: WorkspaceMap::default(),
            newest: NONE,
            oldest: NONE,
            weight: 0,
            weight_max,
            evictions: 0,
        }
    }

    /// Changes the bound. If the cache is larger, the next loads evict from it.
    pub(crate) fn set_bound(&mut self, weight_max: usize) {
        self.weight_max = weight_max;
    }

    /// An empty cache with the same bound.
    pub(crate) fn emptied(&self) -> Self {
        Self::new(self.weight_max)
    }

    /// How many numbers are in the cache.
    pub(crate) fn weight(&self) -> usize {
        self.weight
    }

    #[inline]
    pub(crate) fn slot(&self, index: SlotIndex) -> &Slot {
        &self.slots[index.0 as usize]
    }

    #[inline]
    pub(crate) fn slot_mut(&mut self, index: SlotIndex) -> &mut Slot {
        &mut self.slots[index.0 as usize]
    }

    pub(crate) fn hold(&self, index: SlotIndex) -> Hold {
        Hold { _held: self.slot(index).held.clone() }
    }

    /// The slot of a workspace, which becomes the most recently used.
    pub(crate) fn find(&mut self, workspace: WorkspaceId) -> Option<SlotIndex> {
        let index = *self.places.get(&workspace)?;
        if self.newest != index {
            self.unlink(index);
            self.link_newest(index);
        }
        Some(SlotIndex(index))
    }

    /// The slot of a workspace. A new slot is empty until [`Cache::fill`], and others are evicted for it.
    pub(crate) fn find_or_reserve(
        &mut self,
        definition: &Definition,
        kind: WorkspaceKind,
        workspace: WorkspaceId,
    ) -> SlotIndex {
        if let Some(index) = self.find(workspace) {
            return index;
        }
        let index = self.reserve(definition, kind, workspace);
        // Held while others are evicted. A cache without room would otherwise evict the new slot itself.
        let _hold = self.hold(index);
        self.shrink();
        index
    }

    /// An empty slot for a workspace that has no slot. Nothing is evicted before the next [`Cache::shrink`].
    pub(crate) fn reserve(
        &mut self,
        definition: &Definition,
        kind: WorkspaceKind,
        workspace: WorkspaceId,
    ) -> SlotIndex {
        let kind_index = definition.index_of(kind);
        let numbers = Numbers::fresh(kind, kind_index.map(|index| definition.at(index)));
        self.weight += numbers.weight();
        let index = self.place(workspace, kind_index, numbers);
        self.places.insert(workspace, index);
        self.link_newest(index);
        SlotIndex(index)
    }

    /// Gives a slot its numbers. Their kind is that of the log, whatever kind the slot was reserved with.
    pub(crate) fn fill(&mut self, definition: &Definition, index: SlotIndex, numbers: Numbers) {
        let slot = self.slot_mut(index);
        let (before, after) = (slot.weight, numbers.weight());
        slot.kind = definition.index_of(numbers.kind());
        slot.weight = after;
        *slot.numbers = numbers;
        slot.loaded = true;
        self.weight = self.weight - before + after;
    }

    /// Puts a workspace into a slot. The slot is not linked yet.
    fn place(&mut self, workspace: WorkspaceId, kind: Option<KindIndex>, numbers: Numbers) -> u32 {
        let weight = numbers.weight();
        if let Some(index) = self.free.pop() {
            // An evicted slot is not held, so its memory can be used again.
            let slot = &mut self.slots[index as usize];
            *slot.numbers = numbers;
            (slot.workspace, slot.kind, slot.weight, slot.loaded) = (workspace, kind, weight, false);
            return index;
        }
        let index = u32::try_from(self.slots.len()).expect("memory is full before 2^32 workspaces");
        self.slots.push(Slot {
            workspace,
            kind,
            numbers: Box::new(numbers),
            loaded: false,
            staged: None,
            weight,
            held: Arc::new(()),
            newer: NONE,
            older: NONE,
        });
        index
    }

    /// Evicts slots until the bound is kept or all remaining slots are in use.
    #[inline]
    pub(crate) fn shrink(&mut self) {
        let mut checked = 0;
        while self.weight > self.weight_max && checked < self.places.len() {
            let index = self.oldest;
            if self.slots[index as usize].in_use() {
                // A slot in use counts as just used, so that the next eviction does not check it first.
                self.unlink(index);
                self.link_newest(index);
                checked += 1;
            } else {
                self.evict(index);
            }
        }
    }

    fn evict(&mut self, index: u32) {
        self.unlink(index);
        let slot = &self.slots[index as usize];
        self.weight -= slot.weight;
        self.places.remove(&slot.workspace);
        self.free.push(index);
        self.evictions += 1;
    }

    fn unlink(&mut self, index: u32) {
        let Slot { newer, older, .. } = self.slots[index as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.slots[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.slots[older as usize].newer = newer,
        }
    }

    fn link_newest(&mut self, index: u32) {
        let before = self.newest;
        let slot = &mut self.slots[index as usize];
        (slot.newer, slot.older) = (NONE, before);
        match before {
            NONE => self.oldest = index,
            before => self.slots[before as usize].newer = index,
        }
        self.newest = index;
    }
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
