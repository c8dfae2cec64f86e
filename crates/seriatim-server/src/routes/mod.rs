//! The routes, one file for each part of the API.

mod admin;
mod applications;
mod audit_file;
mod audits;
mod blocks;
mod commands;
mod events;
mod forecasts;
mod health;
mod records;
mod series;
mod tokens;
mod workflow_start;
mod workflows;
mod workspaces;

pub use admin::doctor_report;

use axum::Router;
use axum::body::Bytes;
use axum::http::StatusCode;
use utoipa_axum::router::OpenApiRouter;

use crate::openapi;
use crate::problem::Problem;
use crate::server::Api;

/// The number of items on a page: by default, and at most.
pub(crate) const PAGE: u32 = 100;
pub(crate) const PAGE_MAX: u32 = 1_000;

/// The requested number of items on a page.
pub(crate) fn page_size(limit: Option<u32>) -> Result<usize, Problem> {
    match limit.unwrap_or(PAGE) {
        limit @ 1..=PAGE_MAX => Ok(limit as usize),
        limit => Err(Problem::invalid(format!("limit is {limit}, but it has to be from 1 to {PAGE_MAX}"))),
    }
}

/// The items of a page, and whether more follow. The caller has read one item more than fits on the page.
pub(crate) fn split_page<T>(mut found: Vec<T>, limit: usize) -> (Vec<T>, bool) {
    let more = found.len() > limit;
    found.truncate(limit);
    (found, more)
}

/// All routes, and the OpenAPI document that describes them.
pub(crate) fn router() -> (Router<Api>, Bytes) {
    let routes = OpenApiRouter::with_openapi(openapi::base())
        .merge(applications::routes())
        .merge(workspaces::routes())
        .merge(commands::routes())
        .merge(events::routes())
        .merge(records::routes())
        .merge(audits::routes())
        .merge(forecasts::routes())
        .merge(series::routes())
        .merge(blocks::routes())
        .merge(workflows::routes())
        .merge(tokens::routes())
        .merge(admin::routes())
        .merge(health::routes());
    let (router, document) = routes.split_for_parts();
    let router = router
        .merge(crate::console::router())
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed);
    (router, openapi::finish(document))
}

async fn not_found() -> Problem {
    Problem::not_found("this path does not exist")
}

async fn method_not_allowed() -> Problem {
    Problem::invalid("this path does not support this method").with_status(StatusCode::METHOD_NOT_ALLOWED)
}
