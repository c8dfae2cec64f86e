//! Values that are set once and awaited by many.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker};

use seriatim_types::sync::{Mutex, MutexGuard};

use super::sched::{Sched, SchedInner, TaskId, WaitingFor, is_current};
use crate::{Cancelled, Context, ForeignWait};

/// What a slot is inside: a value that is set once, and who waits for it.
pub(crate) struct Cell<T>(Arc<Mutex<Inner<T>>>);

struct Inner<T> {
    is_set: bool,
    value: Option<T>,
    /// Who waits, by the order in which they came. Most slots have one waiter: it needs no map.
    first: Option<(u64, Waker)>,
    rest: BTreeMap<u64, Waker>,
    next: u64,
}

impl<T> Clone for Cell<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Cell<T> {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Inner {
            is_set: false,
            value: None,
            first: None,
            rest: BTreeMap::new(),
            next: 0,
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        self.0.lock()
    }

    /// Sets the value and wakes who waits, in the order in which they came. A second value is refused.
    pub(crate) fn set(&self, value: T) -> bool {
        let (first, rest) = {
            let mut inner = self.lock();
            if inner.is_set {
                return false;
            }
            inner.is_set = true;
            inner.value = Some(value);
            (inner.first.take(), std::mem::take(&mut inner.rest))
        };
        if let Some((_, waker)) = first {
            waker.wake();
        }
        rest.into_values().for_each(Waker::wake);
        true
    }

    pub(crate) fn is_set(&self) -> bool {
        self.lock().is_set
    }

    /// A wait for the value, shown as `what` by an inspection.
    pub(crate) fn wait(&self, sched: &Arc<Sched>, what: WaitingFor) -> Wait<T> {
        Wait { cell: self.clone(), sched: Arc::clone(sched), what: Some(what), registered: None }
    }
}

impl<T> Inner<T> {
    fn join(&mut self, waker: &Waker) -> u64 {
        let place = self.next;
        self.next += 1;
        if self.first.is_none() && self.rest.is_empty() {
            self.first = Some((place, waker.clone()));
        } else {
            self.rest.insert(place, waker.clone());
        }
        place
    }

    fn stay(&mut self, place: u64, waker: &Waker) {
        match &mut self.first {
            Some((first, old)) if *first == place => old.clone_from(waker),
            _ => {
                self.rest.insert(place, waker.clone());
            }
        }
    }

    fn leave(&mut self, place: u64) {
        if self.first.as_ref().is_some_and(|(first, _)| *first == place) {
            self.first = None;
        } else {
            self.rest.remove(&place);
        }
    }
}

/// One wait for a cell's value.
pub(crate) struct Wait<T> {
    cell: Cell<T>,
    sched: Arc<Sched>,
    what: Option<WaitingFor>,
    registered: Option<Registered>,
}

/// The places of a wait: in the scheduler's list, and in the cell's.
#[derive(Clone, Copy)]
struct Registered {
    id: usize,
    task: TaskId,
    place: u64,
}

impl<T> Wait<T> {
    /// What `read` makes of the value once it is there.
    pub(crate) fn poll_with<R>(
        &mut self,
        cx: &TaskContext<'_>,
        read: impl FnOnce(&mut Option<T>) -> R,
    ) -> Poll<R> {
        {
            let mut inner = self.cell.lock();
            if inner.is_set {
                let value = read(&mut inner.value);
                drop(inner);
                self.end();
                return Poll::Ready(value);
            }
            if let Some(registered) = &mut self.registered {
                if !SchedInner::is_present(registered.task) {
                    registered.task = self.sched.lock().moved(registered.id);
                }
                inner.stay(registered.place, cx.waker());
                return Poll::Pending;
            }
            if is_current(&self.sched) {
                let (id, task) = self.sched.lock().waits(self.what.take().unwrap_or(WaitingFor::Slot));
                let place = inner.join(cx.waker());
                self.registered = Some(Registered { id, task, place });
                return Poll::Pending;
            }
        }
        self.sched.report(ForeignWait::Called);
        Poll::Pending
    }

