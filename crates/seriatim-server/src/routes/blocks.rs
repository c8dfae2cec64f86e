//! Block sequences: ids that may have gaps.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use seriatim_engine::BlocksState;

use super::page;
use crate::extract::{Body, Path, Query};
use crate::problem::Problem;
use crate::server::Api;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Put {
    #[serde(default = "one")]
    first: u64,
    #[serde(default = "usual_size")]
    block_size: u64,
}

fn one() -> u64 {
    1
}

fn usual_size() -> u64 {
    4_096
}

fn view(state: &BlocksState) -> Value {
    json!({
        "name": state.name,
        "first": state.first,
        "block_size": state.block_size,
        "next": state.next,
        "reserved": state.reserved,
        "wasted": state.wasted,
    })
}

pub(super) async fn put(
    State(api): State<Api>,
    Path(name): Path<String>,
    Body(put): Body<Put>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    let created = api.engine.blocks().put(&name, put.first, put.block_size).await?;
    let state = api.engine.blocks().state(&name).await?;
    Ok((if created { StatusCode::CREATED } else { StatusCode::OK }, Json(view(&state))))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Allocate {
    count: u64,
}

pub(super) async fn allocate(
    State(api): State<Api>,
    Path(name): Path<String>,
    Body(Allocate { count }): Body<Allocate>,
) -> Result<Json<Value>, Problem> {
    let allocated = api.engine.blocks().allocate(&name, count).await?;
    Ok(Json(json!({"first": allocated.first, "count": allocated.count})))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct List {
    after: Option<String>,
    limit: Option<usize>,
}

pub(super) async fn list(State(api): State<Api>, Query(list): Query<List>) -> Result<Json<Value>, Problem> {
    let states = api.engine.blocks().list(list.after.as_deref(), page(list.limit)?).await?;
    let next = states.last().map(|state| state.name.clone());
    Ok(Json(json!({"blocks": states.iter().map(view).collect::<Vec<_>>(), "next": next})))
}

pub(super) async fn show(State(api): State<Api>, Path(name): Path<String>) -> Result<Json<Value>, Problem> {
    Ok(Json(view(&api.engine.blocks().state(&name).await?)))
}
