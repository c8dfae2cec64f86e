//! What is committed and applied in memory, and not in the store yet.
//!
//! ```text
//! log:  [ ........ checkpoint ........ writing.next ........ next )
//!         in the store       being written         waiting
//! ```
//!
//! There are two layers. New values go to `waiting`. A flush moves `waiting` to `writing` in one step and writes it; meanwhile new
//! values go to a new `waiting`. A read checks `waiting`, then `writing`, then the store. When the write has returned, `writing`
//! is dropped and the checkpoint moves to `writing.next`. If the write has failed, `writing` is merged back into `waiting`.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use seriatim_sequencer::{Busy, Numbers};
use seriatim_storage::{ClusteringRange, EntryMark};
use seriatim_types::{PartitionOffset, WorkspaceId};

use super::ahead::{Ahead, Stretch};
use super::budget::{Budget, Limits, Share, Size};
use super::keys::StoreKey;
use super::layer::Layer;

/// The layer that the flusher is writing.
#[derive(Debug)]
pub(crate) struct Writing {
    pub(crate) layer: Layer,
    /// The checkpoint that is written with it.
    pub(crate) next: PartitionOffset,
    /// The entry before the checkpoint.
    pub(crate) last: Option<EntryMark>,
    stretch: Stretch,
}

/// How a flush begins.
#[derive(Debug)]
pub(crate) enum FlushStart {
    /// The flush has begun: the caller writes this.
    Begun(Arc<Writing>),
    /// Another write is in progress.
    InProgress,
    /// Nothing is unflushed, or the overlay is retired and nothing may be written.
    Nothing,
}

/// Counts how many times values have left the overlay. A value that was read from the store in one generation may be outdated in
/// the next one: the overlay may have had a newer value, which was flushed since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Generation(u64);

/// The number of a recovery. The overlay refuses everything from an earlier recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Round(u64);

/// The overlay of a partition. It does no I/O. One lock protects it, so that values and offset always change together.
#[derive(Debug)]
pub(crate) struct Overlay {
    limits: Limits,
    /// The sizes of the layers and of the open group, as they are counted in the budget.
    share: Share,
    round: u64,
    /// Whether the present recovery has begun to fill the overlay.
    filling: bool,
    /// The end of the log when the partition was taken. The overlay is complete when `next` reaches it. `None`: not known.
    target: Option<PartitionOffset>,
    waiting: Layer,
    writing: Option<Arc<Writing>>,
    /// Everything before this offset is in here or in the store.
    next: PartitionOffset,
    /// The entry before `next`; `None` at offset 1.
    last: Option<EntryMark>,
    /// Everything before this offset is in the store.
    checkpoint: PartitionOffset,
    /// How far the log is ahead of what is durable.
    ahead: Ahead,
    /// Raised when values leave the overlay: when a flush has ended, and when a recovery begins.
    generation: u64,
    /// Whether the partition is held. The stored values are read from outside then and must not change.
    held: bool,
    /// Whether nothing may be written any more, because the partition has stopped and may have another owner.
    retired: bool,
}

impl Overlay {
    /// An empty overlay. The first recovery fills it.
    pub(crate) fn new(limits: Limits, budget: Arc<Budget>) -> Self {
        Self {
            limits,
            ahead: Ahead::new(budget.clone(), limits.divided_ahead),
            share: Share::new(budget),
            round: 0,
            filling: false,
            target: None,
            waiting: Layer::default(),
            writing: None,
            next: PartitionOffset::FIRST,
            last: None,
            checkpoint: PartitionOffset::FIRST,
            generation: 0,
            held: false,
            retired: false,
        }
    }

    /// Begins a recovery: forgets what waits, because the recovery reads it from the log again. A write in progress continues. It
    /// must have returned before the recovery reads the store: otherwise it could overwrite a newer value with an older one.
    pub(crate) fn suspend(&mut self) -> Round {
        self.round += 1;
        self.generation += 1;
        self.filling = false;
        self.target = None;
        self.waiting = Layer::default();
        self.ahead.forget_waiting();
        self.count(Size::NONE);
        Round(self.round)
    }

    /// Starts to fill the overlay from a checkpoint, before which the log has the entry `last`. `false` if a later recovery has
    /// begun.
    pub(crate) fn restart(
        &mut self,
        round: Round,
        checkpoint: PartitionOffset,
        last: Option<EntryMark>,
    ) -> bool {
        debug_assert!(self.writing.is_none());
        if !self.is_current(round) {
            return false;
        }
        self.filling = true;
        (self.next, self.last, self.checkpoint) = (checkpoint, last, checkpoint);
        true
    }

