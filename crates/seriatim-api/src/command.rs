//! Commands and their answers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

fn default_command() -> String {
    CommandRequest::CHANGE.to_owned()
}

/// A command to be done in one workspace. Its idempotency key and the offset that it expects are headers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"changes": [
    {"create": "Invoice", "id": 1, "fields": {"total": "99.50"}},
    {"create": "InvoiceLine", "id": 2, "parent": 1, "fields": {"text": "tea", "amount": "99.50"}},
]}))]
pub struct CommandRequest {
    /// The command's name.
    #[serde(default = "default_command")]
    pub command: String,
    /// Its argument: a document tree or any JSON, as the definition says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Value>,
    /// An argument that the command reads and the event does not keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unlogged_args: Option<Value>,
    /// Records to be created and updated.
    #[serde(default)]
    pub changes: Vec<Change>,
}

impl CommandRequest {
    /// The command that only makes its changes.
    pub const CHANGE: &'static str = "sys.Change";
}

impl Default for CommandRequest {
    /// [`CommandRequest::CHANGE`] without changes.
    fn default() -> Self {
        Self { command: default_command(), args: None, unlogged_args: None, changes: Vec::new() }
    }
}

/// A record to be created or updated. Exactly one of `create` and `update` is given.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// The document to be created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub create: Option<String>,
    /// The record to be updated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update: Option<u64>,
    /// The raw id of the created record: 1 to 65535, chosen by the caller, unique in this command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
    /// The record that it is a child of: a raw id of this command, or a record's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<u64>,
    /// Values by name.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, Value>)]
    pub fields: Map<String, Value>,
}

/// What a command did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({
    "partition": 0, "partition_offset": 17, "workspace_offset": 5,
    "ids": {"1": 322_680_000_131_073_u64, "2": 322_680_000_131_074_u64},
    "numbers": {"1": {"number": 17}}, "result": null, "repeated": false,
}))]
pub struct Answer {
    /// The partition.
    pub partition: u16,
    /// The event's place in the partition log.
    pub partition_offset: u64,
    /// The event's place in the workspace's log.
    pub workspace_offset: u64,
    /// The real id of each raw id.
    #[schema(value_type = BTreeMap<String, u64>)]
    pub ids: BTreeMap<u16, u64>,
    /// Per raw id, the fields that were drawn from a sequence.
    #[schema(value_type = BTreeMap<String, BTreeMap<String, i64>>)]
    pub numbers: BTreeMap<u16, BTreeMap<String, i64>>,
    /// What the command's code returned.
    pub result: Option<Value>,
    /// Whether the command was done earlier, under the same idempotency key.
    pub repeated: bool,
}
