//! Makes everything derived agree with the log: one scan from the checkpoint.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use seriatim_sequencer::{IgnoredNumbers, Numbers, ReadError, Recovery, StopReason};
use seriatim_storage::{Durability, Entry};
use seriatim_types::{PartitionOffset, WorkspaceId};

use super::Shared;
use super::flusher;
use crate::apply::Pass;
use crate::derive::{Base, Checkpoint, Draft, Fetched, Fetching, Round, State, Values, lock};
use crate::event::{Event, Place};
use crate::limits::{LOAD_BYTES_MAX, READ_ROUNDS_MAX};

/// Entries whose values are read from the store together.
const CHUNK_ENTRIES: usize = 512;

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

/// Recovers, and tries again for as long as storage fails. Ends when the partition does.
pub(crate) async fn run(shared: Arc<Shared>, recovery: Recovery, round: Round) {
    let stop = shared.stop.clone();
    let recovering = stop.run_until_cancelled(recover(&shared, &recovery, round));
    match shared.guard("recovery", recovering).await {
        Ok(Some(End::Recovered)) => recovery.recovered(),
        Ok(Some(End::Stopped(reason))) => recovery.stopped(reason),
        Ok(Some(End::Superseded) | None) => {}
        Err(panic) => recovery.stopped(StopReason::Internal(panic)),
    }
    shared.notify();
    shared.watchers.wake_all();
}

/// How a recovery ends.
enum End {
    Recovered,
    /// A later one has begun, or the partition has stopped.
    Superseded,
    Stopped(StopReason),
}

async fn recover(shared: &Arc<Shared>, recovery: &Recovery, round: Round) -> End {
    let mut scan = Scan { shared, recovery, round, begun: None, at: PartitionOffset::FIRST };
    let mut ignored = IgnoredNumbers::default();
    loop {
        let halt = match scan.run(&mut ignored).await {
            Ok(()) => break,
            Err(halt) => halt,
        };
        match halt {
            Halt::Superseded => return End::Superseded,
            Halt::Stop(reason) => {
                tracing::error!(partition = %shared.partition, %reason, "recovery cannot continue");
                return End::Stopped(reason);
            }
            Halt::Retry(reason) => {
                tracing::warn!(partition = %shared.partition, %reason, "recovery waits for storage");
                if matches!(reason, StopReason::Store(_)) {
                    shared.reopen_store().await;
                }
                shared.env.sleep(shared.env.jitter(shared.options.retry)).await;
                if shared.is_store_renewed() && !scan.begin_again() {
                    return End::Superseded;
                }
            }
        }
    }
    if let Some(first) = ignored.examples.first() {
        let count = ignored.count;
        shared.metrics.ignored_numbers.increment(count);
        tracing::warn!(partition = %shared.partition, count, ?first, "numbers out of range ignored");
    }
    shared.wake.notify_one();
    End::Recovered
}

struct Scan<'a> {
    shared: &'a Arc<Shared>,
    recovery: &'a Recovery,
    round: Round,
    /// The checkpoint that the scan began from, once it is known.
    begun: Option<PartitionOffset>,
    /// The next event to apply.
    at: PartitionOffset,
}

