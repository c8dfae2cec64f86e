//! Forecasts: when a sequence runs out of numbers, if it continues at its recent rate.

use axum::Json;
use axum::extract::State;
use seriatim_api::Forecast;
use seriatim_engine::moment;
use seriatim_types::{Timestamp, WorkspaceId};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::extract::Path;
use crate::problem::Problem;
use crate::server::Api;

/// The end of the year 9000: later times are not given as dates.
const CALENDAR_END_MS: u64 = 221_876_928_000_000;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(of_sequence))
}

/// When a sequence runs out of numbers, if it continues at its recent rate.
#[utoipa::path(
    get, path = "/v1/apps/{app}/workspaces/{workspace}/sequences/{sequence}/forecast", tag = "sequences",
    operation_id = "forecast",
    params(("app" = String, Path), ("workspace" = u64, Path), ("sequence" = String, Path)),
    responses((status = 200, body = Forecast))
)]
async fn of_sequence(
    State(api): State<Api>,
    Path((app, workspace, sequence)): Path<(String, u64, String)>,
) -> Result<Json<Forecast>, Problem> {
    let forecast = api.engine.forecast(&app, WorkspaceId::new(workspace), &sequence).await?;
    let runs_out = forecast.runs_out.filter(|end| *end < Timestamp::from_millis(CALENDAR_END_MS));
    Ok(Json(Forecast {
        remaining: forecast.remaining,
        drawn: forecast.drawn,
        since: forecast.since.map(moment),
        per_day: forecast.per_day,
        runs_out: runs_out.map(moment),
    }))
}
