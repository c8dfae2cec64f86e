//! The sequencer of one partition.

use std::sync::Arc;
use std::time::Duration;

use seriatim_env::Env;
use seriatim_storage::{Owner, Receipt};
use seriatim_types::{Partition, PartitionOffset, WorkspaceId, WorkspaceKind};

use crate::core::{Core, Generation, Phase};
use crate::definition::Definition;
use crate::derived::{Committed, Derived, ReadError, Recovery};
use crate::group::Carried;
use crate::loading::{Held, Loaded, Loading};
use crate::metrics::OwnerMetrics;
use crate::shared::Shared;
use crate::{
    Busy, CommitError, Group, LoadError, Mismatch, Numbers, Pin, Sealed, Status, StatusHandle, StopReason,
};

/// Gives out the numbers of one partition. It belongs to the partition's task, which is why it is `&mut` nearly
/// everywhere; others may hold a [`StatusHandle`].
///
/// `D` is where committed numbers live.
#[derive(Debug)]
pub struct Sequencer<D: Derived> {
    pub(crate) env: Env,
    pub(crate) core: Core,
    pub(crate) derived: Arc<D>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) owner: Arc<Owner>,
    /// The buffers of the last group, for the next one.
    spare: Option<Box<Carried>>,
    metrics: OwnerMetrics,
}

impl<D: Derived> Sequencer<D> {
    /// A sequencer on what the caller derives; recovery starts at once.
    #[must_use]
    pub fn new(
        env: Env,
        owner: Owner,
        definition: Arc<Definition>,
        cache_numbers: usize,
        derived: Arc<D>,
    ) -> Self {
        let generation = Generation::unique();
        let shared = Arc::new(Shared::new(generation));
        let core = Core::new(definition, cache_numbers, generation);
        let metrics = OwnerMetrics::new(owner.partition());
        let owner = Arc::new(owner);
        let mut sequencer = Self { env, core, derived, shared, owner, spare: None, metrics };
        sequencer.start_recovery();
        sequencer
    }

    /// The partition.
    #[must_use]
    pub fn partition(&self) -> Partition {
        self.owner.partition()
    }

    /// What it is doing.
    #[must_use]
    pub fn status(&self) -> Status {
        self.shared.status()
    }

    /// A view of the status for others.
    #[must_use]
    pub fn status_handle(&self) -> StatusHandle {
        StatusHandle::new(self.env.clone(), self.shared.clone())
    }

    /// Where the next group goes; `None` while that is not known.
    #[must_use]
    pub fn next_offset(&self) -> Option<PartitionOffset> {
        (self.core.phase != Phase::Recovering).then_some(self.core.next)
    }

    /// Whether a group can be opened now. Takes over what a recovery has found, if one has ended.
    ///
    /// # Errors
    ///
    /// [`Busy`]: why not.
    pub fn check_room(&mut self) -> Result<(), Busy> {
        self.ready().and_then(|()| self.room())
    }

    /// Waits until a group can be opened, but no longer than `within`. Cancel-safe.
    ///
    /// # Errors
    ///
    /// [`Busy`]: why not, at the end of that time or as soon as waiting does not help.
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

    /// Takes over what recovery has found, if it has ended; says why not, if nothing can be done.
    fn ready(&mut self) -> Result<(), Busy> {
        if self.core.phase == Phase::Recovering {
            let Some(next) = self.shared.take_recovered(self.core.generation) else {
                return Err(self.shared.stopped().map_or(Busy::Recovering, Busy::Stopped));
            };
            self.core.recovered(next);
        }
        Ok(())
    }

    fn room(&self) -> Result<(), Busy> {
        match self.core.phase {
            Phase::Ready => self.derived.backlog().map_or(Ok(()), Err),
            Phase::Recovering => Err(Busy::Recovering),
            Phase::Open => Err(Busy::InDoubt),
            Phase::Sealed if self.shared.is_abandoned() => Err(Busy::InDoubt),
            Phase::Sealed => Err(Busy::Sealed),
        }
    }

