//! Numbering one event.

use seriatim_storage::Digest;
use seriatim_types::{Number, PartitionOffset, SequenceId, WorkspaceId, WorkspaceOffset};

use crate::cache::{Cache, SlotIndex};
use crate::core::{self, Buffers, Core};
use crate::definition::Kind;
use crate::{DrawError, Event, StageError, Staged};

/// The numbers of one event, until it is staged. If it is dropped, no number was used.
#[derive(Debug)]
#[must_use = "a transaction that is dropped uses no number: stage it"]
pub struct Transaction<'g> {
    kind: &'g Kind,
    cache: &'g mut Cache,
    buffers: &'g mut Buffers,
    slot: SlotIndex,
}

impl<'g> Transaction<'g> {
    #[inline]
    pub(crate) fn new(core: &'g mut Core, buffers: &'g mut Buffers, slot: SlotIndex) -> Self {
        let index = core.cache.slot(slot).kind;
        let index = index.expect("a workspace of an unknown kind is never pinned");
        Self { kind: core.definition.at(index), cache: &mut core.cache, buffers, slot }
    }

    /// The workspace.
    #[must_use]
    pub fn workspace(&self) -> WorkspaceId {
        self.cache.slot(self.slot).workspace
    }

    /// The offset that the event will have in the partition log: `sys.PartitionOffset`.
    #[must_use]
    pub fn partition_offset(&self) -> PartitionOffset {
        self.buffers.next
    }

    /// The offset that the event will have in the workspace log: `sys.WorkspaceOffset`.
    #[must_use]
    pub fn workspace_offset(&self) -> WorkspaceOffset {
        self.buffers.working.next_offset
    }

    /// The head of the workspace's chain that the event will follow.
    #[must_use]
    pub fn chain(&self) -> Digest {
        self.buffers.working.chain
    }

    /// The workspace's last event, including staged ones; `None` if this will be its first.
    #[must_use]
    pub fn folded(&self) -> Option<PartitionOffset> {
        self.buffers.working.folded
    }

    /// The next number of a sequence, before its ranges are applied.
    ///
    /// # Errors
    ///
    /// [`DrawError::UnknownSequence`].
    pub fn next(&self, sequence: SequenceId) -> Result<Number, DrawError> {
        core::next(self.kind, self.buffers, sequence)
    }

    /// The sequences that this transaction has drawn from so far.
    pub fn drawn(&self) -> impl Iterator<Item = SequenceId> + '_ {
        let slots = self.kind.sequences().iter().enumerate();
        slots
            .filter(|(slot, sequence)| self.buffers.has_drawn(*slot, sequence.id()))
            .map(|(_, sequence)| sequence.id())
    }

    /// Draws the next number of a sequence. No I/O.
    ///
    /// # Errors
    ///
    /// [`DrawError`]: the workspace's kind does not have the sequence, or it has no more numbers.
    #[inline]
    pub fn draw(&mut self, sequence: SequenceId) -> Result<Number, DrawError> {
        core::draw(self.kind, self.buffers, sequence)
    }

    /// Makes a sequence continue from `next`: an import, or an explained gap. The event's header has the raise.
    ///
    /// # Errors
    ///
    /// [`DrawError`]: an unknown sequence, a smaller number than its next one, or a number outside its ranges.
    pub fn raise(&mut self, sequence: SequenceId, next: Number) -> Result<(), DrawError> {
        core::raise(self.kind, self.buffers, sequence, next)
    }

    /// Raises every sequence, except those in `except`, by `count` numbers, or to the number after its last one if it has
    /// fewer. This explains a gap when it is not known how many numbers were given out elsewhere. The event's header has
    /// the raises.
    ///
    /// # Errors
    ///
    /// None is expected: each sequence can continue at the number that this computes.
    pub fn skip(&mut self, count: u64, except: &[SequenceId]) -> Result<(), DrawError> {
        for sequence in self.kind.sequences().iter().filter(|sequence| !except.contains(&sequence.id())) {
            let next = core::next(self.kind, self.buffers, sequence.id())?;
            core::raise(self.kind, self.buffers, sequence.id(), sequence.skip(next, count))?;
        }
        Ok(())
    }

    /// Adds the event to the group, with the numbers that were drawn for it.
    ///
    /// # Errors
    ///
    /// [`StageError`] if the event, or the group with it, would exceed a limit. Then the transaction is dropped and none of
    /// its numbers was used.
    #[inline]
    pub fn stage(self, event: &Event<'_>) -> Result<Staged, StageError> {
        Core::stage(self.cache, self.buffers, self.kind, self.slot, event)
    }
}
