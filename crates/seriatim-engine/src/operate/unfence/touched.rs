//! What has moved after the fence: by a raise of an unfencing that failed, or by a command that was admitted. It no longer skips
//! numbers by itself.

use std::collections::BTreeMap;

use seriatim_storage::ReadLimit;
use seriatim_types::{Partition, WorkspaceId, WorkspaceKind};

use crate::apps::registry::{self, BLOCKS_VIEW, BlocksRow, OWN_NAMES};
use crate::apps::series;
use crate::command::view::KeyPart;
use crate::engine::Engine;
use crate::error::SubmitError;
use crate::operate::fence::{FenceState, Restore};

/// The limit of one read of the log or of the registry.
const PAGE: ReadLimit = ReadLimit { entries: 4_096, bytes: 1 << 20 };

/// Workspaces by application and id, with their kinds.
pub(super) type Touched = BTreeMap<(u32, u64), WorkspaceKind>;

impl Engine {
    /// The workspaces that have events after the fence, according to the log, and the series that unfencing has created and not
    /// raised yet. Only names that were given to an unfencing can be among them, so there are few.
    pub(super) async fn touched_workspaces(&self, state: &FenceState) -> Result<Touched, SubmitError> {
        let mut touched = Touched::new();
        let Some(restore) = state.restores.last() else { return Ok(touched) };
        for partition in self.log().partitions().await? {
            if partition.application != registry::ID {
                self.touched_in(partition, restore, &mut touched).await?;
            }
        }
        let Some(before) = state.ids.and_then(|ids| ids.checked_sub(1)) else { return Ok(touched) };
        let mut after = WorkspaceId::new(before);
        loop {
            let made = self.registry().workspaces(series::ID, Some(after), PAGE.entries).await?;
            let Some(last) = made.last() else { return Ok(touched) };
            after = last.id;
            touched.extend(made.iter().map(|made| ((series::ID.get(), made.id.get()), made.kind)));
        }
    }

    async fn touched_in(
        &self,
        partition: Partition,
        restore: &Restore,
        touched: &mut Touched,
    ) -> Result<(), SubmitError> {
        let mut at = restore.tail(partition);
        loop {
            let read = self.log().read(partition, at, PAGE).await?;
            for (offset, entry) in read.iter() {
                touched.insert((partition.application.get(), entry.workspace().get()), entry.kind());
                at = offset.next().unwrap_or(offset);
            }
            if read.is_empty() {
                return Ok(());
            }
        }
    }

    /// The block sequences that were raised after the fence and are still fenced, each with its next number.
    pub(super) async fn touched_blocks(&self, state: &FenceState) -> Result<Vec<(String, u64)>, SubmitError> {
        let restores = state.restores.len() as u64;
        let (mut touched, mut after) = (Vec::new(), None::<[KeyPart; 1]>);
        loop {
            let key = after.as_ref().map(|key| &key[..]);
            let rows: Vec<(KeyPart, BlocksRow)> =
                self.registry().rows(BLOCKS_VIEW, &[], key, PAGE.entries).await?;
            for (part, row) in &rows {
                let KeyPart::Text(name) = part else { continue };
                if row.restores == restores && !state.blocks.contains(name) && !name.starts_with(OWN_NAMES) {
                    touched.push((name.clone(), row.next));
                }
            }
            let Some((last, _)) = rows.last() else { return Ok(touched) };
            after = Some([last.clone()]);
        }
    }
}
