//! Follows a log: reads its events, and waits for more at its end.
//!
//! A follower has no queue. It reads from the log at its own pace, and is woken when there are more events.

use std::collections::HashMap;
use std::sync::Arc;

use seriatim_env::watch;
use seriatim_sequencer::Busy;
use seriatim_storage::{Follower, ReadLimit};
use seriatim_types::sync::{Mutex, MutexGuard};
use seriatim_types::{Partition, PartitionId, PartitionOffset, WorkspaceId, WorkspaceOffset};

use crate::engine::Engine;
use crate::error::SubmitError;
use crate::partition::RunningPartition;
use crate::read::{Placed, decode_events};

/// The workspaces that are followed, each with a channel that wakes its followers.
#[derive(Debug, Default)]
pub(crate) struct Watchers(Mutex<HashMap<WorkspaceId, watch::Sender<()>>>);

impl Watchers {
    fn lock(&self) -> MutexGuard<'_, HashMap<WorkspaceId, watch::Sender<()>>> {
        self.0.lock()
    }

    fn watch(&self, workspace: WorkspaceId) -> watch::Receiver<()> {
        self.lock().entry(workspace).or_insert_with(|| watch::Sender::new(())).subscribe()
    }

    /// Ends a watch, and removes a workspace that is no longer followed.
    fn leave(&self, workspace: WorkspaceId, watch: watch::Receiver<()>) {
        let mut watchers = self.lock();
        // Dropped while the lock is held: of two watches that end together, the second one finds no other receiver.
        drop(watch);
        if watchers.get(&workspace).is_some_and(|sender| sender.receiver_count() == 0) {
            watchers.remove(&workspace);
        }
    }

    /// Wakes the followers of these workspaces.
    pub(crate) fn wake(&self, workspaces: impl Iterator<Item = WorkspaceId>) {
        let watchers = self.lock();
        if watchers.is_empty() {
            return;
        }
        for workspace in workspaces {
            if let Some(sender) = watchers.get(&workspace) {
                sender.send_replace(());
            }
        }
    }

    /// Ends all followers: their next wait returns an error.
    pub(crate) fn close(&self) {
        self.lock().clear();
    }

    /// Wakes all followers: a recovery may have found events of any workspace.
    pub(crate) fn wake_all(&self) {
        for sender in self.lock().values() {
            sender.send_replace(());
        }
    }
}

/// Follows the log of a partition.
#[derive(Debug)]
pub struct PartitionFollower {
    follower: Follower,
    partition: Partition,
}

impl PartitionFollower {
    /// The offset of the next event.
    #[must_use]
    pub fn offset(&self) -> PartitionOffset {
        self.follower.offset()
    }

    /// The next events, at least one and at most `limit`. Waits at the end of the log. Cancel-safe.
    ///
    /// # Errors
    ///
    /// [`SubmitError`]. The offset has not changed: call it again to continue from there.
    pub async fn next(&mut self, limit: usize) -> Result<Vec<Placed>, SubmitError> {
        let entries = self.follower.next(ReadLimit::entries(limit)).await?;
        decode_events(self.partition, &entries)
    }
}

/// Follows the log of a workspace.
#[derive(Debug)]
pub struct WorkspaceFollower {
    engine: Engine,
    shared: Arc<RunningPartition>,
    application: String,
    workspace: WorkspaceId,
    offset: WorkspaceOffset,
    changes: watch::Receiver<()>,
}

impl WorkspaceFollower {
    /// The offset of the next event.
    #[must_use]
    pub fn offset(&self) -> WorkspaceOffset {
        self.offset
    }

    /// The next events, at least one and at most `limit`. Waits at the end of the log. Cancel-safe.
    ///
    /// # Errors
    ///
    /// [`SubmitError`]. The offset has not changed: call it again to continue from there.
    pub async fn next(&mut self, limit: usize) -> Result<Vec<Placed>, SubmitError> {
        loop {
            // Before the read, so that an event that is appended during the read is not missed.
            self.changes.mark_unchanged();
            let events =
                self.engine.events(&self.application, self.workspace, self.offset, limit.max(1)).await;
            let events = match events {
                Err(SubmitError::Busy(Busy::Recovering)) => {
                    // The end of the partition's recovery wakes the follower. The end of the registry's does not: hence the
                    // timeout.
                    let retry = self.shared.options.retry;
                    if let Ok(Err(_)) = self.shared.env.timeout(retry, self.changes.changed()).await {
                        return Err(SubmitError::Closed);
                    }
                    continue;
                }
                events => events?,
            };
            if let Some(last) = events.last() {
                self.offset = last.place.workspace_offset.next().unwrap_or(self.offset);
                return Ok(events);
            }
            if self.changes.changed().await.is_err() {
                return Err(SubmitError::Closed);
            }
        }
    }
}

impl Drop for WorkspaceFollower {
    fn drop(&mut self) {
        let ended = watch::Sender::new(()).subscribe();
        self.shared.watchers.leave(self.workspace, std::mem::replace(&mut self.changes, ended));
    }
}

impl Engine {
    /// Follows the log of a partition from an offset.
    ///
    /// # Errors
    ///
    /// [`SubmitError::NotFound`] if there is no such partition.
    pub fn follow_partition(
        &self,
        application: &str,
        partition: PartitionId,
        from: PartitionOffset,
    ) -> Result<PartitionFollower, SubmitError> {
        let running = self.running(application)?;
        let handle = running.partition(partition);
        let missing =
            || SubmitError::NotFound(format!("application {application} has no partition {partition}"));
        let partition = handle.ok_or_else(missing)?.partition;
        Ok(PartitionFollower { follower: self.log().follow(partition, from), partition })
    }

    /// Follows the log of a workspace from an offset. A follower of an idle workspace costs nothing while other workspaces
    /// have events.
    ///
    /// # Errors
    ///
    /// [`SubmitError`] if there is no such workspace.
    pub async fn follow_workspace(
        &self,
        application: &str,
        workspace: WorkspaceId,
        from: WorkspaceOffset,
    ) -> Result<WorkspaceFollower, SubmitError> {
        let running = self.running(application)?;
        self.kind_of(running, workspace).await?;
        let handle = running.partition_of(workspace);
        let shared = handle.running().ok_or_else(|| handle.not_here())?;
        let changes = shared.watchers.watch(workspace);
        let (engine, application) = (self.clone(), application.to_owned());
        Ok(WorkspaceFollower { engine, shared, application, workspace, offset: from, changes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workspace_is_forgotten_when_the_last_of_its_watches_ends() {
        let (watchers, workspace) = (Watchers::default(), WorkspaceId::new(7));
        let (first, second) = (watchers.watch(workspace), watchers.watch(workspace));
        watchers.leave(workspace, first);
        assert_eq!(watchers.lock().len(), 1);
        watchers.leave(workspace, second);
        assert!(watchers.lock().is_empty());
    }
}
