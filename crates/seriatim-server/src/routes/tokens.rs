//! Bearer tokens.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;
use seriatim_api::{CreateToken, CreatedToken, NamePage, Token, Tokens};
use seriatim_engine::Scope;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{page_size, split_page};
use crate::extract::{Body, Path, Query, idempotency_key};
use crate::openapi::IdempotencyHeader;
use crate::problem::Problem;
use crate::server::Api;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(list, create)).routes(routes!(revoke))
}

fn view(token: seriatim_engine::Token) -> Token {
    let scopes = token.scopes.iter().map(Scope::to_string).collect();
    Token { id: token.id, scopes, note: token.note, at: token.at }
}

/// Makes a token. Its secret is only in this answer. After the first token is made, every route needs a token.
#[utoipa::path(
    post, path = "/v1/tokens", tag = "tokens", params(IdempotencyHeader), request_body = CreateToken,
    responses((status = 201, body = CreatedToken))
)]
async fn create(
    State(api): State<Api>,
    headers: HeaderMap,
    Body(create): Body<CreateToken>,
) -> Result<impl IntoResponse, Problem> {
    let scopes: Result<Vec<Scope>, _> = create.scopes.iter().map(|scope| scope.parse()).collect();
    let scopes = scopes.map_err(|error: seriatim_engine::BadScope| Problem::invalid(error.to_string()))?;
    let (tokens, note) = (api.engine.tokens(), create.note.as_deref());
    let created = match idempotency_key(&headers)? {
        Some(key) => tokens.create_once(&scopes, note, &key).await?,
        None => tokens.create(&scopes, note).await?,
    };
    let secret = created.secret.reveal().to_owned();
    let created = CreatedToken { token: view(created.token), secret };
    Ok((StatusCode::CREATED, [(header::CACHE_CONTROL, "no-store")], Json(created)))
}

/// All tokens, without their secrets.
#[utoipa::path(get, path = "/v1/tokens", tag = "tokens", params(NamePage), responses((status = 200, body = Tokens)))]
async fn list(State(api): State<Api>, Query(list): Query<NamePage>) -> Result<Json<Tokens>, Problem> {
    let limit = page_size(list.limit)?;
    let (tokens, more) = split_page(api.engine.tokens().list(list.after.as_deref(), limit + 1).await?, limit);
    let next = tokens.last().filter(|_| more).map(|token| token.id.clone());
    Ok(Json(Tokens { tokens: tokens.into_iter().map(view).collect(), next }))
}

/// Revokes a token immediately.
#[utoipa::path(
    delete, path = "/v1/tokens/{id}", tag = "tokens", params(("id" = String, Path)),
    responses((status = 204, description = "It is revoked."))
)]
async fn revoke(State(api): State<Api>, Path(id): Path<String>) -> Result<StatusCode, Problem> {
    api.engine.tokens().revoke(&id).await?;
    Ok(StatusCode::NO_CONTENT)
}
