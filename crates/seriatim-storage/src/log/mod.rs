//! The Log port: the source of truth.
//!
//! Per partition a dense run of entries from offset 1. [`Log`] is a struct around a [`LogBackend`], so that only it can
//! make an [`Owner`] or a [`Receipt`].
//!
//! ```text
//!   take_over(partition, expected epoch) ──► Owner { epoch, tail }
//!                │                       └─► Deposed          another owner was first, or has followed
//!                ▼
//!   append(owner, at, entries) ──► Receipt            committed: durable, readable, permanently
//!                              ├─► refused            nothing was written: AppendError::is_refused
//!                              └─► in doubt           take over with the owner's epoch, read at `at`, compare append ids
//! ```
//!
//! An append in doubt is settled by a take-over, not by a read: only a raised epoch refuses an append that is still on its way.

mod backend;
mod cut;
mod error;
mod follow;
mod holder;
mod owner;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use seriatim_types::{AppendId, Epoch, Partition, PartitionOffset};

pub use backend::{Append, AppendFuture, LogBackend, ReadLimit, TakeOver, TakenPartition};
pub use error::{AppendError, LogError, TakeOverError};
pub use follow::Follower;
pub use holder::{HOLDER_BYTES_MAX, Held, Holder, LogIdentity, Take};
pub use owner::{LogId, Owner, Receipt};

use self::cut::Submissions;

use crate::{Bulletin, Entries, ReadEntries};

static LOGS_OPENED: AtomicU64 = AtomicU64::new(0);

/// A log. Only a log makes [`Owner`]s and [`Receipt`]s. Clones are the same log.
///
/// After [`Log::append`] has returned a receipt, its entries are durable, can be read, and never change. After an error for
/// which [`AppendError::is_refused`] is true, nothing was written. After [`AppendError::InDoubt`], the entries may be there
/// or not; take the partition over with the owner's epoch to find out.
///
/// ```
/// use seriatim_storage::{Log, memory::MemoryLog};
/// use seriatim_types::{Partition, PartitionOffset};
///
/// # seriatim_env::simulate(1, |_| async {
/// let log = Log::new(MemoryLog::new());
/// let partition = Partition::new(1, 0);
/// let first = log.take(partition).await?;
/// assert_eq!(first.tail(), PartitionOffset::FIRST);
///
/// // Taking the partition again raises its epoch: appends of the first owner are refused from now on.
/// let second = log.take(partition).await?;
/// assert!(second.epoch() > first.epoch());
/// # Ok::<(), seriatim_storage::LogError>(())
/// # }).unwrap();
/// ```
///
/// The example of [the crate](crate) appends and reads an entry.
#[derive(Clone, Debug)]
pub struct Log {
    id: LogId,
    backend: Arc<dyn LogBackend>,
    /// What was appended through this log.
    submissions: Submissions,
}

impl Log {
    /// A log on this backend. Two logs on one backend do not accept each other's owners and receipts.
    #[must_use]
    pub fn new(backend: impl LogBackend) -> Self {
        Self::from_arc(Arc::new(backend))
    }

    /// A log on a backend that is shared with other users, such as a test that inspects it.
    #[must_use]
    pub fn from_arc(backend: Arc<dyn LogBackend>) -> Self {
        let id = LogId::new(LOGS_OPENED.fetch_add(1, Ordering::Relaxed));
        Self { id, backend, submissions: Submissions::default() }
    }

    /// Identifies this log within the process.
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

    /// Takes a partition over: raises its epoch durably if it is still `expected` (`None`: the partition was never taken). From
    /// then on, appends of every earlier owner are refused. Of many that expect the same epoch, exactly one succeeds.
    ///
    /// If the answer is an owner or [`TakeOverError::Deposed`], every append of the expected epoch that was not answered is
    /// decided: it is in the log, or it will never be.
    ///
    /// # Errors
    ///
    /// [`TakeOverError`]. After [`TakeOverError::Log`] the partition may have been taken over: repeat the call with the same
    /// epoch and the same take. If the first call succeeded, the repeated one succeeds too. For everything else make a new
    /// take: two owners of the same take would give the same ids to different appends.
    pub async fn take_over(
        &self,
        partition: Partition,
        expected: Option<Epoch>,
        take: &Take,
    ) -> Result<Owner, TakeOverError> {
        let mut owners = self.take_over_all(&[(partition, expected)], take).await?;
        let none = || LogError::Internal("the backend returned no owner".to_owned());
        owners.pop().unwrap_or_else(|| Err(none().into()))
    }

