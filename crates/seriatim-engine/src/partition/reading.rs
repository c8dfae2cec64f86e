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
//! A standby learns of new entries after their owner has acknowledged them. So a read of a standby reads the log's tail first, and
//! waits until the standby has reached it.
//!
//! Reads of [`RunningPartition`](super::RunningPartition) do not wait. Recovery and the partition's own loads use those, and would
//! wait for themselves.

use std::sync::Arc;

use bytes::Bytes;
use seriatim_env::Instant;
use seriatim_sequencer::{Busy, LoadError, Numbers, ReadError, Status, StopReason};
use seriatim_storage::ClusteringRange;
use seriatim_types::{PartitionOffset, WorkspaceId};

use super::owned::Owned;
use super::{PartitionHandle, Place, RunningPartition};
use crate::derive::keys::{self, StoreKey};
use crate::derive::{Round, lock};
use crate::error::{SubmitError, stopped};

/// How current a read of a standby has to be. A read of an owner is always current.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Currency {
    /// It returns everything that was acknowledged before it began.
    Current,
    /// It returns what the standby has applied. For what never changes once it is there.
    Applied,
}

/// A partition that can be read, in the state of one recovery.
struct Readable {
    shared: Arc<RunningPartition>,
    round: Round,
}

impl Readable {
    /// Whether no recovery has begun meanwhile. If so, the values that were read are consistent.
    fn is_current(&self) -> bool {
        lock(&self.shared.derived.overlay).is_current(self.round)
    }
}

impl PartitionHandle {
    /// The present values of keys. Waits for a recovery, for at most `begin_wait`.
    ///
    /// # Errors
    ///
    /// [`Busy::Recovering`] if the recovery has not ended by then. If the partition has stopped, the reason.
    pub(crate) async fn read(&self, keys: &[StoreKey]) -> Result<Vec<Option<Bytes>>, SubmitError> {
        self.read_as(keys, Currency::Current).await
    }

    /// As [`Self::read`], as current as requested.
    pub(crate) async fn read_as(
        &self,
        keys: &[StoreKey],
        currency: Currency,
    ) -> Result<Vec<Option<Bytes>>, SubmitError> {
        let deadline = self.read_deadline();
        loop {
            let readable = self.readable(deadline, currency).await?;
            let found = readable.shared.derived.read(keys).await?;
            if readable.is_current() {
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
        let (storage, deadline) = (keys::storage(self.partition), self.read_deadline());
        loop {
            let readable = self.readable(deadline, Currency::Current).await?;
            let found = readable.shared.derived.scan(&storage, range.clone(), limit).await?;
            if readable.is_current() {
                return Ok(found);
            }
        }
    }

    /// The numbers of a workspace; `None` before its first event. Waits as [`Self::read`] does.
    pub(crate) async fn numbers(&self, workspace: WorkspaceId) -> Result<Option<Numbers>, SubmitError> {
        let deadline = self.read_deadline();
        loop {
            let readable = self.readable(deadline, Currency::Current).await?;
            let found = readable.shared.derived.read_numbers(&[workspace]).await.pop();
            if !readable.is_current() {
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
        self.parts.env.instant() + self.parts.options.begin_wait
    }

    /// The partition, when it can be read.
    async fn readable(&self, deadline: Instant, currency: Currency) -> Result<Readable, SubmitError> {
        match self.place() {
            Place::Owned(owned) => {
                let round = caught_up(&owned, deadline).await?;
                Ok(Readable { shared: owned.shared.clone(), round })
            }
            Place::Standby(standby) => {
                let reached = match currency {
                    Currency::Current => standby.catch_up(true).await,
                    Currency::Applied => {
                        let left = deadline.saturating_duration_since(self.parts.env.instant());
                        let reaching = standby.reach(PartitionOffset::FIRST);
                        let late = Err(SubmitError::Busy(Busy::Recovering));
                        self.parts.env.timeout(left, reaching).await.unwrap_or(late)
                    }
                };
                let has_left = || matches!(self.place(), Place::Elsewhere(_));
                let round = reached.map_err(|error| if has_left() { self.not_here() } else { error })?;
                Ok(Readable { shared: standby.shared.clone(), round })
            }
            Place::Elsewhere(_) => Err(self.not_here()),
        }
    }
}

/// Waits until everything that was in the log when the partition was taken is in the overlay or the store.
async fn caught_up(owned: &Owned, deadline: Instant) -> Result<Round, SubmitError> {
    let shared = &owned.shared;
    let recovered = || lock(&shared.derived.overlay).caught_up();
    if let Some(error) = deposed(owned) {
        return Err(error);
    }
    if let Some(round) = recovered() {
        return Ok(round);
    }
    let mut changes = shared.derived.changes.subscribe();
    let mut late = false;
    loop {
        changes.mark_unchanged();
        if let Some(round) = recovered() {
            return Ok(round);
        }
        if let Some(error) = ended(owned) {
            return Err(error);
        }
        if late {
            return Err(SubmitError::Busy(Busy::Recovering));
        }
        let left = deadline.saturating_duration_since(shared.env.instant());
        late = shared.env.timeout(left, changes.changed()).await.is_err();
    }
}

/// The error of a partition that another owner has taken over: it may have acknowledged what this one does not have.
fn deposed(owned: &Owned) -> Option<SubmitError> {
    owned.shared.deposed().map(|_| owned.closed())
}

/// Why a recovery will not end, if the partition has stopped or is closed.
fn ended(owned: &Owned) -> Option<SubmitError> {
    if owned.shared.derived.halted().is_some() || owned.shared.deposed().is_some() {
        return Some(owned.closed());
    }
    match owned.status.status() {
        Status::Stopped(reason) => Some(stopped(owned.shared.partition, &reason)),
        Status::Finished => Some(SubmitError::Closed),
        Status::None | Status::Recovering { .. } | Status::Ready | Status::InTransaction => None,
    }
}
