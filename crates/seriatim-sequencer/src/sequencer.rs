//! The sequencer of one partition.

use std::sync::Arc;
use std::time::Duration;

use seriatim_env::Env;
use seriatim_storage::{Held, Owner, Receipt, Take};
use seriatim_types::{Partition, PartitionOffset, WorkspaceId, WorkspaceKind};

use crate::core::{Core, Generation, Phase};
use crate::definition::Definition;
use crate::derived::{Committed, Derived, ReadError, Recovery};
use crate::group::GroupMemory;
use crate::loading::{Loaded, Loading, SlotHolds};
use crate::metrics::OwnerMetrics;
use crate::shared_status::SharedStatus;
use crate::{
    Busy, CommitError, Group, LoadError, Mismatch, Numbers, Pin, Sealed, Status, StatusHandle, StopReason,
};

/// Gives out the numbers of one partition. The partition's task owns it and has exclusive access; other tasks use a
/// [`StatusHandle`].
///
/// A number is used if and only if its group is committed: after [`Sequencer::commit`] the group's numbers are used and
/// published. After [`Sequencer::discard`], or if a group or transaction is dropped before it is sealed, none was used.
/// After an append in doubt, [`Sequencer::settle`] reads the log to find out.
///
/// `D` holds the committed numbers.
///
/// ```
/// use std::error::Error;
///
/// use seriatim_sequencer::{Derived, Event, Pin, Sequencer, Settled, builtin};
/// use seriatim_storage::Log;
/// use seriatim_types::Number;
///
/// /// Numbers one event, appends it, and handles each outcome of the append.
/// async fn append<D: Derived<Values = ()>>(
///     sequencer: &mut Sequencer<D>,
///     log: &Log,
///     workspace: &Pin,
///     event: &Event<'_>,
/// ) -> Result<Number, Box<dyn Error>> {
///     let mut group = sequencer.group()?;
///     let mut transaction = group.begin(workspace)?;
///     let number = transaction.draw(builtin::RECORD_ID)?;
///     transaction.stage(event)?;
///     let sealed = group.seal();
///     match log.append(sealed.owner(), sealed.at(), sealed.entries()).await {
///         Ok(receipt) => sequencer.commit(sealed, receipt)?,
///         Err(error) if error.is_refused() => {
///             sequencer.discard(sealed);
///             return Err(error.into());
///         }
///         Err(error) => match sequencer.settle(sealed, log).await? {
///             Settled::Committed => {}
///             Settled::Discarded => return Err(error.into()),
///         },
///     }
///     Ok(number)
/// }
/// ```
///
/// The example of [the crate](crate) is a complete program.
#[derive(Debug)]
pub struct Sequencer<D: Derived> {
    pub(crate) env: Env,
    pub(crate) core: Core,
    pub(crate) derived: Arc<D>,
    pub(crate) shared: Arc<SharedStatus>,
    pub(crate) owner: Arc<Owner>,
    /// A take-over without an answer. It is repeated before any other.
    pub(crate) taking: Option<Take>,
    /// Who holds the partition, if another owner has taken it over.
    pub(crate) deposed: Option<Held>,
    /// The memory of the previous group, for the next one.
    spare: Option<Box<GroupMemory>>,
    metrics: OwnerMetrics,
}

impl<D: Derived> Sequencer<D> {
    /// A sequencer for a partition that has just been taken. Recovery starts at once. `cache_numbers` bounds the cache.
    #[must_use]
    pub fn new(
        env: Env,
        owner: Owner,
        definition: Arc<Definition>,
        cache_numbers: usize,
        derived: Arc<D>,
    ) -> Self {
        let generation = Generation::unique();
        let shared = Arc::new(SharedStatus::new(generation));
        let core = Core::new(definition, cache_numbers, generation);
        let metrics = OwnerMetrics::new(owner.partition());
        let owner = Arc::new(owner);
        let (taking, deposed, spare) = (None, None, None);
        let mut sequencer = Self { env, core, derived, shared, owner, taking, deposed, spare, metrics };
        sequencer.start_recovery();
        sequencer
    }

    /// The partition.
    #[must_use]
    pub fn partition(&self) -> Partition {
        self.owner.partition()
    }

    /// What the sequencer is doing.
    #[must_use]
    pub fn status(&self) -> Status {
        self.shared.status()
    }

    /// A handle for other tasks to read the status.
    #[must_use]
    pub fn status_handle(&self) -> StatusHandle {
        StatusHandle::new(self.env.clone(), self.shared.clone())
    }

    /// The offset of the next group; `None` during recovery.
    #[must_use]
    pub fn next_offset(&self) -> Option<PartitionOffset> {
        (self.core.phase != Phase::Recovering).then_some(self.core.next)
    }

    /// Changes how many numbers the cache may have. If it has more, later loads evict some.
    pub fn set_cache_bound(&mut self, cache_numbers: usize) {
        self.core.cache.set_bound(cache_numbers);
    }

    /// Checks whether a group can be opened now. If a recovery has ended, applies its result.
    ///
    /// # Errors
    ///
    /// [`Busy`]: the reason why not.
    pub fn check_room(&mut self) -> Result<(), Busy> {
        self.ready().and_then(|()| self.check_phase())
    }

