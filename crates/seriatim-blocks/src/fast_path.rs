//! The fast path: one `fetch_add` and no lock.
//!
//! Callers do not take numbers but *tickets*: 0, 1, 2, … since the allocator was opened. A ticket is taken by `fetch_add`,
//! which cannot be undone, so more tickets can be taken than there are numbers. Tickets after the end are void: they map to
//! no number. A *stretch* is a run of tickets that map to a run of numbers:
//!
//! ```text
//! tickets   [ stretch 1 ) void [ stretch 2 ………… fast_end …… end )
//!                              ^start    ^cursor
//! number = ticket + delta
//! ```
//!
//! `delta` and `fast_end` are changed only under the lock of [`Supply`](crate::supply::Supply), and read without it.
//! `fast_end` is at most the stretch's end: from that ticket on a caller has to take the lock.
//!
//! Why two loads before the `fetch_add` are enough: `delta` is written before `fast_end`, so a caller that reads a fast end
//! reads the delta of that stretch or of a later one. If it is that of a later one, the later stretch starts at or after
//! the old fast end, and was published after its start was read from the cursor. So the ticket that is taken next is not
//! below the old fast end and is refused. An outdated pair of both does no harm either: stretches have no ticket in common,
//! so a ticket below a stretch's fast end is in that stretch.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::sync::AtomicU64;

/// Aligned to its own cache line (two lines, because processors fetch pairs), so that readers of one value do not wait for
/// writers of another.
#[repr(align(128))]
#[derive(Debug)]
struct CacheAligned<T>(T);

/// The values that every call uses.
#[derive(Debug)]
pub(crate) struct FastPath {
    /// The next ticket. Written by every caller.
    cursor: CacheAligned<AtomicU64>,
    /// Written once or twice per block.
    published: CacheAligned<Published>,
}

#[derive(Debug)]
struct Published {
    fast_end: AtomicU64,
    delta: AtomicU64,
}

/// A ticket that the fast path could not map to a number. It may map to one; that is determined under the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "the ticket may map to a number"]
pub(crate) struct Ticket(pub(crate) u64);

impl FastPath {
    pub(crate) fn new() -> Self {
        Self {
            cursor: CacheAligned(AtomicU64::new(0)),
            published: CacheAligned(Published { fast_end: AtomicU64::new(0), delta: AtomicU64::new(0) }),
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

    /// Takes `count` consecutive numbers if they are below the fast end; otherwise nothing. `count` is not 0.
    #[inline]
    pub(crate) fn take(&self, count: u64) -> Option<u64> {
        let fast_end = self.published.0.fast_end.load(Acquire);
        let delta = self.published.0.delta.load(Acquire);
        let ticket = self.take_below(fast_end, count)?;
        Some(ticket.wrapping_add(delta))
    }

    /// Takes `count` consecutive tickets if they are below `end`; otherwise nothing.
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

    /// Under the lock: the next ticket, or an earlier one if other callers are taking some.
    pub(crate) fn cursor(&self) -> u64 {
        self.cursor.0.load(Relaxed)
    }

    /// Under the lock: makes all tickets below `end` that are not taken void. Returns the first of them.
    pub(crate) fn close(&self, end: u64) -> u64 {
        self.cursor.0.fetch_max(end, Relaxed)
    }

    /// Under the lock: returns tickets that were taken last and whose numbers were not given out. Returns whether it
    /// succeeded.
    pub(crate) fn return_last(&self, first: u64, next: u64) -> bool {
        self.cursor.0.compare_exchange(next, first, Relaxed, Relaxed).is_ok()
    }

    /// Under the lock, when every ticket below the old fast end is taken or void: sets what tickets map to from now on.
    /// They are not used until the fast end is moved.
    pub(crate) fn set_delta(&self, delta: u64) {
        self.published.0.delta.store(delta, Release);
    }

    /// Under the lock: opens the fast path up to `fast_end`.
    pub(crate) fn set_fast_end(&self, fast_end: u64) {
        self.published.0.fast_end.store(fast_end, Release);
    }
}
