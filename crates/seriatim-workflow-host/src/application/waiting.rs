//! Open runs that only wait: after a start, the host does not have to read their histories.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use seriatim_engine::SubmitError;
use seriatim_types::{PartitionId, WorkspaceId, WorkspaceOffset};

use super::commands::{RUNS_VIEW, waiting_key};
use super::handle::{Workflows, workspace_of};
use super::{RunRow, RunStatus};

/// An open run that waits for messages, or for timers that are due later, and for nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// The run.
    pub run: u64,
    /// When the first timer is due: milliseconds since the Unix epoch. `None`: it waits for messages only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
}

/// How an event changes whether the open run only waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// From this event on it only waits.
    Begins(Waiting),
    /// Something is under way, or the run has ended.
    Over,
}

impl Workflows<'_> {
    /// Up to `limit` workflows of a partition that have an open run, after a workspace, ascending; with what the run waits
    /// for, if it only waits. The history of any other run has to be read.
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
        let with_waiting = |(workspace, row): (WorkspaceId, RunRow)| {
            let found = waiting.get(&workspace).copied().filter(|found| found.run == row.run);
            (workspace, row, found)
        };
        Ok(open.into_iter().map(with_waiting).collect())
    }

    /// Up to `limit` waiting runs from one workspace to another.
    async fn waiting(
        &self,
        partition: PartitionId,
        first: WorkspaceId,
        last: WorkspaceId,
        limit: usize,
    ) -> Result<BTreeMap<WorkspaceId, Waiting>, SubmitError> {
        let keys = (&waiting_key(first)[..], &waiting_key(last)[..]);
        let rows = self.app()?.common_rows_between(partition, RUNS_VIEW, keys, limit).await?;
        let rows = rows.into_iter();
        Ok(rows
            .filter_map(|(key, row)| Some((workspace_of(&key)?, serde_json::from_value(row).ok()?)))
            .collect())
    }

    /// The offset of a workflow's last event; 0 if there is none.
    ///
    /// # Errors
    ///
    /// [`SubmitError`].
    pub async fn last_offset(&self, workspace: WorkspaceId) -> Result<u64, SubmitError> {
        Ok(self.app()?.last_offset(workspace).await?.map_or(0, WorkspaceOffset::get))
    }
}
