//! A sequence: its first number, its ranges, and the order of its numbers.

use std::ops::RangeInclusive;

use seriatim_types::{Number, SequenceId};

/// Sequences whose numbers must be different: within a kind of workspace, sequences of one id space may not overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IdSpace(u16);

impl IdSpace {
    /// The ids of records. Raw and reserved ids are not allowed.
    pub const RECORDS: Self = Self(0);

    /// An application's own space, from 1.
    #[must_use]
    pub const fn new(space: u16) -> Self {
        Self(space)
    }
}

/// Consecutive numbers that a sequence may give, including both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The first number.
    pub first: Number,
    /// The last number.
    pub last: Number,
}

impl Range {
    pub(crate) fn contains(&self, number: Number) -> bool {
        self.first <= number && number <= self.last
    }
}

/// A sequence of a kind of workspace.
///
/// ```
/// use seriatim_sequencer::Sequence;
/// use seriatim_types::SequenceId;
///
/// let invoices = Sequence::new(SequenceId::new(20), 1);
/// let tickets = Sequence::with_ranges(SequenceId::new(21), &[1_000..=1_999, 5_000..=9_999]);
/// assert_eq!(tickets.first().get(), 1_000);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sequence {
    id: SequenceId,
    first: Number,
    ranges: Box<[Range]>,
    space: Option<IdSpace>,
}

impl Sequence {
    /// A sequence that counts from `first` up to the last number that JSON clients can read.
    #[must_use]
    pub fn new(id: SequenceId, first: u64) -> Self {
        Self::with_ranges(id, &[first..=Number::LAST_IN_JSON.get()])
    }

    /// A sequence with these ranges, which must be ascending. When one range is used up, the next one begins.
    #[must_use]
    pub fn with_ranges(id: SequenceId, ranges: &[RangeInclusive<u64>]) -> Self {
        let range = |range: &RangeInclusive<u64>| Range {
            first: Number::new(*range.start()),
            last: Number::new(*range.end()),
        };
        let ranges: Box<[Range]> = ranges.iter().map(range).collect();
        Self { id, first: ranges.first().map_or(Number::new(0), |range| range.first), ranges, space: None }
    }

    /// The same sequence with another first number, inside its ranges.
    #[must_use]
    pub fn starting_at(mut self, first: u64) -> Self {
        self.first = Number::new(first);
        self
    }

