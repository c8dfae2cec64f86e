//! Recovery: makes everything derived agree with the log, in one pass from the checkpoint. A standby is the same pass without an
//! end: it waits for more entries at the end of the log.
//!
//! ```text
//! log:  [ checkpoint ........ next ........ tail )
//!
//! cold recovery   begins at the checkpoint; the overlay is empty
//! standby         the same, and continues at the tail
//! warm recovery   begins at `next`: a standby has applied everything before it
//! ```

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use seriatim_sequencer::{Numbers, ReadError, Recovery, StopReason};
use seriatim_storage::{Entry, StoreError};
use seriatim_types::sync::Mutex;
use seriatim_types::{PartitionOffset, WorkspaceId};

use super::checkpoint::{Checkpoint, Standing};
use super::derives::Derives;
use super::draft::lock;
use super::fetched::{Fetched, Fetching};
use super::overlay::{Overlay, Round};
use super::partition::DerivedPartition;
use super::replay::{Bodies, Chunk, Entries, Fault, Replay, ReplayError, Target};
use super::{flusher, local};
use crate::metrics::float;

/// Why a recovery is interrupted.
enum Halt {
    /// A later recovery has begun, or the partition has stopped.
    Superseded,
    /// The recovery can never succeed: the partition stops.
    Stop(StopReason),
    /// Storage failed and may work again: the recovery retries from where it was.
    Retry(StopReason),
}

impl From<StopReason> for Halt {
    fn from(reason: StopReason) -> Self {
        if reason.is_temporary() { Self::Retry(reason) } else { Self::Stop(reason) }
    }
}

impl From<ReplayError> for Halt {
    fn from(error: ReplayError) -> Self {
        match error {
            ReplayError::Log(error) => StopReason::Log(error).into(),
            ReplayError::Store(error) => StopReason::Store(error).into(),
            ReplayError::BadNumbers { workspace, problem } => {
                Self::Stop(StopReason::BadNumbers { workspace, problem })
            }
            ReplayError::Folded { workspace, folded, to } => {
                Self::Stop(StopReason::FoldedBeyondTail { workspace, folded, tail: to })
            }
            ReplayError::Event { fault: Fault::Fold(error), .. } => Self::Stop(error.into()),
            ReplayError::Event { .. } => Self::Stop(StopReason::Internal(error.to_string())),
        }
    }
}

/// Where a recovery begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// At the checkpoint, with an empty overlay.
    Cold,
    /// Where the overlay is: a standby has filled it, and has ended.
    Warm,
}

/// Begins a recovery. The overlay is suspended before this function returns: readers wait from then on, and the overlay ignores
/// an earlier recovery that still runs. The returned future does the rest.
///
/// When the future has ended, one of these is true: everything up to the tail is applied and the sequencer is ready; the recovery
/// cannot succeed, or panicked, and the partition is stopped with the reason; or a later recovery has replaced this one. A storage
/// failure does not end it: it retries until storage works or the partition is closed.
pub(crate) fn start<D: Derives>(
    derived: Arc<DerivedPartition<D>>,
    recovery: Recovery,
    start: Start,
) -> impl Future<Output = ()> + Send {
    let (round, from) = {
        let mut overlay = lock(&derived.overlay);
        let from = (start == Start::Warm).then(|| overlay.filled_to()).flatten();
        let round = if from.is_some() { overlay.round() } else { overlay.suspend() };
        overlay.catch_up_to(recovery.tail());
        (round, from)
    };
    async move {
        let stop = derived.stop.clone();
        let recovering = stop.run_until_cancelled(recover(&derived, &recovery, round, from));
        match derived.guard("recovery", recovering).await.map(Option::flatten) {
            Ok(Some(Ok(()))) => recovery.recovered(),
            Ok(Some(Err(reason))) => recovery.stopped(reason),
            // A later recovery has replaced this one, or the partition is closed or has stopped.
            Ok(None) => {
                if let Some(reason) = derived.halted() {
                    recovery.stopped(StopReason::Internal(reason));
                }
            }
            Err(panic) => recovery.stopped(StopReason::Internal(panic)),
        }
        derived.notify();
    }
}

/// Recovers, and retries while storage fails. Returns an error if the recovery can never succeed, and `None` if a later recovery
/// has begun or the partition has stopped. A retry continues at the last applied chunk and not at the checkpoint.
async fn recover<D: Derives>(
    derived: &Arc<DerivedPartition<D>>,
    recovery: &Recovery,
    round: Round,
    from: Option<PartitionOffset>,
) -> Option<Result<(), StopReason>> {
    let mut filling = Filling { derived, recovery: Some(recovery), round, from, applied: &|_| {} };
    let mut replay = filling.replay();
    while let Err(halt) = filling.fill(&mut replay, recovery.tail()).await {
        match halt {
            Halt::Superseded => return None,
            Halt::Stop(reason) => {
                tracing::error!(partition = %derived.partition, %reason, "recovery cannot continue: the partition stops");
                return Some(Err(reason));
            }
            Halt::Retry(reason) => {
                tracing::warn!(partition = %derived.partition, %reason, "storage failed: recovery retries");
                derived.metrics.recovery_retries.increment(1);
                derived.env.sleep(derived.env.jitter(derived.retry)).await;
            }
        }
    }
    if let Some(first) = replay.ignored.examples.first() {
        let count = replay.ignored.count;
        tracing::warn!(partition = %derived.partition, count, ?first, "recovery ignored numbers that are outside every range of their sequence");
    }
    derived.note_ignored(replay.ignored);
    derived.wake.notify_one();
    Some(Ok(()))
}

