//! Asynchronous projectors: code that follows the log at its own pace and has its own offset.

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

use crate::command::event::{Event, Place};
use crate::command::projector::Projected;
use crate::derive::keys;
use crate::partition::RunningPartition;
use crate::partition::projector_offset::ProjectorOffset;

/// The limit of one read of the log.
const PAGE: ReadLimit = ReadLimit { entries: 256, bytes: 1 << 20 };

/// The interval at which a changed offset is stored. Not more often, because each time costs a synced write.
const KEEP_INTERVAL: Duration = Duration::from_millis(100);

/// Follows the log of each partition, in order, one event at a time. It is for work that may happen after the answer, that takes
/// long, or that changes another system.
///
/// Each event is delivered at least once. After a crash an event is delivered again if its offset was not stored before the
/// crash, so the receiver must detect repeats by partition and offset. The offsets are on the log's bulletin: they remain when
/// the store is deleted or rebuilt. An offset of another log does not count. No event is delivered while a restored copy is fenced, or after the partition has stopped.
#[async_trait]
pub trait AsyncProjector: Send + Sync + 'static {
    /// The name under which the offsets are stored: 1 to 100 of `A-Z a-z 0-9 . _ -`. A projector with a new name begins at the
    /// first event.
    fn name(&self) -> &str;

    /// Processes an event.
    ///
    /// # Errors
    ///
    /// The reason of the failure. The same event is delivered again after a delay, and no later event before it.
    async fn take(&self, event: Projected<'_>) -> Result<(), String>;
}

impl fmt::Debug for dyn AsyncProjector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AsyncProjector({})", self.name())
    }
}

/// Follows one partition until it is closed or has stopped.
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
        matches!(ended, Some(Either::Right((Ended::Stopped, _))))
    };
    if has_stopped {
        // Another owner may have the log now. Its projector delivers the events and stores the offset.
        let name = projector.name();
        tracing::warn!(partition = %shared.partition, projector = name, "the asynchronous projector ends, because the partition has stopped");
        return;
    }
    // After an error the last events are delivered again, which is allowed.
    let _ = progress.keep(&shared).await;
}

/// Follows, and tries again after each failure.
async fn follow(shared: &RunningPartition, projector: &dyn AsyncProjector, progress: &mut Progress) {
    loop {
        let Err(reason) = progress.follow(shared, projector).await else { return };
        let name = projector.name();
        tracing::warn!(partition = %shared.partition, projector = name, %reason, "the asynchronous projector failed: the same event is delivered again after a delay");
        shared.env.sleep(shared.env.jitter(shared.options.retry)).await;
    }
}

/// Why an asynchronous projector ends.
enum Ended {
    /// The partition has stopped, or another owner has taken it over.
    Stopped,
    /// The partition was closed or released.
    Released,
}

/// Returns when the partition is no longer owned.
async fn until_stopped(shared: &RunningPartition, status: &StatusHandle) -> Ended {
    let mut changes = shared.derived.changes.subscribe();
    loop {
        changes.mark_unchanged();
        if shared.derived.halted().is_some() || shared.deposed().is_some() {
            return Ended::Stopped;
        }
        match status.status() {
            Status::Stopped(_) => return Ended::Stopped,
            Status::Finished => return Ended::Released,
            _ => {}
        }
        // An error means that the partition has ended, which also ends this task.
        let _ = changes.changed().await;
    }
}

/// The progress of a projector in a partition.
struct Progress {
    bulletin: Bulletin,
    key: String,
    /// The stored offset; `None` until it was read.
    kept: Option<PartitionOffset>,
    /// The next event to deliver.
    next: PartitionOffset,
    /// When the offset was last stored.
    kept_at: Option<Instant>,
}

impl Progress {
    fn new(shared: &RunningPartition, name: &str) -> Self {
        let Partition { application, id } = shared.partition;
        let key = format!("projector/{application}/{id}/{name}");
        let (bulletin, next) = (shared.log.bulletin(), PartitionOffset::FIRST);
        Self { bulletin, key, kept: None, next, kept_at: None }
    }

    /// Continues from the stored offset. Returns the first failure.
    async fn follow(
        &mut self,
        shared: &RunningPartition,
        projector: &dyn AsyncProjector,
    ) -> Result<(), String> {
        // A restored copy does not know which events were delivered after its backup.
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

    /// The time until the offset is due to be stored; `None` if the stored offset is current.
    fn kept_until(&self, shared: &RunningPartition) -> Option<Duration> {
        if self.kept == Some(self.next) {
            return None;
        }
        let due = self.kept_at.map(|at| at + KEEP_INTERVAL);
        Some(due.map_or(Duration::ZERO, |due| due.saturating_duration_since(shared.env.instant())))
    }

    /// Stores the offset if it has changed.
    async fn keep(&mut self, shared: &RunningPartition) -> Result<(), String> {
        if self.kept.is_none_or(|kept| kept == self.next) {
            return Ok(());
        }
        self.kept_at = Some(shared.env.instant());
        let log = shared.derived.identify().await.map_err(|error| error.to_string())?;
        let kept = self.bulletin.put(&self.key, &ProjectorOffset::encode(self.next, log)).await;
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
                tracing::warn!(%partition, projector = name, events = tail.get() - 1, "the asynchronous projector has no stored offset: it starts with the first event");
            }
            return Ok(PartitionOffset::FIRST);
        };
        let ProjectorOffset { next: kept, log: of } = ProjectorOffset::decode(&kept).map_err(|problem| {
            format!("the projector's stored offset {} cannot be read: {problem}", self.key)
        })?;
        let log = shared.derived.identify().await.map_err(|error| error.to_string())?;
        if let Some(of) = of.filter(|of| *of != log) {
            tracing::warn!(%partition, projector = name, %of, %log, "the asynchronous projector's stored offset is of another log: it starts with the first event");
            return Ok(PartitionOffset::FIRST);
        }
        if kept > tail {
            // The log has lost events or was replaced. No event after its present end has been delivered.
            tracing::warn!(%partition, projector = name, offset = %kept, %tail, "the asynchronous projector's offset is beyond the end of the log: it continues at the end of the log");
        }
        Ok(kept.min(tail))
    }

    /// An offset that an earlier version stored in the store. It is moved to the bulletin once.
    async fn take_over(&self, shared: &RunningPartition, name: &str) -> Result<Option<Bytes>, String> {
        let key = keys::projector(shared.partition, name);
        let found = shared.derived.store.get(key.as_key()).await.map_err(|error| error.to_string())?;
        let Some(found) = found else { return Ok(None) };
        self.bulletin.put(&self.key, &found).await.map_err(|error| error.to_string())?;
        let mut batch = Batch::new();
        batch.remove(key.as_key());
        // After an error the old value remains in the store. It is not used, because the bulletin has an offset.
        let _ = shared.derived.store.write(batch, Durability::Buffered).await;
        tracing::info!(partition = %shared.partition, projector = name, "the asynchronous projector's offset was moved from the store to the bulletin");
        Ok(Some(found))
    }
}

/// Delivers a page of events. `next` is the progress. It is correct also if the future is dropped before its end.
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
        // A panic of the application's code counts as an error: the event is delivered again.
        let taken = AssertUnwindSafe(projector.take(projected)).catch_unwind().await;
        let taken =
            taken.unwrap_or_else(|panic| Err(format!("the projector panicked: {}", panic_text(&*panic))));
        taken.map_err(|reason| format!("event {offset}: {reason}"))?;
        *next = offset.next().unwrap_or(offset);
    }
    Ok(())
}
