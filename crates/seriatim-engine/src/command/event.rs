//! Events: what a command has done, as the log keeps it permanently.
//!
//! ```text
//! size  field of an entry's body
//!    1  version, 1
//!    1  flags: 1 idempotency key, 2 document argument, 4 JSON argument, 8 result, 16 unlogged argument
//!  1+n  command, text
//!       idempotency key, if any: text, digest of the request 32
//!       document argument, if any: rows, depth first
//!       JSON argument, if any: text
//!       changes: count, then for each a byte (1 create, 2 update) and a row
//!       result, if any: JSON text
//!
//!       row: type, id, raw id (0: none), parent id (0: none), count of fields, then for each its id and value
//! ```
//!
//! Integers are variable-length (`codec.rs`) unless a size is given. Types and fields are the numeric ids that the registry
//! has fixed for them.

use bytes::BufMut;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use seriatim_storage::{Digest, Entry};
use seriatim_types::{PartitionOffset, RecordId, Timestamp, WorkspaceId, WorkspaceKind, WorkspaceOffset};

use crate::command::codec::{BadBytes, Reader, Write};
use crate::command::value::Value;
use crate::definition::{FieldId, TypeId};

const VERSION: u8 = 1;
const HAS_KEY: u8 = 1;
const HAS_DOCUMENT: u8 = 2;
const HAS_JSON: u8 = 4;
const HAS_RESULT: u8 = 8;
const HAS_UNLOGGED: u8 = 16;
const CREATE: u8 = 1;
const UPDATE: u8 = 2;

/// Fields and their values, in the order in which they were given.
pub type Fields = Vec<(FieldId, Value)>;

/// A document or child record that an event creates, or the changed fields of one.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Its type.
    pub document: TypeId,
    /// Its id.
    pub id: RecordId,
    /// The id that the client used for it inside the command; `None` for singletons and updates.
    pub raw: Option<u16>,
    /// The record that it is a child of.
    pub parent: Option<RecordId>,
    /// Its fields.
    pub fields: Fields,
}

/// The argument of a command.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Argument {
    /// Nothing.
    #[default]
    None,
    /// A document tree, depth first: the document, then its children, each with its parent's id.
    Document(Vec<Row>),
    /// JSON, as text.
    Json(Box<str>),
}

/// A record created or updated.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// A new record.
    Create(Row),
    /// New values for some fields of a record.
    Update(Row),
}

impl Change {
    /// The record's id, type and fields.
    #[must_use]
    pub fn row(&self) -> &Row {
        match self {
            Self::Create(row) | Self::Update(row) => row,
        }
    }

    fn row_mut(&mut self) -> &mut Row {
        match self {
            Self::Create(row) | Self::Update(row) => row,
        }
    }
}

/// Identifies a request, so that its command is done once even if the request is repeated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idempotency {
    /// Chosen by the client.
    pub key: Box<str>,
    /// SHA-256 of the request without unlogged arguments.
    pub request: Digest,
}

/// What a command has done.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Event {
    /// The command.
    pub command: Box<str>,
    /// Its argument.
    pub argument: Argument,
    /// Whether it also had an unlogged argument, which is not kept.
    pub unlogged: bool,
    /// Records created and updated.
    pub changes: Vec<Change>,
    /// Its result, as JSON text.
    pub result: Option<Box<str>>,
    /// The idempotency key of its request.
    pub idempotency: Option<Idempotency>,
}

/// The place and the time of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Its offset in the partition log.
    pub partition_offset: PartitionOffset,
    /// Its workspace.
    pub workspace: WorkspaceId,
    /// The kind of its workspace.
    pub kind: WorkspaceKind,
    /// Its offset in the workspace's log.
    pub workspace_offset: WorkspaceOffset,
    /// When it was staged.
    pub time: Timestamp,
}

impl Place {
    pub(crate) fn of(offset: PartitionOffset, entry: &Entry<'_>) -> Self {
        Self {
            partition_offset: offset,
            workspace: entry.workspace(),
            kind: entry.kind(),
            workspace_offset: entry.workspace_offset(),
            time: entry.time(),
        }
    }
}

fn put_row(buffer: &mut Vec<u8>, row: &Row) {
    buffer.put_varint(u64::from(row.document.get()));
    buffer.put_varint(row.id.get());
    buffer.put_varint(row.raw.map_or(0, u64::from));
    buffer.put_varint(row.parent.map_or(0, RecordId::get));
    put_fields(buffer, &row.fields);
}

pub(crate) fn put_fields(buffer: &mut Vec<u8>, fields: &[(FieldId, Value)]) {
    buffer.put_varint(fields.len() as u64);
    for (id, value) in fields {
        buffer.put_varint(u64::from(id.get()));
        value.encode(buffer);
    }
}

