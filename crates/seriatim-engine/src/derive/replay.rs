//! Applying the log again.
//!
//! ```text
//! log ──► page ──► chunk: decode ──► dry run: which keys? ──► fetch ──► apply event by event ──► Target::keep
//!         the next page is                                      ▲                │
//!         read meanwhile                                        └── keys that the dry run did not find
//! ```
//!
//! A replay does not know where the log ends. It runs up to a given offset, or until the log returns no more entries, and can
//! continue from there later.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};

use seriatim_env::{Env, Task};
use seriatim_sequencer::{BadValue, FoldError, IgnoredNumbers, Numbers, ReadError, WorkspaceMap};
use seriatim_storage::{Entry, EntryMark, Log, LogError, ReadEntries, ReadLimit, StoreError};
use seriatim_types::{Partition, PartitionOffset, WorkspaceId};

use super::derives::Derives;
use super::draft::{Base, DerivedState, Draft, Values};
use super::fetched::{Fetched, Fetching};
use super::keys::StoreKey;
use super::overlay::Overlay;
use super::sync::Mutex;
use crate::command::apply::ApplyError;
use crate::command::codec::BadBytes;
use crate::command::event::Place;
use crate::limits::{LOAD_BYTES_MAX, READ_ROUNDS_MAX};

/// The limit of one read of the log. It is larger than a large frame, because a frame at the end of a page is read and checked
/// again for the next page. It is not much larger, because a replay holds two pages in memory.
const PAGE: ReadLimit = ReadLimit { entries: 4_096, bytes: 512 << 10 };

/// Entries whose values are read together.
const CHUNK_ENTRIES: usize = 512;

/// Workspaces whose numbers are kept in memory from chunk to chunk: some megabytes.
const NUMBERS_MAX: usize = 16_384;

/// Entries of the log, with their offsets.
pub(super) type Entries<'a> = [(PartitionOffset, Entry<'a>)];

/// Where a replay reads values that are already derived, and where it puts what it derives.
pub(crate) trait Target: Send {
    type Error: From<ReplayError>;

    /// Values that are newer than those that [`fetch`](Self::fetch) reads.
    fn overlay(&self) -> &Mutex<Overlay>;

    /// Checks entries before any of them is applied.
    fn admit(&mut self, _: &Entries<'_>) -> impl Future<Output = Result<(), Self::Error>> + Send {
        async { Ok(()) }
    }

    /// Waits until there is room for another chunk.
    fn make_room(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// How many of these entries may be applied before room has to be made again. At least one.
    fn room(&self, entries: &Entries<'_>) -> usize {
        entries.len()
    }

    /// The numbers of workspaces, in their order.
    fn read_numbers(
        &mut self,
        workspaces: &[WorkspaceId],
    ) -> impl Future<Output = Vec<Result<Option<Numbers>, ReadError>>> + Send;

    /// Reads values until about `bytes_max` bytes are read. The remaining keys count as unread.
    fn fetch(
        &mut self,
        fetching: Fetching,
        bytes_max: usize,
    ) -> impl Future<Output = Result<Fetched, StoreError>> + Send;

    /// Keeps the result of a chunk. After an error the replay is where it was before the chunk.
    fn keep(&mut self, chunk: Chunk<'_>) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// The result of a chunk of events.
#[derive(Debug)]
pub(crate) struct Chunk<'a> {
    pub(crate) values: Values,
    /// The numbers that these events have changed. Numbers that had already folded these events are not written again.
    pub(crate) numbers: Vec<(WorkspaceId, &'a Numbers)>,
    /// The offset after its last event.
    pub(crate) next: PartitionOffset,
    /// Its last entry.
    pub(crate) last: Option<EntryMark>,
    pub(crate) events: usize,
    /// Bytes of its entries in the log.
    pub(crate) bytes: usize,
}

/// Why a replay cannot continue.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReplayError {
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the numbers of workspace {workspace} are damaged: {problem}")]
    BadNumbers { workspace: WorkspaceId, problem: BadValue },
    /// The stored numbers of a workspace include an event at or after the end of the replay.
    #[error(
        "the stored numbers of workspace {workspace} include event {folded}, but the replay ends at {to}"
    )]
    Folded { workspace: WorkspaceId, folded: PartitionOffset, to: PartitionOffset },
    #[error("event {at}: {fault}")]
    Event { at: PartitionOffset, fault: Fault },
}

/// What is wrong with an event.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error("its body does not match the digest in its header")]
    Body,
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] BadBytes),
    #[error(transparent)]
    Fold(#[from] FoldError),
    #[error("it cannot be applied: {0}")]
    Apply(#[from] ApplyError),
    #[error("it needs more than {READ_ROUNDS_MAX} rounds of reads: a projector reads without end")]
    Endless,
}

impl Fault {
    fn at<F: Into<Self>>(at: PartitionOffset) -> impl FnOnce(F) -> ReplayError {
        move |fault| ReplayError::Event { at, fault: fault.into() }
    }
}

/// Whether bodies are compared with the digests in their headers. The checksum of every entry, body included, is verified when the
/// entry is read. So this comparison finds only bodies that were wrong when they were written, or that were changed on
/// purpose. It costs a SHA-256 of all bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bodies {
    Trusted,
    Compared,
}

