//! Asynchronous projectors: code that follows the log at its own pace, with an offset of its own.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::{Either, select};
use seriatim_env::Instant;
use seriatim_sequencer::{Status, StatusHandle};
use seriatim_storage::{Batch, Bulletin, Durability, ReadEntries, ReadLimit};
use seriatim_types::{Partition, PartitionOffset, panic_text};

use crate::command::apply::{decode_offset, encode_offset};
use crate::command::event::{Event, Place};
use crate::command::projector::Projected;
use crate::derive::keys;
use crate::partition::RunningPartition;

/// What one read of the log asks for.
const PAGE: ReadLimit = ReadLimit { entries: 256, bytes: 1 << 20 };

/// An offset is kept after so long at the latest, and not more often: keeping it is a synced write.
const KEEP_INTERVAL: Duration = Duration::from_millis(100);

/// Follows the log of each partition, in order, one event at a time: for what may come later than the answer, or takes
/// long, or lies outside.
///
/// Each event is handed over at least once, and once more after a crash if its offset was not kept by then: have the
/// receiver tell repeats apart by partition and offset. Offsets lie beside the log, and are kept when the store is
/// deleted or restored. While a restored copy is fenced, nothing is handed over; nor is anything after the partition has
/// stopped.
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

/// Follows one partition until it is closed, or has stopped.
pub(crate) async fn run(
    shared: Arc<RunningPartition>,
    status: StatusHandle,
    projector: Arc<dyn AsyncProjector>,
) {
    let stop = shared.derived.stop.clone();
    let mut progress = Progress::new(&shared, projector.name());
    let has_stopped = {
        let following = pin!(follow(&shared, &*projector, &mut progress));
        let stopped = pin!(until_stopped(&shared, &status));
        let ended = stop.run_until_cancelled(select(following, stopped)).await;
        matches!(ended, Some(Either::Right(_)))
    };
    if has_stopped {
        // The log may have another owner by now, whose projector hands over and keeps the offset.
        let name = projector.name();
        tracing::warn!(partition = %shared.partition, projector = name, "it ends, because the partition has stopped");
        return;
    }
    // An error means that the last events are handed over once more, which is allowed.
    let _ = progress.keep(&shared).await;
}

/// Follows, and tries again after each failure.
async fn follow(shared: &RunningPartition, projector: &dyn AsyncProjector, progress: &mut Progress) {
    loop {
        let Err(reason) = progress.follow(shared, projector).await else { return };
        let name = projector.name();
        tracing::warn!(partition = %shared.partition, projector = name, %reason, "it waits, and tries again");
        shared.env.sleep(shared.env.jitter(shared.options.retry)).await;
    }
}

/// Returns when the partition has stopped, by itself or in a recovery.
async fn until_stopped(shared: &RunningPartition, status: &StatusHandle) {
    let mut changes = shared.derived.changes.subscribe();
    loop {
        changes.mark_unchanged();
        if shared.derived.halted().is_some() || matches!(status.status(), Status::Stopped(_)) {
            return;
        }
        // Only the partition's end closes it, and that ends this task too.
        let _ = changes.changed().await;
    }
}

/// How far a projector has come in a partition.
struct Progress {
    bulletin: Bulletin,
    key: String,
    /// The offset that is kept, once it is known, and the next event to hand over.
    kept: Option<PartitionOffset>,
    next: PartitionOffset,
    /// When it was kept last.
    kept_at: Option<Instant>,
}

impl Progress {
    fn new(shared: &RunningPartition, name: &str) -> Self {
        let Partition { application, id } = shared.partition;
        let key = format!("projector/{application}/{id}/{name}");
        let (bulletin, next) = (shared.log.bulletin(), PartitionOffset::FIRST);
        Self { bulletin, key, kept: None, next, kept_at: None }
    }

