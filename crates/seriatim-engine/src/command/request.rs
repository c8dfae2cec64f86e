//! Requests of clients, and their answers.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};
use seriatim_storage::{Digest, LogError};
use seriatim_types::{PartitionId, PartitionOffset, RecordId, WorkspaceOffset};

use crate::command::event::{Event, Place};
use crate::command::value::Value;
use crate::definition::Schema;
use crate::error::SubmitError;

/// The command that makes the changes of its request and runs no code.
pub const CHANGE: &str = "sys.Change";

fn change() -> String {
    CHANGE.to_owned()
}

/// A request to run a command in one workspace.
///
/// The command is done completely, as one event, or not at all. With an idempotency key a request can be repeated safely: it
/// is done at most once, and the repeated request has the same answer.
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
    /// Its argument: nothing, a document tree or any JSON, as the definition requires.
    #[serde(default)]
    pub args: Option<Json>,
    /// An argument that the command reads and the event does not keep.
    #[serde(default)]
    pub unlogged_args: Option<Json>,
    /// Records to create and to update.
    #[serde(default)]
    pub changes: Vec<Change>,
    /// A second request with the same key does nothing and has the same answer. If its contents differ, it is refused.
    #[serde(skip)]
    pub idempotency_key: Option<String>,
    /// The offset that the last event of the workspace must have; 0: the workspace must have no event. If it differs, the
    /// request is refused.
    #[serde(skip)]
    pub expected_offset: Option<u64>,
}

/// A record to create or to update. Exactly one of `create` and `update` is set.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// The document to create.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub create: Option<String>,
    /// The id of the record to update.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update: Option<u64>,
    /// The raw id of the new record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
    /// The parent of the new record: a raw id of this command, or a real id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<u64>,
    /// Values of fields. In an update, `null` removes a value.
    #[serde(default)]
    pub fields: Map<String, Json>,
}

impl Change {
    /// Creates a record. The raw id names it within the command; [`Answer::id`] has the real id.
    #[must_use]
    pub fn create(document: &str, raw_id: u16) -> Self {
        Self { create: Some(document.to_owned()), id: Some(u64::from(raw_id)), ..Self::default() }
    }

    /// Updates a record. Fields that are not set keep their values.
    #[must_use]
    pub fn update(id: RecordId) -> Self {
        Self { update: Some(id.get()), ..Self::default() }
    }

    /// Makes it a child of another record, by a raw id of this command or by a real id.
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

    /// The command [`CHANGE`] with these changes.
    #[must_use]
    pub fn changes(changes: impl IntoIterator<Item = Change>) -> Self {
        Self { changes: changes.into_iter().collect(), ..Self::new(CHANGE) }
    }

    /// The same request with an argument.
    #[must_use]
    pub fn args(mut self, args: Json) -> Self {
        self.args = Some(args);
        self
    }

    /// A command of a built-in application, with a typed argument.
    pub(crate) fn typed(command: &str, args: &impl Serialize) -> Self {
        // Such an argument has text keys and only values that JSON has, so this does not fail.
        Self::new(command).args(serde_json::to_value(args).unwrap_or_default())
    }

    /// The same request with an idempotency key.
    #[must_use]
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// The same request, which is refused unless the last event of the workspace has this offset.
    #[must_use]
    pub fn expected_offset(mut self, offset: u64) -> Self {
        self.expected_offset = Some(offset);
        self
    }

    /// Identifies the contents of the request: everything but the unlogged argument, the key and the expected offset.
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

/// The answer to a request: what its command has done. The event is durable.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The partition.
    pub partition: PartitionId,
    /// The event's offset in the partition log.
    pub partition_offset: PartitionOffset,
    /// The event's offset in the workspace's log.
    pub workspace_offset: WorkspaceOffset,
    /// The real id of each raw id.
    pub ids: Vec<(u16, RecordId)>,
    /// Per raw id, the fields whose values were drawn from a sequence.
    pub numbers: Vec<(u16, DrawnFields)>,
    /// What the command's code returned.
    pub result: Option<Json>,
    /// Whether the command was done earlier, by a request with the same idempotency key. This request did nothing.
    pub repeated: bool,
}

impl Answer {
    /// The result as a typed value. An error means that the log is damaged: the command does not write such a result.
    pub(crate) fn result_as<T: DeserializeOwned>(self) -> Result<T, SubmitError> {
        let Self { partition, partition_offset, result, .. } = self;
        serde_json::from_value(result.unwrap_or_default()).map_err(|error| {
            let text = format!("the result of event {partition_offset} of partition {partition}: {error}");
            SubmitError::Log(LogError::Corrupt(text))
        })
    }

    /// The answer to the request of an event, the first time and each time it is repeated. `result` is what the command's code
    /// returned.
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

    /// The number that was drawn for a field of a new record.
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
    fn the_digest_of_a_request_does_not_change() {
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
