//! Logs as server-sent events: what is there, then what comes.
//!
//! Each event has its offset as `id`, so that a client that comes back goes on behind the last one it has seen. Nothing is
//! queued for a client: one that reads slowly holds a place in the log and at most a page of it.

use std::convert::Infallible;

use axum::http::{HeaderMap, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, StreamExt};
use seriatim_engine::{Grants, PartitionFollower, Placed, SubmitError, WorkspaceFollower};
use seriatim_types::PartitionId;

use crate::metrics::OneMore;
use crate::problem::Problem;
use crate::server::Api;
use crate::wire;

/// Events that are read at once, and held for a client that is slow to take them.
const PAGE: usize = 64;

/// What is followed.
#[derive(Debug)]
pub(crate) enum Source {
    Workspace(WorkspaceFollower),
    Partition(PartitionFollower),
}

impl Source {
    async fn next(&mut self) -> Result<Vec<Placed>, SubmitError> {
        match self {
            Self::Workspace(follower) => follower.next(PAGE).await,
            Self::Partition(follower) => follower.next(PAGE).await,
        }
    }

    fn id(&self, placed: &Placed) -> u64 {
        match self {
            Self::Workspace(_) => placed.place.workspace_offset.get(),
            Self::Partition(_) => placed.place.partition_offset.get(),
        }
    }

    /// The offset that comes next.
    fn offset(&self) -> u64 {
        match self {
            Self::Workspace(follower) => follower.offset().get(),
            Self::Partition(follower) => follower.offset().get(),
        }
    }
}

/// Whether a client wants to follow.
pub(crate) fn is_wanted(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    accept.is_some_and(|accept| accept.contains("text/event-stream"))
}

/// Where to begin: behind the last event that the client has seen, else where it asked.
pub(crate) fn start(headers: &HeaderMap, from: u64) -> Result<u64, Problem> {
    let Some(value) = headers.get("last-event-id") else { return Ok(from) };
    let last = value.to_str().ok().and_then(|text| text.parse::<u64>().ok());
    let next = last.and_then(|last| last.checked_add(1));
    next.ok_or_else(|| Problem::invalid("Last-Event-ID is the offset of an event"))
}

/// Follows until the client goes, its token is revoked, the server stops or something is wrong; the last event, `end`, tells the next offset.
pub(crate) fn answer(
    api: Api,
    grants: Option<Grants>,
    application: String,
    partition: PartitionId,
    source: Source,
) -> Response {
    let stop = api.stop.clone();
    let open = OneMore::new(&api.http.streams);
    let pages = stream::unfold(Some((api, application, source, open)), move |state| {
        let (stop, grants) = (stop.clone(), grants.clone());
        async move {
            let (api, application, mut source, open) = state?;
            let page = stop.run_until_cancelled(source.next()).await;
            // A token that was revoked meanwhile sees nothing more.
            let page = page.filter(|_| grants.is_none_or(|grants| api.engine.tokens().is_valid(&grants)));
            let (Some(Ok(placed)), Some(schema)) = (&page, api.engine.schema(&application)) else {
                let end = Event::default().event("end").data(source.offset().to_string());
                return Some((vec![end], None));
            };
            let event = |placed: &Placed| {
                let event = Event::default().id(source.id(placed).to_string());
                // Its JSON has no maps with keys that are not text, so it can be written.
                event.json_data(wire::event(schema, partition, placed)).unwrap_or_default()
            };
            let events: Vec<Event> = placed.iter().map(event).collect();
            Some((events, Some((api, application, source, open))))
        }
    });
    let events = pages.flat_map(|page| stream::iter(page.into_iter().map(Ok::<Event, Infallible>)));
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}
