//! The tables of one version of the tree.
//!
//! A version of the tree is an immutable list of tables. Every ingestion and every compaction makes a newer one. A
//! reference to a version keeps its tables: their files are removed when the last reference is dropped. So a reader with a
//! version needs nothing else from the tree: no lock, which ingestions and compactions hold while they sync, and no
//! sequence number. (The tree removes old versions, and panics if it is asked for the sequence number of one.)
//!
//! Therefore compaction may drop every overwritten value, and the tree may remove every version except the last: the
//! watermark of both is the newest sequence number.

use std::fmt;
use std::ops::Range;

use lsm_tree::table::filter::standard_bloom::Builder;
use lsm_tree::{AbstractTree as _, InternalValue, SeqNo, Tree, UserValue};

type Found = lsm_tree::Result<Option<InternalValue>>;
type Entries = Box<dyn Iterator<Item = lsm_tree::Result<InternalValue>>>;
type Get = dyn Fn(&[u8], u64) -> Found + Send + Sync;
type Scan = dyn Fn(&Range<Vec<u8>>) -> Entries + Send + Sync;

/// The tables of one version of a tree. It consists of closures because the types of lsm-tree for it have no public name.
pub(super) struct Tables {
    /// The number of the tree and of its version. A later version has everything that an earlier one has and that is not
    /// overwritten.
    order: (u64, u64),
    level_0_runs: usize,
    get: Box<Get>,
    range: Box<Scan>,
}

impl Tables {
    /// The newest version. `opening` counts the trees that were opened in this directory.
    pub(super) fn of(tree: &Tree, opening: u64) -> Self {
        // The same version in both of its forms: if it is the newest one before and after, it was the newest one between.
        let (version, state) = loop {
            let before = tree.current_version();
            let state = tree.get_version_history_lock().latest_version();
            if tree.current_version().id() == before.id() {
                break (before, state);
            }
        };
        let order = (opening, version.id());
        let level_0_runs = version.l0().run_count();
        // Every entry of a version is visible: bounds are exclusive.
        let get = move |key: &[u8], hash: u64| {
            let runs = version.iter_levels().flat_map(|level| level.iter());
            for table in runs.filter_map(|run| run.get_for_key(key)) {
                if let Some(entry) = table.get(key, SeqNo::MAX, hash)? {
                    return Ok(Some(entry));
                }
            }
            Ok(None)
        };
        let range = move |range: &Range<Vec<u8>>| -> Entries {
            Box::new(Tree::create_internal_range(state.clone(), range, SeqNo::MAX, None))
        };
        Self { order, level_0_runs, get: Box::new(get), range: Box::new(range) }
    }

    /// Whether it is a later version than another one.
    pub(super) fn is_after(&self, other: &Self) -> bool {
        self.order > other.order
    }

    /// Whether both are of the same tree.
    pub(super) fn is_of_same_tree(&self, other: &Self) -> bool {
        self.order.0 == other.order.0
    }

    /// Runs in level 0, which compaction has not reached yet.
    pub(super) fn level_0_runs(&self) -> usize {
        self.level_0_runs
    }

    /// The value of a physical key with this hash.
    pub(super) fn get(&self, key: &[u8], hash: u64) -> lsm_tree::Result<Option<UserValue>> {
        debug_assert_eq!(hash, Builder::get_hash(key), "the filters of the tables use the same hash");
        let entry = (self.get)(key, hash)?;
        Ok(entry.filter(|entry| !entry.is_tombstone()).map(|entry| entry.value))
    }

    /// The pairs of a range of physical keys, ascending.
    pub(super) fn range(
        &self,
        range: &Range<Vec<u8>>,
    ) -> impl Iterator<Item = lsm_tree::Result<(UserValue, UserValue)>> + use<> {
        (self.range)(range).map(|entry| entry.map(|entry| (entry.key.user_key, entry.value)))
    }
}

impl fmt::Debug for Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tables").field("order", &self.order).finish_non_exhaustive()
    }
}
