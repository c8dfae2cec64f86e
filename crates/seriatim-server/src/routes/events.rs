//! Events of partitions and workspaces.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};
use seriatim_types::{PartitionId, PartitionOffset, WorkspaceId, WorkspaceOffset};

use super::page;
use crate::extract::{Path, Query};
use crate::problem::Problem;
use crate::server::Api;
use crate::stream::{self, Source};
use crate::wire;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Range {
    #[serde(default = "first")]
    from: u64,
    limit: Option<usize>,
}

fn first() -> u64 {
    1
}

fn no_offset() -> Problem {
    Problem::invalid("offsets begin at 1")
}

pub(super) async fn of_workspace(
    State(api): State<Api>,
    Path((app, workspace)): Path<(String, u64)>,
    Query(range): Query<Range>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let workspace = WorkspaceId::new(workspace);
    if stream::is_wanted(&headers) {
        let from = WorkspaceOffset::new(stream::start(&headers, range.from)?).ok_or_else(no_offset)?;
        let follower = api.engine.follow_workspace(&app, workspace, from).await?;
        let partition = api.engine.partition_of(&app, workspace)?;
        return Ok(stream::answer(api, app, partition, Source::Workspace(follower)));
    }
    let from = WorkspaceOffset::new(range.from).ok_or_else(no_offset)?;
    let events = api.engine.events(&app, workspace, from, page(range.limit)?).await?;
    let schema = api.schema(&app)?;
    let partition = api.engine.partition_of(&app, workspace)?;
    let next = events.last().map_or(range.from, |placed| placed.place.workspace_offset.get() + 1);
    let events: Vec<Value> = events.iter().map(|placed| wire::event(schema, partition, placed)).collect();
    Ok(Json(json!({"events": events, "next": next})).into_response())
}

pub(super) async fn of_partition(
    State(api): State<Api>,
    Path((app, partition)): Path<(String, u16)>,
    Query(range): Query<Range>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let partition = PartitionId::new(partition);
    if stream::is_wanted(&headers) {
        let from = PartitionOffset::new(stream::start(&headers, range.from)?).ok_or_else(no_offset)?;
        let follower = api.engine.follow_partition(&app, partition, from)?;
        return Ok(stream::answer(api, app, partition, Source::Partition(follower)));
    }
    let from = PartitionOffset::new(range.from).ok_or_else(no_offset)?;
    let events = api.engine.partition_events(&app, partition, from, page(range.limit)?).await?;
    let schema = api.schema(&app)?;
    let next = events.last().map_or(range.from, |placed| placed.place.partition_offset.get() + 1);
    let events: Vec<Value> = events.iter().map(|placed| wire::event(schema, partition, placed)).collect();
    Ok(Json(json!({"events": events, "next": next})).into_response())
}
