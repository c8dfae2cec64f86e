//! Whether a server lives, and whether it can number.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The server lives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Live {
    /// `alive`.
    pub status: String,
}

/// Whether it can number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum Ready {
    /// Every partition can.
    #[serde(rename = "ready")]
    Ready,
    /// Some cannot.
    #[serde(rename = "not ready")]
    NotReady,
}

/// What keeps a partition, or the whole server, from numbering.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Trouble {
    /// It makes derived data agree with the log: wait.
    Recovering,
    /// It has stopped: the reason says why.
    Stopped,
    /// A restored copy that nobody has unfenced.
    Fenced,
    /// Work waits, and nothing has moved for longer than it should take. A partition without work is quiet, not stuck.
    Stuck,
    /// The store does not take what is derived from the log: the reason says why. Nothing is lost, and it is tried again.
    StoreFailed,
    /// Code of workflows does not return, and holds all threads that it may have: runs wait. Nothing else is held up.
    WorkflowThreads,
    /// Less is free on the disk than has to stay free.
    DiskNearlyFull,
}

/// A partition that cannot number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NotReady {
    /// The application.
    pub app: String,
    /// The partition.
    pub partition: u16,
    /// What keeps it.
    pub trouble: Trouble,
    /// The same, for people.
    pub reason: String,
}

/// Whether the server can number, and what keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Readiness {
    /// Whether it can.
    pub status: Ready,
    /// What is wrong with the server as a whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub troubles: Vec<Trouble>,
    /// Partitions that cannot number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partitions: Vec<NotReady>,
}