impl Scan<'_> {
    /// Goes on from where it was.
    async fn run(&mut self, ignored: &mut IgnoredNumbers) -> Result<(), Halt> {
        let from = match self.begun {
            Some(from) => from,
            None => self.begin().await?,
        };
        let tail = self.recovery.tail();
        let mut reading = self.recovery.start_reading(&self.shared.env, &self.shared.log, self.at);
        while let Some(task) = reading {
            let page = task.await.map_err(|error| Halt::Stop(StopReason::Internal(error.to_string())))?;
            let page = page.map_err(|error| Halt::from(StopReason::Log(error)))?;
            if page.is_empty() {
                return Err(Halt::Stop(StopReason::LogEndsEarly { at: self.at, tail }));
            }
            // The next page is read while this one is applied.
            reading = self.recovery.start_reading(&self.shared.env, &self.shared.log, page.next());
            let entries: Vec<(PartitionOffset, Entry<'_>)> = page.iter().collect();
            let (mut left, mut size) = (&entries[..], CHUNK_ENTRIES);
            while !left.is_empty() {
                self.make_room().await?;
                let chunk = &left[..left.len().min(size)];
                let applied = self.apply(chunk, ignored).await?;
                self.recovery.progress(from, self.at);
                // Where values are large, the next chunk reads about as many as it will apply.
                size = if applied < chunk.len() { applied } else { CHUNK_ENTRIES.min(size * 2) };
                left = &left[applied..];
            }
            tokio::task::yield_now().await;
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
        self.begun = Some(checkpoint);
        self.at = checkpoint;
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
        self.begun = None;
        true
    }

    /// Flushes here, where it is waited for anyway, unless the flusher is at it.
    async fn make_room(&self) -> Result<(), Halt> {
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

    /// Applies a chunk of entries, numbers and everything else. Returns how many: fewer than there are if a lot of bytes
    /// follow from them, but at least one.
    async fn apply(
        &mut self,
        chunk: &[(PartitionOffset, Entry<'_>)],
        ignored: &mut IgnoredNumbers,
    ) -> Result<usize, Halt> {
        let mut numbers = self.read_numbers(chunk).await?;
        let mut events = Vec::with_capacity(chunk.len());
        for (offset, entry) in chunk {
            let event = Event::decode(entry.body());
            let event = event.map_err(|problem| stop(format!("event {offset} cannot be read: {problem}")))?;
            events.push((Place::of(*offset, entry), event));
        }
        let mut fetched = self.fetch(&events).await?;
        let mut values = Values::new();
        let mut draft = Draft::default();
        let definition = self.shared.derivation.schema.sequences();
        let (mut applied, mut bytes, mut derived) = (0, 0, 0);
        for ((offset, entry), (place, event)) in chunk.iter().zip(&events) {
            let workspace = entry.workspace();
            let kind = definition.kind(entry.kind());
            let fresh = || Numbers::fresh(entry.kind(), kind);
            let known = numbers.entry(workspace).or_insert_with(fresh);
            known.fold(kind, *offset, entry, ignored).map_err(|error| Halt::Stop(error.into()))?;
            let mut rounds = 0;
            while !self.derive(*place, event, &values, &fetched, &mut draft)? {
                let unread = std::mem::take(&mut draft.unread);
                // Either the dry run did not come that far, which is counted. Or a flush has ended since the key was
                // fetched: at most two can, because nothing is published before the chunk is applied, and those of a
                // sweep, which comes to an end.
                rounds += usize::from(unread.iter().any(|key| !fetched.has_asked(key)));
                if rounds > READ_ROUNDS_MAX {
                    return Err(stop(format!("event {offset} reads one thing after another without end")));
                }
                fetched.extend(self.shared.fetch(&unread).await.map_err(StopReason::Store)?);
            }
            derived += draft.writes.iter().map(|(_, value)| value.len()).sum::<usize>();
            values.extend(draft.writes.drain(..));
            bytes += entry.size();
            applied += 1;
            if derived >= LOAD_BYTES_MAX {
                break;
            }
        }
        let Some((last, _)) = chunk[..applied].last() else { return Ok(applied) };
        let next = last.next().unwrap_or(*last);
        let mut overlay = lock(&self.shared.overlay);
        if !overlay.is_current(self.round) {
            return Err(Halt::Superseded);
        }
        // Only what this chunk's events have moved: what the store has seen already need not be written again.
        let changed = numbers.iter().filter(|(_, numbers)| numbers.folded() >= Some(self.at));
        overlay.publish(
            values.into_iter(),
            changed.map(|(workspace, numbers)| (*workspace, numbers)),
            next,
            bytes,
        );
        self.at = next;
        Ok(applied)
    }

    /// Writes to the draft what follows from an event; `false` if something has to be read first, which it names.
    fn derive(
        &self,
        place: Place,
        event: &Event,
        group: &Values,
        fetched: &Fetched,
        draft: &mut Draft,
    ) -> Result<bool, Halt> {
        draft.clear();
        let base = Base { group, overlay: &self.shared.overlay, fetched };
        let mut state = State { base, draft };
        let applied = self.shared.derivation.apply(place, event, Pass::Again, &mut state);
        if !draft.unread.is_empty() {
            return Ok(false);
        }
        let at = place.partition_offset;
        applied.map_err(|error| stop(format!("event {at} cannot be applied: {error}")))?;
        Ok(true)
    }

    /// Reads everything that the events will want: a dry run finds out what that is.
    async fn fetch(&self, events: &[(Place, Event)]) -> Result<Fetched, Halt> {
        let (nothing, none) = (Values::new(), Fetched::default());
        let mut draft = Draft::default();
        let mut keys = Vec::new();
        for (place, event) in events {
            draft.clear();
            let base = Base { group: &nothing, overlay: &self.shared.overlay, fetched: &none };
            let mut state = State { base, draft: &mut draft };
            // What is wrong shows when it is done in earnest, with everything there.
            let dry =
                AssertUnwindSafe(|| self.shared.derivation.apply(*place, event, Pass::Again, &mut state));
            let _ = std::panic::catch_unwind(dry);
            keys.append(&mut draft.unread);
        }
        let fetching = Fetching::begin(&self.shared.overlay, &keys);
        let fetched = self.shared.read_fetching_within(fetching, LOAD_BYTES_MAX).await;
        // What is left is read when its event's turn comes.
        fetched.map(|(fetched, _)| fetched).map_err(|error| Halt::from(StopReason::Store(error)))
    }

    async fn read_numbers(
        &self,
        chunk: &[(PartitionOffset, Entry<'_>)],
    ) -> Result<HashMap<WorkspaceId, Numbers>, Halt> {
        let mut workspaces: Vec<WorkspaceId> = chunk.iter().map(|(_, entry)| entry.workspace()).collect();
        workspaces.sort_unstable();
        workspaces.dedup();
        let found = self.shared.read_numbers(&workspaces).await;
        let mut numbers = HashMap::with_capacity(workspaces.len());
        let tail = self.recovery.tail();
        for (workspace, found) in workspaces.into_iter().zip(found) {
            let found = found.map_err(|error| match error {
                ReadError::Store(error) => Halt::from(StopReason::Store(error)),
                ReadError::Bad(problem) => Halt::Stop(StopReason::BadNumbers { workspace, problem }),
            })?;
            let Some(found) = found else { continue };
            if let Some(folded) = found.folded().filter(|folded| *folded >= tail) {
                return Err(Halt::Stop(StopReason::FoldedBeyondTail { workspace, folded, tail }));
            }
            numbers.insert(workspace, found);
        }
        Ok(numbers)
    }
}

fn stop(reason: String) -> Halt {
    Halt::Stop(StopReason::Internal(reason))
}
