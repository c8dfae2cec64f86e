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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use seriatim_env::Env;
    use seriatim_storage::{Key, Store, StoreBackend as _};

    use super::super::{FjallStore, StoreOptions};
    use super::*;

    const KEY: Key<'static> = Key::new(b"p", b"lease");
    const MINUTE: Option<Duration> = Some(Duration::from_secs(60));

    /// A store whose background expiry never comes, and one that goes through the port.
    fn open(directory: &tempfile::TempDir) -> (Arc<Shared>, Store) {
        let options = StoreOptions { expiry_interval: Duration::MAX, ..StoreOptions::default() };
        let store = FjallStore::open(Env::real(), directory.path(), options).unwrap();
        (store.shared.clone(), Store::new(store))
    }

    /// Removes what will have expired in an hour; says how many index keys that were and whether the value is there.
    fn remove_in_an_hour(shared: &Shared) -> (usize, bool) {
        let now = shared.env.now().after(Duration::from_secs(3_600));
        shared
            .engine(|engine| {
                let removed = remove_some(engine, now)?;
                assert!(!any(engine)?, "index keys are left");
                Ok((removed, !engine.pairs.is_empty().unwrap()))
            })
            .unwrap()
    }

    #[tokio::test]
    async fn an_expired_value_and_its_index_key_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let (shared, store) = open(&directory);
        store.insert_if_absent(KEY, b"1", MINUTE).await.unwrap();
        assert_eq!(remove_in_an_hour(&shared), (1, false));
    }

    #[tokio::test]
    async fn a_renewed_value_has_one_index_key() {
        let directory = tempfile::tempdir().unwrap();
        let (shared, store) = open(&directory);
        store.insert_if_absent(KEY, b"1", MINUTE).await.unwrap();
        store.compare_and_swap(KEY, b"1", b"1", Some(Duration::from_secs(7_200))).await.unwrap();
        let now = shared.env.now().after(Duration::from_secs(3_600));
        assert_eq!(shared.engine(|engine| remove_some(engine, now)), Ok(0));
        assert_eq!(shared.engine(any), Ok(true));
        store.compare_and_delete(KEY, b"1").await.unwrap();
        assert_eq!(shared.engine(any), Ok(false));
    }

    #[tokio::test]
    async fn an_old_expiry_does_not_remove_what_was_put_since() {
        let directory = tempfile::tempdir().unwrap();
        let (shared, store) = open(&directory);
        store.insert_if_absent(KEY, b"1", MINUTE).await.unwrap();
        store.put(KEY, b"2").await.unwrap();
        assert_eq!(remove_in_an_hour(&shared), (1, true));
        assert_eq!(store.get(KEY).await.unwrap().unwrap(), "2");
    }

    #[tokio::test]
    async fn expired_values_go_in_the_background_also_after_reopen() {
        let directory = tempfile::tempdir().unwrap();
        let (shared, store) = open(&directory);
        for number in 0..REMOVED_MAX as u64 + 100 {
            let key = number.to_be_bytes();
            let ttl = Some(Duration::from_millis(1));
            store.insert_if_absent(Key::new(b"p", &key), b"1", ttl).await.unwrap();
        }
        assert_eq!(shared.engine(any), Ok(true));
        store.close().await.unwrap();

        let options = StoreOptions { expiry_interval: Duration::from_millis(1), ..StoreOptions::default() };
        let env = Env::real();
        let store = FjallStore::open(env.clone(), directory.path(), options).unwrap();
        let is_there = || store.shared.engine(|engine| Ok(!engine.pairs.is_empty().unwrap())).unwrap();
        while is_there() {
            env.sleep(Duration::from_millis(1)).await;
        }
        // It sleeps now; the next TTL wakes it.
        store.compare_and_set(KEY, None, Some(b"1"), Some(Duration::from_millis(1))).await.unwrap();
        while is_there() {
            env.sleep(Duration::from_millis(1)).await;
        }
        store.close().await.unwrap();
    }
}
