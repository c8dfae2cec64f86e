//! Applying the log again.
//!
//! ```text
//! log ──► page ──► chunk: decode ──► dry run: which keys? ──► fetch ──► apply event by event ──► Target::keep
//!         the next page is                                      ▲                │
//!         read meanwhile                                        └── what the dry run did not come to
//! ```
//!
//! A replay does not know where the log ends: it goes up to an offset, or to where the log gives nothing more, and can go
//! on from there later.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};

use seriatim_env::{Env, Task};
use seriatim_sequencer::{BadValue, FoldError, IgnoredNumbers, Numbers, ReadError, WorkspaceMap};
use seriatim_storage::{Entry, Log, LogError, ReadEntries, ReadLimit, StoreError};
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

/// What one read of the log asks for. More than a large frame, because a frame that a page ends in is read and checked
/// again for the next one; not much more, because two pages are what a replay holds of the log.
const PAGE: ReadLimit = ReadLimit { entries: 4_096, bytes: 512 << 10 };

/// Entries whose values are read together.
const CHUNK_ENTRIES: usize = 512;

/// Workspaces whose numbers are kept from chunk to chunk: some megabytes.
const NUMBERS_MAX: usize = 16_384;

/// Entries of the log, with their offsets.
pub(super) type Entries<'a> = [(PartitionOffset, Entry<'a>)];

/// Where a replay finds what is derived already, and puts what it derives.
pub(crate) trait Target: Send {
    type Error: From<ReplayError>;

    /// What is newer than what [`fetch`](Self::fetch) reads.
    fn overlay(&self) -> &Mutex<Overlay>;

    /// Waits until a chunk more can be kept.
    fn make_room(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// How many of these, at least one, may be kept before room has to be made again.
    fn room(&self, entries: &Entries<'_>) -> usize {
        entries.len()
    }

    /// The numbers of workspaces, in their order.
    fn read_numbers(
        &mut self,
        workspaces: &[WorkspaceId],
    ) -> impl Future<Output = Vec<Result<Option<Numbers>, ReadError>>> + Send;

    /// Reads values until so many bytes are read, about: what is left counts as unread.
    fn fetch(
        &mut self,
        fetching: Fetching,
        bytes_max: usize,
    ) -> impl Future<Output = Result<Fetched, StoreError>> + Send;

    /// Takes what a chunk came to. After an error the replay is where it was before the chunk.
    fn keep(&mut self, chunk: Chunk<'_>) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// What a chunk of events came to.
#[derive(Debug)]
pub(crate) struct Chunk<'a> {
    pub(crate) values: Values,
    /// Of the workspaces whose numbers these events have moved: what was seen already need not be written again.
    pub(crate) numbers: Vec<(WorkspaceId, &'a Numbers)>,
    /// The offset after its last event.
    pub(crate) next: PartitionOffset,
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
    /// The numbers of a workspace have seen an event that the replay does not come to.
    #[error("workspace {workspace} has seen event {folded}, and the replay ends at {to}")]
    Folded { workspace: WorkspaceId, folded: PartitionOffset, to: PartitionOffset },
    #[error("event {at}: {fault}")]
    Event { at: PartitionOffset, fault: Fault },
}

/// What is wrong with an event.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error("its body is not the one that its header names")]
    Body,
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] BadBytes),
    #[error(transparent)]
    Fold(#[from] FoldError),
    #[error("it cannot be applied: {0}")]
    Apply(#[from] ApplyError),
    #[error("it reads one thing after another without end")]
    Endless,
}

impl Fault {
    fn at<F: Into<Self>>(at: PartitionOffset) -> impl FnOnce(F) -> ReplayError {
        move |fault| ReplayError::Event { at, fault: fault.into() }
    }
}

/// Whether bodies are compared with the digests in their headers. Every entry's checksum was compared when it was read, body
/// included, so this finds only what was wrong when it was written, or changed on purpose; it costs a SHA-256 of all bytes.
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
    /// Numbers of workspaces as of `at`: of those that came last, so that one that comes again is not read again.
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

    /// Applies what the log has, up to an offset or to where it ends: [`at`](Self::at) says which came first. After an error
    /// it can be run again.
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
            let (mut left, mut size) = (&entries[..], CHUNK_ENTRIES);
            while !left.is_empty() {
                target.make_room().await?;
                let chunk = &left[..left.len().min(size)];
                let chunk = &chunk[..target.room(chunk)];
                let applied = self.apply(chunk, to, target).await;
                if applied.is_err() || self.numbers.len() > NUMBERS_MAX {
                    // After an error they may be ahead of what was kept.
                    self.numbers.clear();
                }
                let applied = applied?;
                // Where values are large, the next chunk reads about as many as it will apply.
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

    /// Applies a chunk of entries, numbers and everything else. Returns how many: fewer than there are if a lot of bytes
    /// follow from them, but at least one.
    async fn apply<T: Target>(
        &mut self,
        chunk: &Entries<'_>,
        to: PartitionOffset,
        target: &mut T,
    ) -> Result<usize, T::Error> {
        let workspaces = self.read_numbers(chunk, to, target).await?;
        let events = if D::VALUES { self.decode(chunk)? } else { Vec::new() };
        // What is left is read when its event's turn comes.
        let wanted = self.dry_run(&events, target.overlay());
        let mut fetched = Fetched::default();
        if !wanted.is_empty() {
            let fetching = Fetching::begin(target.overlay(), &wanted);
            fetched = target.fetch(fetching, LOAD_BYTES_MAX).await.map_err(ReplayError::Store)?;
        }
        let (mut values, mut draft) = (Values::new(), Draft::default());
        let (mut next, mut applied, mut bytes, mut derived) = (self.at, 0, 0, 0);
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
                // Either the dry run did not come that far, which is counted. Or a flush has ended since the key was
                // fetched: at most two can, because nothing is published before the chunk is applied, and those of a
                // sweep, which comes to an end.
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
        target.keep(Chunk { values, numbers, next, events: applied, bytes }).await?;
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

    /// Which values the events will want, as far as that shows without them.
    fn dry_run(&self, events: &[(Place, D::Event)], overlay: &Mutex<Overlay>) -> Vec<StoreKey> {
        let (nothing, none) = (Values::new(), Fetched::default());
        let mut draft = Draft::default();
        let mut keys = Vec::new();
        for (place, event) in events {
            // What is wrong shows when it is done in earnest, with everything there.
            let dry = || self.derive(*place, event, overlay, &nothing, &none, &mut draft);
            let _ = catch_unwind(AssertUnwindSafe(dry));
            keys.append(&mut draft.unread);
        }
        keys
    }

    /// Writes to the draft what follows from an event; `false` if something has to be read first, which it names.
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

    /// Has the numbers of those of a chunk's workspaces that have any. Returns the workspaces, each once.
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