    /// Begins or ends a hold. During a hold nothing is swept.
    pub(crate) fn hold(&mut self, held: bool) {
        self.held = held;
    }

    /// The recovery that has filled or is filling the overlay. `None` before that, during a hold, and after retirement.
    pub(crate) fn filled(&self) -> Option<Round> {
        (self.filling && !self.held && !self.retired).then_some(Round(self.round))
    }

    /// Changes values without a new event: the removals of a sweep.
    pub(crate) fn put(&mut self, values: impl Iterator<Item = (StoreKey, Bytes)>) {
        for (key, value) in values {
            self.waiting.put(key, value);
        }
        self.count(self.share.group);
    }

    /// The present recovery.
    pub(crate) fn round(&self) -> Round {
        Round(self.round)
    }

    /// Continues with what the overlay has, and refuses everything from the recovery that filled it.
    pub(crate) fn next_round(&mut self) -> Round {
        self.round += 1;
        Round(self.round)
    }

    /// The offset up to which a recovery or a standby has filled the overlay. `None` if none has begun to fill it, or if nothing may
    /// be written any more.
    pub(crate) fn filled_to(&self) -> Option<PartitionOffset> {
        (self.filling && !self.retired).then_some(self.next)
    }

    /// The present recovery, if everything before `offset` is applied.
    pub(crate) fn reached(&self, offset: PartitionOffset) -> Option<Round> {
        self.caught_up().filter(|_| self.next >= offset)
    }

    pub(crate) fn is_current(&self, round: Round) -> bool {
        self.round == round.0
    }

    /// Sets the end of the log when the partition was taken. Readers wait until everything before it is applied.
    pub(crate) fn catch_up_to(&mut self, tail: PartitionOffset) {
        self.target = Some(tail);
    }

    /// The present recovery, if it has applied everything that was in the log when the partition was taken.
    pub(crate) fn caught_up(&self) -> Option<Round> {
        let reached = self.target.is_some_and(|target| self.next >= target);
        (self.filling && reached).then_some(Round(self.round))
    }

    /// Updates the budget, with the size of the open group.
    fn count(&mut self, group: Size) {
        let writing = self.writing.as_ref().map_or(Size::NONE, |writing| writing.layer.size());
        self.share.set(self.waiting.size().plus(writing), group);
    }

    pub(crate) fn get(&self, key: &StoreKey) -> Option<&Bytes> {
        let writing = || self.writing.as_ref()?.layer.values.get(key);
        self.waiting.values.get(key).or_else(writing)
    }

    pub(crate) fn numbers(&self, workspace: WorkspaceId) -> Option<&Numbers> {
        let writing = || self.writing.as_ref()?.layer.numbers.get(&workspace);
        self.waiting.numbers.get(&workspace).or_else(writing)
    }

    /// The overlay's values of a range, to be merged over those of the store. Has at least every value that is among the first
    /// `limit` of the merged range.
    pub(crate) fn snapshot(
        &self,
        partition: &[u8],
        range: &ClusteringRange,
        limit: usize,
    ) -> BTreeMap<Bytes, Bytes> {
        let mut found = BTreeMap::new();
        if let Some(writing) = &self.writing {
            writing.layer.snapshot(partition, range, limit, &mut found);
        }
        self.waiting.snapshot(partition, range, limit, &mut found);
        found
    }

    /// Adds what follows from a stretch of the log that ends with the entry `last`, before `next`. Values and offset change in one step: a reader finds all of a group or none
    /// of it.
    pub(crate) fn publish<'a>(
        &mut self,
        values: impl Iterator<Item = (StoreKey, Bytes)>,
        numbers: impl Iterator<Item = (WorkspaceId, &'a Numbers)>,
        (next, last): (PartitionOffset, Option<EntryMark>),
        log_bytes: usize,
    ) {
        debug_assert!(next >= self.next);
        for (key, value) in values {
            self.waiting.put(key, value);
        }
        for (workspace, numbers) in numbers {
            self.waiting.put_numbers(workspace, numbers);
        }
        let events = next.since(self.next).unwrap_or(0);
        self.ahead.add(Stretch { events, bytes: log_bytes as u64 });
        if next > self.next {
            (self.next, self.last) = (next, last);
        }
        self.count(Size::NONE);
    }

    pub(crate) fn generation(&self) -> Generation {
        Generation(self.generation)
    }