    /// Takes several partitions over, with one durable write if the backend can. Each is decided by itself, as
    /// [`Log::take_over`] does. The answers are in the order of `partitions`.
    ///
    /// # Errors
    ///
    /// [`LogError`] if the log did not answer. Each partition may have been taken over: repeat the call with the same take.
    pub async fn take_over_all(
        &self,
        partitions: &[(Partition, Option<Epoch>)],
        take: &Take,
    ) -> Result<Vec<Result<Owner, TakeOverError>>, LogError> {
        let answers = self.take_over_each(partitions, take).await?;
        let answer = |(&(partition, expected), answer): (&(Partition, Option<Epoch>), TakeOver)| {
            let held = match answer {
                TakeOver::Taken(taken) => return Ok(Owner::new(self.id, partition, taken, take)),
                TakeOver::Refused(held) => held,
            };
            match (held, expected) {
                // The reply to an earlier call was lost. Nothing was appended since, because only this caller could do that.
                (Some(held), _) if held.take == *take && Some(held.epoch) == following(expected) => {
                    let taken = TakenPartition { epoch: held.epoch, tail: held.tail };
                    Ok(Owner::new(self.id, partition, taken, take))
                }
                (Some(held), expected) if Some(held.epoch) > expected => {
                    Err(TakeOverError::Deposed { partition, held })
                }
                (_, Some(expected)) => Err(TakeOverError::Rewound { partition, expected }),
                (_, None) => {
                    Err(LogError::Internal("a first take was refused without a holder".to_owned()).into())
                }
            }
        };
        Ok(partitions.iter().zip(answers).map(answer).collect())
    }

    /// Takes a partition that was never taken, with this epoch instead of the first one. For a restore: a copied partition continues
    /// with a later epoch than all its entries have.
    ///
    /// # Errors
    ///
    /// As [`Log::take_over`].
    pub async fn take_first(
        &self,
        partition: Partition,
        epoch: Epoch,
        take: &Take,
    ) -> Result<Owner, TakeOverError> {
        let held = match self.backend.take_first(partition, epoch, take).await? {
            TakeOver::Taken(taken) => return Ok(Owner::new(self.id, partition, taken, take)),
            TakeOver::Refused(held) => held,
        };
        match held {
            // The reply to an earlier call was lost.
            Some(held) if held.take == *take && held.epoch == epoch => {
                let taken = TakenPartition { epoch, tail: held.tail };
                Ok(Owner::new(self.id, partition, taken, take))
            }
            Some(held) => Err(TakeOverError::Deposed { partition, held }),
            None => Err(LogError::Internal("a first take was refused without a holder".to_owned()).into()),
        }
    }

    async fn take_over_each(
        &self,
        partitions: &[(Partition, Option<Epoch>)],
        take: &Take,
    ) -> Result<Vec<TakeOver>, LogError> {
        let answers = self.backend.take_over(partitions, take).await?;
        if answers.len() == partitions.len() {
            return Ok(answers);
        }
        let problem = "the backend returned another number of partitions than requested";
        Err(LogError::Internal(problem.to_owned()))
    }

    /// Takes a partition, whatever its epoch is. For a storage that only one process can have open, and for tests. Several
    /// processes that take a partition so would depose each other: they use [`Log::take_over`].
    ///
    /// # Errors
    ///
    /// [`LogError`]. The epoch may have been raised nevertheless; only earlier owners are affected by that. Take it again.
    pub async fn take(&self, partition: Partition) -> Result<Owner, LogError> {
        let mut owners = self.take_all(&[partition]).await?;
        owners.pop().ok_or_else(|| LogError::Internal("the backend returned no owner".to_owned()))
    }

