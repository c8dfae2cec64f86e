//! Reads events, records, views and sequences.

pub(crate) mod follow;

use bytes::Bytes;
use serde_json::Value as Json;
use seriatim_storage::{ClusteringRange, Entry, LogError, ReadEntries, ReadLimit};
use seriatim_types::{
    Number, Partition, PartitionId, PartitionOffset, RecordId, SequenceId, WorkspaceId, WorkspaceOffset,
};

use crate::command::apply::{ApplyError, decode_offset};
use crate::command::codec::BadBytes;
use crate::command::event::{Argument, Event, Place, Row};
use crate::command::record::Record;
use crate::command::view::{self, KeyPart, ViewKeys};
use crate::definition::{DocumentKind, TypeId};
use crate::derive::keys::{Family, StoreKey, WorkspaceKeys};
use crate::engine::Engine;
use crate::engine::running::Running;
use crate::error::{RequestError, SubmitError};
use crate::partition::PartitionHandle;

/// An event, with its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Placed {
    /// Its place.
    pub place: Place,
    /// Its content.
    pub event: Event,
}

/// What an id refers to.
#[derive(Debug, Clone, PartialEq)]
pub enum Found {
    /// A C or W document, or a child record of one, in its current state.
    Record(Record),
    /// An O document, or a child record of one. It is stored in its event.
    InEvent {
        /// The row.
        row: Row,
        /// The place of the event.
        place: Place,
    },
}

/// A sequence of a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SequenceState {
    /// Its id.
    pub id: SequenceId,
    /// Its name.
    pub name: Box<str>,
    /// The number that is drawn next; `None` if the sequence is used up.
    pub next: Option<Number>,
    /// The first number that it gives.
    pub first: Number,
    /// The last number that it gives.
    pub last: Number,
    /// How many numbers are left.
    pub remaining: u64,
}

/// The error for a stored value of a partition that cannot be read.
fn bad(keys: WorkspaceKeys, clustering: &[u8], problem: BadBytes) -> SubmitError {
    SubmitError::Apply(ApplyError::Bad { key: StoreKey::new(&keys.storage(), clustering), problem })
}

/// Reads the bodies of entries.
pub(crate) fn decode_events(partition: Partition, entries: &ReadEntries) -> Result<Vec<Placed>, SubmitError> {
    let decode = |(offset, entry): (PartitionOffset, Entry<'_>)| {
        let event = Event::decode(entry.body());
        let event = event.map_err(|problem| {
            LogError::Corrupt(format!("event {offset} of partition {partition}: {problem}"))
        })?;
        Ok(Placed { place: Place::of(offset, &entry), event })
    };
    entries.iter().map(decode).collect()
}

impl Engine {
    /// Up to `limit` events of a partition, from an offset on. Empty at the end of the log.
    ///
    /// # Errors
    ///
    /// [`SubmitError`] if something is unknown, or if it cannot be read.
    pub async fn partition_events(
        &self,
        application: &str,
        partition: PartitionId,
        from: PartitionOffset,
        limit: usize,
    ) -> Result<Vec<Placed>, SubmitError> {
        let running = self.running(application)?;
        if running.partition(partition).is_none() {
            return Err(SubmitError::NotFound(format!(
                "application {application} has no partition {partition}"
            )));
        }
        let partition = Partition { application: running.schema.id(), id: partition };
        self.read_log(partition, from, limit).await
    }

    async fn read_log(
        &self,
        partition: Partition,
        from: PartitionOffset,
        limit: usize,
    ) -> Result<Vec<Placed>, SubmitError> {
        let read = self.log().read(partition, from, ReadLimit::entries(limit)).await?;
        decode_events(partition, &read)
    }

    /// Up to `limit` events of a workspace, from an offset on. Empty at the end of its log.
    ///
    /// # Errors
    ///
    /// [`SubmitError`] if something is unknown, or if it cannot be read.
    pub async fn events(
        &self,
        application: &str,
        workspace: WorkspaceId,
        from: WorkspaceOffset,
        limit: usize,
    ) -> Result<Vec<Placed>, SubmitError> {
        let running = self.running(application)?;
        self.kind_of(running, workspace).await?;
        let offsets = self.event_offsets(running, workspace, from, limit).await?;
        let partition = running.partition_of(workspace).partition;
        let mut events = Vec::with_capacity(offsets.len());
        let mut place = 0;
        while let Some(&first) = offsets.get(place) {
            // Events with consecutive offsets in the log are read together.
            let together = offsets[place..]
                .iter()
                .zip(first.get()..)
                .take_while(|(offset, expected)| offset.get() == *expected)
                .count();
            let read = self.read_log(partition, first, together).await?;
            if read.is_empty() {
                let reason = format!(
                    "the log of workspace {workspace} refers to event {first} of partition {partition}, which does not exist"
                );
                return Err(LogError::Corrupt(reason).into());
            }
            place += read.len();
            events.extend(read);
        }
        Ok(events)
    }

