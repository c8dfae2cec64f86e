//! The stored forms of a record and of an id.
//!
//! ```text
//! record: version 1, partition offset of the event folded last 8, parent id (0: none), fields as in an event
//! id:     version 1, type 2, workspace offset of the event that created it 8
//! ```

use bytes::{Buf, BufMut, Bytes};
use seriatim_types::{PartitionOffset, RecordId, WorkspaceOffset};

use crate::command::codec::{BadBytes, Reader, Write};
use crate::command::event::{Fields, put_fields, read_fields};
use crate::command::value::Value;
use crate::definition::{FieldId, TypeId};

const VERSION: u8 = 1;

/// A C or W document, or a child record of one.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Its type.
    pub document: TypeId,
    /// Its id.
    pub id: RecordId,
    /// The record that it is a child of.
    pub parent: Option<RecordId>,
    /// Its fields that have a value.
    pub fields: Fields,
    /// The offset of the last event that changed it. Applying that event again changes nothing.
    pub folded: PartitionOffset,
}

impl Record {
    /// The value of a field.
    #[must_use]
    pub fn field(&self, id: FieldId) -> Option<&Value> {
        self.fields.iter().find(|(field, _)| *field == id).map(|(_, value)| value)
    }

    /// Sets some fields, for the event at `offset`. Does nothing if the record contains this event already.
    pub(crate) fn update(&mut self, offset: PartitionOffset, fields: &Fields) {
        if offset <= self.folded {
            return;
        }
        self.amend(fields);
        self.folded = offset;
    }

    /// Sets more fields, for the event that changed the record last.
    pub(crate) fn amend(&mut self, fields: &Fields) {
        for (id, value) in fields {
            let present = self.fields.iter().position(|(field, _)| field == id);
            match (present, value) {
                (Some(place), Value::Null) => drop(self.fields.remove(place)),
                (None, Value::Null) => {}
                (Some(place), value) => self.fields[place].1 = value.clone(),
                (None, value) => self.fields.push((*id, value.clone())),
            }
        }
    }

    pub(crate) fn encode(&self) -> Bytes {
        encode(self.folded, self.parent, &self.fields)
    }

    pub(crate) fn decode(document: TypeId, id: RecordId, bytes: &[u8]) -> Result<Self, BadBytes> {
        let mut reader = Reader(bytes);
        if reader.u8("version")? != VERSION {
            return Err(BadBytes("version"));
        }
        let folded = PartitionOffset::new(reader.u64("offset")?).ok_or(BadBytes("offset"))?;
        let parent = Some(reader.varint("parent")?).filter(|id| *id > 0).map(RecordId::new);
        let fields = read_fields(&mut reader)?;
        reader.end()?;
        Ok(Self { document, id, parent, fields, folded })
    }
}

/// The stored form of a record.
pub(crate) fn encode(
    folded: PartitionOffset,
    parent: Option<RecordId>,
    fields: &[(FieldId, Value)],
) -> Bytes {
    let mut buffer = Vec::with_capacity(32 + fields.iter().map(|(_, value)| value.size_max()).sum::<usize>());
    buffer.put_u8(VERSION);
    buffer.put_u64(folded.get());
    buffer.put_varint(parent.map_or(0, RecordId::get));
    put_fields(&mut buffer, fields);
    // Copied to its exact size, because many records may wait to be flushed.
    Bytes::copy_from_slice(&buffer)
}

/// The offset of the last event that changed a stored record.
pub(crate) fn folded(bytes: &[u8]) -> Result<PartitionOffset, BadBytes> {
    let mut reader = Reader(bytes);
    reader.u8("version")?;
    PartitionOffset::new(reader.u64("offset")?).ok_or(BadBytes("offset"))
}

/// The entry of an id: the type of its record, and the event that created it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registered {
    /// The type.
    pub document: TypeId,
    /// The event, by its offset in the workspace's log.
    pub created: WorkspaceOffset,
}

impl Registered {
    pub(crate) fn encode(self) -> Bytes {
        let mut bytes = [0; 11];
        bytes[0] = VERSION;
        bytes[1..3].copy_from_slice(&self.document.get().to_be_bytes());
        bytes[3..].copy_from_slice(&self.created.get().to_be_bytes());
        Bytes::copy_from_slice(&bytes)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, BadBytes> {
        let [VERSION, rest @ ..] = bytes else { return Err(BadBytes("version")) };
        let mut rest: &[u8] = rest;
        if rest.len() != 10 {
            return Err(BadBytes("length"));
        }
        let document = TypeId::new(rest.get_u16());
        let created = WorkspaceOffset::new(rest.get_u64()).ok_or(BadBytes("workspace offset"))?;
        Ok(Self { document, created })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
            document: TypeId::new(1),
            id: RecordId::new(5),
            parent: Some(RecordId::new(4)),
            fields: vec![(FieldId::new(1), Value::Integer(7))],
            folded: PartitionOffset::FIRST,
        }
    }

    #[test]
    fn stored_forms_round_trip() {
        let bytes = record().encode();
        assert_eq!(&bytes[..], b"\x01\0\0\0\0\0\0\0\x01\x04\x01\x01\x02\x0e");
        assert_eq!(Record::decode(TypeId::new(1), RecordId::new(5), &bytes), Ok(record()));
        let registered = Registered { document: TypeId::new(258), created: WorkspaceOffset::FIRST };
        assert_eq!(Registered::decode(&registered.encode()), Ok(registered));
        for end in 0..bytes.len() {
            assert!(Record::decode(TypeId::new(1), RecordId::new(5), &bytes[..end]).is_err());
        }
        assert!(Registered::decode(&[1]).is_err());
    }

    #[test]
    fn an_event_that_was_applied_changes_nothing() {
        let mut record = record();
        let later = PartitionOffset::new(9).expect("not zero");
        record.update(PartitionOffset::FIRST, &vec![(FieldId::new(1), Value::Integer(8))]);
        assert_eq!(record.field(FieldId::new(1)), Some(&Value::Integer(7)));
        record
            .update(later, &vec![(FieldId::new(1), Value::Integer(9)), (FieldId::new(2), Value::Bool(true))]);
        assert_eq!(record.field(FieldId::new(1)), Some(&Value::Integer(9)));
        assert_eq!((record.fields.len(), record.folded), (2, later));
    }
}
