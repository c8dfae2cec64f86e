//! Commands as clients send them, and what they get back.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};
use seriatim_storage::{Digest, LogError};
use seriatim_types::{PartitionId, PartitionOffset, RecordId, WorkspaceOffset};

use crate::command::event::{Event, Place};
use crate::command::value::Value;
use crate::definition::Schema;
use crate::error::SubmitError;

/// The command that just makes its changes.
pub const CHANGE: &str = "sys.Change";

fn change() -> String {
    CHANGE.to_owned()
}

/// A command to be done in one workspace.
///
/// ```
/// use seriatim_engine::{Change, Request};
///
/// let request = Request::changes([Change::create("Invoice", 1).field("total", "99.50")])
///     .idempotency_key("order-7")
///     .expected_offset(4);
/// assert_eq!(request.command, "sys.Change");
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The command's name.
    #[serde(default = "change")]
    pub command: String,
    /// Its argument: a document tree or any JSON, as the definition says.
    #[serde(default)]
    pub args: Option<Json>,
    /// An argument that the command sees and the event does not keep.
    #[serde(default)]
    pub unlogged_args: Option<Json>,
    /// Records to be created and updated.
    #[serde(default)]
    pub changes: Vec<Change>,
    /// The same key again gives the same answer again, and does nothing.
    #[serde(skip)]
    pub idempotency_key: Option<String>,
    /// The workspace offset that the command expects to follow; 0: the workspace has no event.
    #[serde(skip)]
    pub expected_offset: Option<u64>,
}

/// A record to be created or updated.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// The document to be created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub create: Option<String>,
    /// The record to be updated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update: Option<u64>,
    /// The raw id of what is created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
    /// What it is a child of: a raw id of this command, or a record's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<u64>,
    /// Values.
    #[serde(default)]
    pub fields: Map<String, Json>,
}

impl Change {
    /// Creates a document, known by a raw id inside the command.
    #[must_use]
    pub fn create(document: &str, raw_id: u16) -> Self {
        Self { create: Some(document.to_owned()), id: Some(u64::from(raw_id)), ..Self::default() }
    }

    /// Updates a record.
    #[must_use]
    pub fn update(id: RecordId) -> Self {
        Self { update: Some(id.get()), ..Self::default() }
    }

    /// Makes it a child of another record: by a raw id of this command, or a real one.
    #[must_use]
    pub fn parent(mut self, id: u64) -> Self {
        self.parent = Some(id);
        self
    }

    /// Sets a field.
    #[must_use]
    pub fn field(mut self, name: &str, value: impl Into<Json>) -> Self {
        self.fields.insert(name.to_owned(), value.into());
        self
    }
}

impl Request {
    /// A named command.
    #[must_use]
    pub fn new(command: &str) -> Self {
        Self {
            command: command.to_owned(),
            args: None,
            unlogged_args: None,
            changes: Vec::new(),
            idempotency_key: None,
            expected_offset: None,
        }
    }

    /// Just these changes.
    #[must_use]
    pub fn changes(changes: impl IntoIterator<Item = Change>) -> Self {
        Self { changes: changes.into_iter().collect(), ..Self::new(CHANGE) }
    }

    /// With an argument.
    #[must_use]
    pub fn args(mut self, args: Json) -> Self {
        self.args = Some(args);
        self
    }

    /// A command of a built-in application, with its argument by field.
    pub(crate) fn typed(command: &str, args: &impl Serialize) -> Self {
        // Such an argument has text keys and no values that JSON cannot say, so this does not fail.
        Self::new(command).args(serde_json::to_value(args).unwrap_or_default())
    }

    /// With an idempotency key.
    #[must_use]
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// Only if the workspace stands there.
    #[must_use]
    pub fn expected_offset(mut self, offset: u64) -> Self {
        self.expected_offset = Some(offset);
        self
    }

    /// What tells this request from another: everything but what is not kept.
    pub(crate) fn digest(&self) -> Digest {
        let changes: Vec<_> = self.changes.iter().map(DigestedChange::from).collect();
        let text = serde_json::to_vec(&(&self.command, &self.args, changes));
        Digest::of(&text.expect("keys of JSON objects are strings"))
    }
}