fn read_row(reader: &mut Reader<'_>) -> Result<Row, BadBytes> {
    let document = TypeId::new(reader.small("type")?);
    let id = RecordId::new(reader.varint("id")?);
    let raw = Some(reader.small("raw id")?).filter(|raw| *raw > 0);
    let parent = Some(reader.varint("parent")?).filter(|id| *id > 0).map(RecordId::new);
    Ok(Row { document, id, raw, parent, fields: read_fields(reader)? })
}

pub(crate) fn read_fields(reader: &mut Reader<'_>) -> Result<Fields, BadBytes> {
    let count = reader.count("number of fields")?;
    let mut fields = Vec::with_capacity(count);
    for _ in 0..count {
        let id = FieldId::new(reader.small("field")?);
        fields.push((id, Value::decode(reader)?));
    }
    Ok(fields)
}

impl Event {
    /// Writes the body to the end of `buffer`.
    pub(crate) fn encode(&self, buffer: &mut Vec<u8>) {
        let (document, json) = match &self.argument {
            Argument::None => (None, None),
            Argument::Document(rows) => (Some(rows), None),
            Argument::Json(text) => (None, Some(text)),
        };
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        buffer.put_u8(VERSION);
        buffer.put_u8(
            flag(self.idempotency.is_some(), HAS_KEY)
                | flag(document.is_some(), HAS_DOCUMENT)
                | flag(json.is_some(), HAS_JSON)
                | flag(self.result.is_some(), HAS_RESULT)
                | flag(self.unlogged, HAS_UNLOGGED),
        );
        buffer.put_text(&self.command);
        if let Some(idempotency) = &self.idempotency {
            buffer.put_text(&idempotency.key);
            buffer.put_slice(idempotency.request.as_bytes());
        }
        if let Some(rows) = document {
            buffer.put_varint(rows.len() as u64);
            rows.iter().for_each(|row| put_row(buffer, row));
        }
        if let Some(text) = json {
            buffer.put_text(text);
        }
        buffer.put_varint(self.changes.len() as u64);
        for change in &self.changes {
            buffer.put_u8(match change {
                Change::Create(_) => CREATE,
                Change::Update(_) => UPDATE,
            });
            put_row(buffer, change.row());
        }
        if let Some(text) = &self.result {
            buffer.put_text(text);
        }
    }

    /// Reads the body of an entry.
    ///
    /// # Errors
    ///
    /// [`BadBytes`] if it was not written by an engine, or was written by a newer one.
    pub fn decode(body: &[u8]) -> Result<Self, BadBytes> {
        let mut reader = Reader(body);
        if reader.u8("version")? != VERSION {
            return Err(BadBytes("version"));
        }
        let flags = reader.u8("flags")?;
        let has = |flag: u8| flags & flag != 0;
        let command = reader.text("command")?.into();
        let mut idempotency = None;
        if has(HAS_KEY) {
            let key = reader.text("idempotency key")?.into();
            let digest = reader.bytes(32, "digest")?.try_into().map_err(|_| BadBytes("digest"))?;
            idempotency = Some(Idempotency { key, request: Digest::new(digest) });
        }
        let mut argument = Argument::None;
        if has(HAS_DOCUMENT) {
            let count = reader.count("number of rows")?;
            let rows: Result<_, _> = (0..count).map(|_| read_row(&mut reader)).collect();
            argument = Argument::Document(rows?);
        }
        if has(HAS_JSON) {
            argument = Argument::Json(reader.text("argument")?.into());
        }
        let count = reader.count("number of changes")?;
        let mut changes = Vec::with_capacity(count);
        for _ in 0..count {
            changes.push(match reader.u8("change")? {
                CREATE => Change::Create(read_row(&mut reader)?),
                UPDATE => Change::Update(read_row(&mut reader)?),
                _ => return Err(BadBytes("change")),
            });
        }
        let result = if has(HAS_RESULT) { Some(reader.text("result")?.into()) } else { None };
        reader.end()?;
        Ok(Self { command, argument, unlogged: has(HAS_UNLOGGED), changes, result, idempotency })
    }

    /// The argument, if it is JSON.
    #[must_use]
    pub fn json_argument(&self) -> Option<Json> {
        match &self.argument {
            // Written by this program, so it parses.
            Argument::Json(text) => serde_json::from_str(text).ok(),
            Argument::None | Argument::Document(_) => None,
        }
    }

    /// The result.
    #[must_use]
    pub fn json_result(&self) -> Option<Json> {
        self.result.as_deref().and_then(|text| serde_json::from_str(text).ok())
    }

