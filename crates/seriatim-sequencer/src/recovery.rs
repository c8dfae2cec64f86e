//! The task that makes the numbers agree with the log: one scan from the checkpoint.

use std::sync::Arc;

use seriatim_storage::Entry;
use seriatim_types::{PartitionOffset, WorkspaceId};

use crate::cache::{Cache, SlotIndex};
use crate::derived::{ReadError, Recovery};
use crate::metrics::gauge;
use crate::stored::PoisonGuard;
use crate::{IgnoredNumbers, Numbers, StopReason, Stored, flusher};

/// Entries whose workspaces are read from the store together, and stay in the cache together. Other tasks get their
/// turn between two chunks.
const CHUNK_ENTRIES: usize = 512;

/// Why the scan does not go on.
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

/// Recovers, and tries again for as long as storage fails. Ends when the sequencer is stopped.
pub(crate) async fn run(stored: Arc<Stored>, recovery: Recovery) {
    let (shared, stop) = (stored.shared.clone(), stored.shared.stop.clone());
    let _guard = PoisonGuard(&shared);
    stop.run_until_cancelled(recover(stored, recovery)).await;
}

async fn recover(stored: Arc<Stored>, recovery: Recovery) {
    let mut scan = Scan {
        stored: &stored,
        recovery: &recovery,
        begun: None,
        at: PartitionOffset::FIRST,
        cache: Cache::new(stored.options.cache_numbers),
        ignored: IgnoredNumbers::default(),
        full: false,
    };
    loop {
        let halt = match scan.run().await {
            Ok(()) => break,
            Err(halt) => halt,
        };
        match halt {
            Halt::Superseded => return,
            Halt::Stop(reason) => {
                tracing::error!(partition = %stored.partition, %reason, "recovery cannot go on");
                return recovery.stopped(reason);
            }
            Halt::Retry(reason) => {
                tracing::warn!(partition = %stored.partition, %reason, "recovery waits for storage");
                stored.metrics.recovery_retries.increment(1);
                stored.env.sleep(stored.env.jitter(stored.options.retry)).await;
            }
        }
    }
    let Scan { cache, ignored, .. } = scan;
    if let Some(first) = ignored.examples.first() {
        tracing::warn!(partition = %stored.partition, count = ignored.count, ?first, "numbers out of range ignored");
    }
    stored.note_ignored(ignored);
    // Enough may wait by now for the flusher not to wait for its timer.
    stored.wake.notify_one();
    recovery.recovered_with(Some(cache));
}

struct Scan<'a> {
    stored: &'a Stored,
    recovery: &'a Recovery,
    /// The checkpoint that the scan began from, once it is known.
    begun: Option<PartitionOffset>,
    /// The next event to apply.
    at: PartitionOffset,
    cache: Cache,
    ignored: IgnoredNumbers,
    /// Whether a flush has to come before the next event.
    full: bool,
}

