//! What is committed and applied, and not in the store yet.
//!
//! ```text
//! log:  [ checkpoint ........ writing.next ........ next )
//!         in the store behind here  being written    waiting
//! ```

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use seriatim_sequencer::{Busy, Numbers};
use seriatim_storage::ClusteringRange;
use seriatim_types::{PartitionOffset, WorkspaceId};

use super::state::REMOVED;
use crate::keys::StoreKey;

/// Values of one stretch of the log: the last one of each key.
#[derive(Debug, Default)]
pub(crate) struct Layer {
    pub(crate) values: BTreeMap<StoreKey, Bytes>,
    /// In order, so that what is written does not depend on chance.
    pub(crate) numbers: BTreeMap<WorkspaceId, Numbers>,
    /// Which events' idempotency keys were swept: the values have the removals.
    pub(crate) swept: Option<Swept>,
    /// Bytes of keys and values, about.
    bytes: usize,
}

/// A stretch of the log whose idempotency keys were swept: from the first event to the one before `to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Swept {
    pub(crate) from: PartitionOffset,
    pub(crate) to: PartitionOffset,
}

/// What a workspace's numbers take, about.
const NUMBERS_BYTES: usize = 200;

impl Layer {
    fn put(&mut self, key: StoreKey, value: Bytes) {
        let (key_bytes, value_bytes) = (key.size(), value.len());
        match self.values.insert(key, value) {
            None => self.bytes += key_bytes + value_bytes,
            Some(old) => self.bytes = self.bytes + value_bytes - old.len(),
        }
    }

    fn put_numbers(&mut self, workspace: WorkspaceId, numbers: &Numbers) {
        match self.numbers.get_mut(&workspace) {
            Some(present) => present.clone_from(numbers),
            None => {
                self.numbers.insert(workspace, numbers.clone());
                self.bytes += NUMBERS_BYTES;
            }
        }
    }

    fn keys(&self) -> usize {
        self.values.len() + self.numbers.len()
    }

    fn snapshot(&self, partition: &[u8], range: &ClusteringRange, into: &mut BTreeMap<Bytes, Bytes>) {
        let start = StoreKey::new(partition, &range.start);
        if range.is_absurd() {
            return;
        }
        for (key, value) in self.values.range((Bound::Included(start), Bound::Unbounded)) {
            if key.partition() != partition || !range.contains(key.clustering()) {
                break;
            }
            into.insert(Bytes::copy_from_slice(key.clustering()), value.clone());
        }
    }
}

/// What the flusher is writing.
#[derive(Debug)]
pub(crate) struct Writing {
    pub(crate) layer: Layer,
    /// The checkpoint, once the values are durable.
    pub(crate) next: PartitionOffset,
    log_bytes: u64,
}

/// How a flush begins.
#[derive(Debug)]
pub(crate) enum FlushStart {
    /// With this, which is to be written.
    Begun(Arc<Writing>),
    /// Not yet: a write is under way.
    UnderWay,
    /// Not at all: nothing waits, or nothing may be written any more.
    Nothing,
}

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

/// How often values have left the overlay. A value that was read from the store in one generation may be outdated in the
/// next: it was newer in the overlay, and has left it since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Generation(u64);

/// Which recovery an overlay belongs to. What an earlier one still does is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Round(u64);

/// The overlay of a partition. Pure; it lives behind one lock, so that values and offset are seen together or not at all.
#[derive(Debug)]
pub(crate) struct Overlay {
    limits: Limits,
    budget: Arc<Budget>,
    /// What this partition has put into the budget: the layers and the open group, in keys and bytes.
    counted: (usize, usize),
    /// What the open group has, until it is published or given up.
    staged: (usize, usize),
    round: u64,
    /// Whether a recovery has begun to fill it.
    filling: bool,
    /// Where the log ended when it was taken: it is complete once it has come so far. `None`: not known.
    target: Option<PartitionOffset>,
    waiting: Layer,
    writing: Option<Arc<Writing>>,
    /// Everything before this offset is in here or in the store.
    next: PartitionOffset,
    /// Everything before this offset is in the store.
    checkpoint: PartitionOffset,
    /// Bytes of the log from the checkpoint up to `next`.
    log_bytes: u64,
    /// Up to where the store is swept, once it was read.
    swept: Option<PartitionOffset>,
    /// Raised whenever something leaves: when a flush has ended, and when a recovery begins.
    generation: u64,
    /// Whether the partition is held: what is stored is looked at from outside, and must not change.
    held: bool,
    /// Whether nothing may be written any more: the partition has stopped, and may belong to another owner.
    retired: bool,
}

impl Overlay {
    /// Nothing, until the first recovery begins.
    pub(crate) fn new(limits: Limits, budget: Arc<Budget>) -> Self {
        Self {
            limits,
            budget,
            counted: (0, 0),
            staged: (0, 0),
            round: 0,
            filling: false,
            target: None,
            waiting: Layer::default(),
            writing: None,
            next: PartitionOffset::FIRST,
            checkpoint: PartitionOffset::FIRST,
            log_bytes: 0,
            swept: None,
            generation: 0,
            held: false,
            retired: false,
        }
    }

