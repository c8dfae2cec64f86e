//! Audits: whether a sequence is complete, and which event drew a number.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use seriatim_api::{Audit, Broken, Event, Raise, Run, SeriesAudit};
use seriatim_engine::audit::{Audit as Found, Run as Numbers};
use seriatim_engine::moment;
use seriatim_types::{Number, WorkspaceId};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::series::voided;
use super::{PAGE_MAX, audit_file};
use crate::extract::Path;
use crate::problem::Problem;
use crate::server::Api;
use crate::wire;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(of_sequence)).routes(routes!(who_got)).routes(routes!(of_series))
}

fn audit(found: &Found) -> Audit {
    let run = |run: &Numbers| Run { first: run.first.get(), last: run.last.get() };
    let numbers = &found.numbers;
    let raises = numbers.raises.list.iter().map(|raised| Raise {
        workspace_offset: raised.offset.get(),
        at: moment(raised.time),
        from: raised.from.get(),
        to: raised.to.get(),
    });
    let broken = found
        .broken
        .list
        .iter()
        .map(|broken| Broken { workspace_offset: broken.offset.get(), problem: broken.problem.to_string() });
    Audit {
        first: numbers.first.map(Number::get),
        last: numbers.last.map(Number::get),
        count: numbers.count,
        gaps: numbers.gaps.list.iter().map(run).collect(),
        duplicates: numbers.duplicates.list.iter().map(run).collect(),
        raises: raises.collect(),
        broken: broken.collect(),
        events: found.events,
        complete: found.is_complete(),
        digest: found.digest.to_string(),
    }
}

/// Whether a sequence is complete. As `application/x-ndjson`: a file of the workspace that a third party can verify offline.
#[utoipa::path(
    get, path = "/v1/apps/{app}/workspaces/{workspace}/sequences/{sequence}/audit", tag = "sequences",
    operation_id = "audit",
    params(("app" = String, Path), ("workspace" = u64, Path), ("sequence" = String, Path)),
    responses((status = 200, content((Audit = "application/json"), (String = "application/x-ndjson"))))
)]
async fn of_sequence(
    State(api): State<Api>,
    Path((app, workspace, sequence)): Path<(String, u64, String)>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let workspace = WorkspaceId::new(workspace);
    if audit_file::is_requested(&headers) {
        return audit_file::answer(&api, &app, workspace).await;
    }
    Ok(Json(audit(&api.engine.audit(&app, workspace, &sequence).await?)).into_response())
}

/// The event that drew a number.
#[utoipa::path(
    get, path = "/v1/apps/{app}/workspaces/{workspace}/sequences/{sequence}/numbers/{number}", tag = "sequences",
    params(("app" = String, Path), ("workspace" = u64, Path), ("sequence" = String, Path), ("number" = u64, Path)),
    responses((status = 200, body = Event))
)]
async fn who_got(
    State(api): State<Api>,
    Path((app, workspace, sequence, number)): Path<(String, u64, String, u64)>,
) -> Result<Json<Event>, Problem> {
    let workspace = WorkspaceId::new(workspace);
    let found = api.engine.who_got(&app, workspace, &sequence, Number::new(number)).await?;
    let found =
        found.ok_or_else(|| Problem::not_found(format!("number {number} of {sequence} was not drawn")))?;
    let partition = api.engine.partition_of(&app, workspace)?;
    Ok(Json(wire::event(api.schema(&app)?, partition, &found)))
}

/// Whether a series is complete. As `application/x-ndjson`: a file that a third party can verify offline.
#[utoipa::path(
    get, path = "/v1/series/{name}/audit", tag = "series", operation_id = "audit",
    params(("name" = String, Path, pattern = "^[A-Za-z0-9._-]{1,200}$")),
    responses((status = 200, content((SeriesAudit = "application/json"), (String = "application/x-ndjson"))))
)]
async fn of_series(
    State(api): State<Api>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let state = api.engine.series().state(&name).await?;
    if audit_file::is_requested(&headers) {
        return audit_file::answer(&api, "series", state.workspace).await;
    }
    let audit = audit(&api.engine.audit("series", state.workspace, "Number").await?);
    let voids = api.engine.series().voids(&name, None, PAGE_MAX as usize).await?;
    Ok(Json(SeriesAudit { audit, voids: voids.iter().map(voided).collect() }).into_response())
}
