//! Records and views.

use axum::Json;
use axum::extract::State;
use serde_json::Value;
use seriatim_api::{ListedKind, Record, Records, RecordsPage, Row, Rows, RowsPage};
use seriatim_engine::KeyPart;
use seriatim_types::{RecordId, WorkspaceId};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{page_size, split_page};
use crate::extract::{Path, Query};
use crate::problem::Problem;
use crate::server::Api;
use crate::wire;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(show)).routes(routes!(view))
}

/// One record.
#[utoipa::path(
    get, path = "/v1/apps/{app}/workspaces/{workspace}/records/{id}", tag = "records",
    params(("app" = String, Path), ("workspace" = u64, Path), ("id" = u64, Path)),
    responses((status = 200, body = Record))
)]
async fn show(
    State(api): State<Api>,
    Path((app, workspace, id)): Path<(String, u64, u64)>,
) -> Result<Json<Record>, Problem> {
    let found = api.engine.record(&app, WorkspaceId::new(workspace), RecordId::new(id)).await?;
    let found = found
        .ok_or_else(|| Problem::not_found(format!("record {id} does not exist in workspace {workspace}")))?;
    Ok(Json(wire::found(api.schema(&app)?, &found)))
}

/// Records of one type, or all C records of the workspace.
#[utoipa::path(
    get, path = "/v1/apps/{app}/workspaces/{workspace}/records", tag = "records",
    params(("app" = String, Path), ("workspace" = u64, Path), RecordsPage),
    responses((status = 200, body = Records))
)]
async fn list(
    State(api): State<Api>,
    Path((app, workspace)): Path<(String, u64)>,
    Query(list): Query<RecordsPage>,
) -> Result<Json<Records>, Problem> {
    let (workspace, after) = (WorkspaceId::new(workspace), list.after.map(RecordId::new));
    let limit = page_size(list.limit)?;
    let records = match (&list.document, list.kind) {
        (Some(document), None) => api.engine.records(&app, workspace, document, after, limit + 1).await?,
        (None, Some(ListedKind::C)) => api.engine.c_records(&app, workspace, after, limit + 1).await?,
        _ => return Err(Problem::invalid("say which records: type=DOCUMENT, or kind=C for all C records")),
    };
    let schema = api.schema(&app)?;
    let (records, more) = split_page(records, limit);
    let next = records.last().filter(|_| more).map(|record| record.id.get());
    let records = records.iter().map(|record| wire::record(schema, record)).collect();
    Ok(Json(Records { records, next }))
}

fn parts(text: &str, what: &str) -> Result<Vec<KeyPart>, Problem> {
    let wrong = || Problem::invalid(format!("{what} has to be a JSON array of strings and whole numbers"));
    let values: Vec<Value> = serde_json::from_str(text).map_err(|_| wrong())?;
    let part = |value: &Value| match value {
        Value::String(text) => Some(KeyPart::Text(text.clone())),
        value => value.as_i64().map(KeyPart::Integer),
    };
    values.iter().map(|value| part(value).ok_or_else(wrong)).collect()
}

/// Rows of a view.
#[utoipa::path(
    get, path = "/v1/apps/{app}/workspaces/{workspace}/views/{view}", tag = "records",
    params(("app" = String, Path), ("workspace" = u64, Path), ("view" = String, Path), RowsPage),
    responses((status = 200, body = Rows))
)]
async fn view(
    State(api): State<Api>,
    Path((app, workspace, view)): Path<(String, u64, String)>,
    Query(rows): Query<RowsPage>,
) -> Result<Json<Rows>, Problem> {
    let prefix = rows.prefix.as_deref().map(|text| parts(text, "prefix")).transpose()?.unwrap_or_default();
    let after = rows.after.as_deref().map(|text| parts(text, "after")).transpose()?;
    let workspace = WorkspaceId::new(workspace);
    let limit = page_size(rows.limit)?;
    let found = api.engine.view(&app, workspace, &view, &prefix, after.as_deref(), limit + 1).await?;
    let (found, more) = split_page(found, limit);
    let key = |parts: &[KeyPart]| parts.iter().map(KeyPart::to_json).collect();
    let next = found.last().filter(|_| more).map(|(parts, _)| key(parts));
    let rows = found.into_iter().map(|(parts, row)| Row { key: key(&parts), row }).collect();
    Ok(Json(Rows { rows, next }))
}
