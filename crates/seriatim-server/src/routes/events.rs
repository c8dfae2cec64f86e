//! Events of partitions and workspaces.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};
use seriatim_types::{PartitionId, PartitionOffset, WorkspaceId, WorkspaceOffset};

use super::page;
use crate::extract::{Path, Query};
use crate::problem::Problem;
use crate::server::Api;
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
) -> Result<Json<Value>, Problem> {
    let from = WorkspaceOffset::new(range.from).ok_or_else(no_offset)?;
    let workspace = WorkspaceId::new(workspace);
    let events = api.engine.events(&app, workspace, from, page(range.limit)?).await?;
    let schema = api.schema(&app)?;
    let partition = api.engine.partition_of(&app, workspace)?;
    let next = events.last().map_or(range.from, |placed| placed.place.workspace_offset.get() + 1);
    let events: Vec<Value> = events.iter().map(|placed| wire::event(schema, partition, placed)).collect();
    Ok(Json(json!({"events": events, "next": next})))
}

pub(super) async fn of_partition(
    State(api): State<Api>,
    Path((app, partition)): Path<(String, u16)>,
    Query(range): Query<Range>,
) -> Result<Json<Value>, Problem> {
    let from = PartitionOffset::new(range.from).ok_or_else(no_offset)?;
    let partition = PartitionId::new(partition);
    let events = api.engine.partition_events(&app, partition, from, page(range.limit)?).await?;
    let schema = api.schema(&app)?;
    let next = events.last().map_or(range.from, |placed| placed.place.partition_offset.get() + 1);
    let events: Vec<Value> = events.iter().map(|placed| wire::event(schema, partition, placed)).collect();
    Ok(Json(json!({"events": events, "next": next})))
}
