//! Sequences of an application.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use seriatim_sequencer::{IdSpace, Range};
use seriatim_types::{Number, SequenceId};

/// A sequence, as written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SequenceDefinition {
    /// Its name within the application.
    pub name: String,
    /// The number that a new workspace draws first.
    pub first: u64,
    /// The numbers that it may give, both ends included, ascending.
    pub ranges: Vec<(u64, u64)>,
    /// Sequences of the same space must not overlap. A sequence without a space may overlap with any other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<String>,
}

impl SequenceDefinition {
    /// A sequence that counts from `first` to the last number that JSON clients can read, 2^53 - 1.
    pub fn new(name: impl Into<String>, first: u64) -> Self {
        Self::with_ranges(name, &[first..=Number::LAST_IN_JSON.get()])
    }

    /// A sequence that gives the numbers of these ranges, which must be ascending.
    pub fn with_ranges(name: impl Into<String>, ranges: &[RangeInclusive<u64>]) -> Self {
        let ranges: Vec<_> = ranges.iter().map(|range| (*range.start(), *range.end())).collect();
        Self { name: name.into(), first: ranges.first().map_or(0, |(first, _)| *first), ranges, space: None }
    }

    /// The same sequence with another first number, inside its ranges.
    #[must_use]
    pub fn starting_at(mut self, first: u64) -> Self {
        self.first = first;
        self
    }

    /// The same sequence in a space. No two sequences of a space can give the same number.
    #[must_use]
    pub fn in_space(mut self, space: impl Into<String>) -> Self {
        self.space = Some(space.into());
        self
    }

    /// The same sequence in the form of the sequencer.
    pub(super) fn to_sequence(&self, id: SequenceId, space: Option<IdSpace>) -> seriatim_sequencer::Sequence {
        let ranges: Vec<_> = self.ranges.iter().map(|(first, last)| *first..=*last).collect();
        let sequence = seriatim_sequencer::Sequence::with_ranges(id, &ranges).starting_at(self.first);
        match space {
            Some(space) => sequence.in_space(space),
            None => sequence,
        }
    }
}

/// A sequence with its number, for look-ups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SequenceSchema {
    /// Its number.
    pub id: SequenceId,
    /// Its name.
    pub name: Box<str>,
    /// The number that a new workspace draws first.
    pub first: Number,
    /// The last number that it can give.
    pub last: Number,
    /// The numbers that it may give, ascending.
    pub ranges: Box<[Range]>,
    /// Whether the definition no longer has it. Its next number is kept, and none is drawn.
    pub retired: bool,
}
