//! Asynchronous projectors: code that follows the log at its own pace, with an offset of its own.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use seriatim_storage::{ReadEntries, ReadLimit};
use seriatim_types::PartitionOffset;

use crate::apply::{decode_offset, encode_offset};
use crate::event::{Event, Place};
use crate::keys;
use crate::partition::Shared;
use crate::projector::Projected;

/// What one read of the log asks for: after so many events the offset is kept.
const PAGE: ReadLimit = ReadLimit { entries: 256, bytes: 1 << 20 };

/// Follows the log of each partition, in order, one event at a time: for what may come later than the answer, or takes
/// long, or lies outside.
///
/// Each event is handed over at least once, and once more after a crash if its offset was not kept by then: have the
/// receiver tell repeats apart by partition and offset.
#[async_trait]
pub trait AsyncProjector: Send + Sync + 'static {
    /// Under which name its offsets are kept: 1 to 100 of `A-Z a-z 0-9 . _ -`. Under a new name it begins at the first
    /// event.
    fn name(&self) -> &str;

    /// Takes an event in.
    ///
    /// # Errors
    ///
    /// Why not: the event comes again after a while, and none behind it before.
    async fn take(&self, event: Projected<'_>) -> Result<(), String>;
}

impl fmt::Debug for dyn AsyncProjector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AsyncProjector({})", self.name())
    }
}

/// Follows one partition until it is closed.
pub(crate) async fn run(shared: Arc<Shared>, projector: Arc<dyn AsyncProjector>) {
    let stop = shared.stop.clone();
    stop.run_until_cancelled(async {
        loop {
            let Err(reason) = follow(&shared, &*projector).await else { return };
            let name = projector.name();
            tracing::warn!(partition = %shared.partition, projector = name, %reason, "it waits, and tries again");
            shared.env.sleep(shared.env.jitter(shared.options.retry)).await;
        }
    })
    .await;
}

/// Goes on from the offset that was kept; ends with the first thing that goes wrong.
async fn follow(shared: &Shared, projector: &dyn AsyncProjector) -> Result<(), String> {
    let key = keys::projector(shared.partition, projector.name());
    let kept = shared.store.get(key.as_key()).await.map_err(|error| error.to_string())?;
    let from = match kept {
        None => PartitionOffset::FIRST,
        Some(bytes) => decode_offset(&bytes).map_err(|problem| format!("its offset at {key}: {problem}"))?,
    };
    let mut follower = shared.log.follow(shared.partition, from);
    loop {
        let page = follower.next(PAGE).await.map_err(|error| error.to_string())?;
        let (next, result) = take_page(shared, projector, &page).await;
        if next > page.first() {
            let kept = shared.store.put(key.as_key(), &encode_offset(next)).await;
            kept.map_err(|error| error.to_string())?;
        }
        result?;
    }
}

/// Hands over a page of events; says how far it came.
async fn take_page(
    shared: &Shared,
    projector: &dyn AsyncProjector,
    page: &ReadEntries,
) -> (PartitionOffset, Result<(), String>) {
    for (offset, entry) in page.iter() {
        let event = match Event::decode(entry.body()) {
            Ok(event) => event,
            Err(problem) => return (offset, Err(format!("event {offset}: {problem}"))),
        };
        let place = Place::of(offset, &entry);
        let projected = Projected { place, event: &event, schema: &shared.derivation.schema };
        if let Err(reason) = projector.take(projected).await {
            return (offset, Err(format!("event {offset}: {reason}")));
        }
    }
    (page.next(), Ok(()))
}
