//! Runs that ended long ago leave the index.
//!
//! A sweep walks through the index, page by page. What it finds goes through the driver of its workflow, like everything that
//! is written to a workflow's log: that a run is forgotten is an event, so the index is the same when it is rebuilt. The
//! events of the run stay in the log.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use seriatim_engine::{PartitionStatus, SubmitError};
use seriatim_types::{PartitionId, WorkspaceId};

use crate::application::{NAME, RunRow, RunStatus, Workflows};
use crate::error::HostError;
use crate::homes::Home;
use crate::inner::Inner;
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

/// Forgets runs that ended longer ago than the retention.
#[derive(Clone)]
pub(crate) struct Sweeper {
    pub(crate) inner: Arc<Inner>,
    pub(crate) retention: Duration,
}

impl Sweeper {
    /// Sweeps again and again.
    pub(crate) async fn run(self) {
        let pause = (self.retention / 16).clamp(SWEEP_EVERY.0, SWEEP_EVERY.1);
        loop {
            self.inner.wait_unfenced().await;
            let states = self.inner.engine.partitions(NAME).unwrap_or_default();
            let ready = states.iter().filter(|state| matches!(state.status, PartitionStatus::Ready));
            for partition in ready.map(|state| state.partition.id) {
                // Only what is here. A partition that leaves is not swept any further.
                let Ok(home) = self.inner.home(partition) else { continue };
                if let Some(Err(error)) = home.stop.run_until_cancelled(self.sweep(&home)).await {
                    tracing::warn!(%partition, %error, "{NOT_FORGOTTEN}");
                }
            }
            self.inner.env.sleep(self.inner.env.jitter(pause)).await;
        }
    }

    /// Checks every workflow of a partition once.
    async fn sweep(&self, home: &Arc<Home>) -> Result<(), SubmitError> {
        let partition = home.partition;
        for status in RunStatus::ALL {
            let mut after = None;
            loop {
                let page =
                    Workflows::new(&self.inner.engine).with_status(partition, status, after, PAGE).await?;
                let millis = u64::try_from(self.retention.as_millis()).unwrap_or(u64::MAX);
                let before = self.inner.env.now().as_millis().saturating_sub(millis);
                let sweeping = page.iter().filter(|(_, newest)| is_of_interest(newest, before));
                let sweeping = sweeping.map(|(workspace, newest)| {
                    let (sweeper, home, workspace) = (self.clone(), home.clone(), *workspace);
                    let newest = newest.clone();
                    self.inner.env.spawn(async move {
                        let sweeping = sweeper.sweep_workflow(&home, workspace, &newest, before);
                        home.stop.run_until_cancelled(sweeping).await.unwrap_or(Ok(()))
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
                self.inner.env.sleep(PAGE_PAUSE).await;
            }
        }
        Ok(())
    }

    /// Forgets the runs of a workflow that ended before a time.
    async fn sweep_workflow(
        &self,
        home: &Arc<Home>,
        workspace: WorkspaceId,
        newest: &RunRow,
        before: u64,
    ) -> Result<(), HostError> {
        loop {
            let runs = self.old_runs(home.partition, workspace, newest, before).await?;
            let count = runs.len();
            if count == 0 {
                return Ok(());
            }
            self.inner.ask_at(home, workspace, |reply| Item::Forget { runs, reply }).await?;
            self.inner.metrics.forgotten.increment(count as u64);
            if count < RUNS_MAX {
                return Ok(());
            }
        }
    }

    /// The oldest runs that can be forgotten: each has ended before a time, no run that is kept continues it, its
    /// parent does not wait for it, and its messages to others are delivered. So has each run before it.
    async fn old_runs(
        &self,
        partition: PartitionId,
        workspace: WorkspaceId,
        newest: &RunRow,
        before: u64,
    ) -> Result<Vec<u64>, HostError> {
        let mut old = VecDeque::new();
        let (mut below, mut kept) = (newest.run.checked_add(1), None);
        loop {
            let page = Workflows::new(&self.inner.engine).runs(workspace, below, PAGE).await?;
            for row in &page {
                let is_kept = (row.next.is_some() && row.next == kept)
                    || row.ended.is_none_or(|ended| ended >= before)
                    || self.is_needed(partition, workspace, row).await?;
                if is_kept {
                    kept = Some(row.run);
                    // The newer ones are what a sweep finds it by, and may be what continues it.
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
    ) -> Result<bool, HostError> {
        if row.has_undelivered {
            let after = Some((workspace, row.run - 1));
            let undelivered = Workflows::new(&self.inner.engine).undelivered(partition, after, 1).await?;
            if undelivered.first().is_some_and(|(of, found)| *of == workspace && found.run == row.run) {
                return Ok(true);
            }
        }
        let Some(parent) = self.inner.histories.begins(workspace, row).await?.parent else {
            return Ok(false);
        };
        let parent = self.inner.row(WorkspaceId::new(parent.workspace), Some(parent.run)).await?;
        Ok(parent.is_some_and(|parent| parent.status == RunStatus::Running))
    }
}

/// Whether a workflow with this newest run may have runs that can be forgotten.
fn is_of_interest(newest: &RunRow, before: u64) -> bool {
    newest.run > 1 || newest.ended.is_some_and(|ended| ended < before)
}
