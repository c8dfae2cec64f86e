//! Deriving everything anew from a partition's log, into the scratch store.

use std::collections::{BTreeSet, HashMap};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};

use seriatim_sequencer::{IgnoredNumbers, Numbers, NumbersKey};
use seriatim_storage::{Batch, ClusteringRange, Durability, Entry, Key, Log, ReadLimit, Store};
use seriatim_types::{ApplicationId, Number, Partition, PartitionOffset, RecordId, WorkspaceId};

use super::{DoctorError, Progress, Report, Telling};
use crate::apply::{Derivation, Pass};
use crate::definition::DocumentKind;
use crate::derive::{Base, Budget, Draft, Fetched, Fetching, Limits, Overlay, Splits, State, Values};
use crate::event::{Event, Place};
use crate::keys::{LOW_BITS, StoreKey, WorkspaceKeys};
use crate::limits::{LOAD_BYTES_MAX, READ_ROUNDS_MAX};
use crate::registry::{self, Registry};
use crate::view::{self, KeyPart};

/// What one read of the log asks for.
const PAGE: ReadLimit = ReadLimit { entries: 4_096, bytes: 1 << 20 };
/// Entries whose values are read from the scratch store together.
const CHUNK_ENTRIES: usize = 512;
/// Storage partitions that are remembered in one write.
const MARKS_MAX: usize = 4_096;

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
    marked: bool,
    /// Whether the storage is fenced, so that what the store knows of lost events may be removed.
    pub(super) fenced: bool,
}