/// Applies the log to the overlay, and waits for more at its end, until it is cancelled. Begins where the overlay is if it is
/// filled, else at the checkpoint. `applied` is called with the workspaces of each chunk.
///
/// Returns only if the standby can never continue. A storage failure does not end it: it retries.
pub(crate) async fn stand_by<D: Derives>(
    derived: &Arc<DerivedPartition<D>>,
    applied: &(dyn Fn(&[WorkspaceId]) + Send + Sync),
) -> StopReason {
    let (round, from) = {
        let mut overlay = lock(&derived.overlay);
        let from = overlay.filled_to();
        // In a new round: the recovery of an owner that was released may still run, and is refused from now on.
        (if from.is_some() { overlay.next_round() } else { overlay.suspend() }, from)
    };
    let mut filling = Filling { derived, recovery: None, round, from, applied };
    let mut replay = filling.replay();
    loop {
        let halt = match filling.fill_without_end(&mut replay).await {
            Ok(never) => match never {},
            Err(halt) => halt,
        };
        match halt {
            Halt::Superseded => return StopReason::Internal("the standby was replaced".to_owned()),
            Halt::Stop(reason) => return reason,
            Halt::Retry(reason) => {
                tracing::warn!(partition = %derived.partition, %reason, "storage failed: the standby retries");
                derived.metrics.recovery_retries.increment(1);
                derived.env.sleep(derived.env.jitter(derived.retry)).await;
            }
        }
    }
}

/// Fills the overlay from the log, for one recovery or for a standby.
struct Filling<'a, D> {
    derived: &'a Arc<DerivedPartition<D>>,
    /// `None` for a standby.
    recovery: Option<&'a Recovery>,
    round: Round,
    /// The offset at which it began; `None` until the checkpoint was read.
    from: Option<PartitionOffset>,
    /// Is told which workspaces a chunk has changed.
    applied: &'a (dyn Fn(&[WorkspaceId]) + Send + Sync),
}

impl<'a, D: Derives> Filling<'a, D> {
    fn replay(&self) -> Replay<'a, D> {
        let derived: &'a DerivedPartition<D> = self.derived;
        Replay::new(
            &derived.env,
            &derived.log,
            derived.partition,
            &*derived.derivation,
            Bodies::Trusted,
            self.from.unwrap_or(PartitionOffset::FIRST),
        )
    }

    /// Applies the log up to the tail, from where the overlay is, from the checkpoint, or from where the last attempt ended. A log
    /// that ends before its own tail stops the partition.
    async fn fill(&mut self, replay: &mut Replay<'_, D>, tail: PartitionOffset) -> Result<(), Halt> {
        if self.from.is_none() {
            replay.at = self.begin(tail).await?;
        }
        if replay.at > tail {
            return Err(Halt::Stop(StopReason::CheckpointBeyondTail { checkpoint: replay.at, tail }));
        }
        replay.run(tail, self).await?;
        if replay.at < tail {
            return Err(Halt::Stop(StopReason::LogEndsEarly { at: replay.at, tail }));
        }
        Ok(())
    }

    /// Applies the log, and waits at its end. Returns only an error.
    async fn fill_without_end(&mut self, replay: &mut Replay<'_, D>) -> Result<Infallible, Halt> {
        let (log, partition) = (&self.derived.log, self.derived.partition);
        let tail = log.tail(partition).await.map_err(StopReason::Log)?;
        // Readers wait for what was in the log when the standby began.
        lock(&self.derived.overlay).catch_up_to(tail);
        self.fill(replay, tail).await?;
        // Also if there was nothing to apply: readers wait for this.
        self.derived.notify();
        loop {
            log.committed(partition, replay.at).await.map_err(StopReason::Log)?;
            replay.run(PartitionOffset::LAST, self).await?;
        }
    }

    /// Reads the checkpoint and restarts the overlay there.
    ///
    /// It first waits until a write of the time before has returned. Otherwise that write could change the store and its checkpoint
    /// after they were read here, and write older values over newer ones.
    ///
    /// A checkpoint that cannot be read, that is beyond the tail, or that follows another entry than the log has, stops the
    /// partition. The last two mean that the log has lost events: continuing would give out their numbers again. Values that were
    /// derived from another log are removed, and everything is derived again.
    async fn begin(&mut self, tail: PartitionOffset) -> Result<PartitionOffset, Halt> {
        let mut changes = self.derived.changes.subscribe();
        while lock(&self.derived.overlay).is_writing() {
            // An error means that the partition has ended, which also ends this task.
            let _ = changes.changed().await;
        }
        let store = &self.derived.store;
        let partition = self.derived.partition;
        let identity = self.derived.identify().await.map_err(StopReason::Log)?;
        let stored = Checkpoint::read_beside(store, partition, tail).await.map_err(StopReason::Store)?;
        let standing = stored.stand(&self.derived.log, Some(identity), partition, tail).await;
        let (checkpoint, last) = match standing.map_err(StopReason::Log)? {
            Standing::Derived(checkpoint, last) => (checkpoint, last),
            Standing::Useless(of) => {
                local::warn_useless(partition, of, identity);
                local::remove(store, partition).await.map_err(StopReason::Store)?;
                (PartitionOffset::FIRST, None)
            }
            Standing::Beyond(checkpoint) => {
                return Err(Halt::Stop(StopReason::CheckpointBeyondTail { checkpoint, tail }));
            }
            Standing::Rewound { checkpoint, expected, found } => {
                return Err(Halt::Stop(StopReason::LogRewound { checkpoint, expected, found }));
            }
            Standing::Bad(problem) => return Err(Halt::Stop(StopReason::BadCheckpoint(problem))),
        };
        if !lock(&self.derived.overlay).restart(self.round, checkpoint, last) {
            return Err(Halt::Superseded);
        }
        self.from = Some(checkpoint);
        self.progress(checkpoint);
        self.derived.metrics.recovery_tail.set(float(tail.get()));
        Ok(checkpoint)
    }

    fn progress(&self, at: PartitionOffset) {
        if let Some(recovery) = self.recovery {
            recovery.progress(self.from.unwrap_or(at), at);
        }
        self.derived.metrics.recovery_offset.set(float(at.get()));
    }
}

