//! The sequences of each kind of workspace.

use std::fmt;

use seriatim_types::{ErrorKind, Number, RecordId, SequenceId, WorkspaceKind};

use crate::builtin::{C_RECORD_ID, FIRST_CUSTOM, RECORD_ID};
use crate::{IdSpace, Sequence};

/// The sequences of every kind of workspace. They are checked once and do not change.
///
/// ```
/// use seriatim_sequencer::{Definition, Sequence, builtin};
/// use seriatim_types::{SequenceId, WorkspaceKind};
///
/// let shop = WorkspaceKind::new(1);
/// let mut sequences = builtin::record_sequences();
/// sequences.push(Sequence::new(SequenceId::new(20), 1));
/// let definition = Definition::new([(shop, sequences)])?;
/// assert_eq!(definition.kind(shop).unwrap().sequences().len(), 3);
/// # Ok::<(), seriatim_sequencer::DefinitionError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Definition {
    kinds: Vec<Kind>,
}

/// The sequences of one kind of workspace, ascending by id. The index of a sequence in this list is its slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    kind: WorkspaceKind,
    ids: Vec<SequenceId>,
    sequences: Vec<Sequence>,
}

/// The index of a kind in its definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KindIndex(usize);

/// Why a definition is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DefinitionError {
    /// One kind is defined twice.
    #[error("kind {kind} is defined twice")]
    DuplicateKind {
        /// The kind.
        kind: WorkspaceKind,
    },
    /// One kind has two sequences with one id.
    #[error("kind {kind} has sequence {sequence} twice")]
    DuplicateSequence {
        /// The kind.
        kind: WorkspaceKind,
        /// The sequence.
        sequence: SequenceId,
    },
    /// The id is reserved for built-in sequences.
    #[error("sequence {sequence} of kind {kind} has a built-in id: use ids from {FIRST_CUSTOM} on")]
    ReservedSequence {
        /// The kind.
        kind: WorkspaceKind,
        /// The sequence.
        sequence: SequenceId,
    },
    /// The ranges of a sequence are not valid.
    #[error("sequence {sequence} of kind {kind}: {problem}")]
    Ranges {
        /// The kind.
        kind: WorkspaceKind,
        /// The sequence.
        sequence: SequenceId,
        /// What is wrong with the ranges.
        problem: RangesProblem,
    },
    /// Two sequences of one id space could give the same number.
    #[error(
        "sequences {one} and {other} of kind {kind} share an id space and could both give {number}: separate their ranges"
    )]
    Overlap {
        /// The kind.
        kind: WorkspaceKind,
        /// One of them.
        one: SequenceId,
        /// The other.
        other: SequenceId,
        /// The smallest number that both have.
        number: Number,
    },
}

impl DefinitionError {
    /// What the caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::Invalid
    }
}

/// What is wrong with the ranges of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RangesProblem {
    /// There are no ranges.
    None,
    /// A range ends before it begins.
    Empty,
    /// A range includes the largest integer, after which there is no next number.
    Endless,
    /// A range begins before the previous one has ended.
    NotAscending,
    /// The first number is in none of them.
    FirstOutside,
    /// The ranges include raw or reserved record ids.
    Reserved,
}

impl fmt::Display for RangesProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("it needs at least one range"),
            Self::Empty => f.write_str("a range ends before it begins"),
            Self::Endless => write!(f, "a range must end at {} or before", Number::LAST.get() - 1),
            Self::NotAscending => f.write_str("its ranges must be ascending and must not overlap"),
            Self::FirstOutside => f.write_str("its first number must be in one of its ranges"),
            Self::Reserved => write!(f, "ids of records must be greater than {}", RecordId::RESERVED.end()),
        }
    }
}

impl Definition {
    /// Checks the sequences of each kind.
    ///
    /// # Errors
    ///
    /// [`DefinitionError`] with the first problem.
    pub fn new(
        kinds: impl IntoIterator<Item = (WorkspaceKind, Vec<Sequence>)>,
    ) -> Result<Self, DefinitionError> {
        let mut definition = Self::default();
        for (kind, sequences) in kinds {
            let kind = Kind::new(kind, sequences)?;
            match definition.kinds.binary_search_by_key(&kind.kind, |kind| kind.kind) {
                Ok(_) => return Err(DefinitionError::DuplicateKind { kind: kind.kind }),
                Err(place) => definition.kinds.insert(place, kind),
            }
        }
        Ok(definition)
    }

    /// The sequences of a kind.
    #[must_use]
    pub fn kind(&self, kind: WorkspaceKind) -> Option<&Kind> {
        self.index_of(kind).map(|index| self.at(index))
    }

    pub(crate) fn index_of(&self, kind: WorkspaceKind) -> Option<KindIndex> {
        let found = self.kinds.binary_search_by_key(&kind, |kind| kind.kind);
        found.ok().map(KindIndex)
    }

    #[inline]
    pub(crate) fn at(&self, index: KindIndex) -> &Kind {
        &self.kinds[index.0]
    }
}

impl Kind {
    fn new(kind: WorkspaceKind, mut sequences: Vec<Sequence>) -> Result<Self, DefinitionError> {
        sequences.sort_by_key(Sequence::id);
        for sequence in &sequences {
            check_sequence(kind, sequence)?;
        }
        if let Some(pair) = sequences.windows(2).find(|pair| pair[0].id() == pair[1].id()) {
            return Err(DefinitionError::DuplicateSequence { kind, sequence: pair[0].id() });
        }
        for (place, one) in sequences.iter().enumerate() {
            for other in &sequences[place + 1..] {
                check_overlap(kind, one, other)?;
            }
        }
        let ids = sequences.iter().map(Sequence::id).collect();
        Ok(Self { kind, ids, sequences })
    }