/// A change as it is digested: in the order of the names. The order may not change, because digests are stored.
#[derive(Serialize)]
struct DigestedChange<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    create: Option<&'a str>,
    fields: &'a Map<String, Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    update: Option<u64>,
}

impl<'a> From<&'a Change> for DigestedChange<'a> {
    fn from(change: &'a Change) -> Self {
        let Change { create, update, id, parent, fields } = change;
        Self { create: create.as_deref(), fields, id: *id, parent: *parent, update: *update }
    }
}

/// Names of fields, and the numbers that were drawn for them.
pub type DrawnFields = Vec<(Box<str>, i64)>;

/// What a command has done.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The partition.
    pub partition: PartitionId,
    /// The event's place in the partition log.
    pub partition_offset: PartitionOffset,
    /// Its place in the workspace's log.
    pub workspace_offset: WorkspaceOffset,
    /// The real id of each raw id.
    pub ids: Vec<(u16, RecordId)>,
    /// Per raw id, the fields that were drawn from a sequence.
    pub numbers: Vec<(u16, DrawnFields)>,
    /// What the command's code answered.
    pub result: Option<Json>,
    /// Whether the command was done before, under the same idempotency key.
    pub repeated: bool,
}

impl Answer {
    /// The fields of what the command's code answered. If one is missing, the event is not what its command writes.
    pub(crate) fn result_as<T: DeserializeOwned>(self) -> Result<T, SubmitError> {
        let Self { partition, partition_offset, result, .. } = self;
        serde_json::from_value(result.unwrap_or_default()).map_err(|error| {
            let text = format!("the result of event {partition_offset} of partition {partition}: {error}");
            SubmitError::Log(LogError::Corrupt(text))
        })
    }

    /// The answer that an event gives, the first time and every time; `result` is what its command's code answered.
    pub(crate) fn of(
        schema: &Schema,
        partition: PartitionId,
        place: Place,
        event: &Event,
        result: Option<Json>,
    ) -> Self {
        let mut ids = Vec::new();
        let mut numbers = Vec::new();
        for row in event.created() {
            let Some(raw) = row.raw else { continue };
            ids.push((raw, row.id));
            let Some(document) = schema.document(row.document) else { continue };
            let drawn: DrawnFields = document
                .fields
                .iter()
                .filter(|field| field.draw.is_some())
                .filter_map(|field| {
                    let (_, value) = row.fields.iter().find(|(id, _)| *id == field.id)?;
                    let Value::Integer(number) = value else { return None };
                    Some((field.name.clone(), *number))
                })
                .collect();
            if !drawn.is_empty() {
                numbers.push((raw, drawn));
            }
        }
        Self {
            partition,
            partition_offset: place.partition_offset,
            workspace_offset: place.workspace_offset,
            ids,
            numbers,
            result,
            repeated: false,
        }
    }

    /// The real id of a raw id.
    #[must_use]
    pub fn id(&self, raw: u16) -> Option<RecordId> {
        self.ids.iter().find(|(found, _)| *found == raw).map(|(_, id)| *id)
    }

    /// The number that a field of a new record was given.
    #[must_use]
    pub fn number(&self, raw: u16, field: &str) -> Option<i64> {
        let (_, fields) = self.numbers.iter().find(|(found, _)| *found == raw)?;
        fields.iter().find(|(name, _)| &**name == field).map(|(_, number)| *number)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_digest_of_a_request_stays_what_it_is() {
        let create = Change::create("Invoice", 1).parent(7).field("total", "99.50").field("count", 3);
        let update =
            Change::update(RecordId::new(200_000)).field("extra", json!({"b": [1.5, null], "a": "ä\""}));
        let args = json!({"z": 1, "a": [true]});
        for request in [
            Request::new("Ping"),
            Request::new("Note").args(args).idempotency_key("k"),
            Request::changes([create, update, Change::default()]),
        ] {
            let text = json!([request.command, request.args, request.changes]).to_string();
            assert_eq!(request.digest(), Digest::of(text.as_bytes()), "{text}");
        }
    }
}
