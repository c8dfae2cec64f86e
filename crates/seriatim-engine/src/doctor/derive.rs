//! Deriving everything anew from a partition's log, into the scratch store.

use std::collections::{BTreeSet, HashMap};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};

use seriatim_sequencer::{IgnoredNumbers, Numbers, NumbersKey};
use seriatim_storage::{Durability, Entry, Key, Log, ReadLimit, Store};
use seriatim_types::{ApplicationId, Partition, PartitionOffset, WorkspaceId};

use super::marks::Marks;
use super::{DoctorError, Progress, Report, Telling};
use crate::apply::{Derivation, Pass};
use crate::derive::{Base, Budget, Draft, Fetched, Fetching, Limits, Overlay, Splits, State, Values};
use crate::event::{Event, Place};
use crate::keys::StoreKey;
use crate::limits::{LOAD_BYTES_MAX, READ_ROUNDS_MAX};

/// What one read of the log asks for.
const PAGE: ReadLimit = ReadLimit { entries: 4_096, bytes: 1 << 20 };
/// Entries whose values are read from the scratch store together.
const CHUNK_ENTRIES: usize = 512;

/// A look at one partition.
pub(super) struct Examination<'a> {
    log: &'a Log,
    pub(super) store: &'a Store,
    pub(super) scratch: &'a Store,
    pub(super) partition: Partition,
    pub(super) derivation: &'a Derivation,
    /// Everything before this offset is in the scratch store.
    pub(super) at: PartitionOffset,
    /// Nothing waits here: what is derived goes straight to the scratch store.
    overlay: Mutex<Overlay>,
    /// Which values the scratch store has in parts.
    splits: Splits,
    ignored: IgnoredNumbers,
    /// Whether what is to be compared was marked already.
    pub(super) marked: bool,
    /// Whether the storage is fenced, so that what the store knows of lost events may be removed.
    pub(super) fenced: bool,
}

impl<'a> Examination<'a> {
    pub(super) fn new(
        log: &'a Log,
        store: &'a Store,
        scratch: &'a Store,
        partition: Partition,
        derivation: &'a Derivation,
    ) -> Self {
        let limits = Limits { flush_at: 0, events_max: 0, log_bytes_max: 0, own_keys: 0, own_bytes: 0 };
        let overlay = Mutex::new(Overlay::new(limits, Arc::new(Budget::new(0, 0))));
        let (at, ignored) = (PartitionOffset::FIRST, IgnoredNumbers::default());
        let splits = Splits::default();
        Self {
            log,
            store,
            scratch,
            partition,
            derivation,
            at,
            overlay,
            splits,
            ignored,
            marked: false,
            fenced: false,
        }
    }

    /// Begins where a survey has ended, which may have found that the log has lost events.
    pub(super) fn continues_after_a_survey(&mut self, at: PartitionOffset, fenced: bool) {
        (self.at, self.marked, self.fenced) = (at, true, fenced);
    }

    pub(super) fn application(&self) -> ApplicationId {
        self.partition.application
    }

    pub(super) async fn tail(&self) -> Result<PartitionOffset, DoctorError> {
        Ok(self.log.tail(self.partition).await?)
    }

    /// Whether a workspace's events are in this partition.
    pub(super) fn owns(&self, workspace: WorkspaceId) -> bool {
        self.derivation.schema.partitions().partition_of(workspace) == self.partition.id
    }

