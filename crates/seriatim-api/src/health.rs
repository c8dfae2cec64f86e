//! Whether a server is alive, and whether it can give out numbers.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The server is alive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Live {
    /// `alive`.
    pub status: String,
}

/// Whether the server can give out numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum Ready {
    /// Every partition can.
    #[serde(rename = "ready")]
    Ready,
    /// Some cannot.
    #[serde(rename = "not ready")]
    NotReady,
}

/// What prevents a partition, or the whole server, from giving out numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Trouble {
    /// It makes derived data agree with the log: wait.
    Recovering,
    /// It has stopped; `reason` says why.
    Stopped,
    /// It is a restored copy that is not unfenced.
    Fenced,
    /// Work waits, and there was no progress for longer than it should take. A partition without work is idle, not stuck.
    Stuck,
    /// Derived data could not be written to the store; `reason` says why. Nothing is lost, and the write is repeated.
    StoreFailed,
    /// Workflow code does not return and occupies all its threads, so other runs wait. Nothing else is delayed.
    WorkflowThreads,
    /// The free space on the disk is below the limit.
    DiskNearlyFull,
}

/// A partition that cannot give out numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NotReady {
    /// The application.
    pub app: String,
    /// The partition.
    pub partition: u16,
    /// What prevents it.
    pub trouble: Trouble,
    /// The same as a sentence.
    pub reason: String,
}

/// Whether the server can give out numbers, and what prevents it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Readiness {
    /// Whether it can.
    pub status: Ready,
    /// What is wrong with the server as a whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub troubles: Vec<Trouble>,
    /// Partitions that cannot give out numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partitions: Vec<NotReady>,
}
