//! The task that writes the overlay to the store and moves the checkpoint.

use std::future::Future;
use std::sync::Arc;

use seriatim_storage::{Durability, StoreError};

use super::checkpoint::Checkpoint;
use super::derives::Derives;
use super::draft::lock;
use super::overlay::{FlushStart, Writing};
use super::partition::DerivedPartition;

/// Flushes when enough waits or has waited long enough, until it is stopped. Before each flush something else may be done.
pub(crate) async fn run<D: Derives, F: Future<Output = ()>>(
    derived: &Arc<DerivedPartition<D>>,
    mut before: impl FnMut() -> F,
) {
    let stop = derived.stop.clone();
    stop.run_until_cancelled(async {
        loop {
            // Both ways out mean the same: it is time to look.
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

/// Waits for a write that is under way, then writes everything that waits. Nothing of a partition that has stopped.
pub(crate) async fn flush_all<D: Derives>(derived: &Arc<DerivedPartition<D>>) -> Result<(), StoreError> {
    let mut changes = derived.changes.subscribe();
    loop {
        changes.mark_unchanged();
        let start = lock(&derived.overlay).start_flush();
        match start {
            FlushStart::Begun(writing) => return finish(derived, writing).await,
            // Only the partition's end closes it.
            FlushStart::UnderWay => drop(changes.changed().await),
            FlushStart::Nothing => return Ok(()),
        }
    }
}

/// Writes everything that waits; nothing if a write is under way. Syncs the store if it was handed a lot. After an error what
/// was not written waits again. Dropping the future does not end a write that has begun.
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
        // If the store has everything, an earlier failure is over.
        derived.note_flush(&synced);
    }
    derived.settle();
    synced
}

/// Does a flush that has begun, in a task of its own: it is not dropped half-way if the caller is.
async fn finish<D: Derives>(
    derived: &Arc<DerivedPartition<D>>,
    writing: Arc<Writing>,
) -> Result<(), StoreError> {
    let owned = derived.clone();
    let written = derived.env.spawn(async move { write_out(&owned, &writing).await });
    written.await.unwrap_or_else(|error| Err(StoreError::InDoubt(error.to_string())))
}

/// Writes a layer and lets it leave the overlay; after an error it waits again. A panic stops the partition.
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
        tracing::warn!(partition = %derived.partition, %error, "a flush failed; what waits is kept and tried again");
    }
    derived.notify();
    result
}

/// One batch: what it has is in the store together with the checkpoint that says so, or not at all.
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
    // Neighbours in the store one after another.
    numbers.sort_unstable_by_key(|(workspace, _)| **workspace);
    collected.put_numbers(derived.partition, definition, numbers.into_iter());
    derived.splits.expect(&collected);
    let mut batch = collected.take_all();
    Checkpoint::put(&mut batch, derived.partition, writing.next);
    derived.store.write(batch, Durability::Buffered).await?;
    derived.splits.settle(collected.changed);
    Ok(())
}