    /// Waits until a group can be opened, but no longer than `within`. Cancel-safe.
    ///
    /// # Errors
    ///
    /// [`Busy`]: the reason why not, when that time is over or as soon as waiting does not help.
    pub async fn wait(&mut self, within: Duration) -> Result<(), Busy> {
        let mut changes = self.derived.subscribe();
        let deadline = self.env.instant() + within;
        loop {
            changes.mark_unchanged();
            let busy = match self.check_room() {
                Ok(()) => return Ok(()),
                Err(busy @ (Busy::Recovering | Busy::Backlogged { .. })) => busy,
                Err(busy) => return Err(busy),
            };
            let left = deadline.saturating_duration_since(self.env.instant());
            if self.env.timeout(left, changes.changed()).await.is_err() {
                return Err(busy);
            }
        }
    }

    /// If a recovery has ended, applies its result. An error if it has not, or if it has failed.
    fn ready(&mut self) -> Result<(), Busy> {
        if self.core.phase == Phase::Recovering {
            let Some(next) = self.shared.take_recovered(self.core.generation) else {
                return Err(self.shared.stopped().map_or(Busy::Recovering, Busy::Stopped));
            };
            self.core.recovered(next);
        }
        Ok(())
    }

    fn check_phase(&self) -> Result<(), Busy> {
        if let Some(held) = &self.deposed {
            return Err(Busy::Stopped(StopReason::Deposed(held.clone())));
        }
        match self.core.phase {
            Phase::Ready => self.derived.backlog().map_or(Ok(()), Err),
            Phase::Recovering => Err(Busy::Recovering),
            Phase::Open => Err(Busy::InDoubt),
            Phase::Sealed if self.shared.is_abandoned() => Err(Busy::InDoubt),
            Phase::Sealed => Err(Busy::Sealed),
        }
    }

    /// Loads a workspace: with one read, or none if its numbers are in memory. It stays in memory while the pin exists.
    ///
    /// # Errors
    ///
    /// [`LoadError`]; nothing has changed. A workspace without events is not an error.
    pub async fn load(&mut self, kind: WorkspaceKind, workspace: WorkspaceId) -> Result<Pin, LoadError> {
        self.ready()?;
        if let Some(pin) = self.core.pin_cached(kind, workspace) {
            self.metrics.hits.increment(1);
            return pin;
        }
        self.metrics.misses.increment(1);
        // The sequencer is borrowed until the answer is there, so no slot has to be held meanwhile.
        let read = self.derived.clone().read(vec![workspace]).await.pop();
        // One workspace was requested, so there is one result.
        let read = read.ok_or(LoadError::Busy(Busy::Recovering))?;
        let pin = self.admit_one(kind, workspace, read);
        self.metrics.cache.set(crate::metrics::gauge(self.core.cache.weight() as u64));
        pin
    }

    /// Determines what has to be read for these workspaces, so that it can be read while other work is done:
    /// [`Loading::read`], then [`Sequencer::admit`].
    ///
    /// # Errors
    ///
    /// [`Busy`] while recovering.
    pub fn loading(&mut self, wanted: &[(WorkspaceKind, WorkspaceId)]) -> Result<Loading<D>, Busy> {
        self.ready()?;
        let mut missing = Vec::new();
        let mut holds = Vec::with_capacity(wanted.len());
        for &(kind, workspace) in wanted {
            let slot = self.core.cache.find_or_reserve(&self.core.definition, kind, workspace);
            holds.push(self.core.cache.hold(slot));
            if !self.core.cache.slot(slot).loaded {
                missing.push(workspace);
            }
        }
        self.metrics.hits.increment((wanted.len() - missing.len()) as u64);
        self.metrics.misses.increment(missing.len() as u64);
        missing.sort_unstable();
        missing.dedup();
        Ok(Loading {
            derived: self.derived.clone(),
            wanted: wanted.to_vec(),
            missing,
            holds: SlotHolds { generation: self.core.generation, _holds: holds },
        })
    }

    /// Adds what was read to the cache, and pins each workspace, in the order of the request.
    pub fn admit(&mut self, loaded: Loaded) -> Vec<Result<Pin, LoadError>> {
        let Loaded { wanted, read, holds } = loaded;
        let stale = holds.generation != self.core.generation;
        let pin = |(kind, workspace): (WorkspaceKind, WorkspaceId)| {
            if stale {
                return Err(LoadError::Busy(Busy::Recovering));
            }
            // A workspace that was not read is in the cache.
            let place = read.binary_search_by_key(&workspace, |(read, _)| *read);
            let numbers = place.map_or(Ok(None), |place| read[place].1.clone());
            self.admit_one(kind, workspace, numbers)
        };
        let pins = wanted.into_iter().map(pin).collect();
        self.metrics.cache.set(crate::metrics::gauge(self.core.cache.weight() as u64));
        pins
    }