    fn end(&mut self) {
        if let Some(registered) = self.registered.take() {
            self.sched.lock().ended(registered.id);
        }
    }
}

impl<T> Wait<T> {
    /// The value itself, for the one task that waits for it: no other task can read it afterwards.
    pub(crate) fn poll_take(&mut self, cx: &TaskContext<'_>) -> Poll<T> {
        match self.poll_with(cx, Option::take) {
            Poll::Ready(Some(value)) => Poll::Ready(value),
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }
}

impl<T: Clone> Wait<T> {
    pub(crate) fn poll(&mut self, cx: &TaskContext<'_>) -> Poll<T> {
        match self.poll_with(cx, |value| value.clone()) {
            Poll::Ready(Some(value)) => Poll::Ready(value),
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }
}

impl<T: Clone> Future for Wait<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<T> {
        Self::poll(&mut self, cx)
    }
}

impl<T> Drop for Wait<T> {
    fn drop(&mut self) {
        if let Some(registered) = self.registered {
            self.cell.lock().leave(registered.place);
        }
        self.end();
    }
}

/// A value that is set once and awaited by many, for the branches of one run. Made by
/// [`Context::slot`](crate::Context::slot).
#[derive(Clone)]
pub struct Slot<T> {
    cell: Cell<T>,
    ctx: Context,
}

impl<T: Clone> Slot<T> {
    pub(crate) fn new(ctx: &Context) -> Self {
        Self { cell: Cell::new(), ctx: ctx.clone() }
    }

    /// Sets the value and wakes the tasks that wait for it. Returns false, and changes nothing, if it was set before.
    pub fn set(&self, value: T) -> bool {
        self.cell.set(value)
    }

    /// Whether the value has been set.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.cell.is_set()
    }

    /// The value, once it is set. The future ends with [`Cancelled`] if the scope of the context that made the slot is
    /// cancelled first.
    pub fn wait(&self) -> SlotFuture<T> {
        self.wait_in(&self.ctx)
    }

    /// The value, once it is set. The future ends with [`Cancelled`] if the scope of this context is cancelled first: for
    /// a branch that waits for a slot of another one.
    pub fn wait_in(&self, ctx: &Context) -> SlotFuture<T> {
        let wait = self.cell.wait(&ctx.shared.sched, WaitingFor::Slot);
        SlotFuture { wait, ends: EndsWithScope::new(ctx) }
    }
}

/// A wait for the value of a [`Slot`].
#[must_use = "futures do nothing unless they are awaited"]
pub struct SlotFuture<T> {
    wait: Wait<T>,
    ends: EndsWithScope,
}

impl<T: Clone> Future for SlotFuture<T> {
    type Output = Result<T, Cancelled>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        match Wait::poll(&mut self.wait, cx) {
            Poll::Ready(value) => Poll::Ready(Ok(value)),
            Poll::Pending => self.ends.poll(cx).map(Err),
        }
    }
}

/// The end of a wait with its scope.
pub(crate) struct EndsWithScope(Option<Wait<Arc<str>>>);

impl EndsWithScope {
    /// By the rules of the run.
    pub(crate) fn new(ctx: &Context) -> Self {
        if ctx.ends_waits() { Self::always(ctx) } else { Self(None) }
    }

    /// By any rules.
    pub(crate) fn always(ctx: &Context) -> Self {
        Self(Some(ctx.scope.cancelled.wait(&ctx.shared.sched, WaitingFor::Cancellation)))
    }

    pub(crate) fn poll(&mut self, cx: &TaskContext<'_>) -> Poll<Cancelled> {
        let Some(cancelled) = &mut self.0 else { return Poll::Pending };
        cancelled.poll(cx).map(|reason| Cancelled { reason: reason.to_string() })
    }
}
