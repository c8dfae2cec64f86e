//! Tasks: the branches of a run that are polled by themselves.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::Wake;

use super::sched::{Ready, Sched, TaskId, is_current};
use crate::{Branch, ForeignWait};

pub(crate) type TaskFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A task that the scheduler has not seen yet.
pub(crate) struct NewTask {
    pub(crate) waker: Arc<TaskWaker>,
    pub(crate) future: TaskFuture,
}

const IDLE: u8 = 0;
const QUEUED: u8 = 1;
const DONE: u8 = 2;

/// Wakes one task: puts it at the end of the queue, once. A wake from anywhere but an activation of its own run is
/// reported and does nothing else.
pub(crate) struct TaskWaker {
    pub(crate) task: TaskId,
    pub(crate) branch: Branch,
    sched: Arc<Sched>,
    status: AtomicU8,
}

impl TaskWaker {
    /// A waker for a new task, which is ready.
    pub(crate) fn queued(task: TaskId, branch: Branch, sched: &Arc<Sched>) -> Arc<Self> {
        sched.lock().ready.push_back(Ready::Task(task));
        Arc::new(Self { task, branch, sched: Arc::clone(sched), status: AtomicU8::new(QUEUED) })
    }

    pub(crate) fn is_done(&self) -> bool {
        self.status.load(Ordering::Relaxed) == DONE
    }

    pub(crate) fn is_queued(&self) -> bool {
        self.status.load(Ordering::Relaxed) == QUEUED
    }

    /// The task is about to be polled: a wake from now on counts.
    pub(crate) fn polled(&self) {
        let _ = self.status.compare_exchange(QUEUED, IDLE, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The task is over: wakes do nothing from now on.
    pub(crate) fn done(&self) {
        self.status.store(DONE, Ordering::Relaxed);
    }
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.is_done() {
            return;
        }
        if !is_current(&self.sched) {
            self.sched.report(ForeignWait::Woken { branch: self.branch.to_string() });
            return;
        }
        if self.status.compare_exchange(IDLE, QUEUED, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.sched.lock().ready.push_back(Ready::Task(self.task));
        }
    }
}
