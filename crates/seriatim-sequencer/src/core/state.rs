//! The numbers of a partition, and every step that changes them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use seriatim_storage::{Header, Owner, Raise};
use seriatim_types::{Number, PartitionOffset, SequenceId, WorkspaceId, WorkspaceKind};

use super::{Buffers, Phase};
use crate::cache::{Cache, SlotIndex};
use crate::definition::{Definition, Kind};
use crate::{DrawError, Event, LoadError, Numbers, Pin, StageError, Staged, Stale, StopReason};

static GENERATIONS: AtomicU64 = AtomicU64::new(0);

/// Identifies one recovery of one sequencer. All are different within a process, so pins and groups of another sequencer or
/// of an earlier recovery can be recognized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Generation(u64);

impl Generation {
    pub(crate) fn unique() -> Self {
        Self(GENERATIONS.fetch_add(1, Ordering::Relaxed))
    }
}

#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) definition: Arc<Definition>,
    pub(crate) cache: Cache,
    pub(crate) phase: Phase,
    pub(crate) generation: Generation,
    /// The offset of the next group: the end of the log.
    pub(crate) next: PartitionOffset,
}

impl Core {
    pub(crate) fn new(definition: Arc<Definition>, cache_numbers: usize, generation: Generation) -> Self {
        Self {
            definition,
            cache: Cache::new(cache_numbers),
            phase: Phase::Recovering,
            generation,
            next: PartitionOffset::FIRST,
        }
    }

    /// Removes everything, so that all numbers are derived from the log again. Pins become stale.
    pub(crate) fn recover(&mut self, generation: Generation) {
        self.cache = self.cache.emptied();
        self.phase = Phase::Recovering;
        self.generation = generation;
    }

    /// Continues after the events that recovery has applied.
    pub(crate) fn recovered(&mut self, next: PartitionOffset) {
        self.next = next;
        self.phase = Phase::Ready;
    }

    /// A pin on a workspace whose numbers are in the cache.
    pub(crate) fn pin_cached(
        &mut self,
        kind: WorkspaceKind,
        workspace: WorkspaceId,
    ) -> Option<Result<Pin, LoadError>> {
        let slot = self.cache.find(workspace)?;
        self.cache.slot(slot).loaded.then(|| self.pin(kind, workspace, slot))
    }

    fn pin(&self, asked: WorkspaceKind, workspace: WorkspaceId, slot: SlotIndex) -> Result<Pin, LoadError> {
        let found = self.cache.slot(slot).numbers.kind();
        if found != asked {
            return Err(LoadError::KindMismatch { workspace, found, asked });
        }
        Ok(Pin { workspace, slot, generation: self.generation, _hold: self.cache.hold(slot) })
    }

    /// Adds the numbers that were read for a workspace (`None`: it has no event yet) and pins it. Numbers that are already
    /// in the cache stay, because they may be newer.
    pub(crate) fn admit(
        &mut self,
        kind: WorkspaceKind,
        workspace: WorkspaceId,
        read: Option<Numbers>,
    ) -> Result<Pin, LoadError> {
        let Some(sequences) = self.definition.kind(kind) else {
            return Err(LoadError::UnknownKind { workspace, kind });
        };
        let slot = self.cache.find_or_reserve(&self.definition, kind, workspace);
        if !self.cache.slot(slot).loaded {
            let numbers = read.unwrap_or_else(|| Numbers::fresh(kind, Some(sequences)));
            if let Some(folded) = numbers.folded.filter(|folded| *folded >= self.next) {
                let tail = self.next;
                return Err(LoadError::Corrupt(StopReason::FoldedBeyondTail { workspace, folded, tail }));
            }
            if numbers.kind != kind {
                let (found, asked) = (numbers.kind, kind);
                return Err(LoadError::KindMismatch { workspace, found, asked });
            }
            self.cache.fill(&self.definition, slot, numbers);
        }
        self.pin(kind, workspace, slot)
    }

    /// Resets the buffers and opens a group in them.
    #[inline]
    pub(crate) fn open(&mut self, buffers: &mut Buffers, owner: &Arc<Owner>) {
        debug_assert_eq!(self.phase, Phase::Ready);
        buffers.reset(owner, self.next);
        self.phase = Phase::Open;
    }

    /// Starts a transaction. Its working numbers are the staged ones of the workspace, or else the committed ones.
    #[inline]
    pub(crate) fn begin(&self, buffers: &mut Buffers, pin: &Pin) -> Result<(), Stale> {
        if pin.generation != self.generation {
            return Err(Stale { workspace: pin.workspace });
        }
        let slot = self.cache.slot(pin.slot);
        match slot.staged {
            None => buffers.working.clone_from(&slot.numbers),
            Some(place) => {
                let (changed, working) = buffers.staged_and_working(place);
                working.clone_from(changed);
            }
        }
        buffers.begin_runs();
        Ok(())
    }

