//! Audits as files that a third party can verify offline.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use seriatim_types::WorkspaceId;

use crate::problem::Problem;
use crate::server::Api;

const KIND: &str = "application/x-ndjson";

/// Whether the client requests the file instead of the report.
pub(super) fn is_requested(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    accept.is_some_and(|accept| accept.contains(KIND))
}

/// The file, sent page by page while it is read. A file without its last line is incomplete.
pub(super) async fn answer(
    api: &Api,
    application: &str,
    workspace: WorkspaceId,
) -> Result<Response, Problem> {
    let file = api.engine.audit_file(application, workspace).await?;
    let pages = stream::unfold(Some(file), async |file| {
        let mut file = file?;
        match file.next().await {
            Ok(lines) => lines.map(|lines| (Ok(lines), Some(file))),
            Err(error) => Some((Err(error), None)),
        }
    });
    let mut response = Body::from_stream(pages).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(KIND));
    Ok(response)
}
