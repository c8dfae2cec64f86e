//! Block sequences: ids that may have gaps.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use seriatim_api::{Allocate, Allocated, BlockSequence, BlockSequences, NamePage, PutBlocks};
use seriatim_engine::BlocksState;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::page;
use crate::extract::{Body, Path, Query, idempotency_key};
use crate::openapi::IdempotencyHeader;
use crate::problem::Problem;
use crate::server::Api;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(show, put)).routes(routes!(allocate))
}

fn view(state: BlocksState) -> BlockSequence {
    BlockSequence {
        name: state.name,
        first: state.first,
        block_size: state.block_size,
        next: state.next,
        reserved: state.reserved,
        wasted: state.wasted,
    }
}

/// Creates a block sequence; the same again is fine.
#[utoipa::path(
    put, path = "/v1/blocks/{name}", tag = "blocks", params(("name" = String, Path, pattern = "^[A-Za-z0-9._-]{1,200}$")), request_body = PutBlocks,
    responses((status = 201, body = BlockSequence), (status = 200, body = BlockSequence, description = "It was there."))
)]
async fn put(
    State(api): State<Api>,
    Path(name): Path<String>,
    Body(put): Body<PutBlocks>,
) -> Result<(StatusCode, Json<BlockSequence>), Problem> {
    let created = api.engine.blocks().put(&name, put.first, put.block_size).await?;
    let state = api.engine.blocks().state(&name).await?;
    Ok((if created { StatusCode::CREATED } else { StatusCode::OK }, Json(view(state))))
}

/// Allocates numbers, in a row; the same idempotency key again gives the same.
#[utoipa::path(
    post, path = "/v1/blocks/{name}/allocate", tag = "blocks",
    params(("name" = String, Path, pattern = "^[A-Za-z0-9._-]{1,200}$"), IdempotencyHeader), request_body = Allocate,
    responses((status = 200, body = Allocated))
)]
async fn allocate(
    State(api): State<Api>,
    Path(name): Path<String>,
    headers: HeaderMap,
    Body(Allocate { count }): Body<Allocate>,
) -> Result<Json<Allocated>, Problem> {
    let allocated = match idempotency_key(&headers)? {
        Some(key) => api.engine.blocks().allocate_once(&name, count, &key).await?,
        None => api.engine.blocks().allocate(&name, count).await?,
    };
    Ok(Json(Allocated { first: allocated.first, count: allocated.count }))
}

/// Block sequences.
#[utoipa::path(get, path = "/v1/blocks", tag = "blocks", params(NamePage), responses((status = 200, body = BlockSequences)))]
async fn list(State(api): State<Api>, Query(list): Query<NamePage>) -> Result<Json<BlockSequences>, Problem> {
    let states = api.engine.blocks().list(list.after.as_deref(), page(list.limit)?).await?;
    let next = states.last().map(|state| state.name.clone());
    Ok(Json(BlockSequences { blocks: states.into_iter().map(view).collect(), next }))
}

/// One block sequence.
#[utoipa::path(
    get, path = "/v1/blocks/{name}", tag = "blocks", params(("name" = String, Path, pattern = "^[A-Za-z0-9._-]{1,200}$")),
    responses((status = 200, body = BlockSequence))
)]
async fn show(State(api): State<Api>, Path(name): Path<String>) -> Result<Json<BlockSequence>, Problem> {
    Ok(Json(view(api.engine.blocks().state(&name).await?)))
}
