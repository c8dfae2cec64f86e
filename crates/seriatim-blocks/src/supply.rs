//! The slow path: what happens under the lock. No I/O, no clock, no await.

use std::collections::VecDeque;

use crate::line::{Line, Ticket};
use crate::stretch::{Meaning, Stretches};
use crate::sync::{Mutex, MutexGuard};
use crate::{Block, Counts};

/// Tickets that stay free behind everything that is reserved, for those that are taken and void.
const TICKETS_SPARE: u64 = 1 << 32;
/// Numbers that other threads can take from a block between its arrival and its first use: one each, before they have
/// to wait for the lock.
const TAKEN_BETWEEN_MAX: u64 = 1_024;

/// The numbers that an allocator holds, and those who wait for some.
#[derive(Debug)]
pub(crate) struct Supply<W> {
    pub(crate) line: Line,
    state: Mutex<State<W>>,
}

#[derive(Debug)]
struct State<W> {
    stretches: Stretches,
    /// Blocks that could not join the stretch before them.
    ahead: VecDeque<Block>,
    /// Those who wait, first come first served.
    queue: VecDeque<Waiter<W>>,
    /// Whether the first of them could not be served from a block that was fetched for it.
    missed: bool,
    /// When so many numbers are left, it is time for the next block.
    lookahead: u64,
    /// Whether blocks are being fetched ahead.
    filling: bool,
    /// Where the next block would start, if nobody else reserves.
    next_base: u64,
    counts: Counts,
    closed: bool,
}

#[derive(Debug)]
struct Waiter<W> {
    id: u64,
    count: u64,
    whom: W,
}

/// What came of a call that took the slow path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Taken(Block),
    /// It waits, under this id.
    Waits(u64),
    Closed,
}

/// Numbers for one who waited.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Grant<W> {
    pub(crate) whom: W,
    pub(crate) numbers: Block,
}

/// What the supply needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    Nothing,
    /// A block, for somebody who waits or because few are left.
    Block {
        /// It has to hold so many.
        min: u64,
        /// It should hold so many.
        want: u64,
        /// More are of no use.
        room: u64,
        /// So many are left.
        unused: u64,
    },
    /// To be closed: nobody will take another number.
    Closing,
}

