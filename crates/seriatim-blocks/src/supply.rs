//! The slow path: what is done under the lock. No I/O, no clock, no await.

use std::collections::VecDeque;

use crate::fast_path::{FastPath, Ticket};
use crate::stretch::{Meaning, Stretches};
use crate::sync::{Mutex, MutexGuard};
use crate::{Block, Counts};

/// Tickets that stay free after everything that is reserved, for void tickets.
const TICKETS_SPARE: u64 = 1 << 32;
/// How many numbers other threads can take from a block between its installation and its first use: one each, before they
/// have to wait for the lock.
const TAKEN_BETWEEN_MAX: u64 = 1_024;

/// The numbers that an allocator has, and the callers that wait for numbers.
#[derive(Debug)]
pub(crate) struct Supply<W> {
    pub(crate) fast_path: FastPath,
    state: Mutex<State<W>>,
}

#[derive(Debug)]
struct State<W> {
    stretches: Stretches,
    /// Blocks that could not be added to the stretch before them.
    ahead: VecDeque<Block>,
    /// Waiting callers, in the order of their calls.
    queue: VecDeque<Waiter<W>>,
    /// Whether the first of them could not be served from a block that was reserved for it.
    missed: bool,
    /// The next block is due when this many numbers are left.
    lookahead: u64,
    /// Whether blocks are being reserved in advance.
    filling: bool,
    /// Where the next block starts, if no other process reserves.
    next_base: u64,
    counts: Counts,
    closed: bool,
}

#[derive(Debug)]
struct Waiter<W> {
    id: u64,
    count: u64,
    caller: W,
}

/// The result of a call that took the slow path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Taken(Block),
    /// The caller waits, under this id.
    Waits(u64),
    Closed,
}

/// Numbers for a caller that waited.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Grant<W> {
    pub(crate) caller: W,
    pub(crate) numbers: Block,
}

/// What the supply needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    Nothing,
    /// A block, because a caller waits or because few numbers are left.
    Block {
        /// The smallest useful size.
        min: u64,
        /// The wanted size.
        want: u64,
        /// The largest useful size.
        room: u64,
        /// How many numbers are left.
        unused: u64,
    },
    /// The supply is closed: no further number will be taken.
    Closing,
}

