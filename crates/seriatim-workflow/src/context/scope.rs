//! Cancellation scopes.

use std::panic::Location;
use std::sync::Arc;

use super::Context;
use crate::runtime::{ScopeNode, SharedRun, WaitingFor};

impl Context {
    /// The same branch in a scope of its own, and the handle that cancels it.
    ///
    /// ```
    /// # use seriatim_workflow::{Context, Exit};
    /// # use std::time::Duration;
    /// # async fn workflow(ctx: Context, _: ()) -> Result<(), Exit> {
    /// let (scoped, scope) = ctx.scope();
    /// let timer = scoped.timer(Duration::from_secs(60));
    /// scope.cancel("not needed");
    /// assert!(timer.await.is_err());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn scope(&self) -> (Self, Scope) {
        self.within_scope(self.scope.child())
    }

    /// The same branch in a scope that the cancellation of this one does not reach: for cleaning up.
    #[must_use]
    pub fn shielded(&self) -> (Self, Scope) {
        self.within_scope(ScopeNode::root())
    }

    fn within_scope(&self, node: Arc<ScopeNode>) -> (Self, Scope) {
        let scope = Scope { node: Arc::clone(&node), shared: Arc::clone(&self.shared) };
        (Self { shared: Arc::clone(&self.shared), node: Arc::clone(&self.node), scope: node }, scope)
    }

    /// Whether the context's scope has been cancelled: nothing more can be asked for in it.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.scope.reason().is_some()
    }

    /// Waits until the context's scope is cancelled. Returns the reason.
    pub fn cancelled(&self) -> impl Future<Output = String> + Send + use<> {
        let wait = self.scope.cancelled.wait(&self.shared.sched, WaitingFor::Cancellation);
        async move { wait.await.to_string() }
    }
}

/// Cancels a scope and all scopes below it. Dropping it cancels nothing.
#[derive(Clone)]
pub struct Scope {
    node: Arc<ScopeNode>,
    shared: Arc<SharedRun>,
}

impl Scope {
    /// Cancels what is pending in the scope, each operation in its own way, in the order in which they were issued.
    #[track_caller]
    pub fn cancel(&self, reason: &str) {
        let site = Location::caller();
        let mut state = self.shared.lock();
        if !state.refuse("cancel a scope") {
            state.cancel_scope(&self.node, &Arc::from(reason), Some(site));
        }
    }

    /// Whether it has been cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.node.reason().is_some()
    }
}