impl<D: Derives> Target for Filling<'_, D> {
    type Error = Halt;

    fn overlay(&self) -> &Mutex<Overlay> {
        &self.derived.overlay
    }

    /// Only an owner can write with a later definition than this one, and each owner has an epoch of its own. So the definition is
    /// checked when an entry of a higher epoch comes.
    async fn admit(&mut self, entries: &Entries<'_>) -> Result<(), Halt> {
        let Some(epoch) = entries.iter().map(|(_, entry)| entry.append_id().epoch.get()).max() else {
            return Ok(());
        };
        if epoch > self.derived.checked_epoch.load(Ordering::Relaxed) {
            self.derived.derivation.check_definition().await?;
            self.derived.checked_epoch.fetch_max(epoch, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Flushes if the overlay is full. The recovery has to wait for that flush in any case, so it does it itself, unless the
    /// flusher already does.
    async fn make_room(&mut self) -> Result<(), Halt> {
        let mut changes = self.derived.changes.subscribe();
        loop {
            changes.mark_unchanged();
            if self.derived.halted().is_some() {
                return Err(Halt::Superseded);
            }
            let (full, writing) = {
                let overlay = lock(&self.derived.overlay);
                (overlay.needs_flush(), overlay.is_writing())
            };
            match (full, writing) {
                (false, _) => return Ok(()),
                (true, true) => drop(changes.changed().await),
                (true, false) => {
                    let flushed = flusher::flush(self.derived).await;
                    flushed.map_err(|error| Halt::Retry(StopReason::Store(error)))?;
                }
            }
        }
    }

    fn room(&self, entries: &Entries<'_>) -> usize {
        let overlay = lock(&self.derived.overlay);
        let mut room = overlay.room();
        if room >= entries.len() {
            return entries.len();
        }
        // A workspace whose numbers are already in the overlay needs no additional room.
        let fits = |(_, entry): &&(PartitionOffset, Entry<'_>)| {
            let waits = overlay.numbers(entry.workspace()).is_some();
            room = room.saturating_sub(usize::from(!waits));
            waits || room > 0
        };
        entries.iter().take_while(fits).count().max(1)
    }

    async fn read_numbers(&mut self, workspaces: &[WorkspaceId]) -> Vec<Result<Option<Numbers>, ReadError>> {
        self.derived.read_numbers(workspaces).await
    }

    async fn fetch(&mut self, fetching: Fetching, bytes_max: usize) -> Result<Fetched, StoreError> {
        self.derived.read_fetching_within(fetching, bytes_max).await.map(|(fetched, _)| fetched)
    }

    async fn keep(&mut self, chunk: Chunk<'_>) -> Result<(), Halt> {
        let Chunk { values, numbers, next, last, events, bytes } = chunk;
        let mut overlay = lock(&self.derived.overlay);
        if !overlay.is_current(self.round) {
            return Err(Halt::Superseded);
        }
        let workspaces: Vec<WorkspaceId> = numbers.iter().map(|(workspace, _)| *workspace).collect();
        let values = values.into_iter().inspect(|(key, value)| self.derived.observe(key, value));
        overlay.publish(values, numbers.into_iter(), (next, last), bytes);
        self.derived.observe_reached(next);
        let wants_flush = overlay.wants_flush();
        drop(overlay);
        self.progress(next);
        self.derived.metrics.recovered.increment(events as u64);
        if self.recovery.is_none() {
            if wants_flush {
                self.derived.wake.notify_one();
            }
            self.derived.notify();
            (self.applied)(&workspaces);
        }
        Ok(())
    }
}
