//! Open runs that wait and have nothing under way: what a host needs of them after a start.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use seriatim_types::{PartitionId, WorkspaceId};

use super::commands::{RUNS_VIEW, waiting_key};
use super::handle::Workflows;
use super::{RunRow, RunStatus};
use crate::error::SubmitError;
use crate::keys::WorkspaceKeys;
use crate::view::{self, KeyPart, ViewKeys};

/// An open run that has nothing under way but timers that are due later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// The run.
    pub run: u64,
    /// When the first of them is due: milliseconds since the Unix epoch. None: it waits for messages only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
}

/// How the wait of an open run changes with an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// From here on it only waits.
    Begins(Waiting),
    /// Something is under way, or the run has ended.
    Over,
}

impl Workflows<'_> {
    /// Up to `limit` workflows of a partition that have an open run, behind a workspace, ascending; with what it waits for,
    /// if it only waits. Where nothing is said, its history has to be read.
    ///
    /// # Errors
    ///
    /// [`SubmitError`].
    pub async fn open_runs(
        &self,
        partition: PartitionId,
        after: Option<WorkspaceId>,
        limit: usize,
    ) -> Result<Vec<(WorkspaceId, RunRow, Option<Waiting>)>, SubmitError> {
        let open = self.with_status(partition, RunStatus::Running, after, limit).await?;
        let (Some((first, _)), Some((last, _))) = (open.first(), open.last()) else { return Ok(Vec::new()) };
        let waiting = self.waiting(partition, *first, *last, open.len()).await?;
        let of =
            |workspace: WorkspaceId, run| waiting.get(&workspace).copied().filter(|found| found.run == run);
        let with = |(workspace, row): (WorkspaceId, RunRow)| {
            let found = of(workspace, row.run);
            (workspace, row, found)
        };
        Ok(open.into_iter().map(with).collect())
    }

    /// Up to `limit` waiting runs from one workspace to another.
    async fn waiting(
        &self,
        partition: PartitionId,
        first: WorkspaceId,
        last: WorkspaceId,
        limit: usize,
    ) -> Result<BTreeMap<WorkspaceId, Waiting>, SubmitError> {
        let (running, _) = self.running()?;
        let Some(handle) = running.partition(partition) else { return Ok(BTreeMap::new()) };
        let rows = ViewKeys::new(WorkspaceKeys::of_partition(handle.shared.partition), RUNS_VIEW);
        let range = rows.between(&waiting_key(first), &waiting_key(last));
        let pairs = handle.scan(range, limit).await?;
        let read = |(key, row): (bytes::Bytes, bytes::Bytes)| {
            let KeyPart::Integer(id) = rows.read(&key).ok()?.pop()? else { return None };
            let (_, row) = view::decode_row(&row).ok()?;
            Some((WorkspaceId::new(u64::try_from(id).ok()?), serde_json::from_value(row?).ok()?))
        };
        Ok(pairs.into_iter().filter_map(read).collect())
    }

    /// The offset of a workflow's last event; 0 if there is none.
    ///
    /// # Errors
    ///
    /// [`SubmitError`].
    pub async fn last_offset(&self, workspace: WorkspaceId) -> Result<u64, SubmitError> {
        let (running, _) = self.running()?;
        let numbers = running.partition_of(workspace).numbers(workspace).await?;
        Ok(numbers.map_or(0, |numbers| numbers.next_offset().get() - 1))
    }
}
