//! The bytes of all commands that are not answered yet.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The bytes of all partitions together, and their limit.
#[derive(Debug)]
pub(crate) struct QueueBudget {
    bytes: AtomicUsize,
    max: usize,
}

impl QueueBudget {
    pub(crate) fn new(max: usize) -> Self {
        Self { bytes: AtomicUsize::new(0), max }
    }

    /// The share of one of `partitions` partitions. One half of the limit is divided among the partitions, and the other half is
    /// available to any of them. So no partition can use the whole limit.
    pub(crate) fn share(self: &Arc<Self>, partitions: usize) -> Arc<QueueShare> {
        let own = self.max / 2 / partitions.max(1);
        Arc::new(QueueShare { all: self.clone(), bytes: AtomicUsize::new(0), own })
    }
}

/// The bytes of one partition.
#[derive(Debug)]
pub(crate) struct QueueShare {
    all: Arc<QueueBudget>,
    bytes: AtomicUsize,
    /// What this partition may always have, independent of the others.
    own: usize,
}

impl QueueShare {
    /// Reserves room for a command until the permit is dropped. `None` if the limit is reached. A command that is alone in its
    /// partition always gets room.
    pub(crate) fn take(self: &Arc<Self>, bytes: usize) -> Option<Permit> {
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let all_before = self.all.bytes.fetch_add(bytes, Ordering::Relaxed);
        // If there is no room, the permit is dropped here and subtracts what was just added.
        let permit = Permit { share: self.clone(), bytes };
        let fits = before == 0 || before + bytes <= self.own || all_before + bytes <= self.all.max;
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
        let (a, b) = (all.share(5), all.share(5));
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
        let (a, b) = (all.share(2), all.share(2));
        let huge = a.take(1_000).expect("it is alone");
        assert!(a.take(1).is_none());
        // Other partitions still have their own share.
        let (first, second) = (b.take(20).expect("alone"), b.take(5).expect("within its share"));
        drop((huge, first, second));
    }
}
