//! Events of the logs.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// An event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// The partition.
    pub partition: u16,
    /// Its place in the partition log.
    pub partition_offset: u64,
    /// The workspace.
    pub workspace: u64,
    /// Its place in the workspace's log.
    pub workspace_offset: u64,
    /// When it happened.
    #[schema(example = "2026-11-15T18:00:00.000Z")]
    pub at: String,
    /// The command that it came from.
    pub command: String,
    /// The command's argument, with real ids.
    pub args: Value,
    /// What the command created and updated, with real ids.
    pub changes: Vec<EventChange>,
    /// `***` if the command had an argument that is not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unlogged_args: Option<String>,
    /// What the command's code returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// The command's idempotency key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

/// A record that an event created or updated.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EventChange {
    /// The document that was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub create: Option<String>,
    /// The record that was updated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update: Option<u64>,
    /// The id of the created record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
    /// The record that it is a child of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<u64>,
    /// Values by name.
    #[schema(value_type = BTreeMap<String, Value>)]
    pub fields: Map<String, Value>,
}

/// A page of a log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Events {
    /// In the order of the log.
    pub events: Vec<Event>,
    /// The offset of the next event: the `from` of the next page.
    pub next: u64,
}
