//! Block sequences: ids that may have gaps.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use seriatim_api::{Allocate, Allocated, BlockSequence, BlockSequences, Code, NamePage, PutBlocks};
use seriatim_blocks::AllocateError;
use seriatim_engine::{BlocksState, SubmitError};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{page_size, split_page};
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

/// Creates a block sequence. Repeating the request with the same settings changes nothing.
#[utoipa::path(
    put, path = "/v1/blocks/{name}", tag = "blocks", params(("name" = String, Path, pattern = "^[A-Za-z0-9._-]{1,200}$")), request_body = PutBlocks,
    responses((status = 201, body = BlockSequence), (status = 200, body = BlockSequence, description = "It already existed."))
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

/// The error for a sequence with too few numbers left. Calls with a key do not use the block that is reserved for calls without one.
fn exhausted(name: &str, asked: u64, left: u64, keyed: bool) -> Problem {
    let left = if keyed {
        format!(
            "{left} of block sequence {name} are left after those that are reserved for calls without a key"
        )
    } else {
        format!("at most {left} of block sequence {name} are left")
    };
    let text =
        format!("{asked} consecutive numbers were requested, but {left}: request fewer, or use another one");
    Problem::new(Code::Exhausted, text)
}

/// Allocates consecutive numbers. The same idempotency key gives the same numbers again.
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
    let key = idempotency_key(&headers)?;
    let allocated = match &key {
        Some(key) => api.engine.blocks().allocate_once(&name, count, key).await,
        None => api.engine.blocks().allocate(&name, count).await,
    };
    let allocated = match allocated {
        Ok(allocated) => allocated,
        Err(SubmitError::Allocate(AllocateError::Exhausted { asked, left })) => {
            return Err(exhausted(&name, asked, left, key.is_some()));
        }
        Err(error) => return Err(error.into()),
    };
    Ok(Json(Allocated { first: allocated.first, count: allocated.count }))
}

/// Block sequences.
#[utoipa::path(get, path = "/v1/blocks", tag = "blocks", params(NamePage), responses((status = 200, body = BlockSequences)))]
async fn list(State(api): State<Api>, Query(list): Query<NamePage>) -> Result<Json<BlockSequences>, Problem> {
    let limit = page_size(list.limit)?;
    let states = api.engine.blocks().list(list.after.as_deref(), limit + 1).await?;
    let (states, more) = split_page(states, limit);
    let next = states.last().filter(|_| more).map(|state| state.name.clone());
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
