//! How much may be unflushed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::ahead::{AllAhead, Stretch};

/// How much may be unflushed in one partition, and when it is flushed.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) flush_at: usize,
    /// This is divided equally among the partitions that are open. Each may always have its part unflushed, independent of the
    /// others.
    pub(crate) divided_keys: usize,
    pub(crate) divided_bytes: usize,
    /// The same for how far its log may be ahead of what is durable.
    pub(crate) divided_ahead: Stretch,
}

/// What is unflushed in all partitions together, and its limits.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    keys: AtomicUsize,
    bytes: AtomicUsize,
    keys_max: usize,
    bytes_max: usize,
    /// The number of partitions that are open.
    open: AtomicUsize,
    pub(crate) ahead: AllAhead,
}

impl Budget {
    /// A budget of so many unflushed keys and bytes, and of logs that may be so far ahead of what is durable.
    pub(crate) fn new(keys_max: usize, bytes_max: usize, ahead_max: Stretch) -> Self {
        Self { keys_max, bytes_max, ahead: AllAhead::new(ahead_max), ..Self::default() }
    }

    /// The number of partitions that share it, at least 1.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed).max(1)
    }
}

/// Keys, and bytes of keys and values.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) keys: usize,
    pub(crate) bytes: usize,
}

impl Size {
    pub(crate) const NONE: Self = Self { keys: 0, bytes: 0 };

    pub(crate) fn plus(self, other: Self) -> Self {
        Self { keys: self.keys + other.keys, bytes: self.bytes + other.bytes }
    }
}

/// What one partition has added to the budget. Dropping the share subtracts all of it.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Arc<Budget>,
    pub(crate) layers: Size,
    /// What the open group has, until it is published or discarded.
    pub(crate) group: Size,
}

impl Share {
    pub(crate) fn new(budget: Arc<Budget>) -> Self {
        budget.open.fetch_add(1, Ordering::Relaxed);
        Self { budget, layers: Size::NONE, group: Size::NONE }
    }

    /// Updates the budget.
    pub(crate) fn set(&mut self, layers: Size, group: Size) {
        let (now, before) = (layers.plus(group), self.layers.plus(self.group));
        // Wrapping differences are correct, because each partition subtracts exactly what it has added.
        self.budget.keys.fetch_add(now.keys.wrapping_sub(before.keys), Ordering::Relaxed);
        self.budget.bytes.fetch_add(now.bytes.wrapping_sub(before.bytes), Ordering::Relaxed);
        (self.layers, self.group) = (layers, group);
    }

    /// Whether the limits are exceeded, counted with or without this partition's open group.
    pub(crate) fn is_exceeded(&self, limits: &Limits, with_group: bool) -> bool {
        let (counted, left_out) =
            if with_group { (self.group, Size::NONE) } else { (Size::NONE, self.group) };
        let (own, budget) = (self.layers.plus(counted), &*self.budget);
        let all_keys = budget.keys.load(Ordering::Relaxed).saturating_sub(left_out.keys);
        let all_bytes = budget.bytes.load(Ordering::Relaxed).saturating_sub(left_out.bytes);
        let open = budget.open();
        (all_keys > budget.keys_max && own.keys > limits.divided_keys / open)
            || (all_bytes > budget.bytes_max && own.bytes > limits.divided_bytes / open)
    }

    /// The number of unflushed keys that starts a flush. Less than `flush_at` if many partitions are open.
    pub(crate) fn flush_at(&self, limits: &Limits) -> usize {
        limits.flush_at.min((self.budget.keys_max / self.budget.open()).max(1))
    }

    /// How many more keys may be unflushed.
    pub(crate) fn room(&self, limits: &Limits) -> usize {
        let own = (limits.divided_keys / self.budget.open()).saturating_sub(self.layers.keys);
        let all = self.budget.keys_max.saturating_sub(self.budget.keys.load(Ordering::Relaxed));
        own.max(all)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(Size::NONE, Size::NONE);
        self.budget.open.fetch_sub(1, Ordering::Relaxed);
    }
}
