//! Waiting for the workflow's own state.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use super::Context;
use crate::Cancelled;
use crate::runtime::{Cell, Condition, EndsWithScope, SharedRun, Wait, WaitingFor};

/// A wait for a condition on the workflow's own state. Made by [`Context::wait_until`].
#[must_use = "futures do nothing unless they are awaited"]
pub struct ConditionFuture {
    shared: Arc<SharedRun>,
    id: u64,
    held: Wait<()>,
    ends: EndsWithScope,
}

impl ConditionFuture {
    pub(super) fn new(ctx: &Context, holds: Box<dyn FnMut() -> bool + Send>) -> Self {
        let slot = Cell::new();
        let held = slot.wait(&ctx.shared.sched, WaitingFor::Condition);
        let ends = EndsWithScope::new(ctx);
        let mut state = ctx.shared.lock();
        let id = state.next_condition;
        state.next_condition += 1;
        state.conditions.insert(id, Condition { holds: Some(holds), slot });
        drop(state);
        Self { shared: Arc::clone(&ctx.shared), id, held, ends }
    }
}

impl Future for ConditionFuture {
    type Output = Result<(), Cancelled>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        match self.held.poll(cx) {
            Poll::Ready(()) => Poll::Ready(Ok(())),
            Poll::Pending => self.ends.poll(cx).map(Err),
        }
    }
}

impl Drop for ConditionFuture {
    fn drop(&mut self) {
        let forgotten = self.shared.lock().conditions.remove(&self.id);
        // It is code of the user's: its destructor may use the context, so the lock is not held.
        drop(forgotten);
    }
}