    /// The offsets of a workspace's events in the partition log.
    pub(crate) async fn event_offsets(
        &self,
        running: &Running,
        workspace: WorkspaceId,
        from: WorkspaceOffset,
        limit: usize,
    ) -> Result<Vec<PartitionOffset>, SubmitError> {
        let keys = running.keys(workspace);
        let pairs = running.partition_of(workspace).scan(keys.events(from), limit).await?;
        let read = |(clustering, value): (Bytes, Bytes)| {
            decode_offset(&value).map_err(|problem| bad(keys, &clustering, problem))
        };
        pairs.into_iter().map(read).collect()
    }

    /// The record with an id; `None` if there is none.
    ///
    /// # Errors
    ///
    /// [`SubmitError`] if something is unknown, or if it cannot be read.
    pub async fn record(
        &self,
        application: &str,
        workspace: WorkspaceId,
        id: RecordId,
    ) -> Result<Option<Found>, SubmitError> {
        let running = self.running(application)?;
        self.kind_of(running, workspace).await?;
        let registered = running.lookup(workspace, vec![id]).await?;
        let Some((_, Some(registered))) = registered.into_iter().next() else { return Ok(None) };
        let document = running.schema.document(registered.document);
        if let Some(document) = document.filter(|document| document.kind != DocumentKind::O) {
            let key = running.keys(workspace).record(document.kind, document.id, id);
            let found = running.partition_of(workspace).read(std::slice::from_ref(&key)).await?;
            let Some(bytes) = found.into_iter().next().flatten() else { return Ok(None) };
            let record = Record::decode(document.id, id, &bytes);
            let record = record.map_err(|problem| ApplyError::Bad { key, problem })?;
            return Ok(Some(Found::Record(record)));
        }
        let events = self.events(application, workspace, registered.created, 1).await?;
        let Some(Placed { place, event }) = events.into_iter().next() else { return Ok(None) };
        let Argument::Document(rows) = event.argument else { return Ok(None) };
        Ok(rows.into_iter().find(|row| row.id == id).map(|row| Found::InEvent { row, place }))
    }

    /// Up to `limit` C or W documents, or child records, of a type, after an id, ascending.
    ///
    /// # Errors
    ///
    /// [`SubmitError`] if something is unknown, or if it cannot be read.
    pub async fn records(
        &self,
        application: &str,
        workspace: WorkspaceId,
        document: &str,
        after: Option<RecordId>,
        limit: usize,
    ) -> Result<Vec<Record>, SubmitError> {
        let running = self.running(application)?;
        self.kind_of(running, workspace).await?;
        let unknown = || RequestError::UnknownDocument(document.to_owned());
        let schema = running.schema.document_by_name(document).ok_or_else(unknown)?;
        let (from, keys) = (first_after(after), running.keys(workspace));
        let range = match (schema.kind, schema.singleton) {
            (DocumentKind::C, None) => keys.c_records(from),
            (DocumentKind::C, Some(only)) => ClusteringRange {
                finish: Some(keys.c_records(first_after(Some(only))).start),
                ..keys.c_records(from.max(only))
            },
            (DocumentKind::W | DocumentKind::O, _) => keys.w_records(schema.id, from),
        };
        scan_records(running, workspace, range, limit, |found, _| found == schema.id).await
    }

    /// Up to `limit` C records of a workspace, after an id, ascending: documents, singletons and child records of all
    /// types, retired ones included. A caller that continues after the last id misses no record that is created meanwhile.
    ///
    /// # Errors
    ///
    /// [`SubmitError`] if something is unknown, or if it cannot be read.
    pub async fn c_records(
        &self,
        application: &str,
        workspace: WorkspaceId,
        after: Option<RecordId>,
        limit: usize,
    ) -> Result<Vec<Record>, SubmitError> {
        let running = self.running(application)?;
        // The store is read page by page. A record that is created meanwhile could be found on a later page, while one with a
        // lower id was missed on an earlier page. So no record that is created after this line is returned.
        let sequences = self.sequence_states(running, workspace).await?;
        let next_of = |document: TypeId| {
            let sequence = running.schema.document(document).map(|document| document.record_sequence);
            let state = sequences.iter().find(|state| Some(state.id) == sequence);
            state.and_then(|state| state.next).map_or(u64::MAX, Number::get)
        };
        let range = running.keys(workspace).c_records(first_after(after));
        scan_records(running, workspace, range, limit, |document, id| id.get() < next_of(document)).await
    }