    /// Which kind it is.
    #[must_use]
    pub fn id(&self) -> WorkspaceKind {
        self.kind
    }

    /// Its sequences, ascending by id.
    #[must_use]
    #[inline]
    pub fn sequences(&self) -> &[Sequence] {
        &self.sequences
    }

    /// The slot of a sequence.
    #[inline]
    pub(crate) fn slot(&self, sequence: SequenceId) -> Option<usize> {
        // Most kinds have a few sequences, for which a linear search is faster than a binary one.
        if self.ids.len() <= 8 {
            self.ids.iter().position(|id| *id == sequence)
        } else {
            self.ids.binary_search(&sequence).ok()
        }
    }
}

fn check_sequence(kind: WorkspaceKind, sequence: &Sequence) -> Result<(), DefinitionError> {
    let id = sequence.id();
    if id < FIRST_CUSTOM && id != RECORD_ID && id != C_RECORD_ID {
        return Err(DefinitionError::ReservedSequence { kind, sequence: id });
    }
    let ranges = sequence.ranges();
    let problem = if ranges.is_empty() {
        RangesProblem::None
    } else if ranges.iter().any(|range| range.first > range.last) {
        RangesProblem::Empty
    } else if ranges.iter().any(|range| range.last == Number::LAST) {
        RangesProblem::Endless
    } else if ranges.windows(2).any(|pair| pair[0].last >= pair[1].first) {
        RangesProblem::NotAscending
    } else if !sequence.contains(sequence.first()) {
        RangesProblem::FirstOutside
    } else if sequence.space() == Some(IdSpace::RECORDS)
        && ranges.iter().any(|range| range.first.get() <= *RecordId::RESERVED.end())
    {
        RangesProblem::Reserved
    } else {
        return Ok(());
    };
    Err(DefinitionError::Ranges { kind, sequence: id, problem })
}

fn check_overlap(kind: WorkspaceKind, one: &Sequence, other: &Sequence) -> Result<(), DefinitionError> {
    if one.space().is_none() || one.space() != other.space() {
        return Ok(());
    }
    for a in one.ranges() {
        for b in other.ranges() {
            let number = a.first.max(b.first);
            if number <= a.last.min(b.last) {
                return Err(DefinitionError::Overlap { kind, one: one.id(), other: other.id(), number });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin;

    const KIND: WorkspaceKind = WorkspaceKind::new(1);

    fn refused(sequences: Vec<Sequence>) -> String {
        Definition::new([(KIND, sequences)]).unwrap_err().to_string()
    }

    fn custom(ranges: &[std::ops::RangeInclusive<u64>]) -> Sequence {
        Sequence::with_ranges(SequenceId::new(20), ranges)
    }

    #[test]
    fn the_built_in_schemes_are_accepted() {
        let kinds = [
            (KIND, builtin::record_sequences()),
            (WorkspaceKind::new(2), builtin::single_record_sequence()),
            (WorkspaceKind::new(3), vec![]),
        ];
        assert!(Definition::new(kinds).is_ok());
    }

    #[test]
    #[expect(clippy::reversed_empty_ranges, reason = "that is the mistake under test")]
    fn each_mistake_is_refused_with_its_own_error() {
        let table = [
            (vec![custom(&[])], "sequence 20 of kind 1: it needs at least one range"),
            (vec![custom(&[5..=4])], "sequence 20 of kind 1: a range ends before it begins"),
            (
                vec![custom(&[5..=u64::MAX])],
                "sequence 20 of kind 1: a range must end at 18446744073709551614 or before",
            ),
            (
                vec![custom(&[5..=9, 9..=12])],
                "sequence 20 of kind 1: its ranges must be ascending and must not overlap",
            ),
            (
                vec![custom(&[5..=9]).starting_at(10)],
                "sequence 20 of kind 1: its first number must be in one of its ranges",
            ),
            (
                vec![custom(&[131_071..=200_000]).in_space(IdSpace::RECORDS)],
                "sequence 20 of kind 1: ids of records must be greater than 131071",
            ),
            (vec![custom(&[1..=2]), custom(&[3..=4])], "kind 1 has sequence 20 twice"),
            (
                vec![Sequence::new(builtin::WORKSPACE_OFFSET, 1)],
                "sequence 2 of kind 1 has a built-in id: use ids from 16 on",
            ),
            (
                vec![
                    builtin::c_record_ids(),
                    Sequence::new(SequenceId::new(20), 322_690_000_131_071).in_space(IdSpace::RECORDS),
                ],
                "sequences 4 and 20 of kind 1 share an id space and could both give 322690000131071: separate their \
                 ranges",
            ),
        ];
        for (sequences, message) in table {
            assert_eq!(refused(sequences), message);
        }
        let error = Definition::new([(KIND, vec![]), (KIND, vec![])]).unwrap_err();
        assert_eq!(error.to_string(), "kind 1 is defined twice");
    }

    #[test]
    fn sequences_in_different_spaces_may_overlap() {
        let one = Sequence::new(SequenceId::new(20), 1);
        let other = Sequence::new(SequenceId::new(21), 1).in_space(IdSpace::new(7));
        assert!(Definition::new([(KIND, vec![one, other])]).is_ok());
    }
}