/// Storage partitions to be compared.
pub(super) type Marks = BTreeSet<Vec<u8>>;

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

    /// The storage partition, in the scratch store, of the marks.
    pub(super) fn marks_key(&self) -> [u8; 8] {
        let mut key = *b"dm\0\0\0\0\0\0";
        key[2..6].copy_from_slice(&self.application().get().to_be_bytes());
        key[6..].copy_from_slice(&self.partition.id.get().to_be_bytes());
        key
    }

    fn put_marks(&self, batch: &mut Batch, marks: &mut Marks) {
        let key = self.marks_key();
        for mark in std::mem::take(marks) {
            batch.put(Key::new(&key, &mark), &[1]);
        }
    }

    /// Remembers storage partitions, once there are many, or at the end.
    pub(super) async fn write_marks(&self, marks: &mut Marks, at_end: bool) -> Result<(), DoctorError> {
        if marks.is_empty() || (marks.len() < MARKS_MAX && !at_end) {
            return Ok(());
        }
        let mut batch = Batch::new();
        self.put_marks(&mut batch, marks);
        Ok(self.scratch.write(batch, Durability::Buffered).await?)
    }

    /// Marks where the next numbers of every workspace lead: of those that have events, and of those that the registry
    /// knows.
    pub(super) async fn mark_nexts(&self) -> Result<(), DoctorError> {
        if self.marked {
            return Ok(());
        }
        let definition = self.derivation.schema.sequences();
        let mut marks = Marks::new();
        let mut touched = self.scratch.scan(&self.marks_key(), ClusteringRange::prefix(b"sn"));
        while let Some((storage, _)) = touched.next().await? {
            let mut known = self.scratch.scan(&storage, ClusteringRange::all());
            while let Some((clustering, value)) = known.next().await? {
                let workspace = NumbersKey::decode(Key::new(&storage, &clustering)).map(|(_, id)| id);
                let numbers = Numbers::decode(definition, &value).ok();
                if let Some((workspace, numbers)) = workspace.filter(|id| self.owns(*id)).zip(numbers) {
                    self.mark_next(workspace, &numbers, &mut marks);
                    self.write_marks(&mut marks, false).await?;
                }
            }
        }
        self.mark_registered(self.scratch, &mut marks).await?;
        self.write_marks(&mut marks, true).await
    }

    /// Marks where the first numbers of the workspaces lead that the registry in a store knows.
    pub(super) async fn mark_registered(
        &self,
        registry: &Store,
        marks: &mut Marks,
    ) -> Result<(), DoctorError> {
        let definition = self.derivation.schema.sequences();
        let prefix = view::encode_key(&[i64::from(self.application().get()).into()]);
        let mut registered = registry.scan(&Registry::view("workspaces"), ClusteringRange::prefix(&prefix));
        while let Some((key, row)) = registered.next().await? {
            let Ok(parts) = view::decode_key(&key) else { continue };
            let [_, KeyPart::Integer(id)] = parts[..] else { continue };
            let Ok(id) = u64::try_from(id) else { continue };
            let row = view::decode_row(&row).ok().and_then(|(_, row)| row);
            let Some(workspace) = row.and_then(|row| registry::read_workspace(WorkspaceId::new(id), row))
            else {
                continue;
            };
            if self.owns(workspace.id) {
                let fresh = Numbers::fresh(workspace.kind, definition.kind(workspace.kind));
                self.mark_next(workspace.id, &fresh, marks);
                self.write_marks(marks, false).await?;
            }
        }
        Ok(())
    }

    fn mark_next(&self, workspace: WorkspaceId, numbers: &Numbers, marks: &mut Marks) {
        let keys = WorkspaceKeys::new(self.application(), workspace);
        marks.insert(NumbersKey::new(self.application(), workspace).as_key().partition.to_vec());
        marks.insert(keys.idempotency("").partition().to_vec());
        for projector in &self.derivation.projectors {
            marks.insert(keys.view(projector.view()));
        }
        let schema = &self.derivation.schema;
        for document in schema.documents() {
            if let Some(id) = document.singleton {
                mark_id(keys, document, id, marks);
            }
        }
        self.mark_between(workspace, numbers, numbers, marks);
    }

    /// Marks where a workspace's events and records lie from one state of its numbers up to a later one, and the part
    /// behind.
    pub(super) fn mark_between(
        &self,
        workspace: WorkspaceId,
        from: &Numbers,
        to: &Numbers,
        marks: &mut Marks,
    ) {
        let keys = WorkspaceKeys::new(self.application(), workspace);
        for place in places(from.next_offset().get(), to.next_offset().get()) {
            if let Some(offset) = seriatim_types::WorkspaceOffset::new(place) {
                marks.insert(keys.event(offset).partition().to_vec());
            }
        }
        let (schema, kind) = (&self.derivation.schema, from.kind());
        let sequences = schema.sequences().kind(kind);
        for document in schema.documents().iter().filter(|document| document.singleton.is_none()) {
            let has = sequences.and_then(|kind| {
                kind.sequences().iter().find(|sequence| sequence.id() == document.record_sequence)
            });
            let Some(sequence) = has else { continue };
            let at = |numbers: &Numbers| {
                let next = numbers.next(sequences, sequence.id()).and_then(|next| sequence.number_at(next));
                next.map(Number::get)
            };
            let Some(first) = at(from) else { continue };
            for place in places(first, at(to).unwrap_or(first)) {
                mark_id(keys, document, RecordId::new(place), marks);
            }
        }
    }
}

fn damaged(offset: PartitionOffset, reason: impl Into<String>) -> DoctorError {
    DoctorError::Damaged { offset, reason: reason.into() }
}

/// Parts that are looked at behind what the log explains, if the stored numbers are far ahead of it.
const PARTS_MAX: u64 = 4_096;

/// One place in each part from one place to another, and one in the part behind.
fn places(from: u64, to: u64) -> impl Iterator<Item = u64> {
    let first = from >> LOW_BITS;
    let last = (to.max(from) >> LOW_BITS).min(first + PARTS_MAX) + 1;
    (first..=last).map(move |part| (part << LOW_BITS).max(from))
}

fn mark_id(
    keys: WorkspaceKeys,
    document: &crate::definition::DocumentSchema,
    id: RecordId,
    marks: &mut Marks,
) {
    marks.insert(keys.id(id).partition().to_vec());
    if document.kind != DocumentKind::O {
        marks.insert(keys.record(document.id, id).partition().to_vec());
        marks.insert(keys.part(document.id, id).partition().to_vec());
    }
}