    /// Up to `limit` rows of a view whose keys begin with `prefix`, after a key, ascending.
    ///
    /// # Errors
    ///
    /// [`SubmitError`] if something is unknown, or if it cannot be read.
    pub async fn view(
        &self,
        application: &str,
        workspace: WorkspaceId,
        view: &str,
        prefix: &[KeyPart],
        after: Option<&[KeyPart]>,
        limit: usize,
    ) -> Result<Vec<(Vec<KeyPart>, Json)>, SubmitError> {
        let running = self.running(application)?;
        self.kind_of(running, workspace).await?;
        if !running.derivation.projectors.iter().any(|projector| projector.view() == view) {
            return Err(SubmitError::NotFound(format!("application {application} has no view {view}")));
        }
        let keys = ViewKeys::new(running.keys(workspace), view);
        read_rows(running.partition_of(workspace), &keys, keys.range(prefix, after), limit).await
    }

    /// The sequences of a workspace.
    ///
    /// # Errors
    ///
    /// [`SubmitError`] if something is unknown, or if it cannot be read.
    pub async fn sequences(
        &self,
        application: &str,
        workspace: WorkspaceId,
    ) -> Result<Vec<SequenceState>, SubmitError> {
        let running = self.running(application)?;
        self.sequence_states(running, workspace).await
    }

    pub(crate) async fn sequence_states(
        &self,
        running: &Running,
        workspace: WorkspaceId,
    ) -> Result<Vec<SequenceState>, SubmitError> {
        let kind = self.kind_of(running, workspace).await?;
        let definition = running.schema.sequences();
        let sequences = definition.kind(kind);
        let numbers = running.partition_of(workspace).numbers(workspace).await?;
        let numbers = numbers.unwrap_or_else(|| seriatim_sequencer::Numbers::fresh(kind, sequences));
        let states = sequences.map(|kind| kind.sequences()).unwrap_or_default().iter().map(|sequence| {
            let id = sequence.id();
            let schema = running.schema.sequence(id);
            let position = numbers.next(sequences, id).unwrap_or_else(|| sequence.first());
            let next = sequence.number_at(position);
            SequenceState {
                id,
                name: schema.map_or_else(|| id.to_string().into(), |schema| schema.name.clone()),
                next,
                first: sequence.first(),
                last: sequence.ranges().last().map_or(sequence.first(), |range| range.last),
                remaining: sequence.remaining(position),
            }
        });
        Ok(states.collect())
    }
}

/// Up to `limit` rows of a view in a range, ascending.
pub(crate) async fn read_rows(
    handle: &PartitionHandle,
    keys: &ViewKeys,
    mut range: ClusteringRange,
    limit: usize,
) -> Result<Vec<(Vec<KeyPart>, Json)>, SubmitError> {
    let mut rows = Vec::new();
    // A page also counts rows that were removed; they are not returned.
    while rows.len() < limit {
        let page = handle.scan(range.clone(), limit).await?;
        let next = page.last().filter(|_| page.len() == limit).map(|(last, _)| key_after(last));
        for (clustering, value) in page {
            let bad = |problem| {
                SubmitError::Apply(ApplyError::Bad {
                    key: StoreKey::new(&keys.storage, &clustering),
                    problem,
                })
            };
            let (_, row) = view::decode_row(&value).map_err(bad)?;
            let parts = keys.read(&clustering).map_err(bad)?;
            rows.extend(row.map(|row| (parts, row)));
        }
        let Some(next) = next else { break };
        range.start = next;
    }
    rows.truncate(limit);
    Ok(rows)
}

/// The first id after one.
fn first_after(after: Option<RecordId>) -> RecordId {
    RecordId::new(after.map_or(0, |after| after.get().saturating_add(1)))
}

/// The first key after one.
fn key_after(clustering: &[u8]) -> Bytes {
    [clustering, &[0]].concat().into()
}

/// The smallest page, if not all of its records are wanted.
const PAGE_RECORDS_MIN: usize = 32;

/// Up to `limit` records of a range that are wanted, ascending.
async fn scan_records(
    running: &Running,
    workspace: WorkspaceId,
    mut range: ClusteringRange,
    limit: usize,
    is_wanted: impl Fn(TypeId, RecordId) -> bool,
) -> Result<Vec<Record>, SubmitError> {
    let (handle, keys) = (running.partition_of(workspace), running.keys(workspace));
    let mut records = Vec::new();
    let mut wanted = limit;
    while records.len() < limit {
        let page = handle.scan(range.clone(), wanted).await?;
        let next = page.last().filter(|_| page.len() == wanted).map(|(last, _)| key_after(last));
        for (clustering, value) in page {
            let bad = |problem| bad(keys, &clustering, problem);
            let Some(Family::Record(_, document, id)) = Family::of(&clustering) else {
                return Err(bad(BadBytes("key")));
            };
            if is_wanted(document, id) {
                records.push(Record::decode(document, id, &value).map_err(bad)?);
            }
        }
        let Some(next) = next else { break };
        (range.start, wanted) = (next, (limit - records.len().min(limit)).max(PAGE_RECORDS_MIN));
    }
    records.truncate(limit);
    Ok(records)
}
