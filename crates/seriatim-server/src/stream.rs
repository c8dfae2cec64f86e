//! Logs as server-sent events: first the events that exist, then each new event.
//!
//! Each event has its offset as `id`, so that a client that connects again continues after the last event that it received.
//! Nothing is queued for a client: for a slow client the server keeps an offset of the log and at most one page of events.

use std::convert::Infallible;

use axum::http::{HeaderMap, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, StreamExt};
use seriatim_engine::{Grants, PartitionFollower, Placed, SubmitError, WorkspaceFollower};
use seriatim_types::PartitionId;

use crate::metrics::GaugeGuard;
use crate::problem::Problem;
use crate::server::Api;
use crate::wire;

/// Events that are read together, and kept in memory for a slow client.
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

    /// The offset of the next event.
    fn offset(&self) -> u64 {
        match self {
            Self::Workspace(follower) => follower.offset().get(),
            Self::Partition(follower) => follower.offset().get(),
        }
    }
}

/// Whether the client requests a stream.
pub(crate) fn is_requested(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    accept.is_some_and(|accept| accept.contains("text/event-stream"))
}

/// The first offset of the stream: after the last event that the client received, or else the requested one.
pub(crate) fn start(headers: &HeaderMap, from: u64) -> Result<u64, Problem> {
    let Some(value) = headers.get("last-event-id") else { return Ok(from) };
    let last = value.to_str().ok().and_then(|text| text.parse::<u64>().ok());
    let next = last.and_then(|last| last.checked_add(1));
    next.ok_or_else(|| Problem::invalid("Last-Event-ID has to be the offset of an event"))
}

/// Streams until the client disconnects, its token is revoked, the server stops or an error occurs. The last event, `end`,
/// contains the next offset.
pub(crate) fn answer(
    api: Api,
    grants: Option<Grants>,
    application: String,
    partition: PartitionId,
    source: Source,
) -> Response {
    let stop = api.stop.clone();
    let open = GaugeGuard::new(&api.http.streams);
    let pages = stream::unfold(Some((api, application, source, open)), move |state| {
        let (stop, grants) = (stop.clone(), grants.clone());
        async move {
            let (api, application, mut source, open) = state?;
            let page = stop.run_until_cancelled(source.next()).await;
            // The stream ends if the token was revoked meanwhile.
            let page = page.filter(|_| grants.is_none_or(|grants| api.engine.tokens().is_valid(&grants)));
            let (Some(Ok(placed)), Some(schema)) = (&page, api.engine.schema(&application)) else {
                let end = Event::default().event("end").data(source.offset().to_string());
                return Some((vec![end], None));
            };
            let event = |placed: &Placed| {
                let event = Event::default().id(source.id(placed).to_string());
                // All keys in its JSON are text, so writing it cannot fail.
                event.json_data(wire::event(schema, partition, placed)).unwrap_or_default()
            };
            let events: Vec<Event> = placed.iter().map(event).collect();
            Some((events, Some((api, application, source, open))))
        }
    });
    let events = pages.flat_map(|page| stream::iter(page.into_iter().map(Ok::<Event, Infallible>)));
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}
