//! Query parameters.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// A page of workspaces, ordered by id; or the one workspace that has a name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WorkspacesPage {
    /// Only the workspace with this name: one, or none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(min_length = 1, max_length = 200)]
    pub name: Option<String>,
    /// The page begins after this one: the `next` of the previous page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// The largest number of items on the page; 100 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1_000)]
    pub limit: Option<u32>,
}

/// A page of a list that is ordered by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct NamePage {
    /// The page begins after this one: the `next` of the previous page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// The largest number of items on the page; 100 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1_000)]
    pub limit: Option<u32>,
}

fn first_offset() -> u64 {
    1
}

/// A page of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Range {
    /// The offset of the first event.
    #[serde(default = "first_offset")]
    #[param(minimum = 1)]
    pub from: u64,
    /// The largest number of events on the page; 100 by default. Following a log has no such limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1_000)]
    pub limit: Option<u32>,
}

/// Kinds of records that can be listed without naming a type, because there are few of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum ListedKind {
    /// C documents, including singletons, and their child records.
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
    /// The page begins after this id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// The largest number of records on the page; 100 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1_000)]
    pub limit: Option<u32>,
}

/// A page of rows of a view.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RowsPage {
    /// The first parts of the keys of the rows, as a JSON array of strings and whole numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// The page begins after this key, a JSON array.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// The largest number of rows on the page; 100 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1_000)]
    pub limit: Option<u32>,
}