    /// The result, or an error if it cannot be read.
    pub(crate) fn read_result(&self) -> Result<Option<Json>, BadBytes> {
        let result = self.result.as_deref().map(serde_json::from_str).transpose();
        result.map_err(|_| BadBytes("result"))
    }

    /// The argument as a typed value. A field that is missing or has another type is an error.
    pub(crate) fn argument_as<T: DeserializeOwned>(&self) -> Result<T, String> {
        let Argument::Json(text) = &self.argument else {
            return Err("its argument is not JSON".to_owned());
        };
        serde_json::from_str(text).map_err(|error| format!("its argument: {error}"))
    }

    /// The result as a typed value. A field that is missing or has another type is an error.
    pub(crate) fn result_as<T: DeserializeOwned>(&self) -> Result<T, String> {
        let text = self.result.as_deref().ok_or("it has no result")?;
        serde_json::from_str(text).map_err(|error| format!("its result: {error}"))
    }

    /// All its rows: those of the argument, then those of the changes.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.argument_rows().iter().chain(self.changes.iter().map(Change::row))
    }

    /// One of its rows, in the order of [`Event::rows`].
    pub(crate) fn row_mut(&mut self, place: usize) -> Option<&mut Row> {
        let in_argument = self.argument_rows().len();
        match &mut self.argument {
            Argument::Document(rows) if place < in_argument => rows.get_mut(place),
            _ => self.changes.get_mut(place - in_argument).map(Change::row_mut),
        }
    }

    /// The rows that it creates, in the order of [`Event::created`].
    pub(crate) fn created_mut(&mut self) -> impl Iterator<Item = &mut Row> {
        let argument = match &mut self.argument {
            Argument::Document(rows) => &mut rows[..],
            Argument::None | Argument::Json(_) => &mut [],
        };
        let changes = self.changes.iter_mut().filter_map(|change| match change {
            Change::Create(row) => Some(row),
            Change::Update(_) => None,
        });
        argument.iter_mut().chain(changes)
    }

    fn argument_rows(&self) -> &[Row] {
        match &self.argument {
            Argument::Document(rows) => rows,
            Argument::None | Argument::Json(_) => &[],
        }
    }

    /// The rows that it creates: those of the argument, then those of the changes.
    pub fn created(&self) -> impl Iterator<Item = &Row> {
        let changes = self.changes.iter().filter_map(|change| match change {
            Change::Create(row) => Some(row),
            Change::Update(_) => None,
        });
        self.argument_rows().iter().chain(changes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn row(id: u64, raw: Option<u16>, parent: Option<u64>) -> Row {
        let fields =
            vec![(FieldId::new(1), Value::Text("tea".into())), (FieldId::new(300), Value::Bool(true))];
        let parent = parent.map(RecordId::new);
        Row { document: TypeId::new(7), id: RecordId::new(id), raw, parent, fields }
    }

    fn full() -> Event {
        Event {
            command: "PlaceOrder".into(),
            argument: Argument::Document(vec![row(10, Some(1), None), row(11, Some(2), Some(10))]),
            unlogged: true,
            changes: vec![Change::Create(row(12, Some(3), None)), Change::Update(row(9, None, None))],
            result: Some("{\"ok\":true}".into()),
            idempotency: Some(Idempotency { key: "k".into(), request: Digest::of(b"request") }),
        }
    }

    #[test]
    fn events_round_trip() {
        let json = Event { argument: Argument::Json("[1]".into()), ..Event::default() };
        for event in [Event::default(), full(), json] {
            let mut bytes = Vec::new();
            event.encode(&mut bytes);
            assert_eq!(Event::decode(&bytes), Ok(event));
        }
    }

    #[test]
    fn the_bytes_of_an_event_do_not_change() {
        let event = Event {
            command: "sys.Change".into(),
            changes: vec![Change::Create(row(300, Some(1), None))],
            ..Event::default()
        };
        let mut bytes = Vec::new();
        event.encode(&mut bytes);
        let expected = b"\x01\x00\x0asys.Change\x01\x01\x07\xac\x02\x01\x00\x02\x01\x01\x03tea\xac\x02\x05";
        assert_eq!(bytes, expected);
    }

    #[test]
    fn a_body_that_ends_early_is_refused_wherever_it_ends() {
        let mut bytes = Vec::new();
        full().encode(&mut bytes);
        for end in 0..bytes.len() {
            assert!(Event::decode(&bytes[..end]).is_err(), "{end}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes: Vec<u8>) {
            let _ = Event::decode(&bytes);
        }
    }
}