    /// The same sequence in an id space that it shares with others.
    #[must_use]
    pub fn in_space(mut self, space: IdSpace) -> Self {
        self.space = Some(space);
        self
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> SequenceId {
        self.id
    }

    /// The first number that a new workspace draws.
    #[must_use]
    pub fn first(&self) -> Number {
        self.first
    }

    /// The ranges of its numbers, ascending.
    #[must_use]
    pub fn ranges(&self) -> &[Range] {
        &self.ranges
    }

    /// The id space that it shares with other sequences, if there is one.
    #[must_use]
    pub fn space(&self) -> Option<IdSpace> {
        self.space
    }

    /// The number to draw if `next` is the next number: `next` itself if it is in a range, or else the start of the next
    /// range. `None` after the last range.
    #[must_use]
    #[inline]
    pub fn number_at(&self, next: Number) -> Option<Number> {
        let range = self.ranges.iter().find(|range| next <= range.last)?;
        Some(next.max(range.first))
    }

    /// How many numbers are left from `next` on.
    #[must_use]
    pub fn remaining(&self, next: Number) -> u64 {
        let left = |range: &Range| {
            let first = next.max(range.first);
            if first > range.last { 0 } else { (range.last.get() - first.get()).saturating_add(1) }
        };
        self.ranges.iter().map(left).fold(0, u64::saturating_add)
    }

    /// The next number after `count` numbers from `next` on. If there are fewer: the number after the last one.
    #[must_use]
    pub fn skip(&self, next: Number, count: u64) -> Number {
        let mut left = count;
        for range in self.ranges.iter().filter(|range| next <= range.last) {
            let first = next.max(range.first);
            let following = range.last.get() - first.get();
            if left <= following {
                return Number::new(first.get() + left);
            }
            left -= following + 1;
        }
        let end = self.ranges.last().and_then(|range| range.last.next());
        end.map_or(next, |end| end.max(next))
    }

    /// Whether the sequence can give this number.
    #[must_use]
    pub fn contains(&self, number: Number) -> bool {
        self.ranges.iter().any(|range| range.contains(number))
    }

    /// Whether a sequence can be raised to `next`: to a number in a range, or directly after one.
    pub(crate) fn can_continue_at(&self, next: Number) -> bool {
        self.contains(next) || self.ranges.iter().any(|range| range.last.next() == Some(next))
    }

    /// The number after the last one of `first..first + count` that is in a range, and whether all of them are.
    pub(crate) fn next_after_run(&self, first: Number, count: u64) -> (Option<Number>, bool) {
        let Some(last) = count.checked_sub(1).map(|more| first.advance(more).unwrap_or(Number::LAST)) else {
            return (None, false);
        };
        let inside = |range: &Range| {
            let (from, to) = (first.max(range.first), last.min(range.last));
            (from <= to).then_some((from, to))
        };
        let parts: (u64, Option<Number>) = self
            .ranges
            .iter()
            .filter_map(inside)
            .fold((0, None), |(held, _), (from, to)| (held + (to.get() - from.get()) + 1, Some(to)));
        (parts.1.and_then(Number::next), parts.0 == count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_ranges() -> Sequence {
        Sequence::with_ranges(SequenceId::new(9), &[10..=12, 20..=21])
    }

    #[test]
    fn the_next_range_starts_when_one_is_used_up_and_the_last_one_ends() {
        let table = [
            (0, Some(10)),
            (10, Some(10)),
            (12, Some(12)),
            (13, Some(20)),
            (19, Some(20)),
            (21, Some(21)),
            (22, None),
            (u64::MAX, None),
        ];
        for (next, number) in table {
            assert_eq!(two_ranges().number_at(Number::new(next)).map(Number::get), number, "{next}");
        }
    }

    #[test]
    fn what_remains_is_counted_over_all_ranges() {
        for (next, left) in [(0, 5), (11, 4), (13, 2), (21, 1), (22, 0)] {
            assert_eq!(two_ranges().remaining(Number::new(next)), left, "{next}");
        }
    }

    #[test]
    fn a_skip_crosses_ranges_and_stops_after_the_last_number() {
        let table = [
            ((10, 0), 10),
            ((10, 2), 12),
            ((10, 3), 20),
            ((13, 1), 21),
            ((0, 4), 21),
            ((10, 5), 22),
            ((22, 9), 22),
            ((11, u64::MAX), 22),
        ];
        for ((next, count), place) in table {
            let found = two_ranges().skip(Number::new(next), count);
            assert_eq!(found.get(), place, "{next} {count}");
            assert!(two_ranges().can_continue_at(found), "{next} {count}");
        }
    }

    #[test]
    fn a_run_moves_the_sequence_after_its_last_number_in_range() {
        let table = [
            ((10, 1), (Some(11), true)),
            ((12, 1), (Some(13), true)),
            ((12, 9), (Some(21), false)),
            ((13, 3), (None, false)),
            ((1, 9), (None, false)),
            ((1, 100), (Some(22), false)),
            ((21, u64::MAX), (Some(22), false)),
            ((10, 0), (None, false)),
        ];
        for ((first, count), (next, whole)) in table {
            let found = two_ranges().next_after_run(Number::new(first), count);
            assert_eq!((found.0.map(Number::get), found.1), (next, whole), "{first} {count}");
        }
    }

    #[test]
    fn a_sequence_can_be_raised_into_a_range_or_directly_after_one() {
        for (next, fine) in
            [(9, false), (10, true), (13, true), (14, false), (20, true), (22, true), (23, false)]
        {
            assert_eq!(two_ranges().can_continue_at(Number::new(next)), fine, "{next}");
        }
    }
}
