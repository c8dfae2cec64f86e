//! The routes, one file for each part of the API.

mod applications;
mod audits;
mod blocks;
mod commands;
mod events;
mod health;
mod records;
mod series;
mod workspaces;

use axum::Router;
use axum::routing::{get, post};

use crate::problem::Problem;
use crate::server::Api;

/// How many things a page has unless told, and at most.
pub(crate) const PAGE: usize = 100;
pub(crate) const PAGE_MAX: usize = 1_000;

/// The size of a page that was asked for.
pub(crate) fn page(limit: Option<usize>) -> Result<usize, Problem> {
    match limit.unwrap_or(PAGE) {
        limit @ 1..=PAGE_MAX => Ok(limit),
        limit => Err(Problem::invalid(format!("limit is {limit}, and a page has 1 to {PAGE_MAX}"))),
    }
}

pub(crate) fn router() -> Router<Api> {
    let workspace = "/v1/apps/{app}/workspaces/{workspace}";
    Router::new()
        .route("/v1/apps", get(applications::list))
        .route("/v1/apps/{app}", get(applications::show))
        .route("/v1/apps/{app}/partitions", get(applications::partitions))
        .route("/v1/apps/{app}/partitions/{partition}/events", get(events::of_partition))
        .route("/v1/apps/{app}/workspaces", get(workspaces::list).post(workspaces::create))
        .route(workspace, get(workspaces::show))
        .route(&format!("{workspace}/commands"), post(commands::submit))
        .route(&format!("{workspace}/events"), get(events::of_workspace))
        .route(&format!("{workspace}/records"), get(records::list))
        .route(&format!("{workspace}/records/{{id}}"), get(records::show))
        .route(&format!("{workspace}/views/{{view}}"), get(records::view))
        .route(&format!("{workspace}/sequences"), get(workspaces::sequences))
        .route(&format!("{workspace}/sequences/{{sequence}}/audit"), get(audits::of_sequence))
        .route(&format!("{workspace}/sequences/{{sequence}}/numbers/{{number}}"), get(audits::who_got))
        .route("/v1/blocks", get(blocks::list))
        .route("/v1/blocks/{name}", get(blocks::show).put(blocks::put))
        .route("/v1/blocks/{name}/allocate", post(blocks::allocate))
        .route("/v1/series/{name}/audit", get(audits::of_series))
        .route("/v1/series", get(series::list))
        .route("/v1/series/{name}", get(series::show).put(series::put))
        .route("/v1/series/{name}/next", post(series::next))
        .route("/v1/series/{name}/raise", post(series::raise))
        .route("/v1/series/{name}/numbers/{number}", get(series::who))
        .route("/v1/series/{name}/numbers/{number}/void", post(series::void))
        .route("/livez", get(health::live))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(health::metrics))
        .merge(crate::console::router())
        .merge(crate::forecasts::router())
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
}

async fn not_found() -> Problem {
    Problem::not_found("there is nothing here")
}

async fn method_not_allowed() -> axum::response::Response {
    use axum::response::IntoResponse;
    let mut response = Problem::invalid("this path does not take this method").into_response();
    *response.status_mut() = axum::http::StatusCode::METHOD_NOT_ALLOWED;
    response
}
