//! Events of partitions and workspaces.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use seriatim_api::{Events, Range};
use seriatim_engine::Grants;
use seriatim_types::{PartitionId, PartitionOffset, WorkspaceId, WorkspaceOffset};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::page_size;
use crate::extract::{Path, Query};
use crate::openapi::ResumeHeader;
use crate::problem::Problem;
use crate::server::Api;
use crate::stream::{self, Source};
use crate::wire;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(of_workspace)).routes(routes!(of_partition))
}

fn no_offset() -> Problem {
    Problem::invalid("offsets begin at 1")
}

/// The log of a workspace. `Accept: text/event-stream` follows it.
#[utoipa::path(
    get, path = "/v1/apps/{app}/workspaces/{workspace}/events", tag = "events",
    params(("app" = String, Path), ("workspace" = u64, Path), Range, ResumeHeader),
    responses((status = 200, content((Events = "application/json"), (String = "text/event-stream"))))
)]
async fn of_workspace(
    State(api): State<Api>,
    Path((app, workspace)): Path<(String, u64)>,
    Query(range): Query<Range>,
    grants: Option<Extension<Grants>>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let workspace = WorkspaceId::new(workspace);
    let start = stream::start(&headers, range.from)?;
    if stream::is_requested(&headers) {
        let from = WorkspaceOffset::new(start).ok_or_else(no_offset)?;
        let follower = api.engine.follow_workspace(&app, workspace, from).await?;
        let partition = api.engine.partition_of(&app, workspace)?;
        return Ok(stream::answer(
            api,
            grants.map(|Extension(grants)| grants),
            app,
            partition,
            Source::Workspace(follower),
        ));
    }
    let from = WorkspaceOffset::new(range.from).ok_or_else(no_offset)?;
    let events = api.engine.events(&app, workspace, from, page_size(range.limit)?).await?;
    let schema = api.schema(&app)?;
    let partition = api.engine.partition_of(&app, workspace)?;
    let next = events.last().map_or(range.from, |placed| placed.place.workspace_offset.get() + 1);
    let events = events.iter().map(|placed| wire::event(schema, partition, placed)).collect();
    Ok(Json(Events { events, next }).into_response())
}

/// The log of a partition. `Accept: text/event-stream` follows it.
#[utoipa::path(
    get, path = "/v1/apps/{app}/partitions/{partition}/events", tag = "events",
    params(("app" = String, Path), ("partition" = u16, Path), Range, ResumeHeader),
    responses((status = 200, content((Events = "application/json"), (String = "text/event-stream"))))
)]
async fn of_partition(
    State(api): State<Api>,
    Path((app, partition)): Path<(String, u16)>,
    Query(range): Query<Range>,
    grants: Option<Extension<Grants>>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let partition = PartitionId::new(partition);
    let start = stream::start(&headers, range.from)?;
    if stream::is_requested(&headers) {
        let from = PartitionOffset::new(start).ok_or_else(no_offset)?;
        let follower = api.engine.follow_partition(&app, partition, from)?;
        return Ok(stream::answer(
            api,
            grants.map(|Extension(grants)| grants),
            app,
            partition,
            Source::Partition(follower),
        ));
    }
    let from = PartitionOffset::new(range.from).ok_or_else(no_offset)?;
    let events = api.engine.partition_events(&app, partition, from, page_size(range.limit)?).await?;
    let schema = api.schema(&app)?;
    let next = events.last().map_or(range.from, |placed| placed.place.partition_offset.get() + 1);
    let events = events.iter().map(|placed| wire::event(schema, partition, placed)).collect();
    Ok(Json(Events { events, next }).into_response())
}
