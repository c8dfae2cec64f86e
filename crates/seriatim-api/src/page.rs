//! Parameters behind the question mark.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// A page of workspaces, ordered by id; or the one that a name leads to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WorkspacesPage {
    /// Only the workspace with this name: one, or none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(min_length = 1, max_length = 200)]
    pub name: Option<String>,
    /// What the page lies behind: the `next` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// How many things it has at most; 100 unless told.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1_000)]
    pub limit: Option<u32>,
}

/// A page of a list that is ordered by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct NamePage {
    /// What the page lies behind: the `next` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// How many things it has at most; 100 unless told.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1_000)]
    pub limit: Option<u32>,
}

fn first() -> u64 {
    1
}

/// A page of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Range {
    /// The offset of the first event.
    #[serde(default = "first")]
    #[param(minimum = 1)]
    pub from: u64,
    /// How many events it has at most; 100 unless told. A log that is followed has no end.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1_000)]
    pub limit: Option<u32>,
}

/// Kinds of records that can be listed whatever their type: there are few of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum ListedKind {
    /// C documents, singletons among them, and their child records.
    C,
}

/// A page of records, of one type or of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RecordsPage {
    /// The document whose records are listed.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub document: Option<String>,
    /// The kind whose records are listed, instead of a type.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(inline)]
    pub kind: Option<ListedKind>,
    /// The id that the page lies behind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// How many records it has at most; 100 unless told.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1_000)]
    pub limit: Option<u32>,
}

/// A page of rows of a view.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RowsPage {
    /// Parts of the key that rows have to begin with, as a JSON array of strings and whole numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// The key that rows have to lie behind, as a JSON array.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// How many rows it has at most; 100 unless told.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1_000)]
    pub limit: Option<u32>,
}
