//! Workspaces and their sequences.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Creates a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"kind": "store", "name": "corner"}))]
pub struct CreateWorkspace {
    /// A kind that the application defines.
    pub kind: String,
    /// A name, unique in the application. Creating a workspace with the same name again gives the same id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 200)]
    pub name: Option<String>,
}

/// A workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Workspace {
    /// Its id.
    #[schema(example = 140_737_488_486_400_u64)]
    pub id: u64,
    /// Its kind.
    #[schema(example = "store")]
    pub kind: String,
    /// Its name, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// A page of workspaces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Workspaces {
    /// Ascending by id.
    pub workspaces: Vec<Workspace>,
    /// The `after` of the next page; none on the last page.
    pub next: Option<u64>,
}

/// A sequence of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Sequence {
    /// Its name.
    #[schema(example = "InvoiceNumber")]
    pub name: String,
    /// The number that will be drawn next; none if no number is left.
    pub next: Option<u64>,
    /// The first number.
    pub first: u64,
    /// The last number.
    pub last: u64,
    /// How many numbers are left.
    pub remaining: u64,
}
