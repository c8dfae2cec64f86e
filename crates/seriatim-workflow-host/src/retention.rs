//! Runs that ended long ago leave the index.
//!
//! A sweep walks through the index, page by page. What it finds goes through the driver of its workflow, like everything that
//! is written to a workflow's log: that a run is forgotten is an event, so the index is the same when it is built anew. The
//! events of the run stay in the log.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use seriatim_engine::{PartitionStatus, RunRow, RunStatus, SubmitError};
use seriatim_types::{PartitionId, WorkspaceId, WorkspaceOffset};

use crate::entry::Begins;
use crate::error::HostError;
use crate::inner::Inner;
use crate::load::read_entry;
use crate::workflow::Item;

/// Rows of the index that are read together, and workflows that are written to at once.
const PAGE: usize = 256;
/// Between two pages: a sweep leaves the store to others.
const PAGE_PAUSE: Duration = Duration::from_millis(50);
/// Runs that one event forgets. Bounds it.
const RUNS_MAX: usize = 1_000;
/// A sweep begins so long after the one before at the earliest, and at the latest.
const SWEEP_EVERY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(3_600));

const NOT_FORGOTTEN: &str = "runs that ended long ago could not be forgotten; it is tried again";

impl Inner {
    /// Forgets runs that ended longer ago than `retention`, again and again.
    pub(crate) async fn forget_old(self: &Arc<Self>, retention: Duration) {
        let pause = (retention / 16).clamp(SWEEP_EVERY.0, SWEEP_EVERY.1);
        loop {
            self.wait_unfenced().await;
            let states = self.engine.partitions("workflows").unwrap_or_default();
            let ready = states.iter().filter(|state| matches!(state.status, PartitionStatus::Ready));
            for partition in ready.map(|state| state.partition.id) {
                if let Err(error) = self.sweep(partition, retention).await {
                    tracing::warn!(%partition, %error, "{NOT_FORGOTTEN}");
                }
            }
            self.env.sleep(self.env.jitter(pause)).await;
        }
    }

    /// Looks at every workflow of a partition once.
    async fn sweep(self: &Arc<Self>, partition: PartitionId, retention: Duration) -> Result<(), SubmitError> {
        for status in RunStatus::ALL {
            let mut after = None;
            loop {
                let page = self.engine.workflows().with_status(partition, status, after, PAGE).await?;
                let millis = u64::try_from(retention.as_millis()).unwrap_or(u64::MAX);
                let before = self.env.now().as_millis().saturating_sub(millis);
                let sweeping = page.iter().filter(|(_, newest)| is_of_interest(newest, before));
                let sweeping = sweeping.map(|(workspace, newest)| {
                    let (inner, workspace, newest) = (self.clone(), *workspace, newest.clone());
                    self.env.spawn(async move {
                        inner.sweep_workflow(partition, workspace, &newest, before).await
                    })
                });
                for swept in sweeping.collect::<Vec<_>>() {
                    if let Err(error) = swept.await.unwrap_or(Err(HostError::Closed)) {
                        tracing::warn!(%partition, %error, "{NOT_FORGOTTEN}");
                    }
                }
                match page.last() {
                    Some((last, _)) if page.len() == PAGE => after = Some(*last),
                    _ => break,
                }
                self.env.sleep(PAGE_PAUSE).await;
            }
        }
        Ok(())
    }

    /// Forgets the runs of a workflow that ended before a time.
    async fn sweep_workflow(
        self: &Arc<Self>,
        partition: PartitionId,
        workspace: WorkspaceId,
        newest: &RunRow,
        before: u64,
    ) -> Result<(), HostError> {
        loop {
            let runs = self.old_runs(partition, workspace, newest, before).await?;
            let count = runs.len();
            if count == 0 {
                return Ok(());
            }
            self.ask(workspace, |reply| Item::Forget { runs, reply }).await?;
            self.metrics.forgotten.increment(count as u64);
            if count < RUNS_MAX {
                return Ok(());
            }
        }
    }

    /// The oldest runs that can be forgotten: each has ended before a time, no other goes on where it did that is kept, its
    /// parent does not wait for it, and it has told others what it had to. So has each run before it.
    async fn old_runs(
        &self,
        partition: PartitionId,
        workspace: WorkspaceId,
        newest: &RunRow,
        before: u64,
    ) -> Result<Vec<u64>, SubmitError> {
        let mut old = VecDeque::new();
        let (mut below, mut kept) = (newest.run.checked_add(1), None);
        loop {
            let page = self.engine.workflows().runs(workspace, below, PAGE).await?;
            for row in &page {
                let is_kept = (row.next.is_some() && row.next == kept)
                    || row.ended.is_none_or(|ended| ended >= before)
                    || self.is_needed(partition, workspace, row).await?;
                if is_kept {
                    kept = Some(row.run);
                    // The newer ones are what a sweep finds it by, and may be what it goes on as.
                    old.clear();
                } else {
                    old.push_back(row.run);
                    if old.len() > RUNS_MAX {
                        // The newest leaves the index last: without it no sweep finds the others.
                        old.pop_front();
                    }
                }
            }
            match page.last() {
                Some(last) if page.len() == PAGE => below = Some(last.run),
                _ => return Ok(old.into()),
            }
        }
    }

    /// Whether a run that has ended is still needed by others.
    async fn is_needed(
        &self,
        partition: PartitionId,
        workspace: WorkspaceId,
        row: &RunRow,
    ) -> Result<bool, SubmitError> {
        if row.owes {
            let after = Some((workspace, row.run - 1));
            let owing = self.engine.workflows().owing(partition, after, 1).await?;
            if owing.first().is_some_and(|(of, owing)| *of == workspace && owing.run == row.run) {
                return Ok(true);
            }
        }
        let Some(parent) = self.begins_of(workspace, row).await?.parent else { return Ok(false) };
        let parent = self.row(WorkspaceId::new(parent.workspace), Some(parent.run)).await?;
        Ok(parent.is_some_and(|parent| parent.status == RunStatus::Running))
    }

    /// What a run has brought with it, by its first event.
    async fn begins_of(&self, workspace: WorkspaceId, row: &RunRow) -> Result<Begins, SubmitError> {
        let from = WorkspaceOffset::new(row.from).unwrap_or(WorkspaceOffset::FIRST);
        let events = self.engine.events("workflows", workspace, from, 1).await?;
        let entry = events.first().map(read_entry).transpose()?.flatten().unwrap_or_default();
        let next = entry.next.filter(|next| next.run == row.run).map(|next| next.begins);
        Ok(next.or(entry.begins).unwrap_or_default())
    }
}

/// Whether a workflow with this newest run may have runs that can be forgotten.
fn is_of_interest(newest: &RunRow, before: u64) -> bool {
    newest.run > 1 || newest.ended.is_some_and(|ended| ended < before)
}
