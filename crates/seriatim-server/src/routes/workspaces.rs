//! Workspaces and their sequences.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use seriatim_types::WorkspaceId;

use super::page;
use crate::extract::{Body, Path, Query};
use crate::problem::Problem;
use crate::server::Api;
use crate::wire::{self, WorkspaceView};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Create {
    kind: String,
    #[serde(default)]
    name: Option<String>,
}

/// Bytes of a workspace's name: it is part of a key of the store.
const NAME_BYTES_MAX: usize = 200;

pub(super) async fn create(
    State(api): State<Api>,
    Path(app): Path<String>,
    Body(create): Body<Create>,
) -> Result<(StatusCode, Json<WorkspaceView>), Problem> {
    let schema = api.schema(&app)?;
    if let Some(name) = &create.name
        && (name.is_empty() || name.len() > NAME_BYTES_MAX)
    {
        return Err(Problem::invalid(format!("a workspace's name has 1 to {NAME_BYTES_MAX} bytes")));
    }
    if schema.kind_by_name(&create.kind).is_none() {
        return Err(Problem::invalid(format!("application {app} has no kind of workspace {}", create.kind)));
    }
    let (workspace, created) =
        api.engine.create_workspace(&app, &create.kind, create.name.as_deref()).await?;
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(WorkspaceView::new(schema, workspace))))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct List {
    after: Option<u64>,
    limit: Option<usize>,
}

pub(super) async fn list(
    State(api): State<Api>,
    Path(app): Path<String>,
    Query(list): Query<List>,
) -> Result<Json<Value>, Problem> {
    let schema = api.schema(&app)?;
    let after = list.after.map(WorkspaceId::new);
    let found = api.engine.workspaces(&app, after, page(list.limit)?).await?;
    let next = found.last().map(|workspace| workspace.id.get());
    let views: Vec<_> = found.into_iter().map(|workspace| WorkspaceView::new(schema, workspace)).collect();
    Ok(Json(json!({"workspaces": views, "next": next})))
}

pub(super) async fn show(
    State(api): State<Api>,
    Path((app, workspace)): Path<(String, u64)>,
) -> Result<Json<WorkspaceView>, Problem> {
    let schema = api.schema(&app)?;
    let workspace = api.engine.workspace(&app, WorkspaceId::new(workspace)).await?;
    Ok(Json(WorkspaceView::new(schema, workspace)))
}

pub(super) async fn sequences(
    State(api): State<Api>,
    Path((app, workspace)): Path<(String, u64)>,
) -> Result<Json<Value>, Problem> {
    let states = api.engine.sequences(&app, WorkspaceId::new(workspace)).await?;
    Ok(Json(json!(states.iter().map(wire::sequence).collect::<Vec<_>>())))
}
