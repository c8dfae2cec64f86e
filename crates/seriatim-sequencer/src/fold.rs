//! Folding an event into the numbers of its workspace: how numbers are derived from the log.

use seriatim_storage::Entry;
use seriatim_types::{Number, PartitionOffset, SequenceId, WorkspaceId, WorkspaceKind, WorkspaceOffset};

use crate::Numbers;
use crate::definition::Kind;

/// Numbers in the log that move no sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ignored {
    /// The event.
    pub offset: PartitionOffset,
    /// Its workspace.
    pub workspace: WorkspaceId,
    /// The sequence that the event names.
    pub sequence: SequenceId,
    /// The first number of the run, or where the sequence was to be raised to.
    pub number: Number,
    /// Why it was ignored.
    pub reason: IgnoredReason,
}

/// Why numbers in the log move no sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IgnoredReason {
    /// All or some of them are outside the sequence's ranges.
    OutOfRange,
    /// The workspace's kind does not have the sequence. Its place is kept all the same.
    UnknownSequence,
}

/// What was ignored: how often, and the first few in full.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IgnoredNumbers {
    /// How many draws and raises.
    pub count: u64,
    /// The first of them, at most [`IgnoredNumbers::KEPT`].
    pub examples: Vec<Ignored>,
}

impl IgnoredNumbers {
    /// How many examples are kept: enough to see a pattern.
    pub const KEPT: usize = 16;

    pub(crate) fn note(&mut self, ignored: Ignored) {
        self.count += 1;
        if self.examples.len() < Self::KEPT {
            self.examples.push(ignored);
        }
    }
}

/// An event that cannot follow what is known of its workspace: the log or the stored numbers are damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FoldError {
    /// A workspace offset is missing or comes twice.
    #[error("event {offset} is number {found} of workspace {workspace}, and number {expected} was to follow")]
    WorkspaceOffset {
        /// The event.
        offset: PartitionOffset,
        /// Its workspace.
        workspace: WorkspaceId,
        /// What the event says.
        found: WorkspaceOffset,
        /// What had to come.
        expected: WorkspaceOffset,
    },
    /// The event is of another kind than those before it.
    #[error(
        "event {offset} says that workspace {workspace} has kind {found}, and those before it say {expected}"
    )]
    Kind {
        /// The event.
        offset: PartitionOffset,
        /// Its workspace.
        workspace: WorkspaceId,
        /// What the event says.
        found: WorkspaceKind,
        /// What those before it say.
        expected: WorkspaceKind,
    },
    /// The event does not continue the workspace's chain.
    #[error("event {offset} does not continue the chain of workspace {workspace}")]
    Chain {
        /// The event.
        offset: PartitionOffset,
        /// Its workspace.
        workspace: WorkspaceId,
    },
}

impl Numbers {
    /// Takes an event in: each sequence goes on behind the *highest* number seen, so order within an event does not
    /// matter and a smaller number never moves one back. An event that is in already changes nothing.
    ///
    /// # Errors
    ///
    /// [`FoldError`] if the event cannot follow; nothing is changed then.
    pub fn fold(
        &mut self,
        sequences: Option<&Kind>,
        offset: PartitionOffset,
        entry: &Entry<'_>,
        ignored: &mut IgnoredNumbers,
    ) -> Result<(), FoldError> {
        if self.folded.is_some_and(|folded| offset <= folded) {
            return Ok(());
        }
        self.check(offset, entry)?;
        let workspace = entry.workspace();
        let mut note = |sequence, number, reason| {
            ignored.note(Ignored { offset, workspace, sequence, number, reason });
        };
        for draw in entry.draws() {
            let (sequence, first) = (draw.sequence, draw.first);
            let Some((slot, kind)) = sequences.and_then(|kind| Some((kind.slot(sequence)?, kind))) else {
                self.keep_other(sequence, first.advance(draw.count).unwrap_or(Number::LAST));
                note(sequence, first, IgnoredReason::UnknownSequence);
                continue;
            };
            let (behind, whole) = kind.sequences()[slot].behind(first, draw.count);
            self.raise_slot(slot, behind);
            if !whole {
                note(sequence, first, IgnoredReason::OutOfRange);
            }
        }
        for raise in entry.raises() {
            let (sequence, next) = (raise.sequence, raise.next);
            match sequences.and_then(|kind| Some((kind.slot(sequence)?, kind))) {
                Some((slot, kind)) if kind.sequences()[slot].can_stand_at(next) => {
                    self.raise_slot(slot, Some(next));
                }
                Some(_) => note(sequence, next, IgnoredReason::OutOfRange),
                None => {
                    self.keep_other(sequence, next);
                    note(sequence, next, IgnoredReason::UnknownSequence);
                }
            }
        }
        self.chain = entry.chain();
        self.folded = Some(offset);
        // The last workspace offset there is cannot be reached by counting from 1.
        self.next_offset = self.next_offset.next().unwrap_or(self.next_offset);
        Ok(())
    }

    fn check(&self, offset: PartitionOffset, entry: &Entry<'_>) -> Result<(), FoldError> {
        let workspace = entry.workspace();
        if entry.kind() != self.kind {
            return Err(FoldError::Kind { offset, workspace, found: entry.kind(), expected: self.kind });
        }
        if entry.workspace_offset() != self.next_offset {
            return Err(FoldError::WorkspaceOffset {
                offset,
                workspace,
                found: entry.workspace_offset(),
                expected: self.next_offset,
            });
        }
        if !entry.continues(self.chain) {
            return Err(FoldError::Chain { offset, workspace });
        }
        Ok(())
    }

    fn raise_slot(&mut self, slot: usize, next: Option<Number>) {
        if let Some(next) = next {
            self.nexts[slot] = self.nexts[slot].max(next);
        }
    }

    fn keep_other(&mut self, sequence: SequenceId, next: Number) {
        match self.other(sequence) {
            Ok(place) => self.others[place].1 = self.others[place].1.max(next),
            Err(place) => self.others.insert(place, (sequence, next)),
        }
    }
}
