//! A workflow in memory: a state machine without a clock, without I/O and without an await.
//!
//! ```text
//!  Inbox ──item──► step ──► Work: read, activate, write ──► settle: written, or not
//!                   │                 (the driver's)              │
//!                   └──────► Effects: replies, alarms, tasks ◄────┘
//! ```
//!
//! Each function here takes the [`State`] from one to the next and names what follows; the driver carries that out.

pub(crate) mod after_write;
pub(crate) mod effect;
pub(crate) mod ending;
pub(crate) mod inbox;
pub(crate) mod item;
pub(crate) mod lifecycle;
pub(crate) mod operations;
pub(crate) mod pending;
pub(crate) mod state;
pub(crate) mod step;
pub(crate) mod under_way;
pub(crate) mod wait;
pub(crate) mod writing;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use seriatim_types::WorkspaceId;
use seriatim_types::sync::{Mutex, MutexGuard};
use seriatim_workflow::{Payload, UpdateOutcome};
use tokio::sync::Notify;

pub(crate) use effect::{Effect, Effects, Work};
pub(crate) use item::{CodeStatus, Item, Key, Reply, Request, Responder, StartAs, Starting, Written};
pub(crate) use lifecycle::{Loaded, OpenRun, Tail};
pub(crate) use state::{Facts, Presence, State};

use crate::error::HostError;
use crate::homes::Home;

/// A workflow in memory.
#[derive(Debug)]
pub(crate) struct Workflow {
    pub(crate) workspace: WorkspaceId,
    /// Its partition, as long as that is here.
    pub(crate) home: Arc<Home>,
    state: Mutex<State>,
    /// Notified when a run has ended.
    pub(crate) ended: Notify,
    /// Notified when something is put into the inbox.
    pub(crate) arrived: Notify,
}

impl Workflow {
    pub(crate) fn new(workspace: WorkspaceId, home: Arc<Home>) -> Self {
        let (ended, arrived) = (Notify::new(), Notify::new());
        Self { workspace, home, state: Mutex::default(), ended, arrived }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The name of a run, as the outside knows it.
    pub(crate) fn run_id(&self, run: u64) -> String {
        run_id(self.workspace, run)
    }
}

/// The name of a run: its workspace and its number in it.
pub(crate) fn run_id(workspace: WorkspaceId, run: u64) -> String {
    format!("{}-{run}", workspace.get())
}

/// The workspace and number that a run's name has.
pub(crate) fn parse_run_id(text: &str) -> Option<(WorkspaceId, u64)> {
    let (workspace, run) = text.split_once('-')?;
    Some((WorkspaceId::new(workspace.parse().ok()?), run.parse().ok()?))
}

pub(crate) fn outcome(outcome: UpdateOutcome) -> Result<Payload, HostError> {
    match outcome {
        UpdateOutcome::Completed { result } => Ok(result),
        UpdateOutcome::Failed { failure } => Err(HostError::Rejected(failure.into())),
    }
}
