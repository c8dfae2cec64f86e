//! The Log port: where the truth lives.
//!
//! Per partition a dense run of entries from offset 1. [`Log`] is a struct around a [`LogBackend`], so that only it can
//! make an [`Owner`] or a [`Receipt`].
//!
//! ```text
//!   take ──► Owner { epoch, tail }
//!                │
//!   append(owner, at, entries) ──► Receipt            committed: durable, readable, for ever
//!                              ├─► refused            nothing was written: AppendError::is_refused
//!                              └─► in doubt           take again, read at `at`, compare append ids
//! ```

mod backend;
mod error;
mod follow;
mod owner;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use seriatim_types::{Partition, PartitionOffset};

pub use backend::{Append, AppendFuture, LogBackend, ReadLimit, Taken};
pub use error::{AppendError, LogError};
pub use follow::Follower;
pub use owner::{LogId, Owner, Receipt};

use crate::{Bulletin, Entries, ReadEntries};

static LOGS_OPENED: AtomicU64 = AtomicU64::new(0);

/// A log: the only maker of owners and receipts. Clones are the same log.
#[derive(Clone, Debug)]
pub struct Log {
    id: LogId,
    backend: Arc<dyn LogBackend>,
}

impl Log {
    /// A log on this backend. Two logs on one backend do not accept each other's owners and receipts.
    #[must_use]
    pub fn new(backend: impl LogBackend) -> Self {
        Self::from_arc(Arc::new(backend))
    }

    /// A log on a backend that is shared with others, such as a test that looks inside.
    #[must_use]
    pub fn from_arc(backend: Arc<dyn LogBackend>) -> Self {
        let id = LogId::new(LOGS_OPENED.fetch_add(1, Ordering::Relaxed));
        Self { id, backend }
    }

    /// Which log this is, within the process.
    #[must_use]
    pub fn id(&self) -> LogId {
        self.id
    }

    /// For the conformance suites, which also check what callers cannot see.
    #[doc(hidden)]
    #[must_use]
    pub fn backend(&self) -> &dyn LogBackend {
        &*self.backend
    }

    /// Takes a partition: raises its epoch durably, which shuts out every earlier owner.
    ///
    /// # Errors
    ///
    /// [`LogError`]; the epoch may have been raised all the same, which harms nobody but earlier owners.
    pub async fn take(&self, partition: Partition) -> Result<Owner, LogError> {
        let mut owners = self.take_all(&[partition]).await?;
        owners.pop().ok_or_else(|| LogError::Internal("a backend took nothing".to_owned()))
    }

    /// Takes several partitions, with one durable write where the backend can; owners come in the same order.
    ///
    /// # Errors
    ///
    /// As [`Log::take`].
    pub async fn take_all(&self, partitions: &[Partition]) -> Result<Vec<Owner>, LogError> {
        let taken = self.backend.take(partitions).await?;
        if taken.len() != partitions.len() {
            return Err(LogError::Internal("a backend did not take what it was asked to".to_owned()));
        }
        let owner = |(&partition, taken): (&Partition, Taken)| Owner::new(self.id, partition, taken);
        Ok(partitions.iter().zip(taken).map(owner).collect())
    }

    /// Appends all entries at `at`, or none: durable before it answers, conditional on the owner's epoch and on `at`
    /// being the partition's tail.
    ///
    /// The append is submitted when this is called, in the order of the calls, and goes on when the future is dropped:
    /// the future only waits for the answer. An owner may submit the next append before the last one is answered; if
    /// the first is refused, the next one finds another tail and is refused too.
    ///
    /// # Errors
    ///
    /// [`AppendError`]: refused (nothing was written) or in doubt.
    pub fn append(
        &self,
        owner: &Owner,
        at: PartitionOffset,
        entries: &Entries,
    ) -> impl Future<Output = Result<Receipt, AppendError>> + Send + use<> {
        self.submit(owner, at, entries, true)
    }

    /// Appends without the checks where they cost (trust level 2): what is at `at` may be overwritten, and a stale owner
    /// may get through. Backends that check for nothing check all the same.
    ///
    /// # Errors
    ///
    /// As [`Log::append`].
    pub fn append_unverified(
        &self,
        owner: &Owner,
        at: PartitionOffset,
        entries: &Entries,
    ) -> impl Future<Output = Result<Receipt, AppendError>> + Send + use<> {
        self.submit(owner, at, entries, false)
    }

