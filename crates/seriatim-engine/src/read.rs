//! Reading: events, records, views and sequences.

use serde_json::Value as Json;
use seriatim_storage::{ClusteringRange, Entry, LogError, ReadEntries, ReadLimit};
use seriatim_types::{
    Number, Partition, PartitionId, PartitionOffset, RecordId, SequenceId, WorkspaceId, WorkspaceKind,
    WorkspaceOffset,
};

use crate::app::Running;
use crate::apply::{ApplyError, decode_offset};
use crate::codec::BadBytes;
use crate::definition::{DocumentKind, TypeId};
use crate::engine::Engine;
use crate::error::{RequestError, SubmitError};
use crate::event::{Argument, Event, Place, Row};
use crate::keys::{LOW_BITS, StoreKey, WorkspaceKeys};
use crate::record::Record;
use crate::view::{self, KeyPart};

/// An event, with its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Placed {
    /// Where it stands.
    pub place: Place,
    /// What it says.
    pub event: Event,
}

/// What an id leads to.
#[derive(Debug, Clone, PartialEq)]
pub enum Found {
    /// A C or W document, or a child record of one, as it is.
    Record(Record),
    /// An O document, or a child of one: it stands in its event.
    InEvent {
        /// The row.
        row: Row,
        /// Where the event stands.
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
    /// The number that comes next; `None` if there is none.
    pub next: Option<Number>,
    /// The first number that it gives.
    pub first: Number,
    /// The last number that it gives.
    pub last: Number,
    /// How many are left.
    pub remaining: u64,
}

fn bad(key: &StoreKey, problem: BadBytes) -> SubmitError {
    SubmitError::Apply(ApplyError::Bad { key: key.clone(), problem })
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
    /// Events of a partition from an offset on, up to the limit; none at the end of the log.
    ///
    /// # Errors
    ///
    /// [`SubmitError`].
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

    /// Events of a workspace from an offset on, up to the limit; none at the end.
    ///
    /// # Errors
    ///
    /// [`SubmitError`].
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
        let partition = running.partition_of(workspace).shared.partition;
        let mut events = Vec::with_capacity(offsets.len());
        let mut place = 0;
        while let Some(&first) = offsets.get(place) {
            // Events that stand together in the log are read together.
            let together = offsets[place..]
                .iter()
                .zip(first.get()..)
                .take_while(|(offset, expected)| offset.get() == *expected)
                .count();
            let read = self.read_log(partition, first, together).await?;
            if read.is_empty() {
                let reason = format!(
                    "workspace {workspace} leads to event {first} of partition {partition}, which is not there"
                );
                return Err(LogError::Corrupt(reason).into());
            }
            place += read.len();
            events.extend(read);
        }
        Ok(events)
    }

    /// Where events of a workspace stand in the partition log.
    pub(crate) async fn event_offsets(
        &self,
        running: &Running,
        workspace: WorkspaceId,
        from: WorkspaceOffset,
        limit: usize,
    ) -> Result<Vec<PartitionOffset>, SubmitError> {
        let keys = WorkspaceKeys::new(running.schema.id(), workspace);
        let handle = running.partition_of(workspace);
        let mut offsets: Vec<PartitionOffset> = Vec::new();
        let mut at = Some(from);
        while let Some(start) = at.filter(|_| offsets.len() < limit) {
            let key = keys.event(start);
            let range = ClusteringRange::from(key.clustering());
            let pairs = handle.scan(key.partition(), range, limit - offsets.len()).await?;
            let found = pairs.len();
            for (_, value) in pairs {
                offsets.push(decode_offset(&value).map_err(|problem| bad(&key, problem))?);
            }
            // Dense, so a part that is not full to its edge is the last one.
            let edge = ((start.get() >> LOW_BITS) + 1) << LOW_BITS;
            let full = start.get() + found as u64 >= edge;
            at = if full { WorkspaceOffset::new(edge) } else { None };
        }
        Ok(offsets)
    }

