//! Counting what was drawn from a sequence, event by event.

use seriatim_sequencer::Sequence;
use seriatim_storage::{Draw, Raise};
use seriatim_types::{Number, Timestamp, WorkspaceOffset};

/// The first of many, and how many there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept<T> {
    /// The first of them, at most [`KEPT`].
    pub list: Vec<T>,
    /// How many there are.
    pub total: u64,
}

/// How many gaps, duplicates, raises and broken links an audit lists. Bounds its memory; the rest is counted.
pub const KEPT: usize = 1_000;

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self { list: Vec::new(), total: 0 }
    }
}

impl<T> Kept<T> {
    pub(crate) fn push(&mut self, item: T) {
        self.total += 1;
        if self.list.len() < KEPT {
            self.list.push(item);
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }
}

/// Numbers in a row, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The first one.
    pub first: Number,
    /// The last one.
    pub last: Number,
}

/// An event has made a sequence continue from a later number. The numbers in between were never given, and this is the
/// explanation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Raised {
    /// The event, by its place in the workspace's log.
    pub offset: WorkspaceOffset,
    /// When it was made.
    pub time: Timestamp,
    /// The number that would have come next.
    pub from: Number,
    /// The number that came next.
    pub to: Number,
}

/// How complete a sequence is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Completeness {
    /// The first number that was drawn.
    pub first: Option<Number>,
    /// The highest number that was drawn.
    pub last: Option<Number>,
    /// How many were drawn.
    pub count: u64,
    /// Numbers that were skipped without an explaining event.
    pub gaps: Kept<Run>,
    /// Numbers that were drawn again, or after a higher one.
    pub duplicates: Kept<Run>,
    /// Numbers that were skipped, with the explaining event.
    pub raises: Kept<Raised>,
}

/// Follows one sequence through the events of a workspace, in order.
#[derive(Debug)]
pub(crate) struct Tally {
    sequence: Sequence,
    /// The present position of the sequence.
    next: Number,
    pub(crate) completeness: Completeness,
}

impl Tally {
    pub(crate) fn new(sequence: Sequence) -> Self {
        Self { next: sequence.first(), sequence, completeness: Completeness::default() }
    }

    /// Counts the draws and raises of an event. Those of other sequences are ignored.
    pub(crate) fn take(
        &mut self,
        offset: WorkspaceOffset,
        time: Timestamp,
        draws: impl Iterator<Item = Draw>,
        raises: impl Iterator<Item = Raise>,
    ) {
        let id = self.sequence.id();
        let raises: Vec<Number> =
            raises.filter(|raise| raise.sequence == id).map(|raise| raise.next).collect();
        for draw in draws.filter(|draw| draw.sequence == id && draw.count > 0) {
            self.draw(draw, (offset, time), &raises);
        }
        if let Some(to) = raises.into_iter().max().filter(|to| *to > self.next) {
            self.raise(offset, time, to);
        }
    }

    fn raise(&mut self, offset: WorkspaceOffset, time: Timestamp, to: Number) {
        let from = self.sequence.number_at(self.next).unwrap_or(self.next);
        self.completeness.raises.push(Raised { offset, time, from, to });
        self.next = to;
    }

    /// Counts a run. The numbers that it skips are explained only if the event raises the sequence to exactly the number where the
    /// run begins.
    fn draw(&mut self, draw: Draw, (offset, time): (WorkspaceOffset, Timestamp), raises: &[Number]) {
        let first = draw.first;
        let last = first.advance(draw.count - 1).unwrap_or(Number::LAST);
        let expected = self.sequence.number_at(self.next).unwrap_or(self.next);
        let is_raised = raises.iter().any(|next| self.sequence.number_at(*next) == Some(first));
        if first > expected && is_raised {
            self.raise(offset, time, first);
        } else {
            self.pass_over(first);
        }
        let seen = &mut self.completeness;
        if first < self.next && seen.count > 0 {
            let end = last.get().min(self.next.get() - 1);
            seen.duplicates.push(Run { first, last: Number::new(end) });
        }
        seen.first = seen.first.or(Some(first));
        seen.last = seen.last.max(Some(last));
        seen.count = seen.count.saturating_add(draw.count);
        self.next = self.next.max(last.next().unwrap_or(Number::LAST));
    }