    fn submit(
        &self,
        owner: &Owner,
        at: PartitionOffset,
        entries: &Entries,
        verified: bool,
    ) -> impl Future<Output = Result<Receipt, AppendError>> + Send + use<> {
        let id = entries.append_id();
        let range = self.check(owner, at, entries);
        let (partition, epoch) = (owner.partition(), owner.epoch());
        let append = Append { partition, epoch, at, entries, verified };
        let answer = range.map(|next| (next, self.backend.append(append)));
        let log = self.clone();
        async move {
            let (next, answer) = answer?;
            let receipt = Receipt::new(log.id, partition, at, next, id);
            match answer.await {
                Ok(()) => Ok(receipt),
                Err(AppendError::Conflict { tail, .. }) => {
                    // A lost reply makes a backend see its own append as somebody else's: only the entry can tell.
                    match log.first_at(partition, at).await {
                        Ok(Some(found)) if found == id => Ok(receipt),
                        Ok(found) => Err(AppendError::Conflict { partition, at, tail, found }),
                        Err(error) => Err(AppendError::InDoubt {
                            partition,
                            at,
                            reason: format!("a conflict that could not be looked at: {error}"),
                        }),
                    }
                }
                Err(error) => Err(error),
            }
        }
    }

    /// The offset behind the append, if nothing is wrong with the call itself.
    fn check(
        &self,
        owner: &Owner,
        at: PartitionOffset,
        entries: &Entries,
    ) -> Result<PartitionOffset, AppendError> {
        if owner.log() != self.id {
            return Err(AppendError::Invalid("the owner was made by another log: take the partition here"));
        }
        if entries.is_empty() {
            return Err(AppendError::Invalid("an append needs at least one entry"));
        }
        if entries.append_id().epoch != owner.epoch() {
            return Err(AppendError::Invalid("the entries carry another epoch than the owner's"));
        }
        at.advance(entries.len() as u64).ok_or(AppendError::Invalid("the offsets end here"))
    }

    async fn first_at(
        &self,
        partition: Partition,
        at: PartitionOffset,
    ) -> Result<Option<seriatim_types::AppendId>, LogError> {
        let found = self.read(partition, at, ReadLimit::entries(1)).await?;
        Ok(found.iter().next().map(|(_, entry)| entry.append_id()))
    }

    /// Committed entries from `from` on, in order, up to the limit; none at or beyond the tail.
    ///
    /// # Errors
    ///
    /// [`LogError::Corrupt`] where an entry does not decode: what lies before it can be read with a smaller limit.
    pub async fn read(
        &self,
        partition: Partition,
        from: PartitionOffset,
        limit: ReadLimit,
    ) -> Result<ReadEntries, LogError> {
        self.backend.read(partition, from, limit).await
    }

    /// The offset that the next append goes to: one behind the last committed entry, 1 for a partition that has none.
    ///
    /// # Errors
    ///
    /// [`LogError`].
    pub async fn tail(&self, partition: Partition) -> Result<PartitionOffset, LogError> {
        self.backend.tail(partition).await
    }

    /// The partitions that have been taken at least once, in order.
    ///
    /// # Errors
    ///
    /// [`LogError`].
    pub async fn partitions(&self) -> Result<Vec<Partition>, LogError> {
        self.backend.partitions().await
    }

    /// Follows a partition from an offset: what is there, then what comes.
    #[must_use]
    pub fn follow(&self, partition: Partition, from: PartitionOffset) -> Follower {
        Follower::new(self.backend.clone(), partition, from)
    }

    /// What is posted beside the log. It is closed with it.
    #[must_use]
    pub fn bulletin(&self) -> Bulletin {
        Bulletin::new(self.backend.bulletin())
    }

    /// Waits for what is under way, then releases everything. Later calls give [`LogError::Closed`].
    ///
    /// # Errors
    ///
    /// [`LogError`]; it is closed all the same.
    pub async fn close(&self) -> Result<(), LogError> {
        self.backend.close().await
    }
}
