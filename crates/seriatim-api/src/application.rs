//! Applications and their partitions.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What an application defines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Application {
    /// Its name.
    #[schema(example = "shop")]
    pub name: String,
    /// How many partitions it has, for ever.
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
    /// What it is a child record of.
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
    /// Whether it has to be there.
    pub required: bool,
    /// The sequence that it is drawn from.
    pub draw: Option<String>,
}

/// What a partition is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PartitionStatus {
    /// It makes derived data agree with the log.
    Recovering,
    /// It takes commands.
    Ready,
    /// It takes none; the reason says why.
    Stopped,
    /// It belongs to a restored copy that nobody has unfenced: it reads, and numbers nothing.
    Fenced,
}

/// How far a recovery is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Recovery {
    /// Where it began.
    pub from: u64,
    /// Which event comes next.
    pub at: u64,
    /// Where the log ends.
    pub tail: u64,
}

/// A partition, with its application.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NamedPartition {
    /// The application: a built-in one, the registry `sys` among them, or one that is served.
    pub app: String,
    /// What it is doing.
    #[serde(flatten)]
    pub state: PartitionState,
}

/// A look at a partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PartitionState {
    /// Which one.
    pub partition: u16,
    /// What it is doing.
    pub status: PartitionStatus,
    /// Where the next event goes, as far as it is known.
    pub next_offset: u64,
    /// Everything before this offset is in the store.
    pub checkpoint: u64,
    /// Values that wait to be flushed.
    pub unflushed: u64,
    /// Who owns it.
    pub owner: String,
    /// How far it is, while it recovers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Recovery>,
    /// Why it has stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
