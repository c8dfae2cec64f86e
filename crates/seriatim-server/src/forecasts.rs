//! Forecasts: when a sequence runs out, if it goes on as lately.

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};
use seriatim_engine::moment;
use seriatim_types::{Timestamp, WorkspaceId};

use crate::extract::Path;
use crate::problem::Problem;
use crate::server::Api;

/// Later than this no calendar is asked: the end of the year 9000.
const CALENDAR_END_MS: u64 = 221_876_928_000_000;

pub(crate) fn router() -> Router<Api> {
    Router::new()
        .route("/v1/apps/{app}/workspaces/{workspace}/sequences/{sequence}/forecast", get(of_sequence))
}

async fn of_sequence(
    State(api): State<Api>,
    Path((app, workspace, sequence)): Path<(String, u64, String)>,
) -> Result<Json<Value>, Problem> {
    let forecast = api.engine.forecast(&app, WorkspaceId::new(workspace), &sequence).await?;
    let runs_out = forecast.runs_out.filter(|end| *end < Timestamp::from_millis(CALENDAR_END_MS));
    Ok(Json(json!({
        "remaining": forecast.remaining,
        "drawn": forecast.drawn,
        "since": forecast.since.map(moment),
        "per_day": forecast.per_day,
        "runs_out": runs_out.map(moment),
    })))
}
