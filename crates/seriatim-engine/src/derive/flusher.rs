//! The task that writes the overlay to the store and moves the checkpoint.

use std::future::Future;
use std::sync::Arc;

use seriatim_storage::{Durability, StoreError};

use super::checkpoint::{Checkpoint, Mark, Origin};
use super::derives::Derives;
use super::draft::lock;
use super::overlay::{FlushStart, Writing};
use super::partition::DerivedPartition;

/// Flushes at each interval, and earlier when enough is unflushed, until the partition is closed or has stopped. `before` runs
/// before each flush. After a failed flush it waits for the retry delay and continues: nothing is lost, because everything is in
/// the log and still in the overlay.
pub(crate) async fn run<D: Derives, F: Future<Output = ()>>(
    derived: &Arc<DerivedPartition<D>>,
    mut before: impl FnMut() -> F,
) {
    let stop = derived.stop.clone();
    stop.run_until_cancelled(async {
        loop {
            // After the interval, and after a notification: flush if there is something to flush.
            let _ = derived.env.timeout(derived.flush_interval, derived.wake.notified()).await;
            if derived.halted().is_some() {
                return;
            }
            before().await;
            if flush(derived).await.is_err() {
                derived.env.sleep(derived.env.jitter(derived.retry)).await;
            }
        }
    })
    .await;
}

/// Waits for a write in progress, then writes everything that is unflushed. Writes nothing if the partition has stopped.
pub(crate) async fn flush_all<D: Derives>(derived: &Arc<DerivedPartition<D>>) -> Result<(), StoreError> {
    let mut changes = derived.changes.subscribe();
    loop {
        changes.mark_unchanged();
        let start = lock(&derived.overlay).start_flush();
        match start {
            FlushStart::Begun(writing) => return finish(derived, writing).await,
            // The end of the write sends a change. An error would mean that the partition has ended.
            FlushStart::InProgress => drop(changes.changed().await),
            FlushStart::Nothing => return Ok(()),
        }
    }
}

/// Writes everything that is unflushed, or nothing if a write is in progress. Then syncs the store if much of it is not durable.
///
/// After an error of the write, the values are unflushed again, and the checkpoint is where it was. After an error of the sync,
/// the values are in the store, but count as not durable. Cancel-safe: a write that has begun continues in its own task.
pub(super) async fn flush<D: Derives>(derived: &Arc<DerivedPartition<D>>) -> Result<(), StoreError> {
    let (start, is_complete) = {
        let mut overlay = lock(&derived.overlay);
        (overlay.start_flush(), overlay.caught_up().is_some())
    };
    let is_settled = matches!(start, FlushStart::Nothing) && is_complete;
    if let FlushStart::Begun(writing) = start {
        finish(derived, writing).await?;
    }
    let synced = derived.sync_if_due().await;
    if synced.is_err() || is_settled {
        // The store has everything, so an earlier failure no longer applies.
        derived.note_flush(&synced);
    }
    derived.settle();
    synced
}

/// Completes a flush that has begun, in its own task. If the caller is dropped, the write still ends, and the overlay receives its
/// result. Otherwise the overlay would wait for that result permanently.
async fn finish<D: Derives>(
    derived: &Arc<DerivedPartition<D>>,
    writing: Arc<Writing>,
) -> Result<(), StoreError> {
    let owned = derived.clone();
    let written = derived.env.spawn(async move { write_out(&owned, &writing).await });
    written.await.unwrap_or_else(|error| Err(StoreError::InDoubt(error.to_string())))
}

/// Writes a layer, then removes it from the overlay. After an error the layer is unflushed again, also if the store may have
/// written it: writing it again gives the same result. A panic stops the partition.
///
/// The order matters: the values leave the overlay only after the store has them, so that a reader that checks the overlay first
/// and the store then always finds them.
async fn write_out<D: Derives>(derived: &DerivedPartition<D>, writing: &Writing) -> Result<(), StoreError> {
    let started = derived.env.instant();
    let result = derived.guard("a flush", write(derived, writing)).await;
    let result = result.unwrap_or_else(|panic| Err(StoreError::InDoubt(panic)));
    derived.note_flush(&result);
    derived.metrics.flush_seconds.record((derived.env.instant() - started).as_secs_f64());
    {
        let mut overlay = lock(&derived.overlay);
        match &result {
            Ok(()) => overlay.flushed(writing, derived.store.written()),
            Err(_) => overlay.failed(writing),
        }
        derived.metrics.set_unflushed(&overlay);
    }
    derived.settle();
    if let Err(error) = &result {
        derived.metrics.flush_failures.increment(1);
        tracing::warn!(partition = %derived.partition, %error, "a flush failed: its values remain in memory and are written again later");
    }
    derived.notify();
    result
}

/// Writes a layer and its checkpoint as one batch. The store has either both or neither, so the checkpoint never claims more than
/// the store has.
pub(super) async fn write<D: Derives>(
    derived: &DerivedPartition<D>,
    writing: &Writing,
) -> Result<(), StoreError> {
    let mut collected = derived.splits.collect();
    for (key, value) in &writing.layer.values {
        collected.put(key, value);
    }
    let definition = derived.derivation.sequences();
    let mut numbers: Vec<_> = writing.layer.numbers.iter().collect();
    // In the order of the store's keys.
    numbers.sort_unstable_by_key(|(workspace, _)| **workspace);
    collected.put_numbers(derived.partition, definition, numbers.into_iter());
    derived.splits.expect(&collected);
    let mut batch = collected.take_all();
    // A recovery has read the identity before anything could be flushed.
    let origin = derived.identity().map(|log| Origin { log, last: writing.last });
    let mark = Mark { next: writing.next, origin };
    Checkpoint::put(&mut batch, derived.partition, mark);
    let noted = derived.tap.begin_write(&batch, mark);
    let written = derived.store.write(batch, Durability::Buffered).await;
    noted.end(written.is_ok());
    written?;
    derived.splits.settle(collected.changed);
    Ok(())
}
