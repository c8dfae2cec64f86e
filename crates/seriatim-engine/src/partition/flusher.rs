//! The task that writes the overlay to the store and moves the checkpoint.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use seriatim_storage::{Batch, Durability, StoreError};

use super::Shared;
use super::shared::renewed;
use super::sweep::{self, Position};
use crate::derive::{Checkpoint, FlushStart, Swept, Writing, lock};
use crate::keys;

/// Flushes when enough waits or has waited long enough, until it is stopped.
pub(crate) async fn run(shared: Arc<Shared>) {
    let stop = shared.stop.clone();
    stop.run_until_cancelled(async {
        loop {
            // Both ways out mean the same: it is time to look.
            let _ = shared.env.timeout(shared.options.flush_interval, shared.wake.notified()).await;
            if shared.halted().is_some() {
                return;
            }
            if shared.is_store_renewed() {
                shared.renewed.notify_one();
                continue;
            }
            // A panic stops the partition, and with it this task.
            let _ = shared.guard("a sweep", sweep::run(&shared)).await;
            if flush(&shared, Durability::Buffered).await.is_err() {
                shared.env.sleep(shared.env.jitter(shared.options.retry)).await;
            }
        }
    })
    .await;
}

/// Waits for a write that is under way, then writes everything that waits, durably. Nothing of a partition that has
/// stopped.
pub(crate) async fn flush_all(shared: &Arc<Shared>) -> Result<(), StoreError> {
    let mut changes = shared.changes.subscribe();
    loop {
        changes.mark_unchanged();
        let start = lock(&shared.overlay).start_flush();
        match start {
            FlushStart::Begun(writing) => break finish(shared, writing, Durability::Synced).await?,
            // Only the partition's end closes it.
            FlushStart::UnderWay => drop(changes.changed().await),
            FlushStart::Nothing => break,
        }
    }
    // What earlier flushes wrote may still be buffered.
    shared.store.sync().await
}

/// Writes everything that waits; nothing if a write is under way. After an error all of it waits again. Dropping the future
/// does not end a write that has begun.
pub(crate) async fn flush(shared: &Arc<Shared>, durability: Durability) -> Result<(), StoreError> {
    let (start, is_complete) = {
        let mut overlay = lock(&shared.overlay);
        (overlay.start_flush(), overlay.caught_up().is_some())
    };
    match start {
        FlushStart::Begun(writing) => finish(shared, writing, durability).await,
        FlushStart::UnderWay => Ok(()),
        FlushStart::Nothing => {
            if is_complete {
                // A recovery found that the store has everything: an earlier failure is over.
                shared.note_flush(&Ok(()));
            }
            Ok(())
        }
    }
}

/// Does a flush that has begun, in a task of its own: it is not dropped half-way if the caller is.
async fn finish(
    shared: &Arc<Shared>,
    writing: Arc<Writing>,
    durability: Durability,
) -> Result<(), StoreError> {
    let owned = shared.clone();
    let written = shared.env.spawn(async move { write_out(&owned, &writing, durability).await });
    written.await.unwrap_or_else(|error| Err(StoreError::InDoubt(error.to_string())))
}

/// Writes a layer and lets it leave the overlay; after an error it waits again. A panic stops the partition.
async fn write_out(shared: &Shared, writing: &Writing, durability: Durability) -> Result<(), StoreError> {
    let started = shared.env.instant();
    let result = shared.guard("a flush", write(shared, writing, durability)).await;
    let mut result = result.unwrap_or_else(|panic| Err(StoreError::InDoubt(panic)));
    if shared.is_store_renewed() {
        // It was written to the store before, to the one after, or to neither.
        result = Err(renewed());
    }
    shared.note_flush(&result);
    shared.metrics.flush_seconds.record((shared.env.instant() - started).as_secs_f64());
    {
        let mut overlay = lock(&shared.overlay);
        match &result {
            Ok(()) => overlay.flushed(writing),
            Err(_) => overlay.failed(writing),
        }
        shared.metrics.set_unflushed(&overlay);
    }
    if let Err(error) = &result {
        shared.metrics.flush_failures.increment(1);
        tracing::warn!(partition = %shared.partition, %error, "a flush failed; what waits is kept and tried again");
        shared.reopen_store().await;
    }
    shared.notify();
    result
}

/// Values first, the checkpoint last; both at once where a batch is there whole or not at all.
async fn write(shared: &Shared, writing: &Writing, durability: Durability) -> Result<(), StoreError> {
    // The generation that the overlay lies on: no recovery changes it while a write is under way. In a later one what was
    // written before may be missing, and a checkpoint would hide that.
    let generation = shared.store_generation.load(Ordering::Acquire);
    let mut collected = shared.splits.collect();
    for (key, value) in &writing.layer.values {
        collected.put(key, value);
    }
    let definition = shared.derivation.schema.sequences();
    collected.put_numbers(shared.partition, definition, writing.layer.numbers.iter());
    let swept = writing.layer.swept;
    if let Some(Swept { from, to }) = swept {
        // What is written in part must not be taken for a loss.
        put_swept(&mut collected.parts, shared, Position { done: from, reach: to });
    }
    shared.splits.expect(&collected);
    let mut batch = if shared.store.batches_are_atomic() {
        collected.take_all()
    } else {
        for batch in [&mut collected.parts, &mut collected.values].map(std::mem::take) {
            if !batch.is_empty() {
                shared.store.write(batch.only_in(generation), Durability::Synced).await?;
            }
        }
        std::mem::take(&mut collected.removals)
    };
    if let Some(Swept { to, .. }) = swept {
        put_swept(&mut batch, shared, Position { done: to, reach: to });
    }
    Checkpoint::put(&mut batch, shared.partition, writing.next);
    shared.store.write(batch.only_in(generation), durability).await?;
    shared.splits.settle(collected.changed);
    Ok(())
}

fn put_swept(batch: &mut Batch, shared: &Shared, position: Position) {
    batch.put(keys::sweep(shared.partition).as_key(), &position.encode());
}