    fn admit_one(
        &mut self,
        kind: WorkspaceKind,
        workspace: WorkspaceId,
        read: Result<Option<Numbers>, ReadError>,
    ) -> Result<Pin, LoadError> {
        let numbers = read.map_err(|error| match error {
            ReadError::Store(error) => LoadError::Store { workspace, error },
            ReadError::Bad(problem) => LoadError::Corrupt(StopReason::BadNumbers { workspace, problem }),
        })?;
        self.core.admit(kind, workspace, numbers)
    }

    /// Opens a group. It borrows the sequencer, so there is one at a time.
    ///
    /// # Errors
    ///
    /// [`Busy`]: the reason why not.
    pub fn group(&mut self) -> Result<Group<'_>, Busy> {
        if let Err(busy) = self.check_room() {
            self.metrics.refused(&busy);
            return Err(busy);
        }
        Ok(Group::open(&mut self.core, &mut self.spare, &self.shared, &self.owner))
    }

    /// Publishes a group whose entries are in the log. The log's receipt proves that they are.
    ///
    /// # Errors
    ///
    /// [`CommitError`] if the receipt does not belong to the group. The group is returned, and nothing has changed.
    #[expect(clippy::needless_pass_by_value, reason = "a receipt is consumed: it proves one group")]
    pub fn commit(
        &mut self,
        sealed: Sealed<D::Values>,
        receipt: Receipt,
    ) -> Result<(), CommitError<D::Values>> {
        if let Err(problem) = self.check_receipt(&sealed, &receipt) {
            return Err(CommitError { sealed, problem });
        }
        self.publish(sealed);
        Ok(())
    }

    fn check_receipt(&self, sealed: &Sealed<D::Values>, receipt: &Receipt) -> Result<(), Mismatch> {
        self.check_group(sealed)?;
        if receipt.log() != sealed.owner().log() {
            Err(Mismatch::Log)
        } else if receipt.partition() != sealed.partition() {
            Err(Mismatch::Partition)
        } else if (receipt.first(), receipt.next()) != (sealed.at(), sealed.next()) {
            Err(Mismatch::Range)
        } else if receipt.append_id() != sealed.entries().append_id() {
            Err(Mismatch::Append)
        } else {
            Ok(())
        }
    }

    pub(crate) fn check_group(&self, sealed: &Sealed<D::Values>) -> Result<(), Mismatch> {
        if sealed.generation() == self.core.generation { Ok(()) } else { Err(Mismatch::Group) }
    }

    /// Publishes the group's numbers and values, in the overlay and in the cache.
    pub(crate) fn publish(&mut self, sealed: Sealed<D::Values>) {
        let (Some(mut memory), values) = sealed.into_parts() else {
            return;
        };
        let buffers = &mut memory.buffers;
        self.derived.publish(&Committed::new(buffers), values);
        self.metrics.draws.increment(buffers.staged_draws);
        self.metrics.events.increment(buffers.entries.len() as u64);
        self.core.commit(buffers);
        self.spare = Some(memory);
        self.shared.leave_transaction();
    }

    /// Drops a group that the log has refused: none of its numbers was used. If the append is in doubt, use
    /// [`Sequencer::settle`].
    pub fn discard(&mut self, sealed: Sealed<D::Values>) {
        let ours = self.check_group(&sealed).is_ok();
        let (Some(memory), _) = sealed.into_parts() else {
            return;
        };
        if ours {
            self.core.discard(&memory.buffers);
            self.spare = Some(memory);
            self.shared.leave_transaction();
        }
    }

    /// Stops this sequencer, because another owner has taken the partition over: no further group is opened. A group that is
    /// sealed can still be settled.
    pub fn depose(&mut self, held: Held) {
        self.deposed = Some(held);
    }

    /// Who holds the partition, if another owner has taken it over.
    #[must_use]
    pub fn deposed(&self) -> Option<&Held> {
        self.deposed.as_ref()
    }

    /// Removes all numbers and derives them from the log again, with an owner that has just taken the partition. Use it if
    /// a sealed group was lost, or if another owner has appended. Pins become stale.
    ///
    /// # Errors
    ///
    /// [`Mismatch`] if the owner belongs to another log or partition. Then nothing has changed.
    pub fn recover(&mut self, owner: Owner) -> Result<(), Mismatch> {
        if owner.log() != self.owner.log() {
            return Err(Mismatch::Log);
        }
        if owner.partition() != self.owner.partition() {
            return Err(Mismatch::Partition);
        }
        self.owner = Arc::new(owner);
        self.restart_recovery();
        Ok(())
    }

    /// Pins become stale, and groups that were sealed before can no longer be committed.
    pub(crate) fn restart_recovery(&mut self) {
        self.core.recover(Generation::unique());
        self.start_recovery();
    }

    fn start_recovery(&mut self) {
        let (generation, tail) = (self.core.generation, self.owner.tail());
        self.shared.begin_recovery(generation, tail);
        let recovery = Recovery::new(self.shared.clone(), generation, self.partition(), tail);
        self.derived.clone().recover(recovery);
    }
}

impl<D: Derived> Drop for Sequencer<D> {
    fn drop(&mut self) {
        self.shared.finish();
    }
}
