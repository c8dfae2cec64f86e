//! The numbers of one workspace.

use seriatim_storage::Digest;
use seriatim_types::{Number, PartitionOffset, SequenceId, WorkspaceKind, WorkspaceOffset};

use crate::definition::Kind;
use crate::nexts::Nexts;

/// Everything that is derived from a workspace's events and is needed to number the next one: the next number of each
/// sequence, the next workspace offset, the head of the workspace's chain, and the last event that was applied.
#[derive(Debug, PartialEq, Eq)]
pub struct Numbers {
    pub(crate) kind: WorkspaceKind,
    /// The offset of the workspace's next event in the workspace log.
    pub(crate) next_offset: WorkspaceOffset,
    /// The last event that was applied; applying it again changes nothing. `None` before the first.
    pub(crate) folded: Option<PartitionOffset>,
    pub(crate) chain: Digest,
    /// Per slot of the kind.
    pub(crate) nexts: Nexts,
    /// Sequences that the definition does not have, or no longer has. Their numbers are kept, so that a sequence that is
    /// added again does not start again. Ascending.
    pub(crate) others: Vec<(SequenceId, Number)>,
}

impl Clone for Numbers {
    fn clone(&self) -> Self {
        Self {
            kind: self.kind,
            next_offset: self.next_offset,
            folded: self.folded,
            chain: self.chain,
            nexts: self.nexts.clone(),
            others: self.others.clone(),
        }
    }

    // Written by hand, because the derived form would allocate for kinds with many sequences.
    #[inline]
    fn clone_from(&mut self, source: &Self) {
        self.kind = source.kind;
        self.next_offset = source.next_offset;
        self.folded = source.folded;
        self.chain = source.chain;
        self.nexts.clone_from(&source.nexts);
        if !(self.others.is_empty() && source.others.is_empty()) {
            self.others.clone_from(&source.others);
        }
    }
}

impl Numbers {
    /// The numbers of a workspace that has no event yet. A kind that the definition does not have has no slots.
    #[must_use]
    pub fn fresh(kind: WorkspaceKind, sequences: Option<&Kind>) -> Self {
        let first = |kind: &Kind| kind.sequences().iter().map(crate::Sequence::first).collect();
        Self {
            kind,
            next_offset: WorkspaceOffset::FIRST,
            folded: None,
            chain: Digest::ZERO,
            nexts: sequences.map_or_else(|| std::iter::empty().collect(), first),
            others: Vec::new(),
        }
    }

    /// The kind of the workspace.
    #[must_use]
    pub fn kind(&self) -> WorkspaceKind {
        self.kind
    }

    /// The offset of the workspace's next event in the workspace log.
    #[must_use]
    pub fn next_offset(&self) -> WorkspaceOffset {
        self.next_offset
    }

    /// The last event that was applied; `None` if there was none.
    #[must_use]
    pub fn folded(&self) -> Option<PartitionOffset> {
        self.folded
    }

    /// The head of the workspace's chain.
    #[must_use]
    pub fn chain(&self) -> Digest {
        self.chain
    }

    /// The next number of a sequence, before its ranges are applied.
    #[must_use]
    pub fn next(&self, sequences: Option<&Kind>, sequence: SequenceId) -> Option<Number> {
        match sequences.and_then(|kind| kind.slot(sequence)) {
            Some(slot) => self.nexts.get(slot).copied(),
            None => self.other(sequence).ok().map(|place| self.others[place].1),
        }
    }

    pub(crate) fn other(&self, sequence: SequenceId) -> Result<usize, usize> {
        self.others.binary_search_by_key(&sequence, |(id, _)| *id)
    }

    /// How much of the cache it uses: one per number.
    pub(crate) fn weight(&self) -> usize {
        1 + self.nexts.len() + self.others.len()
    }
}