    /// Stops all further flushes. The values can still be read.
    pub(crate) fn retire(&mut self) {
        self.retired = true;
        // It will not be written any more, so it must not count against other partitions.
        self.ahead.forget_waiting();
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.retired
    }

    pub(crate) fn checkpoint(&self) -> PartitionOffset {
        self.checkpoint
    }

    /// The offset after the last applied event.
    pub(crate) fn next(&self) -> PartitionOffset {
        self.next
    }

    pub(crate) fn keys(&self) -> usize {
        self.share.layers.keys
    }

    pub(crate) fn bytes(&self) -> usize {
        self.share.layers.bytes
    }

    /// Events and bytes of the log that are not derived durably.
    pub(crate) fn ahead(&self) -> Stretch {
        self.ahead.sum()
    }

    /// Counts that the store has made `durable` writes durable. Returns whether that changed anything.
    pub(crate) fn settle(&mut self, durable: u64) -> bool {
        self.ahead.settle(durable)
    }

    pub(crate) fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    /// Counts the keys and bytes of the open group in the budget. Returns whether the group has to be closed.
    pub(crate) fn closes_group(&mut self, keys: usize, bytes: usize) -> bool {
        self.count(Size { keys, bytes });
        self.share.is_exceeded(&self.limits, true)
    }

    /// Removes the open group from the budget, because it was discarded.
    pub(crate) fn drop_group(&mut self) {
        self.count(Size::NONE);
    }

    /// Whether enough is unflushed to flush before the interval ends.
    pub(crate) fn wants_flush(&self) -> bool {
        self.has_work()
            && (self.waiting.size().keys >= self.share.flush_at(&self.limits) || self.needs_flush())
    }

    /// Whether so much is unflushed that a recovery flushes before it continues. `flush_at` does not count here: a value that
    /// changes several times during the recovery is then written once.
    pub(crate) fn needs_flush(&self) -> bool {
        self.share.is_exceeded(&self.limits, false) || self.ahead.wants_flush()
    }

    /// How many more keys may be added until a flush is needed: the number of keys within the limit, plus one.
    pub(crate) fn room(&self) -> usize {
        self.share.room(&self.limits) + 1
    }

    /// Whether there is anything to flush and no write is in progress.
    pub(crate) fn has_work(&self) -> bool {
        let changed = self.next > self.checkpoint || self.waiting.size() != Size::NONE;
        self.filling && !self.retired && self.writing.is_none() && changed
    }

    /// Why no group may be opened, if the limits are exceeded.
    pub(crate) fn backlog(&self) -> Option<Busy> {
        let is_full = self.share.is_exceeded(&self.limits, false) || self.ahead.is_exceeded();
        let (unflushed, Stretch { events, bytes }) = (self.keys(), self.ahead());
        is_full.then_some(Busy::Backlogged { unflushed, events, bytes })
    }

    /// Begins a flush: moves everything that waits to `writing`. Exactly one write is in progress at a time, so writes reach the
    /// store in the order of the log. The caller must call [`Self::flushed`] or [`Self::failed`] afterwards.
    pub(crate) fn start_flush(&mut self) -> FlushStart {
        if self.writing.is_some() && !self.retired {
            return FlushStart::InProgress;
        }
        if !self.has_work() {
            return FlushStart::Nothing;
        }
        let layer = std::mem::take(&mut self.waiting);
        let (next, last, stretch) = (self.next, self.last, self.ahead.waiting());
        let writing = Arc::new(Writing { layer, next, last, stretch });
        self.writing = Some(writing.clone());
        FlushStart::Begun(writing)
    }

    /// Ends a flush that succeeded, as write number `written` of the store. Its values leave the overlay. Values that have changed
    /// since are in `waiting` and remain. If a recovery has begun meanwhile, the checkpoint does not change: the recovery reads
    /// it from the store.
    pub(crate) fn flushed(&mut self, writing: &Writing, written: u64) {
        self.writing = None;
        self.generation += 1;
        self.ahead.hand(written, writing.stretch, self.filling && !self.retired);
        if self.filling {
            self.checkpoint = writing.next;
        }
        self.count(self.share.group);
    }

    /// Ends a flush that failed or is in doubt. Its values wait again, except those that have changed since. If a recovery has
    /// begun meanwhile, they are dropped: the recovery reads them from the log.
    pub(crate) fn failed(&mut self, writing: &Writing) {
        self.writing = None;
        if self.filling {
            self.waiting.put_older(&writing.layer);
        }
        self.count(self.share.group);
    }
}
