//! Workspaces and their sequences.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use seriatim_api::{CreateWorkspace, Sequence, Workspace, Workspaces, WorkspacesPage};
use seriatim_types::WorkspaceId;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{page_size, split_page};
use crate::extract::{Body, Path, Query, idempotency_key};
use crate::openapi::IdempotencyHeader;
use crate::problem::Problem;
use crate::server::Api;
use crate::wire;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(list, create)).routes(routes!(show)).routes(routes!(sequences))
}

/// The longest name of a workspace in bytes: it is part of a key of the store.
const NAME_BYTES_MAX: usize = 200;

fn check_name(name: &str) -> Result<(), Problem> {
    if (1..=NAME_BYTES_MAX).contains(&name.len()) {
        return Ok(());
    }
    Err(Problem::invalid(format!("a workspace's name has 1 to {NAME_BYTES_MAX} bytes")))
}

/// Creates a workspace. The same name or the same idempotency key gives the same id again.
#[utoipa::path(
    post, path = "/v1/apps/{app}/workspaces", tag = "workspaces",
    params(("app" = String, Path, example = "shop"), IdempotencyHeader),
    request_body = CreateWorkspace,
    responses((status = 201, body = Workspace), (status = 200, body = Workspace, description = "It already existed."))
)]
async fn create(
    State(api): State<Api>,
    Path(app): Path<String>,
    headers: HeaderMap,
    Body(create): Body<CreateWorkspace>,
) -> Result<(StatusCode, Json<Workspace>), Problem> {
    let schema = api.schema(&app)?;
    create.name.as_deref().map_or(Ok(()), check_name)?;
    if schema.kind_by_name(&create.kind).is_none() {
        return Err(Problem::invalid(format!("application {app} has no kind of workspace {}", create.kind)));
    }
    let (kind, name) = (&create.kind, create.name.as_deref());
    let (workspace, created) = match idempotency_key(&headers)? {
        Some(key) => api.engine.create_workspace_once(&app, kind, name, &key).await?,
        None => api.engine.create_workspace(&app, kind, name).await?,
    };
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(wire::workspace(schema, workspace))))
}

/// Workspaces of an application, or the one with a name.
#[utoipa::path(
    get, path = "/v1/apps/{app}/workspaces", tag = "workspaces",
    params(("app" = String, Path, example = "shop"), WorkspacesPage),
    responses((status = 200, body = Workspaces))
)]
async fn list(
    State(api): State<Api>,
    Path(app): Path<String>,
    Query(list): Query<WorkspacesPage>,
) -> Result<Json<Workspaces>, Problem> {
    let schema = api.schema(&app)?;
    if let Some(name) = &list.name {
        check_name(name)?;
        let found = match api.engine.workspace_named(&app, name).await? {
            Some(id) => vec![wire::workspace(schema, api.engine.workspace(&app, id).await?)],
            None => Vec::new(),
        };
        return Ok(Json(Workspaces { workspaces: found, next: None }));
    }
    let after = list.after.map(WorkspaceId::new);
    let limit = page_size(list.limit)?;
    let (found, more) = split_page(api.engine.workspaces(&app, after, limit + 1).await?, limit);
    let next = found.last().filter(|_| more).map(|workspace| workspace.id.get());
    let workspaces = found.into_iter().map(|workspace| wire::workspace(schema, workspace)).collect();
    Ok(Json(Workspaces { workspaces, next }))
}

/// One workspace.
#[utoipa::path(
    get, path = "/v1/apps/{app}/workspaces/{workspace}", tag = "workspaces",
    params(("app" = String, Path, example = "shop"), ("workspace" = u64, Path)),
    responses((status = 200, body = Workspace))
)]
async fn show(
    State(api): State<Api>,
    Path((app, workspace)): Path<(String, u64)>,
) -> Result<Json<Workspace>, Problem> {
    let schema = api.schema(&app)?;
    let workspace = api.engine.workspace(&app, WorkspaceId::new(workspace)).await?;
    Ok(Json(wire::workspace(schema, workspace)))
}

/// Its sequences, with their next numbers.
#[utoipa::path(
    get, path = "/v1/apps/{app}/workspaces/{workspace}/sequences", tag = "sequences", operation_id = "list",
    params(("app" = String, Path, example = "shop"), ("workspace" = u64, Path)),
    responses((status = 200, body = Vec<Sequence>))
)]
async fn sequences(
    State(api): State<Api>,
    Path((app, workspace)): Path<(String, u64)>,
) -> Result<Json<Vec<Sequence>>, Problem> {
    let states = api.engine.sequences(&app, WorkspaceId::new(workspace)).await?;
    Ok(Json(states.iter().map(wire::sequence).collect()))
}
