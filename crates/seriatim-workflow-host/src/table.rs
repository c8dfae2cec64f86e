//! The workflows that a host has in memory.

use std::collections::HashMap;
use std::sync::Arc;

use metrics::Gauge;
use seriatim_types::WorkspaceId;
use seriatim_types::sync::{Mutex, MutexGuard};
use seriatim_workflow::Time;

use crate::alarms::{Alarm, Alarms};
use crate::application::Waiting;
use crate::homes::Home;
use crate::workflow::Workflow;

#[derive(Default)]
struct Entries {
    /// Every workflow with an open run that was read, and those that something is being done with.
    workflows: HashMap<WorkspaceId, Arc<Workflow>>,
    /// Open runs that only wait and were not read since the host has started: until when, and their numbers.
    asleep: HashMap<WorkspaceId, (Option<Time>, u64)>,
}

pub(crate) struct WorkflowTable {
    entries: Mutex<Entries>,
    /// How many there are.
    open: Gauge,
}

impl WorkflowTable {
    pub(crate) fn new(open: Gauge) -> Self {
        Self { entries: Mutex::default(), open }
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock()
    }

    fn count(&self, entries: &Entries) {
        self.open.set((entries.workflows.len() + entries.asleep.len()) as f64);
    }

    /// The workflow in memory, if it is there.
    pub(crate) fn find(&self, workspace: WorkspaceId) -> Option<Arc<Workflow>> {
        self.lock().workflows.get(&workspace).cloned()
    }

    /// The workflow in memory, put there if it is not. `None` if its partition has left.
    pub(crate) fn find_or_add(
        &self,
        workspace: WorkspaceId,
        home: &Arc<Home>,
        alarms: &Alarms,
    ) -> Option<Arc<Workflow>> {
        let mut entries = self.lock();
        // Checked under the lock: what is added before the partition leaves is taken out by `take_partition`.
        if home.has_left() {
            return None;
        }
        if let Some(found) = entries.workflows.get(&workspace) {
            return Some(found.clone());
        }
        if let Some((Some(until), run)) = entries.asleep.remove(&workspace) {
            alarms.unset(until, workspace, run, Alarm::Wake);
        }
        let workflow = Arc::new(Workflow::new(workspace, home.clone()));
        entries.workflows.insert(workspace, workflow.clone());
        self.count(&entries);
        Some(workflow)
    }

    /// Takes a workflow out; its state is locked. Another one with the same workspace, of a later home, stays.
    pub(crate) fn remove(&self, workflow: &Workflow) {
        let mut entries = self.lock();
        let is_this = |found: &Arc<Workflow>| std::ptr::eq(Arc::as_ptr(found), workflow);
        if entries.workflows.get(&workflow.workspace).is_some_and(is_this) {
            entries.workflows.remove(&workflow.workspace);
            self.count(&entries);
        }
    }

    /// Takes out everything of a partition, and returns the workflows that were read.
    pub(crate) fn take_partition(&self, is_of: impl Fn(WorkspaceId) -> bool) -> Vec<Arc<Workflow>> {
        let mut entries = self.lock();
        entries.asleep.retain(|workspace, _| !is_of(*workspace));
        let taken = entries.workflows.extract_if(|workspace, _| is_of(*workspace));
        let taken = taken.map(|(_, workflow)| workflow).collect();
        self.count(&entries);
        taken
    }

    /// How many were read, and how many were not.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let entries = self.lock();
        (entries.workflows.len(), entries.asleep.len())
    }

    /// An open run has nothing to do before a time: it is read then, or when it is asked for.
    pub(crate) fn let_sleep(&self, workspace: WorkspaceId, home: &Home, waiting: Waiting, alarms: &Alarms) {
        let mut entries = self.lock();
        if home.has_left() || entries.workflows.contains_key(&workspace) {
            return;
        }
        let until = waiting.until.map(|millis| Time::from_micros(millis.saturating_mul(1_000)));
        entries.asleep.insert(workspace, (until, waiting.run));
        if let Some(until) = until {
            alarms.set(until, workspace, waiting.run, Alarm::Wake, home);
        }
        self.count(&entries);
    }

    /// Whether a workflow can be added without exceeding this many.
    pub(crate) fn has_room(&self, workspace: WorkspaceId, limit: usize) -> bool {
        let entries = self.lock();
        entries.workflows.len() + entries.asleep.len() < limit
            || entries.workflows.contains_key(&workspace)
            || entries.asleep.contains_key(&workspace)
    }

    /// Those that were read.
    pub(crate) fn all(&self) -> Vec<Arc<Workflow>> {
        self.lock().workflows.values().cloned().collect()
    }

    /// Workflows after one whose run is known to be stuck, in order.
    pub(crate) fn stuck(&self, after: Option<WorkspaceId>) -> Vec<WorkspaceId> {
        let found = self.all().into_iter().filter(|workflow| {
            after.is_none_or(|after| workflow.workspace > after)
                && workflow.lock().lifecycle.stuck().is_some()
        });
        let mut found: Vec<WorkspaceId> = found.map(|workflow| workflow.workspace).collect();
        found.sort_unstable();
        found
    }
}