impl<W> Supply<W> {
    pub(crate) fn new(next_base: u64, lookahead: u64, counts: Counts) -> Self {
        let line = Line::new();
        line.set_delta(next_base);
        Self {
            line,
            state: Mutex::new(State {
                stretches: Stretches::new(next_base),
                ahead: VecDeque::new(),
                queue: VecDeque::new(),
                missed: false,
                lookahead,
                filling: false,
                next_base,
                counts,
                closed: false,
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<W>> {
        self.state.lock()
    }

    /// For a caller whose numbers the fast path did not have: takes them, or queues up. `ticket` is what the fast path
    /// took, if it did. The second value says whether the refill has to be told.
    pub(crate) fn attend(
        &self,
        ticket: Option<Ticket>,
        count: u64,
        waiter: impl FnOnce() -> W,
    ) -> (Outcome, bool) {
        let mut state = self.lock();
        let taken = match ticket.map(|Ticket(ticket)| state.stretches.resolve(ticket)) {
            Some(Meaning::Number(number)) => Block::between(number, number + 1),
            Some(Meaning::Forgotten) => {
                state.counts.wasted += 1;
                None
            }
            Some(Meaning::Void) | None => None,
        };
        if taken.is_none() && state.closed {
            return (Outcome::Closed, false);
        }
        // Whoever waits was here before.
        let first = state.queue.is_empty();
        let taken = taken.or_else(|| first.then(|| state.take(&self.line, count)).flatten());
        match taken {
            Some(numbers) => (Outcome::Taken(numbers), state.reopen(&self.line)),
            None => (Outcome::Waits(state.enqueue(count, waiter())), true),
        }
    }

    /// What to fetch now.
    pub(crate) fn need(&self) -> Need {
        let mut state = self.lock();
        let unused = state.unused(&self.line);
        let room = u64::MAX - TICKETS_SPARE;
        let room = room.saturating_sub(self.line.cursor()).saturating_sub(unused);
        let (min, want) = match state.queue.front().map(|waiter| waiter.count) {
            _ if state.closed => return Need::Closing,
            Some(count) if state.missed => (count, count.saturating_add(TAKEN_BETWEEN_MAX)),
            Some(count) => (count, count),
            // Nothing is fetched ahead for an allocator that nobody has used.
            None if state.counts.blocks > 0 && state.wants_more(unused) => (1, 1),
            None => return Need::Nothing,
        };
        Need::Block { min, want, room, unused }
    }

    /// Takes in a reserved block and serves those who wait. Whoever cannot be told gives the numbers back:
    /// [`Supply::put_back`].
    pub(crate) fn install(&self, block: Block, lookahead: u64) -> Vec<Grant<W>> {
        let mut state = self.lock();
        state.lookahead = lookahead;
        state.next_base = block.end().get();
        state.counts.reserved += block.size();
        state.counts.blocks += 1;
        state.add(block);
        let grants = state.serve(&self.line);
        state.missed = grants.is_empty() && !state.queue.is_empty();
        state.reopen(&self.line);
        grants
    }

    /// Takes the first of those who wait out of the queue, with how many it wanted; then those behind it who can be
    /// served now.
    pub(crate) fn fail_first(&self) -> (Option<(W, u64)>, Vec<Grant<W>>) {
        let mut state = self.lock();
        let failed = state.queue.pop_front().map(|waiter| (waiter.whom, waiter.count));
        let grants = state.serve(&self.line);
        state.reopen(&self.line);
        (failed, grants)
    }

    /// Takes all who wait out of the queue.
    pub(crate) fn fail_all(&self) -> Vec<W> {
        self.lock().queue.drain(..).map(|waiter| waiter.whom).collect()
    }

    /// Somebody does not wait any more. Nothing if it was served or failed before; else those behind it who can be
    /// served now.
    pub(crate) fn leave(&self, id: u64) -> Option<Vec<Grant<W>>> {
        let mut state = self.lock();
        let place = state.queue.iter().position(|waiter| waiter.id == id)?;
        state.queue.remove(place);
        Some(state.serve(&self.line))
    }

    /// Numbers that were granted to somebody who is gone: free again if they were the last to be taken, else wasted,
    /// because numbers have to rise.
    pub(crate) fn put_back(&self, numbers: Block) {
        let mut state = self.lock();
        let first = state.stretches.present.ticket(numbers.base().get());
        let back = first.is_some_and(|first| self.line.untake(first, first + numbers.size()));
        if !back {
            state.counts.wasted += numbers.size();
        }
    }

    /// Closes: no number is taken from now on. Those who wait come back, to be told.
    pub(crate) fn close(&self) -> Vec<W> {
        let mut state = self.lock();
        state.closed = true;
        let present = state.stretches.present;
        if let Some(rest) = present.rest(self.line.close(present.end)) {
            state.ahead.push_front(rest);
        }
        state.queue.drain(..).map(|waiter| waiter.whom).collect()
    }

    /// After a close: everything that nobody took, as one run that ends with the last block; the rest is wasted.
    pub(crate) fn drain(&self) -> Option<Block> {
        let mut state = self.lock();
        let mut tail = state.ahead.pop_back()?;
        while let Some(run) = state.ahead.pop_back_if(|run| run.end() == tail.base()) {
            tail = Block::between(run.base().get(), tail.end().get())?;
        }
        let wasted: u64 = state.ahead.drain(..).map(Block::size).sum();
        state.counts.wasted += wasted;
        Some(tail)
    }

    /// What became of the tail.
    pub(crate) fn drained(&self, tail: Block, given_back: bool) {
        let mut state = self.lock();
        if given_back {
            state.counts.given_back += tail.size();
            state.next_base = tail.base().get();
        } else {
            state.counts.wasted += tail.size();
        }
    }

    /// The number that would be taken next, if nobody else takes or reserves any.
    pub(crate) fn peek(&self) -> u64 {
        let state = self.lock();
        let rest = state.stretches.present.rest(self.line.cursor());
        let next = rest.or(state.ahead.front().copied());
        next.map_or(state.next_base, |block| block.base().get())
    }

    pub(crate) fn counts(&self) -> Counts {
        let state = self.lock();
        let unused = state.unused(&self.line);
        Counts { unused, ..state.counts }
    }
}

impl<W> State<W> {
    fn enqueue(&mut self, count: u64, whom: W) -> u64 {
        self.counts.waits += 1;
        let id = self.counts.waits;
        self.queue.push_back(Waiter { id, count, whom });
        id
    }

    /// Whether to fetch ahead: from when a block is due until half as many again are there. To be woken for every block
    /// costs more than to fetch it, if blocks are used up in microseconds.
    fn wants_more(&mut self, unused: u64) -> bool {
        let more = if self.filling { self.lookahead / 2 } else { 0 };
        self.filling = unused <= self.lookahead.saturating_add(more);
        self.filling
    }

    fn unused(&self, line: &Line) -> u64 {
        let ahead: u64 = self.ahead.iter().map(|block| block.size()).sum();
        let rest = self.stretches.present.rest(line.cursor()).map_or(0, Block::size);
        ahead.saturating_add(rest)
    }

    fn add(&mut self, block: Block) {
        if !self.closed && self.ahead.is_empty() && self.stretches.extend(block) {
            return;
        }
        let adjacent = self.ahead.pop_back_if(|last| last.end() == block.base());
        let base = adjacent.map_or(block.base(), Block::base);
        self.ahead.extend(Block::between(base.get(), block.end().get()));
    }

    /// Takes from the stretch, or from the first block ahead that is large enough; what lies before that is wasted,
    /// because numbers have to rise.
    fn take(&mut self, line: &Line, count: u64) -> Option<Block> {
        loop {
            let present = self.stretches.present;
            if let Some(number) =
                line.take_below(present.end, count).and_then(|ticket| present.number(ticket))
            {
                return Block::between(number, number + count);
            }
            let fits = self.ahead.iter().position(|block| block.size() >= count)?;
            let skipped: u64 = self.ahead.drain(..fits).map(Block::size).sum();
            let block = self.ahead.pop_front()?;
            let taken = line.close(present.end);
            let rest = present.rest(taken).map_or(0, Block::size);
            self.counts.wasted += skipped + rest;
            self.stretches.start(taken.max(present.end), block);
            line.set_delta(self.stretches.present.delta());
        }
    }

    fn serve(&mut self, line: &Line) -> Vec<Grant<W>> {
        let mut grants = Vec::new();
        while let Some(count) = self.queue.front().map(|waiter| waiter.count) {
            let Some(numbers) = self.take(line, count) else { break };
            let waiter = self.queue.pop_front();
            grants.extend(waiter.map(|Waiter { whom, .. }| Grant { whom, numbers }));
        }
        grants
    }

    /// Opens the fast path up to where the next block is due, or to the end if it is due already. Says whether it is.
    ///
    /// While somebody waits, callers may still take what the waiting could not use, up to the end.
    fn reopen(&mut self, line: &Line) -> bool {
        let present = self.stretches.present;
        let ahead: u64 = self.ahead.iter().map(|block| block.size()).sum();
        let due_tickets = self.lookahead.saturating_sub(ahead);
        let fast_end = present.end.saturating_sub(due_tickets).max(present.start);
        let due = line.cursor() >= fast_end || !self.queue.is_empty();
        line.set_fast_end(if due { present.end } else { fast_end });
        due
    }
}