    /// Continues from the offset that was kept; ends with the first thing that goes wrong.
    async fn follow(
        &mut self,
        shared: &RunningPartition,
        projector: &dyn AsyncProjector,
    ) -> Result<(), String> {
        // A restored copy does not know what was handed over after its backup.
        shared.fence.until_open().await;
        if self.kept.is_none() {
            self.next = self.find(shared, projector.name()).await?;
            self.kept = Some(self.next);
        }
        let mut follower = shared.log.follow(shared.partition, self.next);
        loop {
            let page = match self.kept_until(shared) {
                None => follower.next(PAGE).await,
                Some(left) => match shared.env.timeout(left, follower.next(PAGE)).await {
                    Ok(page) => page,
                    Err(_) => {
                        self.keep(shared).await?;
                        continue;
                    }
                },
            };
            let page = page.map_err(|error| error.to_string())?;
            shared.fence.until_open().await;
            let result = take_page(shared, projector, &page, &mut self.next).await;
            if result.is_err() || self.kept_until(shared).is_some_and(|left| left.is_zero()) {
                self.keep(shared).await?;
            }
            result?;
        }
    }

    /// How long the offset need not be kept yet; `None` if it is kept.
    fn kept_until(&self, shared: &RunningPartition) -> Option<Duration> {
        if self.kept == Some(self.next) {
            return None;
        }
        let due = self.kept_at.map(|at| at + KEEP_INTERVAL);
        Some(due.map_or(Duration::ZERO, |due| due.saturating_duration_since(shared.env.instant())))
    }

    /// Keeps the offset, if it has changed.
    async fn keep(&mut self, shared: &RunningPartition) -> Result<(), String> {
        if self.kept.is_none_or(|kept| kept == self.next) {
            return Ok(());
        }
        self.kept_at = Some(shared.env.instant());
        let kept = self.bulletin.put(&self.key, &encode_offset(self.next)).await;
        kept.map_err(|error| error.to_string())?;
        self.kept = Some(self.next);
        Ok(())
    }

    /// The offset to continue from.
    async fn find(&self, shared: &RunningPartition, name: &str) -> Result<PartitionOffset, String> {
        let tail = shared.log.tail(shared.partition).await.map_err(|error| error.to_string())?;
        let kept = self.bulletin.get(&self.key).await.map_err(|error| error.to_string())?;
        let kept = match kept {
            Some(kept) => Some(kept),
            None => self.take_over(shared, name).await?,
        };
        let partition = shared.partition;
        let Some(kept) = kept else {
            if tail > PartitionOffset::FIRST {
                tracing::warn!(%partition, projector = name, events = tail.get() - 1, "it has no offset here: every event is handed over");
            }
            return Ok(PartitionOffset::FIRST);
        };
        let kept = decode_offset(&kept).map_err(|problem| format!("its offset {}: {problem}", self.key))?;
        if kept > tail {
            // The log is another one than it was: what follows at its end has not been handed over.
            tracing::warn!(%partition, projector = name, offset = %kept, %tail, "its offset lies beyond the end of the log: it continues there");
        }
        Ok(kept.min(tail))
    }

    /// An offset that an earlier program has kept in the store. It moves to the bulletin, once.
    async fn take_over(&self, shared: &RunningPartition, name: &str) -> Result<Option<Bytes>, String> {
        let key = keys::projector(shared.partition, name);
        let found = shared.derived.store.get(key.as_key()).await.map_err(|error| error.to_string())?;
        let Some(found) = found else { return Ok(None) };
        self.bulletin.put(&self.key, &found).await.map_err(|error| error.to_string())?;
        let mut batch = Batch::new();
        batch.remove(key.as_key());
        // What an error leaves there is not used: the bulletin has an offset.
        let _ = shared.derived.store.write(batch, Durability::Buffered).await;
        tracing::info!(partition = %shared.partition, projector = name, "its offset has moved from the store to the bulletin");
        Ok(Some(found))
    }
}

/// Hands over a page of events. `next` says how far it came, also if it is dropped half-way.
async fn take_page(
    shared: &RunningPartition,
    projector: &dyn AsyncProjector,
    page: &ReadEntries,
    next: &mut PartitionOffset,
) -> Result<(), String> {
    for (offset, entry) in page.iter() {
        let event = Event::decode(entry.body()).map_err(|problem| format!("event {offset}: {problem}"))?;
        let place = Place::of(offset, &entry);
        let projected = Projected { place, event: &event, schema: &shared.derivation.schema };
        // A panic of the application's code is an error like others: the event is handed over again.
        let taken = AssertUnwindSafe(projector.take(projected)).catch_unwind().await;
        let taken = taken.unwrap_or_else(|panic| Err(format!("it panicked: {}", panic_text(&*panic))));
        taken.map_err(|reason| format!("event {offset}: {reason}"))?;
        *next = offset.next().unwrap_or(offset);
    }
    Ok(())
}
