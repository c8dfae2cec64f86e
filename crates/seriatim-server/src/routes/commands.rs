//! Commands.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use seriatim_api::{Answer, Change, Code, CommandRequest};
use seriatim_engine::{Change as EngineChange, Request, SubmitError};
use seriatim_sequencer::DrawError;
use seriatim_types::WorkspaceId;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::extract::{Body, Path, expected_offset, idempotency_key};
use crate::openapi::{IdempotencyHeader, MatchHeader};
use crate::problem::Problem;
use crate::server::Api;
use crate::wire;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(submit))
}

fn change(Change { create, update, id, parent, fields }: Change) -> EngineChange {
    EngineChange { create, update, id, parent, fields }
}

/// Does a command. It is durable when the answer is sent.
#[utoipa::path(
    post, path = "/v1/apps/{app}/workspaces/{workspace}/commands", tag = "commands",
    params(("app" = String, Path, example = "shop"), ("workspace" = u64, Path), IdempotencyHeader, MatchHeader),
    request_body = CommandRequest,
    responses((status = 201, body = Answer))
)]
async fn submit(
    State(api): State<Api>,
    Path((app, workspace)): Path<(String, u64)>,
    headers: HeaderMap,
    Body(request): Body<CommandRequest>,
) -> Result<(StatusCode, Json<Answer>), Problem> {
    let CommandRequest { command, args, unlogged_args, changes } = request;
    let request = Request {
        command,
        args,
        unlogged_args,
        changes: changes.into_iter().map(change).collect(),
        idempotency_key: idempotency_key(&headers)?,
        expected_offset: expected_offset(&headers)?,
    };
    let answer = match api.engine.submit(&app, WorkspaceId::new(workspace), &request).await {
        Ok(answer) => answer,
        Err(SubmitError::Draw(DrawError::Exhausted { sequence })) => {
            let name = api.schema(&app)?.sequence(sequence).map_or("?", |sequence| &sequence.name);
            let text = format!(
                "sequence {name} of workspace {workspace} has no numbers left: give it a later \"last\" in the definition"
            );
            return Err(Problem::new(Code::Exhausted, text));
        }
        Err(error) => return Err(error.into()),
    };
    Ok((StatusCode::CREATED, Json(wire::answer(answer))))
}
