//! Which tickets stand for which numbers.

use std::collections::VecDeque;

use crate::Block;

/// Former stretches that are kept for callers who took a ticket and then lost the processor. One who is later still
/// takes another ticket, and what the first may have stood for is counted as wasted.
const PAST_MAX: usize = 64;

/// A run of tickets that stand for a run of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stretch {
    /// The first ticket.
    pub(crate) start: u64,
    /// Behind the last ticket.
    pub(crate) end: u64,
    /// What the first ticket stands for.
    pub(crate) base: u64,
}

impl Stretch {
    pub(crate) fn number(&self, ticket: u64) -> Option<u64> {
        (self.start <= ticket && ticket < self.end).then(|| self.base + (ticket - self.start))
    }

    pub(crate) fn ticket(&self, number: u64) -> Option<u64> {
        (self.base <= number && number < self.number_end()).then(|| self.start + (number - self.base))
    }

    /// Behind the last number.
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

/// What a ticket stands for, as far as anybody knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    Number(u64),
    Void,
    /// From before the oldest stretch that is kept.
    Forgotten,
}

/// The present stretch and the last few before it.
#[derive(Debug)]
pub(crate) struct Stretches {
    pub(crate) present: Stretch,
    /// Whether somebody was told that a ticket at or behind the present end is void. Such a stretch cannot grow:
    /// the ticket would come to stand for a number that nobody takes.
    overshot: bool,
    past: VecDeque<Stretch>,
    forgotten: bool,
}

impl Stretches {
    pub(crate) fn new(base: u64) -> Self {
        Self {
            present: Stretch { start: 0, end: 0, base },
            overshot: false,
            past: VecDeque::with_capacity(PAST_MAX),
            forgotten: false,
        }
    }

    /// What a ticket stands for. If that is nothing, it stays so.
    pub(crate) fn resolve(&mut self, ticket: u64) -> Meaning {
        let stretches = std::iter::once(&self.present).chain(&self.past);
        if let Some(number) = stretches.flat_map(|stretch| stretch.number(ticket)).next() {
            return Meaning::Number(number);
        }
        self.overshot |= ticket >= self.present.end;
        let oldest = self.past.back().unwrap_or(&self.present);
        if self.forgotten && ticket < oldest.start { Meaning::Forgotten } else { Meaning::Void }
    }

    /// Makes the present stretch longer by a block, if it can be.
    pub(crate) fn extend(&mut self, block: Block) -> bool {
        let adjacent = self.present.number_end() == block.base().get();
        let end = self.present.end.checked_add(block.size());
        match end.filter(|_| adjacent && !self.overshot) {
            Some(end) => {
                self.present.end = end;
                true
            }
            None => false,
        }
    }

    /// Starts a new stretch at a ticket at or behind the present end.
    pub(crate) fn start(&mut self, start: u64, block: Block) {
        if self.past.len() == PAST_MAX {
            self.past.pop_back();
            self.forgotten = true;
        }
        self.past.push_front(self.present);
        self.overshot = false;
        self.present = Stretch { start, end: start.saturating_add(block.size()), base: block.base().get() };
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
    fn a_ticket_stands_for_the_number_of_its_stretch_or_for_none() {
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
        assert_eq!(stretches.present.delta(), 480);
        assert_eq!(stretches.present.ticket(509), Some(29));
        assert_eq!(stretches.present.rest(25), Some(block(505, 5)));
        assert_eq!(stretches.present.rest(31), None);
    }

    #[test]
    fn a_stretch_grows_only_by_the_adjacent_block_and_only_if_nobody_went_past_its_end() {
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
    fn a_ticket_that_comes_too_late_is_told_apart() {
        let mut stretches = Stretches::new(0);
        for stretch in 0..100 {
            stretches.start(stretch * 10, block(stretch * 100, 5));
        }
        assert_eq!(stretches.resolve(351), Meaning::Number(3_501));
        assert_eq!(stretches.resolve(356), Meaning::Void);
        assert_eq!(stretches.resolve(341), Meaning::Forgotten);
    }
}
