//! Which tasks are ready, and what the others wait for.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use seriatim_types::sync::{Mutex, MutexGuard};

use crate::{Branch, ForeignWait, Kind};

pub(crate) type TaskId = u32;

/// What a task waits for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "for", rename_all = "snake_case")]
pub enum WaitingFor {
    /// The response to a command.
    Response {
        /// The kind of the operation.
        kind: Kind,
        /// Its number.
        seq: u32,
    },
    /// The first phase of a child workflow.
    ChildStart {
        /// Its number.
        seq: u32,
    },
    /// A signal.
    Signal {
        /// Its name.
        name: String,
    },
    /// The end of another branch.
    Branch {
        /// Which.
        branch: String,
    },
    /// The end of one, or of all, of the branches that it has opened.
    Branches,
    /// A slot of the workflow's own.
    Slot,
    /// A condition on the workflow's own state.
    Condition,
    /// The value of a mutex that another branch has.
    Mutex,
    /// A permit of a semaphore.
    Semaphore,
    /// A message from another branch.
    Channel,
    /// Its own cancellation.
    Cancellation,
}

/// A branch that cannot continue, and what it waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocked {
    /// The branch.
    pub branch: String,
    /// What it waits for; any of these lets it continue.
    pub waits: Vec<WaitingFor>,
}

/// The part of a run that its wakers know. It holds neither futures nor wakers, so nothing can point back to it in a
/// circle.
#[derive(Default)]
pub(crate) struct Sched(Mutex<SchedInner>);

/// What is done next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ready {
    /// The task is polled.
    Task(TaskId),
    /// The next of the incoming updates has its turn.
    Update,
    /// The next of the signals of this name is handled.
    Signal(String),
}

#[derive(Default)]
pub(crate) struct SchedInner {
    pub(crate) ready: VecDeque<Ready>,
    pub(crate) foreign: Option<ForeignWait>,
    /// What is waited for, by a place that is used again.
    waits: Vec<Option<(TaskId, WaitingFor)>>,
    free_waits: Vec<usize>,
    /// By task: how many of its futures are registered in slots.
    counts: Vec<u32>,
}

thread_local! {
    /// The run whose activation this thread is in, by the address of its `Sched`, and the task that it polls.
    static CURRENT: Cell<(usize, TaskId)> = const { Cell::new((0, 0)) };
}

/// Whether this thread is in an activation of the run.
pub(crate) fn is_current(sched: &Arc<Sched>) -> bool {
    CURRENT.get().0 == Arc::as_ptr(sched).addr()
}

/// Marks this thread as being in an activation, until it is dropped.
pub(crate) struct Current((usize, TaskId));

impl Current {
    pub(crate) fn enter(sched: &Arc<Sched>) -> Self {
        Self(CURRENT.replace((Arc::as_ptr(sched).addr(), TaskId::MAX)))
    }

    pub(crate) fn poll(task: TaskId) {
        CURRENT.set((CURRENT.get().0, task));
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

impl Sched {
    pub(crate) fn lock(&self) -> MutexGuard<'_, SchedInner> {
        self.0.lock()
    }

    pub(crate) fn report(&self, foreign: ForeignWait) {
        self.lock().foreign.get_or_insert(foreign);
    }
}

impl SchedInner {
    /// The present task waits for something. Returns the id of the wait, which is taken back with `ended`.
    pub(crate) fn waits(&mut self, what: WaitingFor) -> (usize, TaskId) {
        let task = CURRENT.get().1;
        let id = self.free_waits.pop().unwrap_or(self.waits.len());
        if id == self.waits.len() {
            self.waits.push(None);
        }
        self.waits[id] = Some((task, what));
        self.count(task, 1);
        (id, task)
    }

    /// A future that waits has been given to the present task.
    pub(crate) fn moved(&mut self, id: usize) -> TaskId {
        let task = CURRENT.get().1;
        if let Some(Some((of, _))) = self.waits.get_mut(id) {
            let from = std::mem::replace(of, task);
            self.count(from, -1);
            self.count(task, 1);
        }
        task
    }

    pub(crate) fn is_present(task: TaskId) -> bool {
        CURRENT.get().1 == task
    }

    pub(crate) fn ended(&mut self, id: usize) {
        if let Some((task, _)) = self.waits.get_mut(id).and_then(Option::take) {
            self.free_waits.push(id);
            self.count(task, -1);
        }
    }

    fn count(&mut self, task: TaskId, by: i32) {
        if task == TaskId::MAX {
            return;
        }
        let index = task as usize;
        if self.counts.len() <= index {
            self.counts.resize(index + 1, 0);
        }
        self.counts[index] = self.counts[index].saturating_add_signed(by);
    }

    pub(crate) fn is_waiting(&self, task: TaskId) -> bool {
        self.counts.get(task as usize).is_some_and(|count| *count > 0)
    }

    /// What each task waits for, given the branch of each.
    pub(crate) fn blocked(&self, branches: &BTreeMap<TaskId, Branch>) -> Vec<Blocked> {
        let mut by_task: BTreeMap<TaskId, Vec<WaitingFor>> = BTreeMap::new();
        for (task, what) in self.waits.iter().flatten() {
            by_task.entry(*task).or_default().push(what.clone());
        }
        let blocked = branches.iter().map(|(task, branch)| Blocked {
            branch: branch.to_string(),
            waits: by_task.remove(task).unwrap_or_default(),
        });
        blocked.collect()
    }
}
