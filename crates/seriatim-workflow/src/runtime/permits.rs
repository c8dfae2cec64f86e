//! Permits, and who waits for one: first come, first served.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use seriatim_types::sync::{Mutex, MutexGuard};

use super::sched::{Sched, WaitingFor, is_current};
use super::slot::{Cell, EndsWithScope, Wait};
use crate::{Cancelled, Context, ForeignWait};

/// Permits for the branches of one run. A clone has the same ones.
#[derive(Clone)]
pub(crate) struct Permits {
    inner: Arc<Mutex<Inner>>,
    sched: Arc<Sched>,
}

struct Inner {
    /// None is free while someone waits.
    free: usize,
    /// No task needs a permit any more.
    is_open: bool,
    /// Who waits, in the order in which they came. A cell is set when its permit is given.
    waiting: BTreeMap<u64, Cell<()>>,
    next: u64,
}

impl Permits {
    pub(crate) fn new(ctx: &Context, free: usize) -> Self {
        let inner = Inner { free, is_open: false, waiting: BTreeMap::new(), next: 0 };
        Self { inner: Arc::new(Mutex::new(inner)), sched: Arc::clone(&ctx.shared.sched) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    /// One permit more: for the first who waits, if there is one.
    pub(crate) fn add(&self) {
        let first = {
            let mut inner = self.lock();
            let first = inner.waiting.pop_first();
            if first.is_none() {
                inner.free = inner.free.saturating_add(1);
            }
            first
        };
        if let Some((_, cell)) = first {
            cell.set(());
        }
    }

    /// From now on no task waits.
    pub(crate) fn open(&self) {
        let waiting = {
            let mut inner = self.lock();
            inner.is_open = true;
            std::mem::take(&mut inner.waiting)
        };
        for cell in waiting.into_values() {
            cell.set(());
        }
    }

    /// A wait for a permit, shown as `what` by an inspection. It takes its place in the queue when it is first polled.
    pub(crate) fn acquire(&self, ctx: &Context, what: WaitingFor) -> Acquire {
        Acquire { permits: self.clone(), what, ends: EndsWithScope::always(ctx), place: None }
    }

    /// Takes a free permit, or a place in the queue.
    fn join(&self) -> Option<(u64, Cell<()>)> {
        let mut inner = self.lock();
        if inner.is_open {
            return None;
        }
        if inner.free > 0 {
            inner.free -= 1;
            return None;
        }
        let (place, cell) = (inner.next, Cell::new());
        inner.next += 1;
        inner.waiting.insert(place, cell.clone());
        Some((place, cell))
    }

    /// Gives a place in the queue up. A permit that was given to it goes to the next.
    fn leave(&self, place: u64, cell: &Cell<()>) {
        self.lock().waiting.remove(&place);
        if cell.is_set() {
            self.add();
        }
    }
}

/// One wait for a permit. The task that gets it gives it back with [`Permits::add`].
pub(crate) struct Acquire {
    permits: Permits,
    what: WaitingFor,
    ends: EndsWithScope,
    /// Where it waits; none before it is polled and after it has ended.
    place: Option<Place>,
}

struct Place {
    number: u64,
    cell: Cell<()>,
    wait: Wait<()>,
}

impl Acquire {
    fn leave(&mut self) {
        if let Some(place) = self.place.take() {
            self.permits.leave(place.number, &place.cell);
        }
    }
}

impl Future for Acquire {
    type Output = Result<(), Cancelled>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        if self.place.is_none() {
            if !is_current(&self.permits.sched) {
                self.permits.sched.report(ForeignWait::Called);
                return Poll::Pending;
            }
            let Some((number, cell)) = self.permits.join() else { return Poll::Ready(Ok(())) };
            let wait = cell.wait(&self.permits.sched, self.what.clone());
            self.place = Some(Place { number, cell, wait });
        }
        if let Some(place) = &mut self.place
            && place.wait.poll(cx).is_ready()
        {
            self.place = None;
            return Poll::Ready(Ok(()));
        }
        let ended = self.ends.poll(cx);
        if ended.is_ready() {
            self.leave();
        }
        ended.map(Err)
    }
}

impl Drop for Acquire {
    fn drop(&mut self) {
        self.leave();
    }
}
