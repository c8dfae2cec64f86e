//! A loaded workspace that is held in memory.

use seriatim_types::WorkspaceId;

use crate::cache::{Hold, SlotIndex};
use crate::core::Generation;

/// A workspace whose numbers are in memory and stay there while this value exists, so that drawing needs no I/O. It may be
/// dropped before its group is committed: the group holds what it has staged.
#[derive(Debug, Clone)]
pub struct Pin {
    pub(crate) workspace: WorkspaceId,
    pub(crate) slot: SlotIndex,
    pub(crate) generation: Generation,
    pub(crate) _hold: Hold,
}

impl Pin {
    /// The workspace.
    #[must_use]
    pub fn workspace(&self) -> WorkspaceId {
        self.workspace
    }
}