    /// Adds the transaction to the group, which ends it.
    ///
    /// Nothing is changed before the entry has been added, so an error leaves the group as it was: first the runs of draws
    /// are closed, then the entry is written with the next offsets, and only then the working numbers become the staged
    /// numbers of the workspace.
    pub(crate) fn stage(
        cache: &mut Cache,
        buffers: &mut Buffers,
        kind: &Kind,
        slot: SlotIndex,
        event: &Event<'_>,
    ) -> Result<Staged, StageError> {
        for (slot, sequence) in kind.sequences().iter().enumerate() {
            buffers.end_run(slot, sequence.id());
        }
        let offset = buffers.next;
        let next = offset.next().ok_or(StageError::Exhausted)?;
        let working = &mut buffers.working;
        let workspace_offset = working.next_offset;
        let next_offset = workspace_offset.next().ok_or(StageError::Exhausted)?;
        let slot_state = cache.slot_mut(slot);
        let workspace = slot_state.workspace;
        let header = Header {
            workspace,
            kind: working.kind,
            workspace_offset,
            time: event.time,
            body_digest: event.body_digest,
            draws: &buffers.draws,
            raises: &buffers.raises,
        };
        let chain = buffers.entries.push(&header, working.chain, event.body)?;
        working.chain = chain;
        working.next_offset = next_offset;
        working.folded = Some(offset);
        slot_state.staged = Some(buffers.stage_working(slot, workspace, slot_state.staged));
        buffers.next = next;
        buffers.staged_draws += buffers.drawn;
        Ok(Staged { partition_offset: offset, workspace_offset, chain })
    }

    /// Drops the staged transactions: none of their numbers was used.
    pub(crate) fn discard(&mut self, buffers: &Buffers) {
        for changed in buffers.changed() {
            self.cache.slot_mut(changed.slot).staged = None;
        }
        self.phase = Phase::Ready;
        self.cache.shrink();
    }

    #[inline]
    pub(crate) fn seal(&mut self) {
        debug_assert_eq!(self.phase, Phase::Open);
        self.phase = Phase::Sealed;
    }

    /// Makes the staged numbers the committed ones: their entries are in the log.
    #[inline]
    pub(crate) fn commit(&mut self, buffers: &mut Buffers) {
        self.next = buffers.next;
        for changed in buffers.changed_mut() {
            let slot = self.cache.slot_mut(changed.slot);
            slot.staged = None;
            std::mem::swap(&mut slot.numbers, &mut changed.numbers);
        }
        self.phase = Phase::Ready;
        self.cache.shrink();
    }
}

/// Draws the next number of a sequence.
#[inline]
pub(crate) fn draw(kind: &Kind, buffers: &mut Buffers, sequence: SequenceId) -> Result<Number, DrawError> {
    let slot = slot_of(kind, sequence)?;
    let next = &buffers.working.nexts[slot];
    let Some(number) = kind.sequences()[slot].number_at(*next) else {
        return Err(DrawError::Exhausted { sequence });
    };
    if number != *next {
        buffers.end_run(slot, sequence);
        buffers.starts[slot] = number;
    }
    // A range ends before the largest integer, so there is always a next number.
    buffers.working.nexts[slot] = number.next().unwrap_or(Number::LAST);
    Ok(number)
}

/// The next number of a sequence.
pub(crate) fn next(kind: &Kind, buffers: &Buffers, sequence: SequenceId) -> Result<Number, DrawError> {
    Ok(buffers.working.nexts[slot_of(kind, sequence)?])
}

/// Makes a sequence continue from a later number.
pub(crate) fn raise(
    kind: &Kind,
    buffers: &mut Buffers,
    sequence: SequenceId,
    asked: Number,
) -> Result<(), DrawError> {
    let slot = slot_of(kind, sequence)?;
    let next = buffers.working.nexts[slot];
    if asked < next {
        return Err(DrawError::Backwards { sequence, next, asked });
    }
    if !kind.sequences()[slot].can_continue_at(asked) {
        return Err(DrawError::OutOfRange { sequence, asked });
    }
    let has_drawn = next != buffers.starts[slot];
    buffers.end_run(slot, sequence);
    buffers.working.nexts[slot] = asked;
    buffers.starts[slot] = asked;
    let raise = Raise { sequence, next: asked };
    // A raise from which numbers were drawn explains a gap of its own, so it is kept. An auditor searches the raise that
    // ends a gap.
    match buffers.raises.iter_mut().rev().find(|raise| raise.sequence == sequence) {
        Some(earlier) if !has_drawn => *earlier = raise,
        _ => buffers.raises.push(raise),
    }
    Ok(())
}

#[inline]
fn slot_of(kind: &Kind, sequence: SequenceId) -> Result<usize, DrawError> {
    kind.slot(sequence).ok_or_else(|| DrawError::UnknownSequence { kind: kind.id(), sequence })
}