impl<W> Supply<W> {
    pub(crate) fn new(next_base: u64, lookahead: u64, counts: Counts) -> Self {
        let fast_path = FastPath::new();
        fast_path.set_delta(next_base);
        Self {
            fast_path,
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

    /// For a caller whose numbers the fast path did not have: takes them, or adds the caller to the queue. `ticket` is what
    /// the fast path took, if it did. The second value says whether the refill task has to be woken.
    ///
    /// A ticket that maps to a number is used first, because the caller has already taken that number. Otherwise the caller
    /// takes new numbers, but only if no other caller waits.
    pub(crate) fn allocate_slow(
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
        // Callers that wait came before.
        let first = state.queue.is_empty();
        let taken = taken.or_else(|| first.then(|| state.take(&self.fast_path, count)).flatten());
        match taken {
            Some(numbers) => (Outcome::Taken(numbers), state.reopen(&self.fast_path)),
            None => (Outcome::Waits(state.enqueue(count, waiter())), true),
        }
    }

    /// What to reserve now.
    pub(crate) fn need(&self) -> Need {
        let mut state = self.lock();
        let unused = state.unused(&self.fast_path);
        let room = u64::MAX - TICKETS_SPARE;
        let room = room.saturating_sub(self.fast_path.cursor()).saturating_sub(unused);
        let (min, want) = match state.queue.front().map(|waiter| waiter.count) {
            _ if state.closed => return Need::Closing,
            Some(count) if state.missed => (count, count.saturating_add(TAKEN_BETWEEN_MAX)),
            Some(count) => (count, count),
            // Nothing is reserved in advance for an allocator that was never used.
            None if state.counts.blocks > 0 && state.wants_more(unused) => (1, 1),
            None => return Need::Nothing,
        };
        Need::Block { min, want, room, unused }
    }

    /// Adds a reserved block and serves waiting callers. If a caller cannot be reached, its numbers must be returned with
    /// [`Supply::put_back`].
    pub(crate) fn install(&self, block: Block, lookahead: u64) -> Vec<Grant<W>> {
        let mut state = self.lock();
        state.lookahead = lookahead;
        state.next_base = block.end().get();
        state.counts.reserved += block.size();
        state.counts.blocks += 1;
        state.add(block);
        let grants = state.serve(&self.fast_path);
        state.missed = grants.is_empty() && !state.queue.is_empty();
        state.reopen(&self.fast_path);
        grants
    }

    /// Removes the first waiting caller from the queue and returns it with its count; then serves those after it that can be
    /// served now.
    pub(crate) fn fail_first(&self) -> (Option<(W, u64)>, Vec<Grant<W>>) {
        let mut state = self.lock();
        let failed = state.queue.pop_front().map(|waiter| (waiter.caller, waiter.count));
        let grants = state.serve(&self.fast_path);
        state.reopen(&self.fast_path);
        (failed, grants)
    }

    /// Removes all waiting callers from the queue.
    pub(crate) fn fail_all(&self) -> Vec<W> {
        self.lock().queue.drain(..).map(|waiter| waiter.caller).collect()
    }

    /// Removes a caller that no longer waits, and serves those after it that can be served now. `None` if it was already
    /// served or has failed.
    pub(crate) fn stop_waiting(&self, id: u64) -> Option<Vec<Grant<W>>> {
        let mut state = self.lock();
        let place = state.queue.iter().position(|waiter| waiter.id == id)?;
        state.queue.remove(place);
        Some(state.serve(&self.fast_path))
    }

    /// Returns numbers that were granted to a caller that no longer waits. They are free again if they were taken last;
    /// otherwise they are wasted, because numbers have to rise.
    pub(crate) fn put_back(&self, numbers: Block) {
        let mut state = self.lock();
        let first = state.stretches.current.ticket(numbers.base().get());
        let back = first.is_some_and(|first| self.fast_path.return_last(first, first + numbers.size()));
        if !back {
            state.counts.wasted += numbers.size();
        }
    }

    /// Closes: no number is taken from now on. Returns the waiting callers, which must be answered.
    pub(crate) fn close(&self) -> Vec<W> {
        let mut state = self.lock();
        state.closed = true;
        let current = state.stretches.current;
        if let Some(rest) = current.rest(self.fast_path.close(current.end)) {
            state.ahead.push_front(rest);
        }
        state.queue.drain(..).map(|waiter| waiter.caller).collect()
    }

    /// After a close: all numbers that were not taken, as one run that ends with the last block. All others are wasted.
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

    /// Records whether the tail was given back.
    pub(crate) fn drained(&self, tail: Block, given_back: bool) {
        let mut state = self.lock();
        if given_back {
            state.counts.given_back += tail.size();
            state.next_base = tail.base().get();
        } else {
            state.counts.wasted += tail.size();
        }
    }

    /// The number that is taken next, if no other process takes or reserves any.
    pub(crate) fn peek(&self) -> u64 {
        let state = self.lock();
        let rest = state.stretches.current.rest(self.fast_path.cursor());
        let next = rest.or(state.ahead.front().copied());
        next.map_or(state.next_base, |block| block.base().get())
    }

    pub(crate) fn counts(&self) -> Counts {
        let state = self.lock();
        let unused = state.unused(&self.fast_path);
        Counts { unused, ..state.counts }
    }
}

impl<W> State<W> {
    fn enqueue(&mut self, count: u64, caller: W) -> u64 {
        self.counts.waits += 1;
        let id = self.counts.waits;
        self.queue.push_back(Waiter { id, count, caller });
        id
    }

    /// Whether to reserve in advance: from the time at which a block is due until one and a half times the lookahead is
    /// there. If blocks are used up in microseconds, waking the task for each block takes longer than reserving it.
    fn wants_more(&mut self, unused: u64) -> bool {
        let more = if self.filling { self.lookahead / 2 } else { 0 };
        self.filling = unused <= self.lookahead.saturating_add(more);
        self.filling
    }

    fn unused(&self, fast_path: &FastPath) -> u64 {
        let ahead: u64 = self.ahead.iter().map(|block| block.size()).sum();
        let rest = self.stretches.current.rest(fast_path.cursor()).map_or(0, Block::size);
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

    /// Takes numbers from the stretch, or from the first block ahead that is large enough. Numbers before that block are
    /// wasted, because numbers have to rise.
    fn take(&mut self, fast_path: &FastPath, count: u64) -> Option<Block> {
        loop {
            let current = self.stretches.current;
            if let Some(number) =
                fast_path.take_below(current.end, count).and_then(|ticket| current.number(ticket))
            {
                return Block::between(number, number + count);
            }
            let fits = self.ahead.iter().position(|block| block.size() >= count)?;
            let skipped: u64 = self.ahead.drain(..fits).map(Block::size).sum();
            let block = self.ahead.pop_front()?;
            let taken = fast_path.close(current.end);
            let rest = current.rest(taken).map_or(0, Block::size);
            self.counts.wasted += skipped + rest;
            self.stretches.start(taken.max(current.end), block);
            fast_path.set_delta(self.stretches.current.delta());
        }
    }

    fn serve(&mut self, fast_path: &FastPath) -> Vec<Grant<W>> {
        let mut grants = Vec::new();
        while let Some(count) = self.queue.front().map(|waiter| waiter.count) {
            let Some(numbers) = self.take(fast_path, count) else { break };
            let waiter = self.queue.pop_front();
            grants.extend(waiter.map(|Waiter { caller, .. }| Grant { caller, numbers }));
        }
        grants
    }

    /// Opens the fast path up to the ticket at which the next block is due, or to the end if it is already due. Returns
    /// whether it is.
    ///
    /// While a caller waits, others may still take the numbers that it could not use, up to the end.
    fn reopen(&mut self, fast_path: &FastPath) -> bool {
        let current = self.stretches.current;
        let ahead: u64 = self.ahead.iter().map(|block| block.size()).sum();
        let due_tickets = self.lookahead.saturating_sub(ahead);
        let fast_end = current.end.saturating_sub(due_tickets).max(current.start);
        let due = fast_path.cursor() >= fast_end || !self.queue.is_empty();
        fast_path.set_fast_end(if due { current.end } else { fast_end });
        due
    }
}
