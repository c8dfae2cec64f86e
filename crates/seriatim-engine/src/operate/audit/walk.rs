//! The entries of a workspace, in order, straight from the partition log.

use std::ops::ControlFlow;

use seriatim_storage::{Entry, LogError, ReadLimit};
use seriatim_types::{PartitionOffset, WorkspaceId, WorkspaceOffset};

use crate::engine::Engine;
use crate::engine::running::Running;
use crate::error::SubmitError;

/// Places that are read from the workspace's log together.
const PAGE: usize = 1_024;
/// How many entries of other workspaces are read and ignored, because that is cheaper than a second read.
const JUMP: u64 = 32;

impl Engine {
    /// Visits the entries of a workspace from one offset up to another, exclusive, until the visitor stops it. Returns where it
    /// ended: at `to`, where the visitor stopped it, or where the workspace's log ends early.
    pub(super) async fn walk(
        &self,
        running: &Running,
        workspace: WorkspaceId,
        (from, to): (WorkspaceOffset, WorkspaceOffset),
        visit: &mut (dyn FnMut(PartitionOffset, &Entry<'_>) -> ControlFlow<()> + Send),
    ) -> Result<WorkspaceOffset, SubmitError> {
        let partition = running.partition_of(workspace).partition;
        let mut at = from;
        while let Some(left) = to.since(at).filter(|left| *left > 0) {
            let limit = usize::try_from(left).unwrap_or(usize::MAX).min(PAGE);
            let offsets = self.event_offsets(running, workspace, at, limit).await?;
            if offsets.is_empty() {
                return Ok(at);
            }
            let mut place = 0;
            while let Some(first) = offsets.get(place) {
                let count = together(&offsets[place..]);
                let read = self.log().read(partition, *first, ReadLimit::entries(count)).await?;
                if read.is_empty() {
                    let reason = format!(
                        "workspace {workspace} leads to event {first} of partition {partition}, which is not there"
                    );
                    return Err(LogError::Corrupt(reason).into());
                }
                for (offset, entry) in read.iter() {
                    if offsets.get(place) != Some(&offset) {
                        continue;
                    }
                    place += 1;
                    at = at.next().unwrap_or(at);
                    if visit(offset, &entry).is_break() {
                        return Ok(at);
                    }
                }
            }
        }
        Ok(at)
    }
}

/// How many entries to read from the first of these offsets, to get all offsets that are close together.
fn together(offsets: &[PartitionOffset]) -> usize {
    let near = offsets.windows(2).take_while(|pair| pair[1].since(pair[0]).is_some_and(|far| far <= JUMP));
    let last = offsets[near.count()];
    let count = last.since(offsets[0]).unwrap_or(0).saturating_add(1);
    usize::try_from(count).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_that_are_close_together_are_read_together() {
        let offsets =
            |list: &[u64]| list.iter().filter_map(|offset| PartitionOffset::new(*offset)).collect::<Vec<_>>();
        for (list, count) in [(&[5][..], 1), (&[5, 6, 7], 3), (&[5, 37, 70], 33), (&[5, 38], 1), (&[7, 7], 1)]
        {
            assert_eq!(together(&offsets(list)), count, "{list:?}");
        }
    }
}