    /// What an id leads to.
    ///
    /// # Errors
    ///
    /// [`SubmitError`].
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
        let is_o = document.is_none_or(|document| document.kind == DocumentKind::O);
        if !is_o {
            let key = WorkspaceKeys::new(running.schema.id(), workspace).record(registered.document, id);
            let found = running.partition_of(workspace).read(std::slice::from_ref(&key)).await?;
            let Some(bytes) = found.into_iter().next().flatten() else { return Ok(None) };
            let record =
                Record::decode(registered.document, id, &bytes).map_err(|problem| bad(&key, problem))?;
            return Ok(Some(Found::Record(record)));
        }
        let events = self.events(application, workspace, registered.created, 1).await?;
        let Some(Placed { place, event }) = events.into_iter().next() else { return Ok(None) };
        let Argument::Document(rows) = event.argument else { return Ok(None) };
        Ok(rows.into_iter().find(|row| row.id == id).map(|row| Found::InEvent { row, place }))
    }

    /// Up to `limit` C or W documents, or child records, of a type, behind an id, ascending.
    ///
    /// # Errors
    ///
    /// [`SubmitError`].
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
        self.records_of(running, workspace, schema.id, after, limit).await
    }

    /// Up to `limit` C records of a workspace, after an id, ascending: documents, singletons and child records of all
    /// types, retired ones included. A caller who asks again after the last id misses none that is created meanwhile.
    ///
    /// # Errors
    ///
    /// [`SubmitError`].
    pub async fn c_records(
        &self,
        application: &str,
        workspace: WorkspaceId,
        after: Option<RecordId>,
        limit: usize,
    ) -> Result<Vec<Record>, SubmitError> {
        let running = self.running(application)?;
        // Types are read one after the other. An id that is drawn meanwhile could be on the page of a type that is read
        // later, and a lower one be missed of a type that was read before: neither is on this page.
        let sequences = self.sequence_states(running, workspace).await?;
        let next_of = |sequence: SequenceId| {
            let state = sequences.iter().find(|state| state.id == sequence);
            state.and_then(|state| state.next).map_or(u64::MAX, Number::get)
        };
        let mut records: Vec<Record> = Vec::new();
        for document in running.schema.documents().iter().filter(|one| one.kind == DocumentKind::C) {
            let next = next_of(document.record_sequence);
            let found = self.records_of(running, workspace, document.id, after, limit).await?;
            records.extend(found.into_iter().filter(|record| record.id.get() < next));
            records.sort_unstable_by_key(|record| record.id);
            records.truncate(limit);
        }
        Ok(records)
    }

    async fn records_of(
        &self,
        running: &Running,
        workspace: WorkspaceId,
        document: TypeId,
        after: Option<RecordId>,
        limit: usize,
    ) -> Result<Vec<Record>, SubmitError> {
        let keys = WorkspaceKeys::new(running.schema.id(), workspace);
        let handle = running.partition_of(workspace);
        let mut records = Vec::new();
        let mut next = after.map_or(0, |after| after.get().saturating_add(1));
        while records.len() < limit {
            let Some(part) = self.next_part(running, keys, document, next).await? else { break };
            let start = next.max(part << LOW_BITS);
            let key = keys.record(document, RecordId::new(start));
            let range = ClusteringRange::from(key.clustering());
            for (clustering, value) in handle.scan(key.partition(), range, limit - records.len()).await? {
                let low = <[u8; 2]>::try_from(&clustering[..]).map_err(|_| bad(&key, BadBytes("key")))?;
                let id = RecordId::new(part << LOW_BITS | u64::from(u16::from_be_bytes(low)));
                records.push(Record::decode(document, id, &value).map_err(|problem| bad(&key, problem))?);
            }
            match part.checked_add(1).and_then(|part| part.checked_mul(1 << LOW_BITS)) {
                Some(following) => next = following,
                None => break,
            }
        }
        Ok(records)
    }

    /// The first part of a type's records, at or behind the one of an id, that has something in it.
    async fn next_part(
        &self,
        running: &Running,
        keys: WorkspaceKeys,
        document: TypeId,
        id: u64,
    ) -> Result<Option<u64>, SubmitError> {
        let handle = running.partition_of(keys.workspace);
        // Ids come from a few ranges; between them lie billions of empty parts, which are jumped over by asking where
        // ids of this type can be at all.
        let kind = self.kind_of(running, keys.workspace).await?;
        for (first, last) in id_ranges(running, kind, document) {
            if last < id {
                continue;
            }
            let mut part = id.max(first) >> LOW_BITS;
            loop {
                let key = keys.part(document, RecordId::new(part << LOW_BITS));
                let range = ClusteringRange::from(key.clustering());
                let found = handle.scan(key.partition(), range, 1).await?;
                if let Some((clustering, _)) = found.into_iter().next() {
                    let low = <[u8; 2]>::try_from(&clustering[..]).map_err(|_| bad(&key, BadBytes("key")))?;
                    return Ok(Some(part >> LOW_BITS << LOW_BITS | u64::from(u16::from_be_bytes(low))));
                }
                part = ((part >> LOW_BITS) + 1) << LOW_BITS;
                let behind = self.behind(running, keys.workspace, document).await?;
                if part > last >> LOW_BITS || part << LOW_BITS >= behind.max(first + 1) {
                    break;
                }
            }
        }
        Ok(None)
    }

    /// The id that a type's sequence gives next: none is there or behind.
    async fn behind(
        &self,
        running: &Running,
        workspace: WorkspaceId,
        document: TypeId,
    ) -> Result<u64, SubmitError> {
        let sequences = self.sequence_states(running, workspace).await?;
        let sequence = running.schema.document(document).map(|document| document.record_sequence);
        let state = sequences.iter().find(|state| Some(state.id) == sequence);
        Ok(state.and_then(|state| state.next).map_or(u64::MAX, Number::get))
    }

    /// Up to `limit` rows of a view whose keys begin with `prefix`, behind a key, ascending.
    ///
    /// # Errors
    ///
    /// [`SubmitError`].
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
        let partition = WorkspaceKeys::new(running.schema.id(), workspace).view(view);
        let mut range = ClusteringRange::prefix(&view::encode_key(prefix));
        if let Some(after) = after {
            let mut start = view::encode_key(after);
            start.push(0);
            range.start = range.start.max(start.into());
        }
        let handle = running.partition_of(workspace);
        let mut rows = Vec::new();
        // Rows that were removed take place without being shown.
        while rows.len() < limit {
            let page = handle.scan(&partition, range.clone(), limit).await?;
            let (count, last) = (page.len(), page.last().map(|(key, _)| key.clone()));
            for (clustering, value) in page {
                let key = StoreKey::new(&partition, &clustering);
                let (_, row) = view::decode_row(&value).map_err(|problem| bad(&key, problem))?;
                let parts = view::decode_key(&clustering).map_err(|problem| bad(&key, problem))?;
                rows.extend(row.map(|row| (parts, row)));
            }
            match last {
                Some(last) if count == limit => {
                    let mut start = last.to_vec();
                    start.push(0);
                    range.start = start.into();
                }
                _ => break,
            }
        }
        rows.truncate(limit);
        Ok(rows)
    }

    /// The sequences of a workspace.
    ///
    /// # Errors
    ///
    /// [`SubmitError`].
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
            let stands = numbers.next(sequences, id).unwrap_or_else(|| sequence.first());
            let next = sequence.number_at(stands);
            SequenceState {
                id,
                name: schema.map_or_else(|| id.to_string().into(), |schema| schema.name.clone()),
                next,
                first: sequence.first(),
                last: sequence.ranges().last().map_or(sequence.first(), |range| range.last),
                remaining: sequence.remaining(stands),
            }
        });
        Ok(states.collect())
    }
}

/// Where ids of a type can be: a singleton's one, or the ranges of its sequence.
fn id_ranges(running: &Running, kind: WorkspaceKind, document: TypeId) -> Vec<(u64, u64)> {
    let Some(schema) = running.schema.document(document) else { return Vec::new() };
    if let Some(id) = schema.singleton {
        return vec![(id.get(), id.get())];
    }
    let sequences = running.schema.sequences().kind(kind).map(|kind| kind.sequences()).unwrap_or_default();
    let sequence = sequences.iter().find(|sequence| sequence.id() == schema.record_sequence);
    let ranges = sequence.map(seriatim_sequencer::Sequence::ranges).unwrap_or_default();
    ranges.iter().map(|range| (range.first.get(), range.last.get())).collect()
}
