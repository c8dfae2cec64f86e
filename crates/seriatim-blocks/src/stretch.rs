//! Which tickets map to which numbers.

use std::collections::VecDeque;

use crate::Block;

/// How many earlier stretches are kept, for callers that took a ticket and were then interrupted. A caller that comes later
/// than that takes another ticket, and the number of the first one is counted as wasted.
const PAST_MAX: usize = 64;

/// A run of tickets that map to a run of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stretch {
    /// The first ticket.
    pub(crate) start: u64,
    /// The ticket after the last one.
    pub(crate) end: u64,
    /// The number of the first ticket.
    pub(crate) base: u64,
}

impl Stretch {
    pub(crate) fn number(&self, ticket: u64) -> Option<u64> {
        (self.start <= ticket && ticket < self.end).then(|| self.base + (ticket - self.start))
    }

    pub(crate) fn ticket(&self, number: u64) -> Option<u64> {
        (self.base <= number && number < self.number_end()).then(|| self.start + (number - self.base))
    }

    /// The number after the last one.
    pub(crate) fn number_end(&self) -> u64 {
        self.base + (self.end - self.start)
    }

    /// What is added to a ticket to get its number.
    pub(crate) fn delta(&self) -> u64 {
        self.base.wrapping_sub(self.start)
    }

    /// The numbers whose tickets are not taken, given the next ticket.
    pub(crate) fn rest(&self, cursor: u64) -> Option<Block> {
        let ticket = cursor.clamp(self.start, self.end);
        Block::between(self.base + (ticket - self.start), self.number_end())
    }
}

/// What a ticket maps to, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    Number(u64),
    Void,
    /// The ticket is from before the oldest stretch that is kept.
    Forgotten,
}

/// The current stretch and the last few before it.
#[derive(Debug)]
pub(crate) struct Stretches {
    pub(crate) current: Stretch,
    /// Whether a caller got the answer that a ticket at or after the current end is void. Then the stretch cannot grow: the
    /// ticket would map to a number that no caller takes.
    overshot: bool,
    past: VecDeque<Stretch>,
    forgotten: bool,
}

impl Stretches {
    pub(crate) fn new(base: u64) -> Self {
        Self {
            current: Stretch { start: 0, end: 0, base },
            overshot: false,
            past: VecDeque::with_capacity(PAST_MAX),
            forgotten: false,
        }
    }

    /// What a ticket maps to. If it is void, it stays void.
    pub(crate) fn resolve(&mut self, ticket: u64) -> Meaning {
        let stretches = std::iter::once(&self.current).chain(&self.past);
        if let Some(number) = stretches.flat_map(|stretch| stretch.number(ticket)).next() {
            return Meaning::Number(number);
        }
        self.overshot |= ticket >= self.current.end;
        let oldest = self.past.back().unwrap_or(&self.current);
        if self.forgotten && ticket < oldest.start { Meaning::Forgotten } else { Meaning::Void }
    }

    /// Extends the current stretch by a block, if possible.
    pub(crate) fn extend(&mut self, block: Block) -> bool {
        let adjacent = self.current.number_end() == block.base().get();
        let end = self.current.end.checked_add(block.size());
        match end.filter(|_| adjacent && !self.overshot) {
            Some(end) => {
                self.current.end = end;
                true
            }
            None => false,
        }
    }

    /// Starts a new stretch at a ticket at or after the current end.
    pub(crate) fn start(&mut self, start: u64, block: Block) {
        if self.past.len() == PAST_MAX {
            self.past.pop_back();
            self.forgotten = true;
        }
        self.past.push_front(self.current);
        self.overshot = false;
        self.current = Stretch { start, end: start.saturating_add(block.size()), base: block.base().get() };
    }
}

#[cfg(test)]
mod tests {
    use seriatim_types::Number;

    use super::*;

    fn block(base: u64, size: u64) -> Block {
        Block::new(Number::new(base), size).unwrap()
    }

    #[test]
    fn a_ticket_maps_to_the_number_of_its_stretch_or_to_none() {
        let mut stretches = Stretches::new(0);
        stretches.start(3, block(100, 10));
        assert!(stretches.extend(block(110, 5)));
        stretches.start(20, block(500, 10));
        for (ticket, meaning) in [
            (2, Meaning::Void),
            (3, Meaning::Number(100)),
            (17, Meaning::Number(114)),
            (18, Meaning::Void),
            (20, Meaning::Number(500)),
            (29, Meaning::Number(509)),
            (30, Meaning::Void),
        ] {
            assert_eq!(stretches.resolve(ticket), meaning, "ticket {ticket}");
        }
        assert_eq!(stretches.current.delta(), 480);
        assert_eq!(stretches.current.ticket(509), Some(29));
        assert_eq!(stretches.current.rest(25), Some(block(505, 5)));
        assert_eq!(stretches.current.rest(31), None);
    }

    #[test]
    fn a_stretch_grows_only_by_the_adjacent_block_and_only_if_no_ticket_was_taken_after_its_end() {
        let mut stretches = Stretches::new(0);
        stretches.start(0, block(0, 10));
        assert!(!stretches.extend(block(11, 10)));
        assert!(stretches.extend(block(10, 10)));
        assert_eq!(stretches.resolve(20), Meaning::Void);
        assert!(!stretches.extend(block(20, 10)));
        stretches.start(21, block(20, 10));
        assert!(stretches.extend(block(30, 10)));
    }

    #[test]
    fn a_ticket_that_is_resolved_too_late_is_forgotten() {
        let mut stretches = Stretches::new(0);
        for stretch in 0..100 {
            stretches.start(stretch * 10, block(stretch * 100, 5));
        }
        assert_eq!(stretches.resolve(351), Meaning::Number(3_501));
        assert_eq!(stretches.resolve(356), Meaning::Void);
        assert_eq!(stretches.resolve(341), Meaning::Forgotten);
    }
}