    /// Loads a workspace: at most one read, none if its numbers are in memory.
    ///
    /// # Errors
    ///
    /// [`LoadError`]; a workspace that has no events is not an error.
    pub async fn load(&mut self, kind: WorkspaceKind, workspace: WorkspaceId) -> Result<Pin, LoadError> {
        self.ready()?;
        if let Some(pin) = self.core.pin_cached(kind, workspace) {
            self.metrics.hits.increment(1);
            return pin;
        }
        self.metrics.misses.increment(1);
        // This borrows the sequencer until the answer is there, so no place has to be held meanwhile.
        let read = self.derived.clone().read(vec![workspace]).await.pop();
        // One was asked for, so one comes.
        let read = read.ok_or(LoadError::Busy(Busy::Recovering))?;
        let pin = self.admit_one(kind, workspace, read);
        self.metrics.cache.set(crate::metrics::gauge(self.core.cache.weight() as u64));
        pin
    }

    /// Finds out what has to be read for these workspaces, so that it can be read while other things happen:
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
            held: Held { generation: self.core.generation, _holds: holds },
        })
    }

    /// Takes in what was read, and pins each workspace, in the order in which they were asked for.
    pub fn admit(&mut self, loaded: Loaded) -> Vec<Result<Pin, LoadError>> {
        let Loaded { wanted, read, held } = loaded;
        let stale = held.generation != self.core.generation;
        let pin = |(kind, workspace): (WorkspaceKind, WorkspaceId)| {
            if stale {
                return Err(LoadError::Busy(Busy::Recovering));
            }
            // What was not read was here already.
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

    /// Opens a group. It borrows the sequencer: one at a time.
    ///
    /// # Errors
    ///
    /// [`Busy`]: why not.
    pub fn group(&mut self) -> Result<Group<'_>, Busy> {
        if let Err(busy) = self.check_room() {
            self.metrics.refused(&busy);
            return Err(busy);
        }
        Ok(Group::open(&mut self.core, &mut self.spare, &self.shared, &self.owner))
    }

    /// Publishes a group whose entries are in the log, by the log's own receipt.
    ///
    /// # Errors
    ///
    /// [`CommitError`] if the receipt is for something else; the group comes back and nothing has changed.
    #[expect(clippy::needless_pass_by_value, reason = "a receipt is used up: it proves one group")]
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

    /// Makes the group's numbers and values the truth, in the overlay and in memory.
    pub(crate) fn publish(&mut self, sealed: Sealed<D::Values>) {
        let (Some(mut carried), values) = sealed.into_parts() else {
            return;
        };
        let buffers = &mut carried.buffers;
        self.derived.publish(&Committed::new(buffers), values);
        self.metrics.draws.increment(buffers.staged_draws);
        self.metrics.events.increment(buffers.entries.len() as u64);
        self.core.commit(buffers);
        self.spare = Some(carried);
        self.shared.leave_transaction();
    }

    /// Drops a group that the log has refused: none of its numbers was used. For an append that is in doubt, use
    /// [`Sequencer::settle`].
    pub fn discard(&mut self, sealed: Sealed<D::Values>) {
        let ours = self.check_group(&sealed).is_ok();
        let (Some(carried), _) = sealed.into_parts() else {
            return;
        };
        if ours {
            self.core.discard(&carried.buffers);
            self.spare = Some(carried);
            self.shared.leave_transaction();
        }
    }

    /// Forgets everything and makes the numbers agree with the log again, with an owner that has just taken the
    /// partition. For when a sealed group was lost, or somebody else has appended.
    ///
    /// # Errors
    ///
    /// [`Mismatch`] if the owner is of another log or partition; nothing has changed then.
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

    /// Pins become stale, and a sealed group of before counts no more.
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
