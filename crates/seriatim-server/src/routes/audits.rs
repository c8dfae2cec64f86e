//! Audits: whether a sequence is complete, and who got a number.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};
use seriatim_engine::audit::{Audit, Broken, Raised, Run};
use seriatim_engine::moment;
use seriatim_types::{Number, WorkspaceId};

use super::PAGE_MAX;
use crate::extract::Path;
use crate::problem::Problem;
use crate::server::Api;
use crate::wire;

fn view(audit: &Audit) -> Value {
    let run = |run: &Run| json!({"first": run.first.get(), "last": run.last.get()});
    let raised = |raised: &Raised| {
        json!({
            "workspace_offset": raised.offset.get(),
            "at": moment(raised.time),
            "from": raised.from.get(),
            "to": raised.to.get(),
        })
    };
    let broken =
        |broken: &Broken| json!({"workspace_offset": broken.offset.get(), "problem": broken.problem});
    let numbers = &audit.numbers;
    json!({
        "first": numbers.first.map(Number::get),
        "last": numbers.last.map(Number::get),
        "count": numbers.count,
        "gaps": numbers.gaps.list.iter().map(run).collect::<Vec<_>>(),
        "duplicates": numbers.duplicates.list.iter().map(run).collect::<Vec<_>>(),
        "raises": numbers.raises.list.iter().map(raised).collect::<Vec<_>>(),
        "broken": audit.broken.list.iter().map(broken).collect::<Vec<_>>(),
        "events": audit.events,
        "complete": audit.is_complete(),
        "digest": audit.digest.to_string(),
    })
}

pub(super) async fn of_sequence(
    State(api): State<Api>,
    Path((app, workspace, sequence)): Path<(String, u64, String)>,
) -> Result<Json<Value>, Problem> {
    Ok(Json(view(&api.engine.audit(&app, WorkspaceId::new(workspace), &sequence).await?)))
}

pub(super) async fn who_got(
    State(api): State<Api>,
    Path((app, workspace, sequence, number)): Path<(String, u64, String, u64)>,
) -> Result<Json<Value>, Problem> {
    let workspace = WorkspaceId::new(workspace);
    let found = api.engine.who_got(&app, workspace, &sequence, Number::new(number)).await?;
    let found =
        found.ok_or_else(|| Problem::not_found(format!("nobody got number {number} of {sequence}")))?;
    let partition = api.engine.partition_of(&app, workspace)?;
    Ok(Json(wire::event(api.schema(&app)?, partition, &found)))
}

pub(super) async fn of_series(
    State(api): State<Api>,
    Path(name): Path<String>,
) -> Result<Json<Value>, Problem> {
    let state = api.engine.series().state(&name).await?;
    let mut audit = view(&api.engine.audit("series", state.workspace, "Number").await?);
    let voids = api.engine.series().voids(&name, None, PAGE_MAX).await?;
    let void = |void: &seriatim_engine::Voided| json!({"number": void.number, "reason": void.reason, "at": moment(void.time)});
    audit["voids"] = voids.iter().map(void).collect();
    Ok(Json(audit))
}