    /// Takes several partitions, with one durable write if the backend can. Owners are returned in the order of `partitions`.
    ///
    /// # Errors
    ///
    /// As [`Log::take`].
    pub async fn take_all(&self, partitions: &[Partition]) -> Result<Vec<Owner>, LogError> {
        // Without a random id it is not known whether a take whose reply was lost has succeeded. So none is recognized: the
        // partition is taken again.
        let take = Take::new(Holder::unnamed(), 0);
        let mut owners: Vec<Option<Owner>> = partitions.iter().map(|_| None).collect();
        loop {
            let missing: Vec<usize> = (0..owners.len()).filter(|&index| owners[index].is_none()).collect();
            if missing.is_empty() {
                return Ok(owners.into_iter().flatten().collect());
            }
            let mut expected = Vec::with_capacity(missing.len());
            for &index in &missing {
                let held = self.backend.holder(partitions[index]).await?;
                expected.push((partitions[index], held.map(|held| held.epoch)));
            }
            let answers = self.take_over_each(&expected, &take).await?;
            for (index, answer) in missing.into_iter().zip(answers) {
                if let TakeOver::Taken(taken) = answer {
                    owners[index] = Some(Owner::new(self.id, partitions[index], taken, &take));
                }
            }
        }
    }

    /// Who holds a partition; `None` if it was never taken. The answer may be outdated when it arrives, and it settles no append.
    ///
    /// # Errors
    ///
    /// [`LogError`].
    pub async fn holder(&self, partition: Partition) -> Result<Option<Held>, LogError> {
        self.backend.holder(partition).await
    }

    /// The identity of the log; `None` if it has none yet. Writes nothing.
    ///
    /// # Errors
    ///
    /// [`LogError`].
    pub async fn identity(&self) -> Result<Option<LogIdentity>, LogError> {
        self.backend.identity(None).await
    }

    /// The identity of the log. If it has none yet, it gets `new`, durably. If several call this at the same time, all get the
    /// identity of the one that was first.
    ///
    /// # Errors
    ///
    /// [`LogError`]. The identity may have been created.
    pub async fn identify(&self, new: LogIdentity) -> Result<LogIdentity, LogError> {
        let identity = self.backend.identity(Some(new)).await?;
        identity.ok_or_else(|| LogError::Internal("the backend returned no identity".to_owned()))
    }

    /// Reports that a partition's tail is probably at least this one, so that followers notice it early. A wrong report has no
    /// effect.
    pub fn hint_tail(&self, partition: Partition, tail: PartitionOffset) {
        self.backend.hint_tail(partition, tail);
    }

    /// Appends all entries at `at`, or none. The append is refused unless the owner's epoch is the partition's and `at` is
    /// its tail. A receipt means that the entries are durable.
    ///
    /// The append is submitted when this function is called, in the order of the calls. It continues if the future is
    /// dropped: the future only waits for the answer. An owner may submit the next append before the previous one is
    /// answered. If the first is refused, the tail is not at the offset of the next one, which is then refused too.
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

    /// Appends without checks that have a cost (trust level 2): entries at `at` may be overwritten, and an append of a stale
    /// owner may be written. Backends whose checks cost nothing check nevertheless.
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

    /// Appends entries of another log as they are, with the append ids that they have there. For a restore into a partition that
    /// was taken with [`Log::take_first`].
    ///
    /// # Errors
    ///
    /// As [`Log::append`]. [`AppendError::Invalid`] if an entry has a later epoch than the owner: its append id would be given
    /// again.
    pub fn append_copied(
        &self,
        owner: &Owner,
        at: PartitionOffset,
        entries: &Entries,
    ) -> impl Future<Output = Result<Receipt, AppendError>> + Send + use<> {
        let range = self.check(owner, at, entries).and_then(|next| {
            let later = entries.iter().any(|entry| entry.append_id().epoch > owner.epoch());
            let refused = AppendError::Invalid("a copied entry has a later epoch than its owner");
            if later { Err(refused) } else { Ok(next) }
        });
        self.submit_checked(owner, at, entries, true, range)
    }

    fn submit(
        &self,
        owner: &Owner,
        at: PartitionOffset,
        entries: &Entries,
        verified: bool,
    ) -> impl Future<Output = Result<Receipt, AppendError>> + Send + use<> {
        let range = self.check(owner, at, entries);
        let own = entries.append_id().epoch == owner.epoch();
        let range = range.and_then(|next| {
            let foreign = AppendError::Invalid("the entries carry another epoch than the owner's");
            if own { Ok(next) } else { Err(foreign) }
        });
        self.submit_checked(owner, at, entries, verified, range)
    }

