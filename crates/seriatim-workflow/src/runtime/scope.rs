//! Cancellation scopes: a tree; cancelling one cancels what is below it.

use std::sync::{Arc, Weak};

use seriatim_types::sync::{Mutex, MutexGuard};

use super::slot::Cell;
use super::table::Operation;

/// A node of the tree. Contexts hold it; a node that no context holds any more is gone.
pub(crate) struct ScopeNode {
    inner: Mutex<Inner>,
    /// Set with the reason when the scope is cancelled.
    pub(crate) cancelled: Cell<Arc<str>>,
}

#[derive(Default)]
struct Inner {
    reason: Option<Arc<str>>,
    /// In the order of issue; those that have ended are removed from time to time.
    operations: Vec<Operation>,
    children: Vec<Weak<ScopeNode>>,
    sweep_at: usize,
}

const SWEEP_AT_LEAST: usize = 64;

impl ScopeNode {
    /// A scope that nothing cancels but its own handle.
    pub(crate) fn root() -> Arc<Self> {
        Arc::new(Self { inner: Mutex::default(), cancelled: Cell::new() })
    }

    /// A scope below this one. Below a cancelled scope, a new scope is cancelled from the beginning.
    pub(crate) fn child(&self) -> Arc<Self> {
        let child = Self::root();
        let mut inner = self.lock();
        if let Some(reason) = &inner.reason {
            child.lock().reason = Some(Arc::clone(reason));
            child.cancelled.set(Arc::clone(reason));
            return child;
        }
        if inner.children.len() >= inner.sweep_at.max(SWEEP_AT_LEAST) {
            inner.children.retain(|child| child.strong_count() > 0);
            inner.sweep_at = inner.children.len().max(inner.operations.len()) * 2;
        }
        inner.children.push(Arc::downgrade(&child));
        child
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    pub(crate) fn reason(&self) -> Option<Arc<str>> {
        self.lock().reason.clone()
    }

    /// The operation ends when the scope does.
    pub(crate) fn add(&self, operation: Operation, is_pending: impl Fn(Operation) -> bool) {
        let mut inner = self.lock();
        if inner.operations.len() >= inner.sweep_at.max(SWEEP_AT_LEAST) {
            inner.operations.retain(|operation| is_pending(*operation));
            inner.sweep_at = inner.children.len().max(inner.operations.len()) * 2;
        }
        inner.operations.push(operation);
    }

    /// Cancels this scope and all below it. Returns the operations that end with them: each scope's own in the order of
    /// issue, then those of its children in the order of their making.
    pub(crate) fn cancel(self: &Arc<Self>, reason: &Arc<str>) -> Vec<Operation> {
        let mut operations = Vec::new();
        let mut scopes = vec![Arc::clone(self)];
        while let Some(scope) = scopes.pop() {
            {
                let mut inner = scope.lock();
                if inner.reason.is_some() {
                    continue;
                }
                inner.reason = Some(Arc::clone(reason));
                operations.append(&mut inner.operations);
                scopes.extend(inner.children.drain(..).rev().filter_map(|child| child.upgrade()));
            }
            scope.cancelled.set(Arc::clone(reason));
        }
        operations
    }
}
