//! A batch in memory: immutable, sorted, with a filter.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use seriatim_storage::{Batch, StoreKey, Write};

use super::filter::{Filter, hash};

/// The size of an entry in a table in addition to its key and value. In memory it takes about 100 more bytes: counts,
/// lengths, its hash and its part of the filter.
const ENTRY_BYTES: usize = 16;

/// The largest run that is merged with the next one, so that many small batches do not become many runs.
const SMALL: usize = 4_096;

/// The last write of a key.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) key: StoreKey,
    /// `None`: the key is removed.
    pub(super) value: Option<Bytes>,
    hash: u64,
}

/// Entries in the order of their keys, each key once.
#[derive(Debug)]
pub(super) struct Run {
    entries: Vec<Entry>,
    filter: Filter,
    bytes: usize,
}

impl Run {
    /// The result of a batch: of several writes to one key, the last one.
    pub(super) fn new(batch: Batch) -> Self {
        let entry = |Write { key, value }| Entry { hash: hash(key.as_bytes()), key, value };
        let mut entries: Vec<Entry> = batch.into_iter().map(entry).collect();
        // The sort is stable: of equal keys the later write stays later. Flushes are already sorted, which makes it fast.
        entries.sort_by(|a, b| a.key.cmp(&b.key));
        entries.dedup_by(|later, kept| {
            let same = later.key == kept.key;
            if same {
                std::mem::swap(later, kept);
            }
            same
        });
        Self::sorted(entries)
    }

    fn sorted(entries: Vec<Entry>) -> Self {
        let filter = Filter::new(entries.iter().map(|entry| entry.hash), entries.len());
        let size =
            |entry: &Entry| ENTRY_BYTES + entry.key.size() + entry.value.as_ref().map_or(0, Bytes::len);
        let bytes = entries.iter().map(size).sum();
        Self { entries, filter, bytes }
    }

    /// This run merged with a newer one, if the copying is worth it: both are small, and this one is not much larger. So
    /// each entry is copied only a few times, however small the batches are.
    pub(super) fn merged_with(&self, newer: &Self) -> Option<Self> {
        let (old, new) = (self.entries.len(), newer.entries.len());
        if old + new > SMALL || old > 2 * new {
            return None;
        }
        let both = [&newer.entries[..], &self.entries[..]];
        Some(Self::sorted(merge(&both).cloned().collect()))
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The entry of a key with this hash.
    pub(super) fn get(&self, key: &[u8], hash: u64) -> Option<&Entry> {
        if !self.filter.may_contain(hash) {
            return None;
        }
        let at = self.entries.binary_search_by(|entry| entry.key.as_bytes().cmp(key)).ok()?;
        Some(&self.entries[at])
    }

    /// The entries of a range of keys.
    pub(super) fn range(&self, range: &Range<Vec<u8>>) -> &[Entry] {
        let at = |bound: &[u8]| self.entries.partition_point(|entry| entry.key.as_bytes() < bound);
        let (start, finish) = (at(&range.start), at(&range.end));
        &self.entries[start..finish.max(start)]
    }
}

/// The entries of runs, which are given newest first, in the order of their keys: the newest entry of each key.
pub(super) fn merge_runs(newest_first: &[Arc<Run>]) -> impl Iterator<Item = &Entry> {
    let runs: Vec<_> = newest_first.iter().map(|run| &run.entries[..]).collect();
    merge(&runs)
}

/// The entries of sorted slices, which are given newest first, in the order of their keys: the newest entry of each key.
pub(super) fn merge<'a>(newest_first: &[&'a [Entry]]) -> impl Iterator<Item = &'a Entry> + use<'a> {
    let mut rests: Vec<_> = newest_first.iter().map(|entries| entries.iter()).collect();
    let mut heap = BinaryHeap::with_capacity(rests.len());
    for (age, rest) in rests.iter_mut().enumerate() {
        heap.extend(rest.next().map(|entry| Reverse(Head { entry, age })));
    }
    let mut last: Option<&StoreKey> = None;
    std::iter::from_fn(move || {
        loop {
            let mut top = heap.peek_mut()?;
            let Reverse(Head { entry, age }) = *top;
            match rests[age].next() {
                Some(next) => *top = Reverse(Head { entry: next, age }),
                None => drop(std::collections::binary_heap::PeekMut::pop(top)),
            }
            if last != Some(&entry.key) {
                last = Some(&entry.key);
                return Some(entry);
            }
        }
    })
}

/// The next entry of a slice. Ordered by key, and of equal keys the newer one first.
#[derive(Clone, Copy)]
struct Head<'a> {
    entry: &'a Entry,
    age: usize,
}

impl Ord for Head<'_> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.entry.key.cmp(&other.entry.key).then(self.age.cmp(&other.age))
    }
}

impl PartialOrd for Head<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Head<'_> {}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::collection::vec;
    use proptest::prelude::*;
    use seriatim_storage::Key;

    use super::*;

    fn run(writes: &[(u8, Option<u8>)]) -> Run {
        let mut batch = Batch::new();
        for (key, value) in writes {
            match value {
                Some(value) => batch.put(Key::new(b"p", &[*key]), &[*value]),
                None => batch.remove(Key::new(b"p", &[*key])),
            }
        }
        Run::new(batch)
    }

    fn found(entry: &Entry) -> (u8, Option<u8>) {
        (entry.key.clustering()[0], entry.value.as_ref().map(|value| value[0]))
    }

    proptest! {
        #[test]
        fn runs_agree_with_a_map(
            batches in vec(vec((0..20_u8, any::<Option<u8>>()), 0..30), 0..6),
            (start, finish) in (0..22_u8, 0..22_u8),
        ) {
            let mut model = BTreeMap::new();
            let mut runs: Vec<Arc<Run>> = Vec::new();
            for batch in &batches {
                model.extend(batch.iter().copied());
                runs.insert(0, Arc::new(run(batch)));
            }
            let all: Vec<_> = merge_runs(&runs).map(found).collect();
            prop_assert_eq!(&all, &model.clone().into_iter().collect::<Vec<_>>());
            for key in 0..22 {
                let physical = StoreKey::new(b"p", &[key]);
                let hash = hash(physical.as_bytes());
                let entry = runs.iter().find_map(|run| run.get(physical.as_bytes(), hash));
                prop_assert_eq!(entry.map(|entry| found(entry).1), model.get(&key).copied());
            }
            let bound = |key: u8| StoreKey::new(b"p", &[key]).as_bytes().to_vec();
            let range = bound(start)..bound(finish);
            let parts: Vec<_> = runs.iter().map(|run| run.range(&range)).collect();
            let part: Vec<_> = merge(&parts).map(found).collect();
            let expected: Vec<_> = model.into_iter().filter(|(key, _)| (start..finish).contains(key)).collect();
            prop_assert_eq!(part, expected);
        }

        #[test]
        fn merging_two_runs_keeps_the_newer_writes(
            [old, new] in [(); 2].map(|()| vec((0..20_u8, any::<Option<u8>>()), 1..30)),
        ) {
            let (older, newer) = (run(&old), run(&new));
            let model: BTreeMap<_, _> = old.iter().chain(&new).copied().collect();
            if let Some(merged) = older.merged_with(&newer) {
                let all: Vec<_> = merged.entries.iter().map(found).collect();
                prop_assert_eq!(all, model.into_iter().collect::<Vec<_>>());
            }
        }
    }
}
