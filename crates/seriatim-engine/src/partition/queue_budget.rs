//! The bytes of all commands that are not answered yet.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The bytes of all partitions together, and their limit.
#[derive(Debug)]
pub(crate) struct QueueBudget {
    bytes: AtomicUsize,
    max: usize,
    /// The number of partitions that have a queue.
    shares: AtomicUsize,
}

impl QueueBudget {
    pub(crate) fn new(max: usize) -> Self {
        Self { bytes: AtomicUsize::new(0), max, shares: AtomicUsize::new(0) }
    }

    /// The share of one partition. One half of the limit is divided among the partitions that have a queue, and the other half
    /// is available to any of them. So no partition can use the whole limit.
    pub(crate) fn share(self: &Arc<Self>) -> Arc<QueueShare> {
        self.shares.fetch_add(1, Ordering::Relaxed);
        Arc::new(QueueShare { all: self.clone(), bytes: AtomicUsize::new(0) })
    }

    /// The number of partitions that have a queue, at least 1.
    pub(crate) fn shares(&self) -> usize {
        self.shares.load(Ordering::Relaxed).max(1)
    }
}

/// The bytes of one partition.
#[derive(Debug)]
pub(crate) struct QueueShare {
    all: Arc<QueueBudget>,
    bytes: AtomicUsize,
}

impl Drop for QueueShare {
    fn drop(&mut self) {
        self.all.shares.fetch_sub(1, Ordering::Relaxed);
    }
}

impl QueueShare {
    /// Reserves room for a command until the permit is dropped. `None` if the limit is reached. A command that is alone in its
    /// partition always gets room.
    pub(crate) fn take(self: &Arc<Self>, bytes: usize) -> Option<Permit> {
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let all_before = self.all.bytes.fetch_add(bytes, Ordering::Relaxed);
        // If there is no room, the permit is dropped here and subtracts what was just added.
        let permit = Permit { share: self.clone(), bytes };
        // What this partition may always have, independent of the others.
        let own = self.all.max / 2 / self.all.shares();
        let fits = before == 0 || before + bytes <= own || all_before + bytes <= self.all.max;
        fits.then_some(permit)
    }

    /// The bytes that are reserved.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// Room for a command.
#[derive(Debug)]
pub(crate) struct Permit {
    share: Arc<QueueShare>,
    bytes: usize,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.share.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.share.all.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_bytes_are_bounded_and_freed_with_the_permit() {
        let all = Arc::new(QueueBudget::new(100));
        let (a, b) = (all.share(), all.share());
        let _others = [all.share(), all.share(), all.share()];
        let large = a.take(90).expect("it fits");
        assert!(a.take(11).is_none());
        let small = a.take(10).expect("it fits");
        // Another partition has its own share, and no more.
        let own = b.take(10).expect("it is alone");
        assert!(b.take(1).is_none());
        drop(large);
        assert_eq!((a.bytes(), b.bytes()), (10, 10));
        let more = b.take(80).expect("there is room again");
        drop((small, own, more));
        assert_eq!((a.bytes(), b.bytes(), all.bytes.load(Ordering::Relaxed)), (0, 0, 0));
    }

    #[test]
    fn a_command_that_is_alone_is_accepted_at_any_size() {
        let all = Arc::new(QueueBudget::new(100));
        let (a, b) = (all.share(), all.share());
        let huge = a.take(1_000).expect("it is alone");
        assert!(a.take(1).is_none());
        // Other partitions still have their own share.
        let (first, second) = (b.take(20).expect("alone"), b.take(5).expect("within its share"));
        drop((huge, first, second));
    }
}
