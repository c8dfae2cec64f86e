//! How much may wait between the log and the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How much may wait, and when it is flushed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) flush_at: usize,
    pub(crate) events_max: u64,
    pub(crate) log_bytes_max: u64,
    /// What this partition may have waiting however much waits elsewhere.
    pub(crate) own_keys: usize,
    pub(crate) own_bytes: usize,
}

/// What all partitions together have waiting, and may.
#[derive(Debug)]
pub(crate) struct Budget {
    keys: AtomicUsize,
    bytes: AtomicUsize,
    pub(crate) keys_max: usize,
    pub(crate) bytes_max: usize,
}

impl Budget {
    pub(crate) fn new(keys_max: usize, bytes_max: usize) -> Self {
        Self { keys: AtomicUsize::new(0), bytes: AtomicUsize::new(0), keys_max, bytes_max }
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

/// What a partition has put into the budget. When it is dropped, all of it is taken out.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Arc<Budget>,
    own_keys: usize,
    own_bytes: usize,
    layers: Size,
    /// What the open group has, until it is published or given up.
    group: Size,
}

impl Share {
    pub(crate) fn new(limits: &Limits, budget: Arc<Budget>) -> Self {
        let Limits { own_keys, own_bytes, .. } = *limits;
        Self { budget, own_keys, own_bytes, layers: Size::NONE, group: Size::NONE }
    }

    pub(crate) fn layers(&self) -> Size {
        self.layers
    }

    pub(crate) fn group(&self) -> Size {
        self.group
    }

    /// Tells the budget what has changed.
    pub(crate) fn set(&mut self, layers: Size, group: Size) {
        let (now, before) = (layers.plus(group), self.layers.plus(self.group));
        // Wrapping differences: each partition takes out just what it has put in.
        self.budget.keys.fetch_add(now.keys.wrapping_sub(before.keys), Ordering::Relaxed);
        self.budget.bytes.fetch_add(now.bytes.wrapping_sub(before.bytes), Ordering::Relaxed);
        (self.layers, self.group) = (layers, group);
    }

    /// Whether more waits than may, the open group of this partition included.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.is_exceeded_by(self.layers.plus(self.group), Size::NONE)
    }

    /// The same without this partition's open group.
    pub(crate) fn is_exceeded_by_layers(&self) -> bool {
        self.is_exceeded_by(self.layers, self.group)
    }

    fn is_exceeded_by(&self, own: Size, left_out: Size) -> bool {
        let all_keys = self.budget.keys.load(Ordering::Relaxed).saturating_sub(left_out.keys);
        let all_bytes = self.budget.bytes.load(Ordering::Relaxed).saturating_sub(left_out.bytes);
        (own.keys > self.own_keys && all_keys > self.budget.keys_max)
            || (own.bytes > self.own_bytes && all_bytes > self.budget.bytes_max)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(Size::NONE, Size::NONE);
    }
}
