//! Commands.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use seriatim_engine::Request;
use seriatim_types::WorkspaceId;

use crate::extract::{Body, Path, expected_offset, idempotency_key};
use crate::problem::Problem;
use crate::server::Api;
use crate::wire::AnswerView;

pub(super) async fn submit(
    State(api): State<Api>,
    Path((app, workspace)): Path<(String, u64)>,
    headers: HeaderMap,
    Body(mut request): Body<Request>,
) -> Result<(StatusCode, Json<AnswerView>), Problem> {
    request.idempotency_key = idempotency_key(&headers)?;
    request.expected_offset = expected_offset(&headers)?;
    let answer = api.engine.submit(&app, WorkspaceId::new(workspace), &request).await?;
    Ok((StatusCode::CREATED, Json(answer.into())))
}
