//! Runs that are kept in memory between their activations.

use std::collections::{BTreeMap, HashMap};

use seriatim_types::WorkspaceId;
use seriatim_workflow::Instance;

/// The instances that were used last, up to a number of them.
#[derive(Default)]
pub(crate) struct Instances {
    limit: usize,
    next: u64,
    by_workspace: HashMap<WorkspaceId, (u64, u64, Instance)>,
    by_use: BTreeMap<u64, WorkspaceId>,
}

impl Instances {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Takes a run out.
    pub(crate) fn take(&mut self, workspace: WorkspaceId, run: u64) -> Option<Instance> {
        let (used, found, instance) = self.by_workspace.remove(&workspace)?;
        self.by_use.remove(&used);
        (found == run).then_some(instance)
    }

    /// Puts a run in; whichever was used longest ago is returned to be dropped, if there are too many.
    #[must_use]
    pub(crate) fn put(&mut self, workspace: WorkspaceId, run: u64, instance: Instance) -> Option<Instance> {
        self.next += 1;
        let before = self.by_workspace.insert(workspace, (self.next, run, instance));
        self.by_use.insert(self.next, workspace);
        if let Some((used, _, instance)) = before {
            self.by_use.remove(&used);
            return Some(instance);
        }
        if self.by_workspace.len() <= self.limit {
            return None;
        }
        let (_, oldest) = self.by_use.pop_first()?;
        self.by_workspace.remove(&oldest).map(|(_, _, instance)| instance)
    }
}
