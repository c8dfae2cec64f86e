//! A store with more runs in level 0 than an ingestion accepts, and more than one compaction removes.

use std::path::Path;
use std::sync::Arc;

use lsm_tree::Cache;
use seriatim_env::Env;
use seriatim_storage::{Batch, Durability, Key, Store};

use super::run::{Run, merge_runs};
use super::tree::{LEVEL_0_RUNS_MAX, SortedTree};
use super::{StoreOptions, TreeStore};

const TABLE_BYTES: u64 = 4 << 10;

/// Creates a store with this many runs in level 0, above a level that is so full that it is compacted first.
fn fill_level_0(directory: &Path, runs: u32) {
    drop(TreeStore::open(Env::real(), directory, StoreOptions::default()).unwrap());
    let cache = Arc::new(Cache::with_capacity_bytes(0));
    let tree = SortedTree::open(&directory.join("tree"), &cache).unwrap().with_table_bytes(TABLE_BYTES);
    let mut random = fastrand::Rng::with_seed(1);
    let mut ingest = |numbers: &mut dyn Iterator<Item = u32>, bytes: usize| {
        let mut batch = Batch::new();
        for number in numbers {
            // Values that do not compress.
            let mut value = vec![0; bytes];
            random.fill(&mut value);
            batch.put(Key::new(b"p", &number.to_be_bytes()), &value);
        }
        tree.ingest(merge_runs(&[Arc::new(Run::new(batch))])).unwrap();
    };
    // First into the last level, then more into the level above it.
    for numbers in [1_000, 4_000] {
        for run in 0..8 {
            ingest(&mut (run..numbers).step_by(8), 100);
        }
        assert!(tree.compact().unwrap());
    }
    for run in 0..runs {
        ingest(&mut [0, 4_000, 5_000 + run].into_iter(), 4);
    }
    assert_eq!(tree.tables().unwrap().level_0_runs(), runs as usize);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_with_many_runs_accepts_writes() {
    for runs in [25, 31, 60] {
        let directory = tempfile::tempdir().unwrap();
        fill_level_0(directory.path(), runs);
        let store = TreeStore::open(Env::real(), directory.path(), StoreOptions::default()).unwrap();
        let shared = store.shared.clone();
        {
            let mut tree = shared.tree_mut();
            let small =
                SortedTree::open_again(&shared.directory, &shared.cache, tree.as_ref().unwrap()).unwrap();
            let small = small.with_table_bytes(TABLE_BYTES);
            shared.layers.publish(small.tables().unwrap());
            *tree = Some(small);
        }
        let left = || shared.layers.snapshot().unwrap().tables.level_0_runs();
        assert!(super::compact::step(&shared).unwrap());
        assert_eq!(left(), runs as usize, "the first compaction is one of a deeper level");
        let store = Store::new(store);
        for number in 0..4_u32 {
            let mut batch = Batch::new();
            batch.put(Key::new(b"p", &number.to_be_bytes()), b"new");
            assert_eq!(store.write(batch, Durability::Synced).await, Ok(()), "{runs} runs");
            assert!(left() <= LEVEL_0_RUNS_MAX, "{} of {runs} are left", left());
        }
        for run in 0..runs {
            let value = store.get(Key::new(b"p", &(5_000 + run).to_be_bytes())).await.unwrap();
            assert_eq!(value.unwrap().len(), 4);
        }
        assert_eq!(store.get(Key::new(b"p", &3_u32.to_be_bytes())).await.unwrap().unwrap(), "new");
        store.close().await.unwrap();
    }
}
