//! Folding an event into the numbers of its workspace: how numbers are derived from the log.

use seriatim_storage::Entry;
use seriatim_types::{Number, PartitionOffset, SequenceId, WorkspaceId, WorkspaceKind, WorkspaceOffset};

use crate::Numbers;
use crate::definition::Kind;

/// Numbers in the log that change no sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ignored {
    /// The event.
    pub offset: PartitionOffset,
    /// Its workspace.
    pub workspace: WorkspaceId,
    /// The sequence that the event names.
    pub sequence: SequenceId,
    /// The first number of the run, or the number that the sequence was to be raised to.
    pub number: Number,
    /// Why it was ignored.
    pub reason: IgnoredReason,
}

/// Why numbers in the log change no sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IgnoredReason {
    /// All or some of them are outside the sequence's ranges.
    OutOfRange,
    /// The workspace's kind does not have the sequence. Its next number is kept nevertheless.
    UnknownSequence,
}

/// What was ignored: a count, and the first few as examples.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IgnoredNumbers {
    /// How many draws and raises were ignored.
    pub count: u64,
    /// The first of them, at most [`IgnoredNumbers::KEPT`].
    pub examples: Vec<Ignored>,
}

impl IgnoredNumbers {
    /// How many examples are kept: enough to recognize a pattern.
    pub const KEPT: usize = 16;

    pub(crate) fn add(&mut self, ignored: Ignored) {
        self.count += 1;
        if self.examples.len() < Self::KEPT {
            self.examples.push(ignored);
        }
    }
}

/// An event that does not follow the earlier ones of its workspace: the log or the stored numbers are damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FoldError {
    /// A workspace offset is missing or occurs twice.
    #[error(
        "event {offset} has workspace offset {found} in workspace {workspace}, and {expected} was expected: events are missing or damaged"
    )]
    WorkspaceOffset {
        /// The event.
        offset: PartitionOffset,
        /// Its workspace.
        workspace: WorkspaceId,
        /// The offset in the event.
        found: WorkspaceOffset,
        /// The offset that was expected.
        expected: WorkspaceOffset,
    },
    /// The event has another kind than the earlier ones.
    #[error(
        "event {offset} of workspace {workspace} has kind {found}, and the earlier ones have kind {expected}"
    )]
    Kind {
        /// The event.
        offset: PartitionOffset,
        /// Its workspace.
        workspace: WorkspaceId,
        /// The kind in the event.
        found: WorkspaceKind,
        /// The kind in the earlier events.
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
    /// Applies an event. Each sequence continues after the *highest* number so far, so the order within an event does not
    /// matter and a smaller number never moves a sequence back. An event that is already applied changes nothing.
    ///
    /// # Errors
    ///
    /// [`FoldError`] if the event does not follow the earlier ones. Then nothing is changed.
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
            ignored.add(Ignored { offset, workspace, sequence, number, reason });
        };
        for draw in entry.draws() {
            let (sequence, first) = (draw.sequence, draw.first);
            let Some((slot, kind)) = sequences.and_then(|kind| Some((kind.slot(sequence)?, kind))) else {
                self.keep_other(sequence, first.advance(draw.count).unwrap_or(Number::LAST));
                note(sequence, first, IgnoredReason::UnknownSequence);
                continue;
            };
            let (next, whole) = kind.sequences()[slot].next_after_run(first, draw.count);
            self.raise_slot(slot, next);
            if !whole {
                note(sequence, first, IgnoredReason::OutOfRange);
            }
        }
        for raise in entry.raises() {
            let (sequence, next) = (raise.sequence, raise.next);
            match sequences.and_then(|kind| Some((kind.slot(sequence)?, kind))) {
                Some((slot, kind)) if kind.sequences()[slot].can_continue_at(next) => {
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
        // The largest workspace offset cannot be reached by counting from 1.
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