    /// Forgets what waits, because a recovery will find it in the log again. A write that is under way goes on, and must
    /// have returned before the recovery reads: otherwise an older value could be written over a newer one.
    pub(crate) fn suspend(&mut self) -> Round {
        self.round += 1;
        self.generation += 1;
        self.filling = false;
        self.target = None;
        self.waiting = Layer::default();
        self.staged = (0, 0);
        self.log_bytes = 0;
        self.swept = None;
        self.count();
        Round(self.round)
    }

    /// Begins again at a checkpoint. `false` if a later recovery has begun.
    pub(crate) fn restart(&mut self, round: Round, checkpoint: PartitionOffset) -> bool {
        debug_assert!(self.writing.is_none());
        if !self.is_current(round) {
            return false;
        }
        self.filling = true;
        (self.next, self.checkpoint) = (checkpoint, checkpoint);
        true
    }

    /// Begins or ends a hold: while it is held, nothing is swept.
    pub(crate) fn hold(&mut self, held: bool) {
        self.held = held;
    }

    /// Which recovery has filled it, or is at it; `None` until one has begun to, while it is held, and when nothing may be
    /// written any more.
    pub(crate) fn filled(&self) -> Option<Round> {
        (self.filling && !self.held && !self.retired).then_some(Round(self.round))
    }

    /// Up to where idempotency keys are swept, what waits included; `None` if the store has to be asked.
    pub(crate) fn swept(&self) -> Option<PartitionOffset> {
        let writing = self.writing.as_ref().and_then(|writing| writing.layer.swept);
        self.waiting.swept.or(writing).map(|swept| swept.to).or(self.swept)
    }

    /// The store is swept up to here.
    pub(crate) fn found_swept(&mut self, swept: PartitionOffset) {
        self.swept = Some(swept);
    }

    /// Removes idempotency keys of a stretch of the log.
    pub(crate) fn sweep(&mut self, keys: Vec<StoreKey>, from: PartitionOffset, to: PartitionOffset) {
        for key in keys {
            self.waiting.put(key, REMOVED);
        }
        let from = self.waiting.swept.map_or(from, |swept| swept.from);
        self.waiting.swept = Some(Swept { from, to });
        self.count();
    }

    pub(crate) fn is_current(&self, round: Round) -> bool {
        self.round == round.0
    }

    /// Says where the log ended when it was taken: others may read again when everything before it is here.
    pub(crate) fn catch_up_to(&mut self, tail: PartitionOffset) {
        self.target = Some(tail);
    }

    /// The recovery that has brought everything here that was in the log when it was taken, if it has come so far.
    pub(crate) fn caught_up(&self) -> Option<Round> {
        let reached = self.target.is_some_and(|target| self.next >= target);
        (self.filling && reached).then_some(Round(self.round))
    }

    /// Tells the budget what has changed.
    fn count(&mut self) {
        let writing = self.writing.as_ref().map(|writing| &writing.layer);
        let keys = self.waiting.keys() + writing.map_or(0, Layer::keys) + self.staged.0;
        let bytes = self.waiting.bytes + writing.map_or(0, |layer| layer.bytes) + self.staged.1;
        // Wrapping differences: each partition takes out just what it has put in.
        self.budget.keys.fetch_add(keys.wrapping_sub(self.counted.0), Ordering::Relaxed);
        self.budget.bytes.fetch_add(bytes.wrapping_sub(self.counted.1), Ordering::Relaxed);
        self.counted = (keys, bytes);
    }

    pub(crate) fn get(&self, key: &StoreKey) -> Option<&Bytes> {
        let writing = || self.writing.as_ref()?.layer.values.get(key);
        self.waiting.values.get(key).or_else(writing)
    }

    pub(crate) fn numbers(&self, workspace: WorkspaceId) -> Option<&Numbers> {
        let writing = || self.writing.as_ref()?.layer.numbers.get(&workspace);
        self.waiting.numbers.get(&workspace).or_else(writing)
    }

    /// What it has of a range, to be laid over what the store has.
    pub(crate) fn snapshot(&self, partition: &[u8], range: &ClusteringRange) -> BTreeMap<Bytes, Bytes> {
        let mut found = BTreeMap::new();
        if let Some(writing) = &self.writing {
            writing.layer.snapshot(partition, range, &mut found);
        }
        self.waiting.snapshot(partition, range, &mut found);
        found
    }

    /// Takes in what follows from a stretch of the log, values and offset in one step.
    pub(crate) fn publish<'a>(
        &mut self,
        values: impl Iterator<Item = (StoreKey, Bytes)>,
        numbers: impl Iterator<Item = (WorkspaceId, &'a Numbers)>,
        next: PartitionOffset,
        log_bytes: usize,
    ) {
        debug_assert!(next >= self.next);
        self.staged = (0, 0);
        for (key, value) in values {
            self.waiting.put(key, value);
        }
        for (workspace, numbers) in numbers {
            self.waiting.put_numbers(workspace, numbers);
        }
        self.next = next;
        self.log_bytes += log_bytes as u64;
        self.count();
    }

