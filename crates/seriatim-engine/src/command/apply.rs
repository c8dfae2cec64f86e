//! Derives from an event: its entry in the workspace's log, ids, records, its idempotency key, and rows of views.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::{Buf, Bytes};
use seriatim_storage::Digest;
use seriatim_types::{Partition, PartitionOffset, Timestamp, panic_text};

use crate::apps::registry::AcceptedIn;
use crate::command::codec::BadBytes;
use crate::command::event::{Argument, Change, Event, Place, Row};
use crate::command::projector::{Projected, Projector, Rows};
use crate::command::record::{self, Record, Registered};
use crate::definition::{DocumentKind, DocumentSchema, Schema};
use crate::derive::keys::{StoreKey, WorkspaceKeys};
use crate::derive::{DerivedState, Found};

/// Why an event cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// A projector refuses it.
    #[error("view {view}: {reason}")]
    Projector {
        /// The view.
        view: String,
        /// The reason of the projector, or its panic message.
        reason: String,
    },
    /// The event updates a record that does not exist.
    #[error("the event updates record {0}, which does not exist")]
    NoRecord(u64),
    /// The event names a type that the definition does not have.
    #[error("type {0} is not defined")]
    UnknownType(u16),
    /// A stored value is damaged.
    #[error("the value at {key} is damaged: {problem}")]
    Bad {
        /// Its key.
        key: StoreKey,
        /// What is wrong.
        problem: BadBytes,
    },
}

/// Whether an event is new, or may have been applied before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pass {
    /// It is being staged: what it creates does not exist yet.
    First,
    /// It was read from the log: the store may contain its changes already, or later ones.
    Again,
}

/// What an application derives from its events.
#[derive(Debug)]
pub(crate) struct Derivation {
    pub(crate) schema: Arc<Schema>,
    pub(crate) projectors: Vec<Arc<dyn Projector>>,
    /// Where the definition was accepted. `None` for the registry itself, and where no engine runs.
    pub(crate) accepted: Option<AcceptedIn>,
}

/// The stored value of an idempotency key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyUse {
    pub(crate) offset: PartitionOffset,
    pub(crate) time: Timestamp,
    pub(crate) request: Digest,
}

impl KeyUse {
    pub(crate) fn encode(self) -> Bytes {
        let mut bytes = [0; 48];
        bytes[..8].copy_from_slice(&self.offset.get().to_be_bytes());
        bytes[8..16].copy_from_slice(&self.time.as_millis().to_be_bytes());
        bytes[16..].copy_from_slice(self.request.as_bytes());
        Bytes::copy_from_slice(&bytes)
    }

    pub(crate) fn decode(mut bytes: &[u8]) -> Result<Self, BadBytes> {
        if bytes.len() != 48 {
            return Err(BadBytes("length"));
        }
        let offset = PartitionOffset::new(bytes.get_u64()).ok_or(BadBytes("offset"))?;
        let time = Timestamp::from_millis(bytes.get_u64());
        let request = bytes.try_into().map(Digest::new).map_err(|_| BadBytes("digest"))?;
        Ok(Self { offset, time, request })
    }
}

/// The stored value of an event's place in the workspace's log.
pub(crate) fn encode_offset(offset: PartitionOffset) -> Bytes {
    Bytes::copy_from_slice(&offset.get().to_be_bytes())
}

pub(crate) fn decode_offset(bytes: &[u8]) -> Result<PartitionOffset, BadBytes> {
    let bytes = bytes.try_into().map_err(|_| BadBytes("length"))?;
    PartitionOffset::new(u64::from_be_bytes(bytes)).ok_or(BadBytes("offset"))
}

