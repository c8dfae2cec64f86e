//! Reading derived data from outside the partition.
//!
//! A read returns everything that was acknowledged, or an error. During a recovery the overlay and the store together have
//! less than that, so a read waits until the recovery has ended:
//!
//! ```text
//! log:   [ checkpoint ...... next ...... target )      target: where the log ended when it was taken
//!          in the store       applied     not yet       readable once next has reached the target
//! ```
//!
//! Reads of [`RunningPartition`](super::RunningPartition) do not wait. Recovery and the partition's own loads use those, and would
//! wait for themselves.

use bytes::Bytes;
use seriatim_env::Instant;
use seriatim_sequencer::{Busy, LoadError, Numbers, ReadError, Status, StopReason};
use seriatim_storage::ClusteringRange;
use seriatim_types::WorkspaceId;

use super::PartitionHandle;
use crate::derive::keys::{self, StoreKey};
use crate::derive::{Round, lock};
use crate::error::{SubmitError, stopped};

impl PartitionHandle {
    /// The present values of keys. Waits for a recovery, for at most `begin_wait`.
    ///
    /// # Errors
    ///
    /// [`Busy::Recovering`] if the recovery has not ended by then. If the partition has stopped, the reason.
    pub(crate) async fn read(&self, keys: &[StoreKey]) -> Result<Vec<Option<Bytes>>, SubmitError> {
        let deadline = self.read_deadline();
        loop {
            let round = self.caught_up(deadline).await?;
            let found = self.shared.derived.read(keys).await?;
            if self.is_current(round) {
                return Ok(found);
            }
        }
    }

    /// Up to `limit` pairs of a range of the partition's keys, in ascending order. If there are fewer, the range has no more. Waits
    /// as [`Self::read`] does.
    pub(crate) async fn scan(
        &self,
        range: ClusteringRange,
        limit: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, SubmitError> {
        let (storage, deadline) = (keys::storage(self.shared.partition), self.read_deadline());
        loop {
            let round = self.caught_up(deadline).await?;
            let found = self.shared.derived.scan(&storage, range.clone(), limit).await?;
            if self.is_current(round) {
                return Ok(found);
            }
        }
    }

    /// The numbers of a workspace; `None` before its first event. Waits as [`Self::read`] does.
    pub(crate) async fn numbers(&self, workspace: WorkspaceId) -> Result<Option<Numbers>, SubmitError> {
        let deadline = self.read_deadline();
        loop {
            let round = self.caught_up(deadline).await?;
            let found = self.shared.derived.read_numbers(&[workspace]).await.pop();
            if !self.is_current(round) {
                continue;
            }
            return match found {
                Some(Ok(numbers)) => Ok(numbers),
                None => Ok(None),
                Some(Err(ReadError::Store(error))) => Err(error.into()),
                Some(Err(ReadError::Bad(problem))) => {
                    Err(LoadError::Corrupt(StopReason::BadNumbers { workspace, problem }).into())
                }
            };
        }
    }

    fn read_deadline(&self) -> Instant {
        self.shared.env.instant() + self.shared.options.begin_wait
    }

    /// Whether no recovery has begun since `round`. If so, the values that were read are consistent.
    fn is_current(&self, round: Round) -> bool {
        lock(&self.shared.derived.overlay).is_current(round)
    }

    /// The present recovery, if it has ended.
    fn recovered(&self) -> Option<Round> {
        lock(&self.shared.derived.overlay).caught_up()
    }

    /// Waits until everything that was in the log when the partition was taken is in the overlay or the store.
    async fn caught_up(&self, deadline: Instant) -> Result<Round, SubmitError> {
        if let Some(round) = self.recovered() {
            return Ok(round);
        }
        let mut changes = self.shared.derived.changes.subscribe();
        let mut late = false;
        loop {
            changes.mark_unchanged();
            if let Some(round) = self.recovered() {
                return Ok(round);
            }
            if let Some(error) = self.ended() {
                return Err(error);
            }
            if late {
                return Err(SubmitError::Busy(Busy::Recovering));
            }
            let left = deadline.saturating_duration_since(self.shared.env.instant());
            late = self.shared.env.timeout(left, changes.changed()).await.is_err();
        }
    }

    /// Why a recovery will not end, if the partition has stopped or is closed.
    fn ended(&self) -> Option<SubmitError> {
        if self.shared.derived.halted().is_some() {
            return Some(self.closed());
        }
        match self.status.status() {
            Status::Stopped(reason) => Some(stopped(self.shared.partition, &reason)),
            Status::Finished => Some(SubmitError::Closed),
            Status::None | Status::Recovering { .. } | Status::Ready | Status::InTransaction => None,
        }
    }
}