    pub(crate) fn generation(&self) -> Generation {
        Generation(self.generation)
    }

    /// Hands out nothing to be written from now on. What it holds can still be read.
    pub(crate) fn retire(&mut self) {
        self.retired = true;
    }

    pub(crate) fn checkpoint(&self) -> PartitionOffset {
        self.checkpoint
    }

    /// Where what is applied ends.
    pub(crate) fn next(&self) -> PartitionOffset {
        self.next
    }

    pub(crate) fn keys(&self) -> usize {
        self.counted.0 - self.staged.0
    }

    pub(crate) fn bytes(&self) -> usize {
        self.counted.1 - self.staged.1
    }

    pub(crate) fn events(&self) -> u64 {
        self.next.since(self.checkpoint).unwrap_or(0)
    }

    pub(crate) fn log_bytes(&self) -> u64 {
        self.log_bytes
    }

    pub(crate) fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    /// Whether more waits than may, this partition's open group left out: (keys, bytes).
    fn passes_budget(&self, (left_out_keys, left_out_bytes): (usize, usize)) -> bool {
        let budget = &self.budget;
        let all_keys = budget.keys.load(Ordering::Relaxed).saturating_sub(left_out_keys);
        let all_bytes = budget.bytes.load(Ordering::Relaxed).saturating_sub(left_out_bytes);
        (self.counted.0 - left_out_keys > self.limits.own_keys && all_keys > budget.keys_max)
            || (self.counted.1 - left_out_bytes > self.limits.own_bytes && all_bytes > budget.bytes_max)
    }

    /// Counts what the open group has, in keys and in bytes of keys and values, and says whether it has to be closed.
    pub(crate) fn closes_group(&mut self, keys: usize, bytes: usize) -> bool {
        self.staged = (keys, bytes);
        self.count();
        self.passes_budget((0, 0))
    }

    /// The open group was given up.
    pub(crate) fn drop_group(&mut self) {
        self.staged = (0, 0);
        self.count();
    }

    /// Whether so much waits that a flush should not wait for the timer.
    pub(crate) fn wants_flush(&self) -> bool {
        self.has_work()
            && (self.waiting.keys() >= self.limits.flush_at
                || self.passes_budget(self.staged)
                || self.events() > self.limits.events_max / 2
                || self.log_bytes > self.limits.log_bytes_max / 2)
    }

    /// Whether anything waits at all.
    pub(crate) fn has_work(&self) -> bool {
        let changed = self.next > self.checkpoint || self.waiting.swept.is_some();
        self.filling && !self.retired && self.writing.is_none() && changed
    }

    /// Why no group may be opened.
    pub(crate) fn backlog(&self) -> Option<Busy> {
        let (unflushed, events, bytes) = (self.keys(), self.events(), self.log_bytes);
        let far = events > self.limits.events_max || bytes > self.limits.log_bytes_max;
        (far || self.passes_budget(self.staged)).then_some(Busy::Backlogged { unflushed, events, bytes })
    }

    /// Hands out everything that waits, to be written.
    pub(crate) fn start_flush(&mut self) -> FlushStart {
        if self.writing.is_some() && !self.retired {
            return FlushStart::UnderWay;
        }
        if !self.has_work() {
            return FlushStart::Nothing;
        }
        let layer = std::mem::take(&mut self.waiting);
        let writing = Arc::new(Writing { layer, next: self.next, log_bytes: self.log_bytes });
        self.writing = Some(writing.clone());
        FlushStart::Begun(writing)
    }

    /// The write has returned: what it held leaves; what has changed since waits in its own layer.
    pub(crate) fn flushed(&mut self, writing: &Writing) {
        self.writing = None;
        self.generation += 1;
        if self.filling {
            self.checkpoint = writing.next;
            self.swept = writing.layer.swept.map(|swept| swept.to).or(self.swept);
            self.log_bytes -= writing.log_bytes;
        }
        self.count();
    }

    /// The write has failed, or nobody knows: what it held waits again, unless it has changed since.
    pub(crate) fn failed(&mut self, writing: &Writing) {
        self.writing = None;
        if self.filling {
            if let Some(Swept { from, to }) = writing.layer.swept {
                let to = self.waiting.swept.map_or(to, |later| later.to);
                self.waiting.swept = Some(Swept { from, to });
            }
            for (key, value) in &writing.layer.values {
                if !self.waiting.values.contains_key(key) {
                    self.waiting.put(key.clone(), value.clone());
                }
            }
            for (workspace, numbers) in &writing.layer.numbers {
                if !self.waiting.numbers.contains_key(workspace) {
                    self.waiting.put_numbers(*workspace, numbers);
                }
            }
        }
        self.count();
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        self.waiting = Layer::default();
        self.writing = None;
        self.staged = (0, 0);
        self.count();
    }
}