    /// Notes the numbers between the sequence's position and `to`, as far as they are in the sequence's ranges.
    fn pass_over(&mut self, to: Number) {
        for range in self.sequence.ranges() {
            let first = self.next.max(range.first);
            let Some(before) = to.get().checked_sub(1).map(Number::new) else { return };
            let last = before.min(range.last);
            if first <= last {
                self.completeness.gaps.push(Run { first, last });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use seriatim_types::SequenceId;

    use super::*;

    const ID: SequenceId = SequenceId::new(20);

    /// Draws as (first, count), and raises.
    type TestEvent<'a> = (&'a [(u64, u64)], &'a [u64]);

    fn tally(events: &[TestEvent<'_>]) -> Completeness {
        let mut tally = Tally::new(Sequence::with_ranges(ID, &[1..=10, 100..=1_000]));
        for (offset, (draws, raises)) in (1..).zip(events) {
            let other = Draw { sequence: SequenceId::new(21), first: Number::new(500), count: 9 };
            let draws = draws.iter().map(|(first, count)| Draw {
                sequence: ID,
                first: Number::new(*first),
                count: *count,
            });
            let other_raise = Raise { sequence: SequenceId::new(21), next: Number::new(700) };
            let raises = raises.iter().map(|next| Raise { sequence: ID, next: Number::new(*next) });
            let offset = WorkspaceOffset::new(offset).unwrap();
            tally.take(offset, Timestamp::from_millis(7), draws.chain([other]), raises.chain([other_raise]));
        }
        tally.completeness
    }

    fn runs(runs: &Kept<Run>) -> Vec<(u64, u64)> {
        runs.list.iter().map(|run| (run.first.get(), run.last.get())).collect()
    }

    #[test]
    fn a_sequence_without_holes_is_complete_over_its_ranges() {
        let seen = tally(&[(&[(1, 3)], &[]), (&[], &[]), (&[(4, 7), (100, 2)], &[]), (&[(102, 1)], &[])]);
        assert_eq!((seen.first, seen.last, seen.count), (Some(Number::new(1)), Some(Number::new(102)), 13));
        assert!(seen.gaps.is_empty() && seen.duplicates.is_empty() && seen.raises.is_empty());
    }

    #[test]
    fn a_hole_is_a_gap_unless_its_event_raises_the_sequence() {
        let seen = tally(&[(&[(2, 1)], &[]), (&[(8, 1)], &[]), (&[(101, 1)], &[])]);
        assert_eq!(runs(&seen.gaps), [(1, 1), (3, 7), (9, 10), (100, 100)]);
        let seen = tally(&[(&[(1, 1)], &[]), (&[(5, 1)], &[5]), (&[(6, 1)], &[200]), (&[(200, 1)], &[])]);
        assert!(seen.gaps.is_empty() && seen.duplicates.is_empty(), "{seen:?}");
        let raises: Vec<_> = seen
            .raises
            .list
            .iter()
            .map(|raise| (raise.offset.get(), raise.from.get(), raise.to.get()))
            .collect();
        assert_eq!(raises, [(2, 2, 5), (3, 7, 200)]);
    }

    #[test]
    fn a_hole_is_explained_only_by_a_raise_that_ends_where_the_hole_does() {
        // The raise of another sequence, one that ends before the hole does, and one that ends after it.
        let seen = tally(&[(&[(1, 1)], &[]), (&[(3, 1)], &[])]);
        assert_eq!((runs(&seen.gaps), seen.raises.total), (vec![(2, 2)], 0));
        let seen = tally(&[(&[(1, 1)], &[]), (&[(8, 1)], &[5])]);
        assert_eq!((runs(&seen.gaps), seen.raises.total), (vec![(2, 7)], 0));
        let seen = tally(&[(&[(1, 1)], &[]), (&[(5, 1)], &[8]), (&[(8, 1)], &[])]);
        assert_eq!((runs(&seen.gaps), seen.raises.total), (vec![(2, 4)], 1));
        // Right after a range is where the next one begins, and one event may raise more than once.
        let seen = tally(&[(&[(1, 1)], &[]), (&[(100, 1)], &[11])]);
        assert_eq!((runs(&seen.gaps), seen.raises.total), (vec![], 1));
        let seen = tally(&[(&[(1, 1), (5, 2), (200, 1)], &[5, 200]), (&[(201, 1)], &[])]);
        assert_eq!((runs(&seen.gaps), seen.raises.total), (vec![], 2));
    }

    #[test]
    fn a_number_that_is_drawn_again_is_a_duplicate() {
        let seen = tally(&[(&[(1, 5)], &[]), (&[(4, 4)], &[]), (&[(1, 1)], &[]), (&[(8, 1)], &[])]);
        assert_eq!(runs(&seen.duplicates), [(4, 5), (1, 1)]);
        assert!(seen.gaps.is_empty(), "{seen:?}");
    }

    #[test]
    fn what_is_listed_is_bounded_and_the_rest_is_counted() {
        let mut kept = Kept::default();
        (0..=KEPT).for_each(|number| kept.push(number));
        assert_eq!((kept.list.len(), kept.total), (KEPT, KEPT as u64 + 1));
    }
}
