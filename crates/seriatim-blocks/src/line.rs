//! The fast path: one `fetch_add`, no lock.
//!
//! Callers do not take numbers but *tickets*: 0, 1, 2, … since the allocator was opened. A ticket is taken by
//! `fetch_add`, which nobody can take back, so more tickets can be taken than there are numbers; what is behind the end
//! is void and stands for no number. A *stretch* is a run of tickets that stand for a run of numbers:
//!
//! ```text
//! tickets   [ stretch 1 ) void [ stretch 2 ………… fast_end …… end )
//!                              ^start    ^cursor
//! number = ticket + delta
//! ```
//!
//! Only whoever holds the lock of [`Supply`](crate::supply::Supply) changes `delta` and `fast_end`; everybody reads them.
//! `fast_end` is at most the stretch's end: from that ticket on a caller has to take the lock.
//!
//! Why two loads before the `fetch_add` are enough: `delta` is written before `fast_end`, so whoever reads a fast end
//! reads that stretch's delta or a later one's. If it is a later one's, its stretch starts at or behind the old fast
//! end, and was published after its start was read from the cursor; so the ticket taken next is not below the old fast
//! end and is refused. A stale pair is no harm either: stretches share no ticket, so a ticket below a stretch's fast end
//! is in it.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::sync::AtomicU64;

/// On a cache line of its own (two, because processors fetch pairs): readers of one must not wait for writers of
/// another.
#[repr(align(128))]
#[derive(Debug)]
struct OwnLine<T>(T);

/// What every caller touches.
#[derive(Debug)]
pub(crate) struct Line {
    /// The next ticket. Written by every caller.
    cursor: OwnLine<AtomicU64>,
    /// Written once or twice per block.
    published: OwnLine<Published>,
}

#[derive(Debug)]
struct Published {
    fast_end: AtomicU64,
    delta: AtomicU64,
}

/// A ticket that the fast path could not turn into a number. It may stand for one: ask under the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "the ticket may stand for a number"]
pub(crate) struct Ticket(pub(crate) u64);

impl Line {
    pub(crate) fn new() -> Self {
        Self {
            cursor: OwnLine(AtomicU64::new(0)),
            published: OwnLine(Published { fast_end: AtomicU64::new(0), delta: AtomicU64::new(0) }),
        }
    }

    /// Takes a ticket, and its number if it is below the fast end.
    #[inline]
    pub(crate) fn take_one(&self) -> Result<u64, Ticket> {
        let fast_end = self.published.0.fast_end.load(Acquire);
        let delta = self.published.0.delta.load(Acquire);
        let ticket = self.cursor.0.fetch_add(1, Relaxed);
        if ticket < fast_end { Ok(ticket.wrapping_add(delta)) } else { Err(Ticket(ticket)) }
    }

    /// Takes so many consecutive numbers if they are below the fast end; else nothing. `count` is not 0.
    #[inline]
    pub(crate) fn take(&self, count: u64) -> Option<u64> {
        let fast_end = self.published.0.fast_end.load(Acquire);
        let delta = self.published.0.delta.load(Acquire);
        let ticket = self.take_below(fast_end, count)?;
        Some(ticket.wrapping_add(delta))
    }

    /// Takes so many consecutive tickets if they are below `end`; else nothing.
    pub(crate) fn take_below(&self, end: u64, count: u64) -> Option<u64> {
        let mut ticket = self.cursor.0.load(Relaxed);
        loop {
            let next = ticket.checked_add(count).filter(|next| *next <= end)?;
            match self.cursor.0.compare_exchange_weak(ticket, next, Relaxed, Relaxed) {
                Ok(_) => return Some(ticket),
                Err(found) => ticket = found,
            }
        }
    }

    /// Under the lock: the next ticket, or an earlier one if others are taking some.
    pub(crate) fn cursor(&self) -> u64 {
        self.cursor.0.load(Relaxed)
    }

    /// Under the lock: voids all tickets below `end` that are not taken. Says from where on.
    pub(crate) fn close(&self, end: u64) -> u64 {
        self.cursor.0.fetch_max(end, Relaxed)
    }

    /// Under the lock: takes back tickets that were taken last of all, whose numbers nobody has seen.
    pub(crate) fn untake(&self, first: u64, next: u64) -> bool {
        self.cursor.0.compare_exchange(next, first, Relaxed, Relaxed).is_ok()
    }

    /// Under the lock, with every ticket below the old fast end taken or void: what tickets stand for from now on. The
    /// fast end keeps them out of use until it is moved.
    pub(crate) fn set_delta(&self, delta: u64) {
        self.published.0.delta.store(delta, Release);
    }

    /// Under the lock: opens the fast path up to `fast_end`.
    pub(crate) fn set_fast_end(&self, fast_end: u64) {
        self.published.0.fast_end.store(fast_end, Release);
    }
}
