//! Checks whether the store already has keys that a group makes.

use seriatim_storage::{ClusteringRange, Key, Store, StoreError};

use crate::derive::keys::StoreKey;

/// A key that must be new, the place of its command in the batch, and what will be written there.
pub(super) type NewKey = (StoreKey, usize, &'static str);

/// From this number of keys in one run, one scan is cheaper than the same number of gets.
const RUN_KEYS_MIN: usize = 4;

/// Keys that differ only in their last bytes, this many, are in one run. Numbers drawn in order make such keys.
const RUN_BYTES: usize = 4;

/// How many of the last runs are searched for a key's run. The new keys of a busy workspace alternate between a few runs.
const RUNS_SEARCHED: usize = 8;

/// Keys that are close together in the store.
struct Run<'a> {
    partition: &'a [u8],
    /// What their clustering parts begin with.
    scope: &'a [u8],
    first: &'a [u8],
    last: &'a [u8],
    keys: usize,
}

/// The place of the first key that the store already has.
pub(super) async fn find(store: &Store, keys: &[NewKey]) -> Result<Option<usize>, StoreError> {
    if keys.is_empty() {
        return Ok(None);
    }
    let (runs, run_of) = runs(keys);
    let mut asks = Vec::with_capacity(runs.len());
    for run in &runs {
        asks.push(run.keys < RUN_KEYS_MIN || has_any(store, run).await?);
    }
    let asked: Vec<usize> = (0..keys.len()).filter(|place| asks[run_of[*place]]).collect();
    if asked.is_empty() {
        return Ok(None);
    }
    let wanted: Vec<Key<'_>> = asked.iter().map(|place| keys[*place].0.as_key()).collect();
    let found = store.get_many(&wanted).await?;
    Ok(found.iter().position(Option::is_some).map(|place| asked[place]))
}

/// Whether the store has anything from the first to the last key of a run.
async fn has_any(store: &Store, run: &Run<'_>) -> Result<bool, StoreError> {
    // The smallest key after the last one.
    let finish = [run.last, &[0]].concat();
    let found = store.scan(run.partition, ClusteringRange::new(run.first, &finish)).take(1).await?;
    Ok(!found.is_empty())
}

/// Divides keys into runs, and returns the run of each key. Keys with the same beginning may be in more than one run.
fn runs(keys: &[NewKey]) -> (Vec<Run<'_>>, Vec<usize>) {
    let mut runs: Vec<Run<'_>> = Vec::new();
    let mut run_of = Vec::with_capacity(keys.len());
    for (key, ..) in keys {
        let Key { partition, clustering } = key.as_key();
        let from = runs.len().saturating_sub(RUNS_SEARCHED);
        let scope = &clustering[..clustering.len().saturating_sub(RUN_BYTES)];
        let known = runs[from..].iter().rposition(|run| run.scope == scope && run.partition == partition);
        let place = known.map_or(runs.len(), |place| from + place);
        match runs.get_mut(place) {
            Some(run) => {
                run.first = run.first.min(clustering);
                run.last = run.last.max(clustering);
                run.keys += 1;
            }
            None => runs.push(Run { partition, scope, first: clustering, last: clustering, keys: 1 }),
        }
        run_of.push(place);
    }
    (runs, run_of)
}

#[cfg(test)]
mod tests {
    use seriatim_env::simulate;
    use seriatim_storage::Store;
    use seriatim_storage::memory::MemoryStore;
    use seriatim_types::{Partition, RecordId, WorkspaceId, WorkspaceOffset};

    use super::*;
    use crate::derive::keys::WorkspaceKeys;

    fn workspace(number: u64) -> WorkspaceKeys {
        WorkspaceKeys::new(Partition::new(16, 0), WorkspaceId::new(number))
    }

    /// The first id of the invoices. Others have ids far from them.
    const FIRST: u64 = 1_000;

    fn new_keys(count: u8) -> Vec<NewKey> {
        // Ids and events of one workspace alternate, as in a real group. One id is far from the others.
        let keys_of = workspace(7);
        let mut keys = vec![(keys_of.id(RecordId::new(1 << 40)), 0, "record")];
        for number in 0..count {
            let place = usize::from(number);
            keys.push((keys_of.id(RecordId::new(FIRST + u64::from(number))), place, "record"));
            let offset = WorkspaceOffset::new(u64::from(number) + 1).unwrap();
            keys.push((keys_of.event(offset), place, "event"));
        }
        keys
    }

    #[test]
    fn a_key_that_exists_is_found_at_every_place() {
        simulate(1, |_| async move {
            for count in [1, 3, 4, 9] {
                let keys = new_keys(count);
                let empty = Store::new(MemoryStore::new());
                assert_eq!(find(&empty, &keys).await.unwrap(), None);
                for (place, (key, ..)) in keys.iter().enumerate() {
                    let store = Store::new(MemoryStore::new());
                    store.put(key.as_key(), b"of another event").await.unwrap();
                    assert_eq!(find(&store, &keys).await.unwrap(), Some(place), "{key}");
                }
            }
        });
    }

    #[test]
    fn keys_between_or_next_to_the_new_ones_do_not_count() {
        simulate(1, |_| async move {
            let keys = new_keys(9);
            let store = Store::new(MemoryStore::new());
            for number in [FIRST - 1, FIRST + 9, 1 << 39, (1 << 40) + 1] {
                let key = workspace(7).id(RecordId::new(number));
                store.put(key.as_key(), b"there before").await.unwrap();
            }
            let between = workspace(7).id(RecordId::new(FIRST + 4));
            let between = [between.clustering(), &[0]].concat();
            store.put(Key::new(&workspace(7).storage(), &between), b"there before").await.unwrap();
            assert_eq!(find(&store, &keys).await.unwrap(), None);
            store.put(keys[7].0.as_key(), b"taken").await.unwrap();
            store.put(keys[4].0.as_key(), b"taken too").await.unwrap();
            assert_eq!(find(&store, &keys).await.unwrap(), Some(4));
        });
    }

    #[test]
    fn a_hot_workspace_makes_few_runs_and_many_workspaces_make_many() {
        assert_eq!(runs(&new_keys(100)).0.len(), 3);
        let many: Vec<NewKey> =
            (0..100).map(|number| (workspace(number).id(RecordId::new(FIRST)), 0, "record")).collect();
        assert_eq!(runs(&many).0.len(), 100);
    }
}
