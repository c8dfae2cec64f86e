//! Records and views.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};
use seriatim_engine::KeyPart;
use seriatim_types::{RecordId, WorkspaceId};

use super::page;
use crate::extract::{Path, Query};
use crate::problem::Problem;
use crate::server::Api;
use crate::wire;

pub(super) async fn show(
    State(api): State<Api>,
    Path((app, workspace, id)): Path<(String, u64, u64)>,
) -> Result<Json<Value>, Problem> {
    let found = api.engine.record(&app, WorkspaceId::new(workspace), RecordId::new(id)).await?;
    let found = found
        .ok_or_else(|| Problem::not_found(format!("record {id} does not exist in workspace {workspace}")))?;
    Ok(Json(wire::found(api.schema(&app)?, &found)))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct List {
    #[serde(rename = "type")]
    document: String,
    after: Option<u64>,
    limit: Option<usize>,
}

pub(super) async fn list(
    State(api): State<Api>,
    Path((app, workspace)): Path<(String, u64)>,
    Query(list): Query<List>,
) -> Result<Json<Value>, Problem> {
    let (workspace, after) = (WorkspaceId::new(workspace), list.after.map(RecordId::new));
    let records = api.engine.records(&app, workspace, &list.document, after, page(list.limit)?).await?;
    let schema = api.schema(&app)?;
    let next = records.last().map(|record| record.id.get());
    let records: Vec<Value> = records.iter().map(|record| wire::record(schema, record)).collect();
    Ok(Json(json!({"records": records, "next": next})))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rows {
    /// Parts of the key that rows have to begin with, as a JSON array.
    prefix: Option<String>,
    /// The key that rows have to lie behind, as a JSON array.
    after: Option<String>,
    limit: Option<usize>,
}

fn parts(text: &str, what: &str) -> Result<Vec<KeyPart>, Problem> {
    let wrong = || Problem::invalid(format!("{what} is a JSON array of strings and whole numbers"));
    let values: Vec<Value> = serde_json::from_str(text).map_err(|_| wrong())?;
    let part = |value: &Value| match value {
        Value::String(text) => Some(KeyPart::Text(text.clone())),
        value => value.as_i64().map(KeyPart::Integer),
    };
    values.iter().map(|value| part(value).ok_or_else(wrong)).collect()
}

pub(super) async fn view(
    State(api): State<Api>,
    Path((app, workspace, view)): Path<(String, u64, String)>,
    Query(rows): Query<Rows>,
) -> Result<Json<Value>, Problem> {
    let prefix = rows.prefix.as_deref().map(|text| parts(text, "prefix")).transpose()?.unwrap_or_default();
    let after = rows.after.as_deref().map(|text| parts(text, "after")).transpose()?;
    let workspace = WorkspaceId::new(workspace);
    let limit = page(rows.limit)?;
    let found = api.engine.view(&app, workspace, &view, &prefix, after.as_deref(), limit).await?;
    let key = |parts: &[KeyPart]| Value::Array(parts.iter().map(KeyPart::to_json).collect());
    let next = found.last().map(|(parts, _)| key(parts));
    let rows: Vec<Value> = found.iter().map(|(parts, row)| json!({"key": key(parts), "row": row})).collect();
    Ok(Json(json!({"rows": rows, "next": next})))
}
