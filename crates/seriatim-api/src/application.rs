//! Applications and their partitions.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What an application defines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Application {
    /// Its name.
    #[schema(example = "shop")]
    pub name: String,
    /// How many partitions it has. The number never changes.
    pub partitions: u16,
    /// Kinds of workspaces.
    pub kinds: Vec<String>,
    /// Documents and child records.
    pub documents: Vec<Document>,
    /// Commands.
    pub commands: Vec<String>,
}

/// A document of an application.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Document {
    /// Its name.
    pub name: String,
    /// `C`, `O` or `W`.
    #[schema(pattern = "^[COW]$")]
    pub kind: String,
    /// Whether a workspace has at most one.
    pub singleton: bool,
    /// The document that it is a child record of.
    pub parent: Option<String>,
    /// Its fields.
    pub fields: Vec<Field>,
}

/// A field of a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// `text`, `integer`, `decimal`, `bool`, `timestamp`, `reference` or `json`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it is required.
    pub required: bool,
    /// The sequence that its value is drawn from.
    pub draw: Option<String>,
}

/// What a partition is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PartitionStatus {
    /// It makes derived data agree with the log.
    Recovering,
    /// It accepts commands.
    Ready,
    /// It accepts no commands; `reason` says why.
    Stopped,
    /// It belongs to a restored copy that is not unfenced: it can be read, and it gives out no numbers.
    Fenced,
    /// Another server owns it, and this one follows its log.
    Standby,
    /// Another server owns it, and this one does not follow it.
    Elsewhere,
}

/// The progress of a recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Recovery {
    /// The offset at which it began.
    pub from: u64,
    /// The offset of the event that it applies next.
    pub at: u64,
    /// Where the log ends.
    pub tail: u64,
}

/// A partition, with its application.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NamedPartition {
    /// The application: a built-in one, such as the registry `sys`, or one that is served.
    pub app: String,
    /// Its state.
    #[serde(flatten)]
    pub state: PartitionState,
}

/// The state of a partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PartitionState {
    /// The partition.
    pub partition: u16,
    /// What it is doing.
    pub status: PartitionStatus,
    /// The offset of the next event, as far as it is known.
    pub next_offset: u64,
    /// Everything derived from events before this offset is in the store.
    pub checkpoint: u64,
    /// Values that wait to be flushed.
    pub unflushed: u64,
    /// The server that owns it.
    pub owner: String,
    /// The progress of its recovery, while it recovers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Recovery>,
    /// Why it stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