impl Derivation {
    /// Writes to the draft what is derived from an event of a partition. If a value has to be read from the store first, the
    /// draft names it, and the rest of the draft must not be used.
    pub(crate) fn apply(
        &self,
        partition: Partition,
        place: Place,
        event: &Event,
        pass: Pass,
        state: &mut DerivedState<'_>,
    ) -> Result<(), ApplyError> {
        let keys = WorkspaceKeys::new(partition, place.workspace);
        state.draft.new_event = Some(state.draft.writes.len());
        state.put(keys.event(place.workspace_offset), encode_offset(place.partition_offset));
        if let Some(idempotency) = &event.idempotency {
            let used =
                KeyUse { offset: place.partition_offset, time: place.time, request: idempotency.request };
            state.put(keys.idempotency(&idempotency.key), used.encode());
        }
        if let Argument::Document(rows) = &event.argument {
            for row in rows {
                self.create(keys, place, row, pass, state)?;
            }
        }
        for change in &event.changes {
            match change {
                Change::Create(row) => self.create(keys, place, row, pass, state)?,
                Change::Update(row) => {
                    let key = keys.record(self.document(row)?.kind, row.document, row.id);
                    update(key, place, row, state)?;
                }
            }
        }
        self.project(keys, place, event, state)
    }

    fn document(&self, row: &Row) -> Result<&DocumentSchema, ApplyError> {
        self.schema.document(row.document).ok_or(ApplyError::UnknownType(row.document.get()))
    }

    fn create(
        &self,
        keys: WorkspaceKeys,
        place: Place,
        row: &Row,
        pass: Pass,
        state: &mut DerivedState<'_>,
    ) -> Result<(), ApplyError> {
        let document = self.document(row)?;
        let registered = Registered { document: row.document, created: place.workspace_offset };
        state.put_new(keys.id(row.id), registered.encode());
        if document.kind == DocumentKind::O {
            return Ok(());
        }
        let key = keys.record(document.kind, row.document, row.id);
        if pass == Pass::Again && is_newer(&key, place.partition_offset, state) {
            return Ok(());
        }
        state.put_new(key, record::encode(place.partition_offset, row.parent, &row.fields));
        Ok(())
    }

    fn project(
        &self,
        keys: WorkspaceKeys,
        place: Place,
        event: &Event,
        state: &mut DerivedState<'_>,
    ) -> Result<(), ApplyError> {
        for projector in &self.projectors {
            let projected = Projected { place, event, schema: &self.schema };
            let mut rows = Rows::new(state.reborrow(), keys, projector.view(), place.partition_offset);
            // A panic of the application's code fails this event and does not stop the partition: everything that was written
            // is in the draft, which is dropped.
            let result = catch_unwind(AssertUnwindSafe(|| projector.project(&projected, &mut rows)));
            let bad = rows.into_bad();
            if let Some(key) = bad {
                return Err(ApplyError::Bad { key, problem: BadBytes("row") });
            }
            let reason = match result {
                Ok(Ok(())) => continue,
                Ok(Err(reason)) => reason,
                Err(panic) => format!("the projector panicked: {}", panic_text(&*panic)),
            };
            return Err(ApplyError::Projector { view: projector.view().to_owned(), reason });
        }
        Ok(())
    }
}

/// Whether the stored record contains this event, or a later one. False if it is not read yet, and if it cannot be read: the
/// record is then written from this event, and every later change of it is applied again after this one.
fn is_newer(key: &StoreKey, offset: PartitionOffset, state: &mut DerivedState<'_>) -> bool {
    match state.find(key) {
        Ok(Found::Before(Some(bytes))) => record::folded(&bytes).is_ok_and(|folded| folded >= offset),
        Ok(_) | Err(_) => false,
    }
}

fn update(key: StoreKey, place: Place, row: &Row, state: &mut DerivedState<'_>) -> Result<(), ApplyError> {
    let Ok(found) = state.find(&key) else {
        return Ok(());
    };
    let own = matches!(found, Found::Draft(_));
    let bytes = found.into_value().ok_or(ApplyError::NoRecord(row.id.get()))?;
    let mut record = Record::decode(row.document, row.id, &bytes)
        .map_err(|problem| ApplyError::Bad { key: key.clone(), problem })?;
    if own {
        // A second change by the same event: the first change has set the offset already.
        record.amend(&row.fields);
    } else {
        record.update(place.partition_offset, &row.fields);
    }
    state.put(key, record.encode());
    Ok(())
}
