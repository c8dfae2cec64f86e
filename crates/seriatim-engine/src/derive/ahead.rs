//! How far the log is ahead of what the store has made durable. After a crash this part of the log is replayed.
//!
//! ```text
//! log:  [ durable checkpoint ...... checkpoint ............ next )
//!         durable              handed to the store    waiting in the overlay
//! ```

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use seriatim_types::sync::{Mutex, MutexGuard};
use tokio::sync::Mutex as Turn;

use super::budget::Budget;

/// Events, and bytes of their entries.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) events: u64,
    pub(crate) bytes: u64,
}

impl Stretch {
    fn plus(self, other: Self) -> Self {
        Self { events: self.events + other.events, bytes: self.bytes + other.bytes }
    }

    fn minus(self, other: Self) -> Self {
        Self { events: self.events - other.events, bytes: self.bytes - other.bytes }
    }

    /// Whether it has more events or more bytes.
    fn exceeds(self, other: Self) -> bool {
        self.events > other.events || self.bytes > other.bytes
    }

    fn half(self) -> Self {
        Self { events: self.events / 2, bytes: self.bytes / 2 }
    }
}

/// A sum over all partitions.
#[derive(Debug, Default)]
struct Sum {
    events: AtomicU64,
    bytes: AtomicU64,
}

impl Sum {
    fn add(&self, more: Stretch) {
        self.events.fetch_add(more.events, Ordering::Relaxed);
        self.bytes.fetch_add(more.bytes, Ordering::Relaxed);
    }

    fn subtract(&self, less: Stretch) {
        self.events.fetch_sub(less.events, Ordering::Relaxed);
        self.bytes.fetch_sub(less.bytes, Ordering::Relaxed);
    }

    fn get(&self) -> Stretch {
        Stretch { events: self.events.load(Ordering::Relaxed), bytes: self.bytes.load(Ordering::Relaxed) }
    }
}

/// A flush whose write has returned. It is durable when the store has made `written` writes durable.
#[derive(Debug, Clone, Copy)]
struct Handed {
    written: u64,
    stretch: Stretch,
}

/// Removes what is durable and returns its size.
fn settle(handed: &mut VecDeque<Handed>, durable: u64) -> Stretch {
    let mut settled = Stretch::default();
    while let Some(first) = handed.pop_front_if(|first| first.written <= durable) {
        settled = settled.plus(first.stretch);
    }
    settled
}

/// How far the logs of all partitions together are ahead of what is durable, and the limit of that.
#[derive(Debug, Default)]
pub(crate) struct AllAhead {
    max: Stretch,
    waiting: Sum,
    handed_sum: Sum,
    handed: Mutex<VecDeque<Handed>>,
    /// Held by the partition that syncs the store for all partitions.
    pub(crate) sync: Turn<()>,
}

impl AllAhead {
    pub(crate) fn new(max: Stretch) -> Self {
        Self { max, ..Self::default() }
    }

    fn handed(&self) -> MutexGuard<'_, VecDeque<Handed>> {
        self.handed.lock()
    }

    fn sum(&self) -> Stretch {
        self.waiting.get().plus(self.handed_sum.get())
    }

    /// Whether the store has so many writes that are not durable that it should be synced.
    pub(crate) fn wants_sync(&self) -> bool {
        self.handed_sum.get().exceeds(self.max.half())
    }

    /// Counts that the store has made `durable` writes durable.
    pub(crate) fn settle(&self, durable: u64) {
        let mut handed = self.handed();
        self.handed_sum.subtract(settle(&mut handed, durable));
    }
}

/// How far the log of one partition is ahead of what is durable.
#[derive(Debug)]
pub(crate) struct Ahead {
    budget: Arc<Budget>,
    /// This is divided equally among the open partitions: how far each may always be ahead, independent of the others.
    divided: Stretch,
    waiting: Stretch,
    handed_sum: Stretch,
    handed: VecDeque<Handed>,
}

impl Ahead {
    pub(crate) fn new(budget: Arc<Budget>, divided: Stretch) -> Self {
        let (waiting, handed_sum, handed) = (Stretch::default(), Stretch::default(), VecDeque::new());
        Self { budget, divided, waiting, handed_sum, handed }
    }

    pub(crate) fn sum(&self) -> Stretch {
        self.waiting.plus(self.handed_sum)
    }

    /// How far this partition may always be ahead.
    fn own(&self) -> Stretch {
        let open = self.budget.open() as u64;
        Stretch { events: self.divided.events / open, bytes: self.divided.bytes / open }
    }

    /// What was not written to the store yet.
    pub(crate) fn waiting(&self) -> Stretch {
        self.waiting
    }

    pub(crate) fn add(&mut self, more: Stretch) {
        self.waiting = self.waiting.plus(more);
        self.budget.ahead.waiting.add(more);
    }

    /// Subtracts what was not written yet. A recovery counts it again.
    pub(crate) fn forget_waiting(&mut self) {
        self.budget.ahead.waiting.subtract(self.waiting);
        self.waiting = Stretch::default();
    }

    /// Counts a write that has returned. `waits`: whether its stretch was counted as waiting before.
    pub(crate) fn hand(&mut self, written: u64, stretch: Stretch, waits: bool) {
        let all = &self.budget.ahead;
        let handed = Handed { written, stretch };
        self.handed.push_back(handed);
        self.handed_sum = self.handed_sum.plus(stretch);
        all.handed_sum.add(stretch);
        all.handed().push_back(handed);
        if waits {
            self.waiting = self.waiting.minus(stretch);
            all.waiting.subtract(stretch);
        }
    }

    /// Counts that the store has made `durable` writes durable. Returns whether that changed anything.
    pub(crate) fn settle(&mut self, durable: u64) -> bool {
        let settled = settle(&mut self.handed, durable);
        self.handed_sum = self.handed_sum.minus(settled);
        settled != Stretch::default()
    }

    /// Whether what waits should be flushed.
    pub(crate) fn wants_flush(&self) -> bool {
        self.waiting.exceeds(self.own()) && self.budget.ahead.sum().exceeds(self.budget.ahead.max.half())
    }

    /// Whether the limit is exceeded, so that no group may be opened.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.sum().exceeds(self.own()) && self.budget.ahead.sum().exceeds(self.budget.ahead.max)
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.forget_waiting();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durable_writes_are_subtracted_for_their_partition_and_for_all() {
        let max = Stretch { events: 10, bytes: 1_000 };
        let budget = Arc::new(Budget::new(1, 1, max));
        let mut ahead = Ahead::new(budget.clone(), Stretch::default());
        let stretch = Stretch { events: 8, bytes: 80 };
        ahead.add(stretch);
        assert!(ahead.wants_flush() && !budget.ahead.wants_sync());
        ahead.hand(1, stretch, true);
        assert!(!ahead.wants_flush() && budget.ahead.wants_sync());
        for (durable, left) in [(0, stretch), (1, Stretch::default())] {
            budget.ahead.settle(durable);
            ahead.settle(durable);
            assert_eq!((ahead.sum(), budget.ahead.sum()), (left, left));
        }
        assert!(!budget.ahead.wants_sync());
    }

    #[test]
    fn a_dropped_partition_no_longer_counts_as_waiting() {
        let budget = Arc::new(Budget::new(1, 1, Stretch { events: 10, bytes: 1_000 }));
        let mut ahead = Ahead::new(budget.clone(), Stretch::default());
        ahead.add(Stretch { events: 11, bytes: 1 });
        assert!(ahead.is_exceeded());
        drop(ahead);
        assert_eq!(budget.ahead.sum(), Stretch::default());
    }
}