impl Scan<'_> {
    /// Goes on from where it was.
    async fn run(&mut self) -> Result<(), Halt> {
        let from = match self.begun {
            Some(from) => from,
            None => self.begin().await?,
        };
        let tail = self.recovery.tail();
        let mut reading = self.recovery.start_reading(&self.stored.env, &self.stored.log, self.at);
        while let Some(task) = reading {
            let page = task.await.map_err(|error| Halt::Stop(StopReason::Internal(error.to_string())))?;
            let page = page.map_err(|error| Halt::from(StopReason::Log(error)))?;
            if page.is_empty() {
                return Err(Halt::Stop(StopReason::LogEndsEarly { at: self.at, tail }));
            }
            // The next page is read while this one is folded.
            reading = self.recovery.start_reading(&self.stored.env, &self.stored.log, page.next());
            let entries: Vec<(PartitionOffset, Entry<'_>)> = page.iter().collect();
            for chunk in entries.chunks(CHUNK_ENTRIES) {
                self.apply(chunk).await?;
                self.recovery.progress(from, self.at);
                self.stored.metrics.recovery_offset.set(gauge(self.at.get()));
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }

    /// Waits until an earlier flush has returned, so that nothing older can be written behind what is read here.
    async fn begin(&mut self) -> Result<PartitionOffset, Halt> {
        let mut changes = self.stored.shared.subscribe();
        while self.stored.unflushed().is_writing() {
            // Only the sequencer's end closes it, and that ends this task too.
            let _ = changes.changed().await;
        }
        let (checkpoint, tail) = (self.stored.read_checkpoint().await?, self.recovery.tail());
        if checkpoint > tail {
            return Err(Halt::Stop(StopReason::CheckpointBeyondTail { checkpoint, tail }));
        }
        if !self.recovery.is_current() {
            return Err(Halt::Superseded);
        }
        self.stored.unflushed().restart(self.recovery.generation(), checkpoint);
        self.begun = Some(checkpoint);
        self.at = checkpoint;
        self.recovery.progress(checkpoint, checkpoint);
        self.stored.metrics.recovery_tail.set(gauge(tail.get()));
        Ok(checkpoint)
    }

    /// Folds a chunk of entries into the numbers of their workspaces, flushing on the way when too much waits.
    async fn apply(&mut self, chunk: &[(PartitionOffset, Entry<'_>)]) -> Result<(), Halt> {
        let slots = self.load_all(chunk).await?;
        for ((offset, entry), index) in chunk.iter().zip(&slots) {
            // In front of the event, so that a flush that fails is tried again before anything more is taken in.
            if self.full {
                self.make_room().await?;
                self.full = false;
            }
            let slot = self.cache.slot_mut(*index);
            let kind = slot.kind.map(|index| self.stored.definition.at(index));
            let folded = slot.numbers.fold(kind, *offset, entry, &mut self.ignored);
            folded.map_err(|error| Halt::Stop(error.into()))?;
            let next = offset.next().unwrap_or(*offset);
            let mut unflushed = self.stored.unflushed();
            if !unflushed.belongs_to(self.recovery.generation()) {
                return Err(Halt::Superseded);
            }
            // What the store has seen already need not be written again.
            if slot.numbers.folded == Some(*offset) {
                unflushed.put(slot.workspace, &slot.numbers);
            }
            unflushed.advance(next, entry.size());
            // Flushed only when it has to be: a workspace that comes again is then written once.
            self.full = unflushed.backlog().is_some();
            self.at = next;
        }
        // Not before the whole chunk is in, so that none of its slots goes while it is needed.
        self.cache.shrink();
        self.stored.metrics.recovered.increment(chunk.len() as u64);
        Ok(())
    }

    /// Flushes here, where it is waited for anyway, unless the flusher is at it.
    async fn make_room(&self) -> Result<(), Halt> {
        let mut changes = self.stored.shared.subscribe();
        loop {
            let (full, writing) = {
                let unflushed = self.stored.unflushed();
                (unflushed.backlog().is_some(), unflushed.is_writing())
            };
            if !full {
                return Ok(());
            }
            if writing {
                // Only the sequencer's end closes it, and that ends this task too.
                let _ = changes.changed().await;
            } else {
                let flushed = flusher::flush(self.stored).await;
                flushed.map_err(|error| Halt::Retry(StopReason::Store(error)))?;
            }
        }
    }

    /// The slots of the chunk's workspaces, loaded, in the order of the chunk.
    async fn load_all(&mut self, chunk: &[(PartitionOffset, Entry<'_>)]) -> Result<Vec<SlotIndex>, Halt> {
        let mut missing: Vec<(WorkspaceId, SlotIndex)> = Vec::new();
        let mut slots = Vec::with_capacity(chunk.len());
        for (_, entry) in chunk {
            let index = match self.cache.find(entry.workspace()) {
                Some(index) => index,
                None => self.cache.reserve(&self.stored.definition, entry.kind(), entry.workspace()),
            };
            if !self.cache.slot(index).loaded {
                missing.push((entry.workspace(), index));
            }
            slots.push(index);
        }
        missing.sort_unstable_by_key(|(workspace, _)| *workspace);
        missing.dedup();
        let workspaces: Vec<WorkspaceId> = missing.iter().map(|(workspace, _)| *workspace).collect();
        let found = self.stored.read_numbers(&workspaces).await;
        for ((workspace, index), found) in missing.into_iter().zip(found) {
            let numbers = self.checked(workspace, found)?;
            match numbers {
                Some(numbers) => self.cache.fill(&self.stored.definition, index, numbers),
                None => self.cache.slot_mut(index).loaded = true,
            }
        }
        Ok(slots)
    }

    fn checked(
        &self,
        workspace: WorkspaceId,
        found: Result<Option<Numbers>, ReadError>,
    ) -> Result<Option<Numbers>, Halt> {
        let numbers = found.map_err(|error| match error {
            ReadError::Store(error) => Halt::from(StopReason::Store(error)),
            ReadError::Bad(problem) => Halt::Stop(StopReason::BadNumbers { workspace, problem }),
        })?;
        let tail = self.recovery.tail();
        let folded = numbers.as_ref().and_then(Numbers::folded);
        match folded.filter(|folded| *folded >= tail) {
            Some(folded) => Err(Halt::Stop(StopReason::FoldedBeyondTail { workspace, folded, tail })),
            None => Ok(numbers),
        }
    }
}
