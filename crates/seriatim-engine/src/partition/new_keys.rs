//! Looks whether the store has keys that a group is about to make.

use seriatim_storage::{ClusteringRange, Key, Store, StoreError};

use crate::derive::keys::StoreKey;

/// A key that must be new: the place of its command in the batch, and what is to be written there.
pub(super) type NewKey = (StoreKey, usize, &'static str);

/// From so many keys of one run on, one scan is cheaper than as many gets.
const RUN_KEYS_MIN: usize = 4;

/// Keys that are equal up to so many bytes before their end are in one run: what is drawn one after the other is close together.
const RUN_BYTES: usize = 4;

/// Among how many of the last runs a key looks for its own. The new keys of a hot workspace alternate between a few.
const RUNS_LOOKED_AT: usize = 8;

/// Keys that lie close together.
struct Run<'a> {
    partition: &'a [u8],
    /// What their clustering parts begin with.
    scope: &'a [u8],
    first: &'a [u8],
    last: &'a [u8],
    keys: usize,
}

/// The first of the keys that the store has already.
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
    // The smallest key behind the last one.
    let finish = [run.last, &[0]].concat();
    let found = store.scan(run.partition, ClusteringRange::new(run.first, &finish)).take(1).await?;
    Ok(!found.is_empty())
}

/// Puts keys into runs, and says which run each key is in. Keys with the same beginning may be in more than one.
fn runs(keys: &[NewKey]) -> (Vec<Run<'_>>, Vec<usize>) {
    let mut runs: Vec<Run<'_>> = Vec::new();
    let mut run_of = Vec::with_capacity(keys.len());
    for (key, ..) in keys {
        let Key { partition, clustering } = key.as_key();
        let from = runs.len().saturating_sub(RUNS_LOOKED_AT);
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
        // Ids and events of one workspace in turn, as they come, and one id that is alone.
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
    fn whichever_key_is_taken_is_found_and_no_other() {
        simulate(1, |_| async move {
            for count in [1, 3, 4, 9] {
                let keys = new_keys(count);
                let empty = Store::new(MemoryStore::new());
                assert_eq!(find(&empty, &keys).await.unwrap(), None);
                for (place, (key, ..)) in keys.iter().enumerate() {
                    let store = Store::new(MemoryStore::new());
                    store.put(key.as_key(), b"somebody else's").await.unwrap();
                    assert_eq!(find(&store, &keys).await.unwrap(), Some(place), "{key}");
                }
            }
        });
    }

    #[test]
    fn what_lies_between_two_keys_or_beside_them_takes_neither() {
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
