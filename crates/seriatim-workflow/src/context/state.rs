//! The workflow's own state, which handlers read and change.

use std::sync::Arc;

use seriatim_types::sync::RwLock;

use super::{ConditionFuture, Context};
use crate::ForeignWait;
use crate::runtime::is_current;

impl Context {
    /// State that the branches and the handlers of this run share. A clone of what it returns is the same state.
    ///
    /// ```
    /// # use seriatim_workflow::{Context, Exit};
    /// struct Progress {
    ///     done: u32,
    ///     is_paused: bool,
    /// }
    ///
    /// async fn work(ctx: Context, steps: Vec<String>) -> Result<u32, Exit> {
    ///     let progress = ctx.state(Progress { done: 0, is_paused: false });
    ///     ctx.on_query("done", &progress, |progress, ()| Ok(progress.done));
    ///     ctx.on_signal("pause", &progress, |progress, is_paused| progress.is_paused = is_paused);
    ///     for step in steps {
    ///         progress.wait_until(|progress| !progress.is_paused).await?;
    ///         ctx.activity::<_, ()>("do", step).await?;
    ///         progress.change(|progress| progress.done += 1);
    ///     }
    ///     Ok(progress.read(|progress| progress.done))
    /// }
    /// ```
    pub fn state<S>(&self, value: S) -> WorkflowState<S> {
        WorkflowState { value: Arc::new(RwLock::new(value)), ctx: self.clone() }
    }
}

/// State that the branches and the handlers of one run share. Made by [`Context::state`]; a clone is the same state.
///
/// It is read and changed in closures, which cannot wait: so no other branch sees it half changed.
pub struct WorkflowState<S> {
    value: Arc<RwLock<S>>,
    ctx: Context,
}

impl<S> Clone for WorkflowState<S> {
    fn clone(&self) -> Self {
        Self { value: Arc::clone(&self.value), ctx: self.ctx.clone() }
    }
}

impl<S: Send + Sync + 'static> WorkflowState<S> {
    /// Reads the state with `look`, and returns what that returns.
    ///
    /// # Panics
    ///
    /// Inside a closure that changes this same state: that closure has the state already.
    pub fn read<R>(&self, look: impl FnOnce(&S) -> R) -> R {
        match self.value.try_read() {
            Some(value) => look(&value),
            None => panic!("{IN_USE}"),
        }
    }

    /// A copy of the state.
    ///
    /// # Panics
    ///
    /// As [`read`](Self::read).
    #[must_use]
    pub fn get(&self) -> S
    where
        S: Clone,
    {
        self.read(S::clone)
    }

    /// Changes the state. Branches that [wait](Self::wait_until) for it see the change when no branch can continue.
    ///
    /// # Panics
    ///
    /// Inside a closure that reads or changes this same state. Queries and validators may not change it: they fail
    /// with that reason.
    pub fn change<R>(&self, change: impl FnOnce(&mut S) -> R) -> R {
        let shared = &self.ctx.shared;
        if !is_current(&shared.sched) {
            shared.sched.report(ForeignWait::Called);
        }
        let is_refused = shared.lock().refuse("change the workflow's state");
        assert!(!is_refused, "queries and validators may only read the workflow's state");
        match self.value.try_write() {
            Some(mut value) => change(&mut value),
            None => panic!("{IN_USE}"),
        }
    }

    /// Waits until the state meets a condition. It is checked whenever no branch can continue, as with [`Context::wait_until`].
    /// Dropping the future forgets the condition.
    ///
    /// The future ends with [`Cancelled`](crate::Cancelled) if the scope of the context that made the state is cancelled
    /// first.
    pub fn wait_until(&self, holds: impl Fn(&S) -> bool + Send + 'static) -> ConditionFuture {
        self.wait_until_in(&self.ctx, holds)
    }

    /// Waits until the state meets a condition. The future ends with [`Cancelled`](crate::Cancelled) if the scope of this context is
    /// cancelled first: for a branch that waits for the state of another one.
    pub fn wait_until_in(
        &self,
        ctx: &Context,
        holds: impl Fn(&S) -> bool + Send + 'static,
    ) -> ConditionFuture {
        let state = self.clone();
        ctx.wait_until(move || state.read(&holds))
    }
}

const IN_USE: &str = "the workflow's state is used inside a closure that reads or changes it: use what the closure is given, and leave the closure before other code uses the state";
