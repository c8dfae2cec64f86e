//! Records and rows of views.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// A record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Record {
    /// Its id.
    pub id: u64,
    /// Its document; none if the definition does not contain it.
    #[serde(rename = "type")]
    pub document: Option<String>,
    /// Values by name.
    #[schema(value_type = BTreeMap<String, Value>)]
    pub fields: Map<String, Value>,
    /// The record that it is a child of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<u64>,
    /// The event that contains it, if it is an O document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_offset: Option<u64>,
}

/// A page of records.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Records {
    /// Ascending by id.
    pub records: Vec<Record>,
    /// The `after` of the next page; none on the last page.
    pub next: Option<u64>,
}

/// A row of a view.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Row {
    /// Strings and whole numbers.
    pub key: Vec<Value>,
    /// What the projector wrote.
    pub row: Value,
}

/// A page of rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Rows {
    /// Ascending by key.
    pub rows: Vec<Row>,
    /// The `after` of the next page; none on the last page.
    pub next: Option<Vec<Value>>,
}
