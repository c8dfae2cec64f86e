//! Loading workspaces while the sequencer does other things.

use std::sync::Arc;

use seriatim_types::{WorkspaceId, WorkspaceKind};

use crate::Numbers;
use crate::cache::Hold;
use crate::core::Generation;
use crate::derived::{Derived, ReadError};

/// Workspaces to be loaded: what is missing is known, and nothing is read yet. It borrows nothing, so that it can be
/// read while the last group is on its way to the log.
#[derive(Debug)]
#[must_use = "read it, then admit what was read"]
pub struct Loading<D> {
    pub(crate) derived: Arc<D>,
    pub(crate) wanted: Vec<(WorkspaceKind, WorkspaceId)>,
    /// Those of them that are not in memory, each once.
    pub(crate) missing: Vec<WorkspaceId>,
    pub(crate) held: Held,
}

/// Keeps the places of workspaces that are being loaded, so that what was read cannot become outdated unnoticed: a
/// place that is held is not evicted, and is filled by whoever comes first.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) generation: Generation,
    pub(crate) _holds: Vec<Hold>,
}

impl<D: Derived> Loading<D> {
    /// What is in memory, if that is all of it.
    ///
    /// # Errors
    ///
    /// Itself, if something has to be read.
    pub fn complete(self) -> Result<Loaded, Self> {
        if self.missing.is_empty() {
            Ok(Loaded { wanted: self.wanted, read: Vec::new(), held: self.held })
        } else {
            Err(self)
        }
    }

    /// Reads what is missing, all in one read; nothing if nothing is missing. Dropping it half-way is fine.
    pub async fn read(self) -> Loaded {
        let found =
            if self.missing.is_empty() { Vec::new() } else { self.derived.read(self.missing.clone()).await };
        Loaded { wanted: self.wanted, read: self.missing.into_iter().zip(found).collect(), held: self.held }
    }
}

/// What was read: hand it to [`Sequencer::admit`](crate::Sequencer::admit).
#[derive(Debug)]
#[must_use = "admit it"]
pub struct Loaded {
    pub(crate) wanted: Vec<(WorkspaceKind, WorkspaceId)>,
    /// Ascending by workspace.
    pub(crate) read: Vec<(WorkspaceId, Result<Option<Numbers>, ReadError>)>,
    pub(crate) held: Held,
}
