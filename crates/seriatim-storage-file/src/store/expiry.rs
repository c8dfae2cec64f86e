//! Background expiry: gives back the space of values that have expired.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use fjall::Readable as _;
use seriatim_storage::StoreError;
use seriatim_types::Timestamp;

use super::engine::Engine;
use super::shared::Shared;
use super::value::Stored;
use super::{error, expiry_key};

/// Values removed in one turn. Bounds how long other writers wait for it.
const REMOVED_MAX: usize = 512;

/// Whether any value has a TTL.
pub(super) fn any(engine: &Engine) -> Result<bool, StoreError> {
    let first = engine.snapshot().first_key_value(&engine.expiry);
    first.map_or(Ok(false), |first| first.key().map(|_| true).map_err(|error| error::of_read(&error)))
}

/// Removes what has expired, again and again, until the store is closed or dropped. While no value has a TTL, it
/// sleeps.
pub(super) fn start(shared: &Arc<Shared>) {
    let (env, stop) = (shared.env.clone(), shared.stop.clone());
    let (interval, wake) = (shared.options.expiry_interval, shared.expiring_wake.clone());
    let shared = Arc::downgrade(shared);
    let sleeper = env.clone();
    let passes = async move {
        loop {
            if !is_expiring(&shared) {
                wake.notified().await;
            }
            sleeper.sleep(interval).await;
            let Some(shared) = shared.upgrade() else { return };
            match remove_due(&shared).await {
                Ok(()) => {}
                Err(StoreError::Closed) => return,
                Err(error) => {
                    tracing::warn!(%error, "values that have expired could not be removed; trying again");
                }
            }
        }
    };
    env.spawn(async move { stop.run_until_cancelled_owned(passes).await });
}

fn is_expiring(shared: &Weak<Shared>) -> bool {
    shared.upgrade().is_some_and(|shared| shared.expiring.load(Ordering::Acquire))
}

/// Removes everything that is due, a part per turn.
async fn remove_due(shared: &Arc<Shared>) -> Result<(), StoreError> {
    loop {
        let now = shared.env.now();
        let in_turn = {
            let shared = shared.clone();
            move |engine: &Engine| {
                let removed = remove_some(engine, now)?;
                shared.expiring.store(any(engine)?, Ordering::Release);
                engine.release_journals();
                Ok(removed)
            }
        };
        if shared.write(in_turn).await? < REMOVED_MAX {
            return Ok(());
        }
    }
}

/// Removes the values of the first index keys that are due, and those keys. A value that was written again has another
/// expiry, or none, and stays.
fn remove_some(engine: &Engine, now: Timestamp) -> Result<usize, StoreError> {
    let failed = |error| error::of_read(&error);
    let mut batch = engine.batch(2 * REMOVED_MAX);
    let mut removed = 0;
    for entry in engine.snapshot().range(&engine.expiry, expiry_key::due(now)).take(REMOVED_MAX) {
        let key = entry.key().map_err(failed)?;
        let (expires, physical) = expiry_key::decode(&key)
            .ok_or_else(|| StoreError::Corrupt(format!("{key:02x?} is no key of the expiry index")))?;
        if let Some(bytes) = engine.pairs.get(physical).map_err(failed)?
            && Stored::decode(&bytes)?.expires == Some(expires)
        {
            batch.remove(&engine.pairs, physical);
        }
        batch.remove(&engine.expiry, key);
        removed += 1;
    }
    if removed > 0 {
        engine.commit(batch)?;
    }
    Ok(removed)
}
