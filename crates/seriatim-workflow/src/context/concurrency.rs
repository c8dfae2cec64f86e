//! Branches that run beside one another.

use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use super::{BoxFuture, Context};
use crate::runtime::{Cell, ScopeNode, SharedRun, TaskWaker, Wait, WaitingFor};

impl Context {
    /// Opens a branch that runs beside this one, in a scope below it.
    #[track_caller]
    pub fn spawn<T, Fut>(&self, code: impl FnOnce(Self) -> Fut) -> TaskHandle<T>
    where
        T: Send + 'static,
        Fut: Future<Output = T> + Send + 'static,
    {
        TaskHandle(self.open_task(code, Location::caller()))
    }

    /// Runs two branches beside one another. Dropping the future cancels both.
    #[track_caller]
    pub fn join<A, B, FutA, FutB>(
        &self,
        a: impl FnOnce(Self) -> FutA,
        b: impl FnOnce(Self) -> FutB,
    ) -> BoxFuture<(A, B)>
    where
        A: Send + 'static,
        B: Send + 'static,
        FutA: Future<Output = A> + Send + 'static,
        FutB: Future<Output = B> + Send + 'static,
    {
        let site = Location::caller();
        let (a, b) = (Guard(self.open_task(a, site)), Guard(self.open_task(b, site)));
        Box::pin(async move {
            let (mut a, mut b) = (a, b);
            (Pin::new(&mut a.0).await, Pin::new(&mut b.0).await)
        })
    }

    /// Opens a branch with a task of its own.
    pub(super) fn open_task<T, Fut>(
        &self,
        code: impl FnOnce(Self) -> Fut,
        site: &'static Location<'static>,
    ) -> OpenTask<T>
    where
        T: Send + 'static,
        Fut: Future<Output = T> + Send + 'static,
    {
        let ctx = self.open_branch();
        let (scope, branch) = (Arc::clone(&ctx.scope), ctx.node.branch.clone());
        let cell = Cell::new();
        let waits = WaitingFor::Branch { branch: branch.to_string() };
        let wait = cell.wait(&self.shared.sched, waits);
        let future = code(ctx);
        let task = async move {
            cell.set(future.await);
        };
        let waker = self.shared.spawn(branch, Box::pin(task));
        OpenTask { wait, branch: OpenBranch { waker, scope, shared: Arc::clone(&self.shared), site } }
    }
}

/// A branch that has been opened, and what ends it.
pub(super) struct OpenBranch {
    pub(super) waker: Arc<TaskWaker>,
    pub(super) scope: Arc<ScopeNode>,
    pub(super) shared: Arc<SharedRun>,
    pub(super) site: &'static Location<'static>,
}

impl OpenBranch {
    /// Cancels what the branch has asked for, and ends its code where it is. One that has ended stays as it is.
    pub(super) fn stop(&self, reason: &str) {
        if self.waker.is_done() {
            return;
        }
        self.shared.lock().cancel_scope(&self.scope, &Arc::from(reason), Some(self.site));
        self.shared.abort(&self.waker);
    }
}

pub(super) struct OpenTask<T> {
    wait: Wait<T>,
    branch: OpenBranch,
}

impl<T> Future for OpenTask<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<T> {
        self.wait.poll_take(cx)
    }
}

/// Ends its branch when it is dropped first.
struct Guard<T>(OpenTask<T>);

impl<T> Drop for Guard<T> {
    fn drop(&mut self) {
        self.0.branch.stop("no longer awaited");
    }
}

/// A branch that runs beside the one that has opened it. Dropping the handle leaves it running.
pub struct TaskHandle<T>(OpenTask<T>);

impl<T> TaskHandle<T> {
    /// Cancels the operations of the branch; its code continues and sees that.
    pub fn cancel(&self, reason: &str) {
        let branch = &self.0.branch;
        branch.shared.lock().cancel_scope(&branch.scope, &Arc::from(reason), Some(branch.site));
    }

    /// Cancels what the branch has asked for, and ends its code where it is.
    pub fn abort(self, reason: &str) {
        self.0.branch.stop(reason);
    }
}

impl<T> Future for TaskHandle<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<T> {
        Pin::new(&mut self.0).poll(cx)
    }
}
