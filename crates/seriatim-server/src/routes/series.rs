//! Series: gap-free numbers by name.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use seriatim_engine::{Issued, NextRequest, SeriesState, Voided, moment};

use super::page;
use crate::extract::{Body, Path, Query, idempotency_key};
use crate::problem::Problem;
use crate::server::Api;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Next {
    #[serde(default = "one")]
    count: u64,
    #[serde(default)]
    note: Option<String>,
}

fn one() -> u64 {
    1
}

pub(super) async fn next(
    State(api): State<Api>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Option<Body<Next>>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    let Next { count, note } = body.map_or(Next { count: 1, note: None }, |Body(next)| next);
    let request = NextRequest { count, note, idempotency_key: idempotency_key(&headers)? };
    let taken = api.engine.series().next(&name, &request).await?;
    let view = json!({
        "series": taken.series, "number": taken.number, "count": taken.count, "text": taken.text,
        "repeated": taken.repeated,
    });
    Ok((StatusCode::CREATED, Json(view)))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Put {
    #[serde(default = "one")]
    first: u64,
    #[serde(default = "plain")]
    format: String,
}

fn plain() -> String {
    "{number}".to_owned()
}

pub(super) async fn put(
    State(api): State<Api>,
    Path(name): Path<String>,
    Body(put): Body<Put>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    let created = api.engine.series().put(&name, put.first, &put.format).await?;
    let state = api.engine.series().state(&name).await?;
    Ok((if created { StatusCode::CREATED } else { StatusCode::OK }, Json(view(&state))))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reason {
    reason: String,
}

pub(super) async fn void(
    State(api): State<Api>,
    Path((name, number)): Path<(String, u64)>,
    headers: HeaderMap,
    Body(Reason { reason }): Body<Reason>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    let key = idempotency_key(&headers)?;
    api.engine.series().void(&name, number, &reason, key.as_deref()).await?;
    let view = json!({"series": name, "number": number, "void": true, "reason": reason});
    Ok((StatusCode::CREATED, Json(view)))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Raise {
    next: u64,
    reason: String,
}

pub(super) async fn raise(
    State(api): State<Api>,
    Path(name): Path<String>,
    headers: HeaderMap,
    Body(raise): Body<Raise>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    let key = idempotency_key(&headers)?;
    api.engine.series().raise(&name, raise.next, &raise.reason, key.as_deref()).await?;
    let state = api.engine.series().state(&name).await?;
    Ok((StatusCode::CREATED, Json(view(&state))))
}

fn view(state: &SeriesState) -> Value {
    json!({
        "series": state.name,
        "first": state.first,
        "format": state.format.to_string(),
        "next": state.next,
        "remaining": state.remaining,
        "voids": state.voided,
        "raises": state.raised,
    })
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct List {
    after: Option<String>,
    limit: Option<usize>,
}

pub(super) async fn list(State(api): State<Api>, Query(list): Query<List>) -> Result<Json<Value>, Problem> {
    let states = api.engine.series().list(list.after.as_deref(), page(list.limit)?).await?;
    let next = states.last().map(|state| state.name.clone());
    Ok(Json(json!({"series": states.iter().map(view).collect::<Vec<_>>(), "next": next})))
}

pub(super) async fn show(State(api): State<Api>, Path(name): Path<String>) -> Result<Json<Value>, Problem> {
    Ok(Json(view(&api.engine.series().state(&name).await?)))
}

fn voided(voided: &Voided) -> Value {
    json!({"number": voided.number, "reason": voided.reason, "at": moment(voided.time)})
}

pub(super) async fn who(
    State(api): State<Api>,
    Path((name, number)): Path<(String, u64)>,
) -> Result<Json<Value>, Problem> {
    let issued: Issued = api.engine.series().who(&name, number).await?;
    Ok(Json(json!({
        "series": name,
        "number": issued.number,
        "first": issued.first,
        "count": issued.count,
        "at": moment(issued.time),
        "workspace_offset": issued.workspace_offset.get(),
        "partition_offset": issued.partition_offset.get(),
        "idempotency_key": issued.idempotency_key,
        "note": issued.note,
        "void": issued.void.as_ref().map(voided),
    })))
}
