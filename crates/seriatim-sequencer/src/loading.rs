//! Loading workspaces while the sequencer does other work.

use std::sync::Arc;

use seriatim_types::{WorkspaceId, WorkspaceKind};

use crate::Numbers;
use crate::cache::Hold;
use crate::core::Generation;
use crate::derived::{Derived, ReadError};

/// Workspaces to be loaded. It is known which are missing, and nothing is read yet. It borrows nothing, so it can be read
/// while the previous group is being appended.
#[derive(Debug)]
#[must_use = "read it, then pass the result to `admit`"]
pub struct Loading<D> {
    pub(crate) derived: Arc<D>,
    pub(crate) wanted: Vec<(WorkspaceKind, WorkspaceId)>,
    /// Those that are not in memory, each once.
    pub(crate) missing: Vec<WorkspaceId>,
    pub(crate) holds: SlotHolds,
}

/// Reserves slots of the cache for workspaces that are being loaded, so that what was read cannot become outdated
/// unnoticed: a held slot is not evicted, and the first load that is admitted fills it.
#[derive(Debug)]
pub(crate) struct SlotHolds {
    pub(crate) generation: Generation,
    pub(crate) _holds: Vec<Hold>,
}

impl<D: Derived> Loading<D> {
    /// The result, if all workspaces are in memory.
    ///
    /// # Errors
    ///
    /// Returns itself if something has to be read.
    pub fn complete(self) -> Result<Loaded, Self> {
        if self.missing.is_empty() {
            Ok(Loaded { wanted: self.wanted, read: Vec::new(), holds: self.holds })
        } else {
            Err(self)
        }
    }

    /// Reads everything that is missing in one read. Reads nothing if nothing is missing. The future may be dropped at any
    /// time.
    pub async fn read(self) -> Loaded {
        let found =
            if self.missing.is_empty() { Vec::new() } else { self.derived.read(self.missing.clone()).await };
        Loaded { wanted: self.wanted, read: self.missing.into_iter().zip(found).collect(), holds: self.holds }
    }
}

/// What was read, for [`Sequencer::admit`](crate::Sequencer::admit).
#[derive(Debug)]
#[must_use = "admit it"]
pub struct Loaded {
    pub(crate) wanted: Vec<(WorkspaceKind, WorkspaceId)>,
    /// Ascending by workspace.
    pub(crate) read: Vec<(WorkspaceId, Result<Option<Numbers>, ReadError>)>,
    pub(crate) holds: SlotHolds,
}