    fn submit_checked(
        &self,
        owner: &Owner,
        at: PartitionOffset,
        entries: &Entries,
        verified: bool,
        range: Result<PartitionOffset, AppendError>,
    ) -> impl Future<Output = Result<Receipt, AppendError>> + Send + use<> {
        let id = entries.append_id();
        let (partition, epoch) = (owner.partition(), owner.epoch());
        let append = Append { partition, epoch, at, entries, verified };
        let answer = range.map(|next| {
            self.submissions.submitted(partition, epoch, next);
            (next, self.backend.append(append))
        });
        let log = self.clone();
        async move {
            let (next, answer) = answer?;
            let receipt = Receipt::new(log.id, partition, at, next, id);
            match answer.await {
                Ok(()) => {
                    log.submissions.committed(partition, epoch, next);
                    Ok(receipt)
                }
                // If the reply was lost, a backend may report a conflict of the append with itself, or an epoch that was
                // raised after the append was written. Only the stored entry shows that.
                Err(refused @ (AppendError::Conflict { .. } | AppendError::StaleEpoch { .. })) => {
                    match log.append_id_at(partition, at).await {
                        Ok(Some(found)) if found == id => Ok(receipt),
                        Ok(found) => Err(match refused {
                            AppendError::Conflict { tail, .. } => {
                                AppendError::Conflict { partition, at, tail, found }
                            }
                            other => other,
                        }),
                        Err(error) => Err(AppendError::InDoubt {
                            partition,
                            at,
                            reason: format!(
                                "the log refused it ({refused}), and the entry there could not be read: {error}"
                            ),
                        }),
                    }
                }
                Err(error) => Err(error),
            }
        }
    }

    /// The offset after the append, if the call itself is correct.
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
        at.advance(entries.len() as u64).ok_or(AppendError::Invalid("no offset is left after this append"))
    }

    async fn append_id_at(
        &self,
        partition: Partition,
        at: PartitionOffset,
    ) -> Result<Option<AppendId>, LogError> {
        let found = self.read(partition, at, ReadLimit::entries(1)).await?;
        Ok(found.iter().next().map(|(_, entry)| entry.append_id()))
    }

    /// Committed entries from `from` on, in order, up to the limit; none at or after the tail.
    ///
    /// # Errors
    ///
    /// [`LogError::Corrupt`] if an entry does not decode. Entries before it can be read with a smaller limit.
    pub async fn read(
        &self,
        partition: Partition,
        from: PartitionOffset,
        limit: ReadLimit,
    ) -> Result<ReadEntries, LogError> {
        self.backend.read(partition, from, limit).await
    }

    /// The offset that the next append goes to: after the last committed entry, or 1 if there is none.
    ///
    /// # Errors
    ///
    /// [`LogError`].
    pub async fn tail(&self, partition: Partition) -> Result<PartitionOffset, LogError> {
        self.backend.tail(partition).await
    }

    /// Returns when the entry at `offset` can be read. It may return late for entries that another process has appended.
    /// Cancel-safe.
    ///
    /// # Errors
    ///
    /// [`LogError`].
    pub async fn committed(&self, partition: Partition, offset: PartitionOffset) -> Result<(), LogError> {
        self.backend.committed(partition, offset).await
    }

    /// The partitions that have been taken at least once, ascending.
    ///
    /// # Errors
    ///
    /// [`LogError`].
    pub async fn partitions(&self) -> Result<Vec<Partition>, LogError> {
        self.backend.partitions().await
    }

    /// Follows a partition from an offset: first the entries that are there, then each new one.
    #[must_use]
    pub fn follow(&self, partition: Partition, from: PartitionOffset) -> Follower {
        Follower::new(self.backend.clone(), partition, from)
    }

    /// The bulletin next to the log. It is closed with the log.
    #[must_use]
    pub fn bulletin(&self) -> Bulletin {
        Bulletin::new(self.backend.bulletin())
    }

    /// Waits for what is in progress, then releases everything. Later calls give [`LogError::Closed`].
    ///
    /// # Errors
    ///
    /// [`LogError`]; the log is closed nevertheless.
    pub async fn close(&self) -> Result<(), LogError> {
        self.backend.close().await
    }
}

/// The epoch after `epoch`; the first one after none.
fn following(epoch: Option<Epoch>) -> Option<Epoch> {
    epoch.map_or(Some(Epoch::FIRST), Epoch::next)
}
