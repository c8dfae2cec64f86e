//! Makes everything derived agree with the log: one scan from the checkpoint.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use seriatim_sequencer::{IgnoredNumbers, Numbers, ReadError, Recovery, StopReason};
use seriatim_storage::{Durability, StoreError};
use seriatim_types::{PartitionOffset, WorkspaceId};

use super::Shared;
use super::flusher;
use crate::derive::{
    Bodies, Checkpoint, Chunk, Fault, Fetched, Fetching, Overlay, Replay, ReplayError, Round, Target, lock,
};

enum Halt {
    /// A later recovery has begun.
    Superseded,
    /// There is no going on.
    Stop(StopReason),
    /// Storage may work again.
    Retry(StopReason),
}

impl From<StopReason> for Halt {
    fn from(reason: StopReason) -> Self {
        if reason.may_pass() { Self::Retry(reason) } else { Self::Stop(reason) }
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

/// Recovers, and tries again for as long as storage fails. Ends when the partition does.
pub(crate) async fn run(shared: Arc<Shared>, recovery: Recovery, round: Round) {
    let stop = shared.stop.clone();
    let recovering = stop.run_until_cancelled(recover(&shared, &recovery, round));
    match shared.guard("recovery", recovering).await.map(Option::flatten) {
        Ok(Some(Ok(()))) => recovery.recovered(),
        Ok(Some(Err(reason))) => recovery.stopped(reason),
        Ok(None) => {}
        Err(panic) => recovery.stopped(StopReason::Internal(panic)),
    }
    shared.notify();
    shared.watchers.wake_all();
}

/// Why it cannot be done, if so; `None` if a later recovery has begun, or the partition has stopped.
async fn recover(shared: &Arc<Shared>, recovery: &Recovery, round: Round) -> Option<Result<(), StopReason>> {
    let mut filling = Filling { shared, recovery, round, from: None };
    let mut replay = Replay {
        env: &shared.env,
        log: &shared.log,
        partition: shared.partition,
        derivation: &shared.derivation,
        bodies: Bodies::Trusted,
        at: PartitionOffset::FIRST,
        ignored: IgnoredNumbers::default(),
    };
    while let Err(halt) = filling.fill(&mut replay).await {
        match halt {
            Halt::Superseded => return None,
            Halt::Stop(reason) => {
                tracing::error!(partition = %shared.partition, %reason, "recovery cannot continue");
                return Some(Err(reason));
            }
            Halt::Retry(reason) => {
                tracing::warn!(partition = %shared.partition, %reason, "recovery waits for storage");
                if matches!(reason, StopReason::Store(_)) {
                    shared.reopen_store().await;
                }
                shared.env.sleep(shared.env.jitter(shared.options.retry)).await;
                if shared.is_store_renewed() && !filling.begin_again() {
                    return None;
                }
            }
        }
    }
    if let Some(first) = replay.ignored.examples.first() {
        let count = replay.ignored.count;
        shared.metrics.ignored_numbers.increment(count);
        tracing::warn!(partition = %shared.partition, count, ?first, "numbers out of range ignored");
    }
    shared.wake.notify_one();
    Some(Ok(()))
}

/// Fills the overlay from the log, for one recovery.
struct Filling<'a> {
    shared: &'a Arc<Shared>,
    recovery: &'a Recovery,
    round: Round,
    /// The checkpoint that it began from, once it is known.
    from: Option<PartitionOffset>,
}

impl Filling<'_> {
    /// Continues from where it was.
    async fn fill(&mut self, replay: &mut Replay<'_>) -> Result<(), Halt> {
        if self.from.is_none() {
            replay.at = self.begin().await?;
        }
        let tail = self.recovery.tail();
        replay.run(tail, self).await?;
        if replay.at < tail {
            return Err(Halt::Stop(StopReason::LogEndsEarly { at: replay.at, tail }));
        }
        Ok(())
    }

    /// Waits until an earlier flush has returned, so that nothing older can be written behind what is read here.
    async fn begin(&mut self) -> Result<PartitionOffset, Halt> {
        let mut changes = self.shared.changes.subscribe();
        while lock(&self.shared.overlay).is_writing() {
            // Only the partition's end closes it, and that ends this task too.
            let _ = changes.changed().await;
        }
        // Before anything is read: what is read of a later generation is noticed.
        self.shared.store_generation.store(self.shared.store.generation(), Ordering::Release);
        let stored = Checkpoint::read(&self.shared.store, self.shared.partition).await;
        let checkpoint = match stored.map_err(StopReason::Store)? {
            Checkpoint::Absent => PartitionOffset::FIRST,
            Checkpoint::At(checkpoint) => checkpoint,
            Checkpoint::Bad(problem) => return Err(Halt::Stop(StopReason::BadCheckpoint(problem))),
        };
        let tail = self.recovery.tail();
        if checkpoint > tail {
            return Err(Halt::Stop(StopReason::CheckpointBeyondTail { checkpoint, tail }));
        }
        if !lock(&self.shared.overlay).restart(self.round, checkpoint) {
            return Err(Halt::Superseded);
        }
        self.from = Some(checkpoint);
        self.recovery.progress(checkpoint, checkpoint);
        Ok(checkpoint)
    }

    /// Forgets how far it came, because the store was opened again. `false` if a later recovery has begun.
    fn begin_again(&mut self) -> bool {
        let mut overlay = lock(&self.shared.overlay);
        if !overlay.is_current(self.round) {
            return false;
        }
        self.round = overlay.suspend();
        overlay.catch_up_to(self.recovery.tail());
        self.from = None;
        true
    }
}

impl Target for Filling<'_> {
    type Error = Halt;

    fn overlay(&self) -> &Mutex<Overlay> {
        &self.shared.overlay
    }

    /// Flushes here, where it is waited for anyway, unless the flusher is at it.
    async fn make_room(&mut self) -> Result<(), Halt> {
        let mut changes = self.shared.changes.subscribe();
        loop {
            changes.mark_unchanged();
            if self.shared.halted().is_some() {
                return Err(Halt::Superseded);
            }
            let (full, writing) = {
                let overlay = lock(&self.shared.overlay);
                (overlay.backlog().is_some() || overlay.wants_flush(), overlay.is_writing())
            };
            match (full, writing) {
                (false, _) => return Ok(()),
                (true, true) => drop(changes.changed().await),
                (true, false) => {
                    let flushed = flusher::flush(self.shared, Durability::Buffered).await;
                    flushed.map_err(|error| Halt::Retry(StopReason::Store(error)))?;
                }
            }
        }
    }

    async fn read_numbers(&mut self, workspaces: &[WorkspaceId]) -> Vec<Result<Option<Numbers>, ReadError>> {
        self.shared.read_numbers(workspaces).await
    }

    async fn fetch(&mut self, fetching: Fetching, bytes_max: usize) -> Result<Fetched, StoreError> {
        self.shared.read_fetching_within(fetching, bytes_max).await.map(|(fetched, _)| fetched)
    }

    async fn keep(&mut self, chunk: Chunk) -> Result<(), Halt> {
        let Chunk { values, numbers, next, bytes, .. } = chunk;
        let mut overlay = lock(&self.shared.overlay);
        if !overlay.is_current(self.round) {
            return Err(Halt::Superseded);
        }
        let numbers = numbers.iter().map(|(workspace, numbers)| (*workspace, numbers));
        overlay.publish(values.into_iter(), numbers, next, bytes);
        drop(overlay);
        self.recovery.progress(self.from.unwrap_or(next), next);
        Ok(())
    }
}