/// A pass through the log of one partition.
#[derive(Debug)]
pub(crate) struct Replay<'a, D> {
    env: &'a Env,
    log: &'a Log,
    partition: Partition,
    derivation: &'a D,
    bodies: Bodies,
    /// Everything before this offset was kept.
    pub(crate) at: PartitionOffset,
    pub(crate) ignored: IgnoredNumbers,
    /// Numbers of recent workspaces as of `at`, so that they are not read again for the next chunk.
    numbers: WorkspaceMap<Numbers>,
}

impl<'a, D: Derives> Replay<'a, D> {
    /// A pass that begins at an offset.
    pub(crate) fn new(
        env: &'a Env,
        log: &'a Log,
        partition: Partition,
        derivation: &'a D,
        bodies: Bodies,
        at: PartitionOffset,
    ) -> Self {
        let (ignored, numbers) = (IgnoredNumbers::default(), WorkspaceMap::default());
        Self { env, log, partition, derivation, bodies, at, ignored, numbers }
    }

    /// Applies the log up to an offset, or up to its end if that comes first. [`at`](Self::at) is the offset that was reached.
    ///
    /// Everything before `at` was kept by the target, also after an error. So after an error the replay can be run again, and it
    /// continues with the chunk that failed. The next page is read while the present one is applied.
    pub(crate) async fn run<T: Target>(
        &mut self,
        to: PartitionOffset,
        target: &mut T,
    ) -> Result<(), T::Error> {
        let mut reading = self.start_reading(self.at, to);
        while let Some(task) = reading {
            let page = task.await.unwrap_or_else(|error| Err(LogError::Internal(error.to_string())));
            let page = page.map_err(ReplayError::Log)?;
            if page.is_empty() {
                break;
            }
            reading = self.start_reading(page.next(), to);
            let entries: Vec<(PartitionOffset, Entry<'_>)> = page.iter().collect();
            target.admit(&entries).await?;
            let (mut left, mut size) = (&entries[..], CHUNK_ENTRIES);
            while !left.is_empty() {
                target.make_room().await?;
                let chunk = &left[..left.len().min(size)];
                let chunk = &chunk[..target.room(chunk)];
                let applied = self.apply(chunk, to, target).await;
                if applied.is_err() || self.numbers.len() > NUMBERS_MAX {
                    // After an error the numbers may include events that were not kept.
                    self.numbers.clear();
                }
                let applied = applied?;
                // If values are large, the next chunk reads about as many of them as it will apply.
                size = if applied < chunk.len() { applied } else { CHUNK_ENTRIES.min(size * 2) };
                left = &left[applied..];
            }
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Starts to read a page, in a task of its own.
    fn start_reading(
        &self,
        from: PartitionOffset,
        to: PartitionOffset,
    ) -> Option<Task<Result<ReadEntries, LogError>>> {
        let left = to.since(from).filter(|left| *left > 0)?;
        let entries = usize::try_from(left).unwrap_or(usize::MAX).min(PAGE.entries);
        let (log, partition) = (self.log.clone(), self.partition);
        let read = async move { log.read(partition, from, ReadLimit { entries, ..PAGE }).await };
        Some(self.env.spawn(read))
    }

    /// Applies a chunk of entries: numbers and values. Returns how many entries were applied: at least one, and fewer than the
    /// chunk has if many bytes follow from them.
    ///
    /// 1. The numbers of the chunk's workspaces are read, and the bodies are decoded.
    /// 2. A dry run of all events finds most keys that they need, and those are fetched in one read.
    /// 3. The events are applied in order, each on top of the earlier ones. If one needs a key that was not fetched, the key is
    ///    read and that event is applied again.
    /// 4. The target keeps numbers, values and offset together. Only then `at` moves. After an error before that, nothing of
    ///    the chunk was kept.
    async fn apply<T: Target>(
        &mut self,
        chunk: &Entries<'_>,
        to: PartitionOffset,
        target: &mut T,
    ) -> Result<usize, T::Error> {
        let workspaces = self.read_numbers(chunk, to, target).await?;
        let events = if D::VALUES { self.decode(chunk)? } else { Vec::new() };
        // Keys that are not fetched here are read when their event is applied.
        let wanted = self.dry_run(&events, target.overlay());
        let mut fetched = Fetched::default();
        if !wanted.is_empty() {
            let fetching = Fetching::begin(target.overlay(), &wanted);
            fetched = target.fetch(fetching, LOAD_BYTES_MAX).await.map_err(ReplayError::Store)?;
        }
        let (mut values, mut draft) = (Values::new(), Draft::default());
        let (mut next, mut applied, mut bytes, mut derived) = (self.at, 0_usize, 0, 0);
        let definition = self.derivation.sequences();
        for (number, (at, entry)) in chunk.iter().enumerate() {
            let (workspace, kind) = (entry.workspace(), definition.kind(entry.kind()));
            let known = self.numbers.entry(workspace).or_insert_with(|| Numbers::fresh(entry.kind(), kind));
            known.fold(kind, *at, entry, &mut self.ignored).map_err(Fault::at(*at))?;
            let mut rounds = 0;
            while let Some((place, event)) = events.get(number)
                && !self.derive(*place, event, target.overlay(), &values, &fetched, &mut draft)?
            {
                let unread = std::mem::take(&mut draft.unread);
                // There are two reasons. The dry run did not find the key: that is counted as a round. Or a flush has ended since
                // the key was fetched: that is bounded too, because nothing is published before the chunk is applied. So at
                // most two flushes can end, and those of a sweep, which has an end.
                rounds += usize::from(unread.iter().any(|key| !fetched.has_asked(key)));
                if rounds > READ_ROUNDS_MAX {
                    return Err(Fault::at(*at)(Fault::Endless).into());
                }
                let fetching = Fetching::begin(target.overlay(), &unread);
                fetched.extend(target.fetch(fetching, usize::MAX).await.map_err(ReplayError::Store)?);
            }
            derived += draft.writes.iter().map(|(_, value)| value.len()).sum::<usize>();
            values.extend(draft.writes.drain(..));
            (next, applied, bytes) = (at.next().unwrap_or(*at), applied + 1, bytes + entry.size());
            if derived >= LOAD_BYTES_MAX {
                break;
            }
        }
        let known = |workspace| self.numbers.get(&workspace).map(|numbers| (workspace, numbers));
        let moved = workspaces.into_iter().filter_map(known);
        let numbers = moved.filter(|(_, numbers)| numbers.folded() >= Some(self.at)).collect();
        let last = applied.checked_sub(1).map(|last| chunk[last].1.mark());
        target.keep(Chunk { values, numbers, next, last, events: applied, bytes }).await?;
        self.at = next;
        Ok(applied)
    }

    fn decode(&self, chunk: &Entries<'_>) -> Result<Vec<(Place, D::Event)>, ReplayError> {
        let decode = |(at, entry): &(PartitionOffset, Entry<'_>)| {
            if self.bodies == Bodies::Compared && !entry.body_is_intact() {
                return Err(Fault::at(*at)(Fault::Body));
            }
            let event = self.derivation.read(entry.body()).map_err(Fault::at(*at))?;
            Ok((Place::of(*at, entry), event))
        };
        chunk.iter().map(decode).collect()
    }

    /// The keys that the events will read, as far as that can be found out without their values.
    fn dry_run(&self, events: &[(Place, D::Event)], overlay: &Mutex<Overlay>) -> Vec<StoreKey> {
        let (nothing, none) = (Values::new(), Fetched::default());
        let mut draft = Draft::default();
        let mut keys = Vec::new();
        for (place, event) in events {
            // Errors and panics are ignored here. They may be caused by missing values, and real ones happen again below.
            let dry = || self.derive(*place, event, overlay, &nothing, &none, &mut draft);
            let _ = catch_unwind(AssertUnwindSafe(dry));
            keys.append(&mut draft.unread);
        }
        keys
    }

    /// Writes to the draft what follows from an event. `false` if values have to be read first: the draft lists their keys.
    fn derive(
        &self,
        place: Place,
        event: &D::Event,
        overlay: &Mutex<Overlay>,
        group: &Values,
        fetched: &Fetched,
        draft: &mut Draft,
    ) -> Result<bool, ReplayError> {
        draft.clear();
        let mut state = DerivedState { base: Base { group, overlay, fetched }, draft };
        let applied = self.derivation.apply(self.partition, place, event, &mut state);
        if !draft.unread.is_empty() {
            return Ok(false);
        }
        applied.map_err(Fault::at(place.partition_offset))?;
        Ok(true)
    }

    /// Reads the numbers of a chunk's workspaces into memory, as far as they have any. Returns the workspaces, each once.
    async fn read_numbers<T: Target>(
        &mut self,
        chunk: &Entries<'_>,
        to: PartitionOffset,
        target: &mut T,
    ) -> Result<Vec<WorkspaceId>, ReplayError> {
        let mut workspaces: Vec<WorkspaceId> = chunk.iter().map(|(_, entry)| entry.workspace()).collect();
        workspaces.sort_unstable();
        workspaces.dedup();
        let unknown = workspaces.iter().filter(|workspace| !self.numbers.contains_key(workspace));
        let unknown: Vec<WorkspaceId> = unknown.copied().collect();
        if unknown.is_empty() {
            return Ok(workspaces);
        }
        let read = target.read_numbers(&unknown).await;
        for (workspace, read) in unknown.into_iter().zip(read) {
            let found = read.map_err(|error| match error {
                ReadError::Store(error) => ReplayError::Store(error),
                ReadError::Bad(problem) => ReplayError::BadNumbers { workspace, problem },
            })?;
            let Some(found) = found else { continue };
            if let Some(folded) = found.folded().filter(|folded| *folded >= to) {
                return Err(ReplayError::Folded { workspace, folded, to });
            }
            self.numbers.insert(workspace, found);
        }
        Ok(workspaces)
    }
}

#[cfg(test)]
#[path = "replay_tests.rs"]
mod tests;
