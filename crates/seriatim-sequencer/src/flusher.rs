//! The task that writes the overlay to the store.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use seriatim_storage::{Batch, Durability, StoreError};

use crate::Stored;
use crate::checkpoint::{self, CheckpointKey};
use crate::numbers_codec::NumbersKey;
use crate::stored::PoisonGuard;
use crate::unflushed::Writing;

/// Flushes by size, by timer and on overflow until it is stopped; then once more, if the stop is a clean one.
///
/// One batch is written at a time, here or by recovery, so no older value can follow a newer one.
pub(crate) async fn run(stored: Arc<Stored>) -> Result<(), StoreError> {
    let _guard = PoisonGuard(&stored.shared);
    let mut failed = false;
    loop {
        let work = async {
            if failed {
                stored.env.sleep(stored.env.jitter(stored.options.retry)).await;
                return true;
            }
            wait_for_work(&stored).await
        };
        let Some(due) = stored.shared.stop.run_until_cancelled(work).await else {
            break;
        };
        if due {
            failed = flush(&stored).await.is_err();
        }
    }
    if stored.flush_at_end.load(Ordering::Acquire) { flush(&stored).await } else { Ok(()) }
}

/// Returns when enough waits or the timer has run out; says whether there is something to flush.
async fn wait_for_work(stored: &Stored) -> bool {
    let woken = async {
        while !stored.unflushed().wants_flush() {
            stored.wake.notified().await;
        }
    };
    match stored.env.timeout(stored.options.flush_interval, woken).await {
        Ok(()) => true,
        Err(_) => stored.unflushed().has_work(),
    }
}

/// Writes everything that waits; nothing if a write is under way. After an error all of it waits again. Not cancel-safe:
/// dropped half-way, the write counts as under way for ever.
pub(crate) async fn flush(stored: &Stored) -> Result<(), StoreError> {
    let Some(writing) = stored.unflushed().start_flush() else {
        return Ok(());
    };
    let started = stored.env.instant();
    let result = write(stored, &writing).await;
    stored.metrics.flush_seconds.record((stored.env.instant() - started).as_secs_f64());
    match &result {
        Ok(()) => stored.unflushed().flushed(writing),
        Err(error) => {
            stored.metrics.flush_failures.increment(1);
            tracing::warn!(partition = %stored.partition, %error, "a flush failed; what waits is kept and tried again");
            stored.unflushed().failed(&writing);
        }
    }
    stored.tell_unflushed();
    result
}

/// Values first, the checkpoint last; both at once only where a batch is there whole or not at all.
async fn write(stored: &Stored, writing: &Writing) -> Result<(), StoreError> {
    let mut batch = Batch::new();
    let mut value = Vec::new();
    let mut values: Vec<_> = writing.values.iter().collect();
    // Neighbours in the store one after another, which is where a store finds places fastest.
    values.sort_unstable_by_key(|(workspace, _)| **workspace);
    for (workspace, numbers) in values {
        value.clear();
        numbers.encode(&stored.definition, &mut value);
        let key = NumbersKey::new(stored.partition.application, *workspace);
        batch.put(key.as_key(), &value);
    }
    if !stored.store.batches_are_atomic() && !batch.is_empty() {
        stored.store.write(batch, Durability::Synced).await?;
        batch = Batch::new();
    }
    let key = CheckpointKey::new(stored.partition);
    batch.put(key.as_key(), &checkpoint::encode(writing.next));
    stored.store.write(batch, Durability::Synced).await?;
    tracing::trace!(partition = %stored.partition, checkpoint = %writing.next, "flushed");
    Ok(())
}
