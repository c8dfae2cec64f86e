//! How many bytes the commands have that are not answered yet.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What all partitions together have, and may.
#[derive(Debug)]
pub(crate) struct QueueBudget {
    bytes: AtomicUsize,
    max: usize,
}

impl QueueBudget {
    pub(crate) fn new(max: usize) -> Self {
        Self { bytes: AtomicUsize::new(0), max }
    }

    /// The account of one of so many partitions: half of everything is divided among them, half is for those that need
    /// it, so that no partition can take everything.
    pub(crate) fn share(self: &Arc<Self>, partitions: usize) -> Arc<QueueShare> {
        let own = self.max / 2 / partitions.max(1);
        Arc::new(QueueShare { all: self.clone(), bytes: AtomicUsize::new(0), own })
    }
}

/// What one partition has.
#[derive(Debug)]
pub(crate) struct QueueShare {
    all: Arc<QueueBudget>,
    bytes: AtomicUsize,
    /// What it may have however much the others have.
    own: usize,
}

impl QueueShare {
    /// Room for a command, until the permit is dropped. `None` if too much waits; a command that is alone in its
    /// partition always has room.
    pub(crate) fn take(self: &Arc<Self>, bytes: usize) -> Option<Permit> {
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let all_before = self.all.bytes.fetch_add(bytes, Ordering::Relaxed);
        // Dropped if there is no room, it gives back what was just added.
        let permit = Permit { share: self.clone(), bytes };
        let fits = before == 0 || before + bytes <= self.own || all_before + bytes <= self.all.max;
        fits.then_some(permit)
    }

    /// What is taken.
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
    fn what_is_taken_is_bounded_and_comes_back_with_the_permit() {
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
    fn a_command_that_is_alone_is_taken_whatever_its_size() {
        let all = Arc::new(QueueBudget::new(100));
        let (a, b) = (all.share(2), all.share(2));
        let huge = a.take(1_000).expect("it is alone");
        assert!(a.take(1).is_none());
        // The others are not kept out by it.
        let (first, second) = (b.take(20).expect("alone"), b.take(5).expect("within its share"));
        drop((huge, first, second));
    }
}
