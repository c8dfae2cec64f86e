//! What is committed and applied, and not in the store yet.
//!
//! ```text
//! log:  [ ........ checkpoint ........ writing.next ........ next )
//!         in the store       being written         waiting
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use seriatim_sequencer::{Busy, Numbers};
use seriatim_storage::ClusteringRange;
use seriatim_types::{PartitionOffset, WorkspaceId};

use super::ahead::{Ahead, Stretch};
use super::budget::{Budget, Limits, Share, Size};
use super::keys::StoreKey;
use super::layer::Layer;

/// What the flusher is writing.
#[derive(Debug)]
pub(crate) struct Writing {
    pub(crate) layer: Layer,
    /// The checkpoint that is written with it.
    pub(crate) next: PartitionOffset,
    stretch: Stretch,
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
    /// The layers and the open group, as the budget has them.
    share: Share,
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
    /// How far the log is ahead of what is durable.
    ahead: Ahead,
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
            ahead: Ahead::new(budget.clone(), limits.own_ahead),
            share: Share::new(budget),
            round: 0,
            filling: false,
            target: None,
            waiting: Layer::default(),
            writing: None,
            next: PartitionOffset::FIRST,
            checkpoint: PartitionOffset::FIRST,
            generation: 0,
            held: false,
            retired: false,
        }
    }

    /// Forgets what waits, because a recovery will find it in the log again. A write that is under way continues, and must
    /// have returned before the recovery reads: otherwise an older value could be written over a newer one.
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

    /// Changes values that follow from no new event.
    pub(crate) fn put(&mut self, values: impl Iterator<Item = (StoreKey, Bytes)>) {
        for (key, value) in values {
            self.waiting.put(key, value);
        }
        self.count(self.share.group);
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

    /// Tells the budget what has changed, with what the open group has.
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

    /// What it has of a range, to be laid over what the store has: all that is among the first `limit` of both.
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

    /// Takes in what follows from a stretch of the log, values and offset in one step.
    pub(crate) fn publish<'a>(
        &mut self,
        values: impl Iterator<Item = (StoreKey, Bytes)>,
        numbers: impl Iterator<Item = (WorkspaceId, &'a Numbers)>,
        next: PartitionOffset,
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
        self.next = next;
        self.count(Size::NONE);
    }

    pub(crate) fn generation(&self) -> Generation {
        Generation(self.generation)
    }

    /// Hands out nothing to be written from now on. What it holds can still be read.
    pub(crate) fn retire(&mut self) {
        self.retired = true;
        // It is handed to the store no more, and must not count against others.
        self.ahead.forget_waiting();
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.retired
    }

    pub(crate) fn checkpoint(&self) -> PartitionOffset {
        self.checkpoint
    }

    /// Where what is applied ends.
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

    /// The store has made so many writes durable. Whether that was news.
    pub(crate) fn settle(&mut self, durable: u64) -> bool {
        self.ahead.settle(durable)
    }

    pub(crate) fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    /// Counts what the open group has, in keys and in bytes of keys and values, and says whether it has to be closed.
    pub(crate) fn closes_group(&mut self, keys: usize, bytes: usize) -> bool {
        self.count(Size { keys, bytes });
        self.share.is_exceeded(&self.limits, true)
    }

    /// The open group was given up.
    pub(crate) fn drop_group(&mut self) {
        self.count(Size::NONE);
    }

    /// Whether so much waits that a flush should not wait for the timer.
    pub(crate) fn wants_flush(&self) -> bool {
        self.has_work() && (self.waiting.size().keys >= self.limits.flush_at || self.needs_flush())
    }

    /// Whether so much waits that a recovery flushes before it continues. Not `flush_at`: what comes again is then written
    /// once.
    pub(crate) fn needs_flush(&self) -> bool {
        self.share.is_exceeded(&self.limits, false) || self.ahead.wants_flush()
    }

    /// How many keys may come before a flush is needed, and one more.
    pub(crate) fn room(&self) -> usize {
        self.share.room(&self.limits) + 1
    }

    /// Whether anything waits at all.
    pub(crate) fn has_work(&self) -> bool {
        let changed = self.next > self.checkpoint || self.waiting.size() != Size::NONE;
        self.filling && !self.retired && self.writing.is_none() && changed
    }

    /// Why no group may be opened.
    pub(crate) fn backlog(&self) -> Option<Busy> {
        let is_full = self.share.is_exceeded(&self.limits, false) || self.ahead.is_exceeded();
        let (unflushed, Stretch { events, bytes }) = (self.keys(), self.ahead());
        is_full.then_some(Busy::Backlogged { unflushed, events, bytes })
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
        let writing = Arc::new(Writing { layer, next: self.next, stretch: self.ahead.waiting() });
        self.writing = Some(writing.clone());
        FlushStart::Begun(writing)
    }

    /// The write has returned, as number `written` of the store: what it held leaves; what has changed since waits in its
    /// own layer.
    pub(crate) fn flushed(&mut self, writing: &Writing, written: u64) {
        self.writing = None;
        self.generation += 1;
        self.ahead.hand(written, writing.stretch, self.filling && !self.retired);
        if self.filling {
            self.checkpoint = writing.next;
        }
        self.count(self.share.group);
    }

    /// The write has failed, or is in doubt: what it held waits again, unless it has changed since.
    pub(crate) fn failed(&mut self, writing: &Writing) {
        self.writing = None;
        if self.filling {
            self.waiting.put_older(&writing.layer);
        }
        self.count(self.share.group);
    }
}