    /// Derives up to an offset.
    pub(super) async fn derive(
        &mut self,
        to: PartitionOffset,
        report: &mut Report,
        tell: Telling<'_>,
    ) -> Result<(), DoctorError> {
        let total = to.get() - PartitionOffset::FIRST.get();
        while let Some(left) = to.since(self.at).filter(|left| *left > 0) {
            let entries = usize::try_from(left).unwrap_or(usize::MAX).min(PAGE.entries);
            let page = self.log.read(self.partition, self.at, ReadLimit { entries, ..PAGE }).await?;
            if page.is_empty() {
                return Err(damaged(self.at, format!("nothing is there, and the log ends at {to}")));
            }
            let entries: Vec<(PartitionOffset, Entry<'_>)> = page.iter().collect();
            let (mut left, mut size) = (&entries[..], CHUNK_ENTRIES);
            while !left.is_empty() {
                let chunk = &left[..left.len().min(size)];
                let applied = self.apply(chunk).await?;
                size = if applied < chunk.len() { applied } else { CHUNK_ENTRIES.min(size * 2) };
                left = &left[applied..];
                report.checked.events += applied as u64;
                let done = self.at.get() - PartitionOffset::FIRST.get();
                tell(Progress { partition: self.partition, done, total, compared: report.checked.values() });
            }
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Applies a chunk of entries. Returns how many: fewer than there are if a lot of bytes follow from them, but at least
    /// one.
    async fn apply(&mut self, chunk: &[(PartitionOffset, Entry<'_>)]) -> Result<usize, DoctorError> {
        let mut numbers = self.read_numbers(chunk).await?;
        let mut events = Vec::with_capacity(chunk.len());
        for (offset, entry) in chunk {
            if !entry.body_is_intact() {
                return Err(damaged(*offset, "its body is not the one that its header speaks of"));
            }
            let event =
                Event::decode(entry.body()).map_err(|problem| damaged(*offset, problem.to_string()))?;
            events.push((Place::of(*offset, entry), event));
        }
        let mut fetched = self.fetch(&events).await?;
        let (mut values, mut draft) = (Values::new(), Draft::default());
        let definition = self.derivation.schema.sequences().clone();
        let (mut applied, mut derived) = (0, 0);
        for ((offset, entry), (place, event)) in chunk.iter().zip(&events) {
            let kind = definition.kind(entry.kind());
            let known =
                numbers.entry(entry.workspace()).or_insert_with(|| Numbers::fresh(entry.kind(), kind));
            let folded = known.fold(kind, *offset, entry, &mut self.ignored);
            folded.map_err(|error| damaged(*offset, error.to_string()))?;
            // As in a recovery: the dry run may not have come so far as to name everything that the event reads.
            let mut rounds = 0;
            while !self.derive_one(*place, event, &values, &fetched, &mut draft)? {
                rounds += 1;
                if rounds > READ_ROUNDS_MAX {
                    return Err(damaged(*offset, "it reads one thing after another without end"));
                }
                let unread = std::mem::take(&mut draft.unread);
                fetched.extend(self.read(&unread, usize::MAX).await?);
            }
            derived += draft.writes.iter().map(|(_, value)| value.len()).sum::<usize>();
            values.extend(draft.writes.drain(..));
            applied += 1;
            if derived >= LOAD_BYTES_MAX {
                break;
            }
        }
        self.keep(&values, &numbers).await?;
        if let Some((last, _)) = chunk[..applied].last() {
            self.at = last.next().unwrap_or(*last);
        }
        Ok(applied)
    }

    /// Writes to the draft what follows from an event; `false` if something has to be read first, which it names.
    fn derive_one(
        &self,
        place: Place,
        event: &Event,
        group: &Values,
        fetched: &Fetched,
        draft: &mut Draft,
    ) -> Result<bool, DoctorError> {
        draft.clear();
        let base = Base { group, overlay: &self.overlay, fetched };
        let mut state = State { base, draft };
        let applied = self.derivation.apply(place, event, Pass::Again, &mut state);
        if !draft.unread.is_empty() {
            return Ok(false);
        }
        let at = place.partition_offset;
        applied.map_err(|error| damaged(at, format!("it cannot be applied: {error}")))?;
        Ok(true)
    }

    /// Writes to the scratch store what follows from a chunk, and where it lies.
    async fn keep(
        &self,
        values: &Values,
        numbers: &HashMap<WorkspaceId, Numbers>,
    ) -> Result<(), DoctorError> {
        let mut collected = self.splits.collect();
        let mut marks = Marks::new();
        for (key, value) in values {
            collected.put(key, value);
            marks.insert(key.partition().to_vec());
        }
        marks.extend(collected.parts.iter().map(|part| part.partition.to_vec()));
        let mut batch = collected.take_all();
        let mut bytes = Vec::new();
        for (workspace, numbers) in numbers {
            bytes.clear();
            numbers.encode(self.derivation.schema.sequences(), &mut bytes);
            let key = NumbersKey::new(self.application(), *workspace);
            batch.put(key.as_key(), &bytes);
            marks.insert(key.as_key().partition.to_vec());
        }
        self.put_marks(&mut batch, &mut marks);
        self.scratch.write(batch, Durability::Buffered).await?;
        self.splits.settle(collected.changed);
        Ok(())
    }

    async fn read_numbers(
        &self,
        chunk: &[(PartitionOffset, Entry<'_>)],
    ) -> Result<HashMap<WorkspaceId, Numbers>, DoctorError> {
        let workspaces: BTreeSet<WorkspaceId> = chunk.iter().map(|(_, entry)| entry.workspace()).collect();
        let keys = workspaces.iter().map(|workspace| NumbersKey::new(self.application(), *workspace));
        let keys: Vec<NumbersKey> = keys.collect();
        let keys: Vec<Key<'_>> = keys.iter().map(NumbersKey::as_key).collect();
        let found = self.scratch.get_many(&keys).await?;
        let definition = self.derivation.schema.sequences();
        let read = |(workspace, bytes): (WorkspaceId, Option<bytes::Bytes>)| {
            // Written here, so it can be read.
            Some((workspace, Numbers::decode(definition, &bytes?).ok()?))
        };
        Ok(workspaces.into_iter().zip(found).filter_map(read).collect())
    }

    /// Reads everything that the events will want: a dry run finds out what that is.
    async fn fetch(&self, events: &[(Place, Event)]) -> Result<Fetched, DoctorError> {
        let (nothing, none) = (Values::new(), Fetched::default());
        let mut draft = Draft::default();
        let mut keys = Vec::new();
        for (place, event) in events {
            draft.clear();
            let base = Base { group: &nothing, overlay: &self.overlay, fetched: &none };
            let mut state = State { base, draft: &mut draft };
            // What is wrong shows when it is done in earnest, with everything there.
            let dry = AssertUnwindSafe(|| self.derivation.apply(*place, event, Pass::Again, &mut state));
            let _ = std::panic::catch_unwind(dry);
            keys.append(&mut draft.unread);
        }
        // What is left is read when its event's turn comes.
        self.read(&keys, LOAD_BYTES_MAX).await
    }

    /// Reads keys from the scratch store, until so many bytes are read, about.
    async fn read(&self, keys: &[StoreKey], bytes_max: usize) -> Result<Fetched, DoctorError> {
        let fetching = Fetching::begin(&self.overlay, keys);
        let found = self.splits.get_within(self.scratch, fetching.keys(), bytes_max).await?;
        Ok(fetching.finish(found))
    }
}

fn damaged(offset: PartitionOffset, reason: impl Into<String>) -> DoctorError {
    DoctorError::Damaged { offset, reason: reason.into() }
}
