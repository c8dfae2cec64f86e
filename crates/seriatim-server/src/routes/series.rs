//! Series: gap-free numbers by name.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use seriatim_api::{
    Code, Issued, NamePage, NextRequest, PutSeries, RaiseRequest, Series, SeriesList, TakenNumbers,
    VoidAnswer, VoidRequest, Voided,
};
use seriatim_engine::{NextRequest as Next, SeriesState, SubmitError, moment};
use seriatim_sequencer::DrawError;
use seriatim_types::Number;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{page_size, split_page};
use crate::extract::{Body, Path, Query, idempotency_key};
use crate::openapi::IdempotencyHeader;
use crate::problem::Problem;
use crate::server::Api;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(show, put))
        .routes(routes!(next))
        .routes(routes!(raise))
        .routes(routes!(who))
        .routes(routes!(void))
}

fn view(state: SeriesState) -> Series {
    Series {
        series: state.name,
        first: state.first,
        format: state.format.to_string(),
        next: state.next,
        remaining: state.remaining,
        voids: state.voided,
        raises: state.raised,
    }
}

pub(super) fn voided(voided: &seriatim_engine::Voided) -> Voided {
    Voided { number: voided.number, reason: voided.reason.clone(), at: moment(voided.time) }
}

/// The error for a series with too few numbers left.
async fn exhausted(api: &Api, name: &str, count: u64) -> Problem {
    let left = api.engine.series().state(name).await.map_or(0, |state| state.remaining);
    let text = match left {
        0 => {
            let last = Number::LAST_IN_JSON;
            format!("series {name} has no numbers left: it ends at {last}; use another series")
        }
        left => format!(
            "series {name} has {left} numbers left, but {count} were requested: request fewer, or use another series"
        ),
    };
    Problem::new(Code::Exhausted, text)
}

/// Takes the next number: gap-free and durable. The first use of a name creates the series.
#[utoipa::path(
    post, path = "/v1/series/{name}/next", tag = "series",
    params(("name" = String, Path, pattern = "^[A-Za-z0-9._-]{1,200}$", example = "acme.invoices"), IdempotencyHeader),
    request_body = Option<NextRequest>,
    responses((status = 201, body = TakenNumbers))
)]
async fn next(
    State(api): State<Api>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Option<Body<NextRequest>>,
) -> Result<(StatusCode, Json<TakenNumbers>), Problem> {
    let NextRequest { count, note } = body.map_or_else(NextRequest::default, |Body(next)| next);
    let request = Next { count, note, idempotency_key: idempotency_key(&headers)? };
    let taken = match api.engine.series().next(&name, &request).await {
        Ok(taken) => taken,
        Err(SubmitError::Draw(DrawError::Exhausted { .. })) => {
            return Err(exhausted(&api, &name, count).await);
        }
        Err(error) => return Err(error.into()),
    };
    let seriatim_engine::TakenNumbers { series, number, count, text, repeated } = taken;
    Ok((StatusCode::CREATED, Json(TakenNumbers { series, number, count, text, repeated })))
}

/// Creates a series with settings. Repeating the request with the same settings changes nothing.
#[utoipa::path(
    put, path = "/v1/series/{name}", tag = "series", params(("name" = String, Path, pattern = "^[A-Za-z0-9._-]{1,200}$", example = "acme.invoices")),
    request_body = PutSeries,
    responses((status = 201, body = Series), (status = 200, body = Series, description = "It already existed."))
)]
async fn put(
    State(api): State<Api>,
    Path(name): Path<String>,
    Body(put): Body<PutSeries>,
) -> Result<(StatusCode, Json<Series>), Problem> {
    let created = api.engine.series().put(&name, put.first, &put.format).await?;
    let state = api.engine.series().state(&name).await?;
    Ok((if created { StatusCode::CREATED } else { StatusCode::OK }, Json(view(state))))
}

/// Marks a number that was taken as void: an explained gap.
#[utoipa::path(
    post, path = "/v1/series/{name}/numbers/{number}/void", tag = "series",
    params(("name" = String, Path, pattern = "^[A-Za-z0-9._-]{1,200}$", example = "acme.invoices"), ("number" = u64, Path), IdempotencyHeader),
    request_body = VoidRequest,
    responses((status = 201, body = VoidAnswer))
)]
async fn void(
    State(api): State<Api>,
    Path((name, number)): Path<(String, u64)>,
    headers: HeaderMap,
    Body(VoidRequest { reason }): Body<VoidRequest>,
) -> Result<(StatusCode, Json<VoidAnswer>), Problem> {
    let key = idempotency_key(&headers)?;
    api.engine.series().void(&name, number, &reason, key.as_deref()).await?;
    Ok((StatusCode::CREATED, Json(VoidAnswer { series: name, number, void: true, reason })))
}

/// Makes the series continue from a later number, never from an earlier one.
#[utoipa::path(
    post, path = "/v1/series/{name}/raise", tag = "series",
    params(("name" = String, Path, pattern = "^[A-Za-z0-9._-]{1,200}$", example = "acme.invoices"), IdempotencyHeader),
    request_body = RaiseRequest,
    responses((status = 201, body = Series))
)]
async fn raise(
    State(api): State<Api>,
    Path(name): Path<String>,
    headers: HeaderMap,
    Body(raise): Body<RaiseRequest>,
) -> Result<(StatusCode, Json<Series>), Problem> {
    let key = idempotency_key(&headers)?;
    api.engine.series().raise(&name, raise.next, &raise.reason, key.as_deref()).await?;
    let state = api.engine.series().state(&name).await?;
    Ok((StatusCode::CREATED, Json(view(state))))
}

/// Series.
#[utoipa::path(get, path = "/v1/series", tag = "series", params(NamePage), responses((status = 200, body = SeriesList)))]
async fn list(State(api): State<Api>, Query(list): Query<NamePage>) -> Result<Json<SeriesList>, Problem> {
    let limit = page_size(list.limit)?;
    let states = api.engine.series().list(list.after.as_deref(), limit + 1).await?;
    let (states, more) = split_page(states, limit);
    let next = states.last().filter(|_| more).map(|state| state.name.clone());
    Ok(Json(SeriesList { series: states.into_iter().map(view).collect(), next }))
}

/// The state of a series.
#[utoipa::path(
    get, path = "/v1/series/{name}", tag = "series", params(("name" = String, Path, pattern = "^[A-Za-z0-9._-]{1,200}$", example = "acme.invoices")),
    responses((status = 200, body = Series))
)]
async fn show(State(api): State<Api>, Path(name): Path<String>) -> Result<Json<Series>, Problem> {
    Ok(Json(view(api.engine.series().state(&name).await?)))
}

/// How a number was taken: when, with which key and which note.
#[utoipa::path(
    get, path = "/v1/series/{name}/numbers/{number}", tag = "series",
    params(("name" = String, Path, pattern = "^[A-Za-z0-9._-]{1,200}$", example = "acme.invoices"), ("number" = u64, Path)),
    responses((status = 200, body = Issued))
)]
async fn who(
    State(api): State<Api>,
    Path((name, number)): Path<(String, u64)>,
) -> Result<Json<Issued>, Problem> {
    let issued = api.engine.series().who(&name, number).await?;
    Ok(Json(Issued {
        series: name,
        number: issued.number,
        first: issued.first,
        count: issued.count,
        at: moment(issued.time),
        workspace_offset: issued.workspace_offset.get(),
        partition_offset: issued.partition_offset.get(),
        idempotency_key: issued.idempotency_key,
        note: issued.note,
        void: issued.void.as_ref().map(voided),
    }))
}
