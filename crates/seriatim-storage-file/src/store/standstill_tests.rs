//! A store whose tables need more compaction than the engine starts by itself.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use fjall::compaction::Leveled;
use fjall::{AbstractTree as _, Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use seriatim_env::Env;
use seriatim_storage::{Key, Store, StoreBackend as _};

use super::{FjallStore, StoreOptions, format, key, value};

/// Runs in level 0: a writer of ours waits from 24 on, and the engine itself, in a loop without end, from 30 on.
const DEBTS: [(u32, End); 3] = [(25, End::Stopped), (25, End::Killed), (31, End::Stopped)];

/// How a store with debt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Everything is in tables.
    Stopped,
    /// The last writes are only in the journal.
    Killed,
}

fn pair(number: u32, stored: &[u8]) -> (Vec<u8>, Vec<u8>) {
    (key::encode(Key::new(b"p", &number.to_be_bytes())), value::encode(stored))
}

/// Into the memtable alone, where the engine does not wait for its workers.
fn insert(database: &Database, keyspace: &Keyspace, number: u32, value: &[u8]) {
    let (physical, stored) = pair(number, value);
    keyspace.tree.insert(physical, stored, database.supervisor.seqno.next());
}

fn flush(keyspace: &Keyspace) {
    keyspace.tree.rotate_memtable();
    keyspace.tree.flush(&keyspace.tree.get_flush_lock(), 0).unwrap();
}

/// Makes a store with so many runs in level 0, above a level that is so full that the engine compacts it first. It has no
/// worker, so that all of it is left. Its tables are small; the engine keeps their size with the keyspace.
fn make_debt(directory: &Path, runs: u32, end: End) {
    let database = Database::builder(directory).worker_threads_unchecked(0).open().unwrap();
    format::claim(directory, &database).unwrap();
    let strategy = Arc::new(Leveled::default().with_table_target_size(4 << 10).with_l0_threshold(8));
    let options = || KeyspaceCreateOptions::default().compaction_strategy(strategy.clone());
    let pairs = database.keyspace("pairs", options).unwrap();
    // First into the last level, then more into the one above it. Values that do not compress, so that it is over-full.
    let mut random = fastrand::Rng::with_seed(1);
    for numbers in [1_000, 4_000] {
        for run in 0..8 {
            for number in (run..numbers).step_by(8) {
                let value: [u8; 100] = std::array::from_fn(|_| random.u8(..));
                insert(&database, &pairs, number, &value);
            }
            flush(&pairs);
        }
        pairs.tree.compact(strategy.clone(), 0).unwrap();
        assert_eq!(pairs.tree.l0_run_count(), 0);
    }
    for run in 0..runs {
        insert(&database, &pairs, 0, &run.to_be_bytes());
        insert(&database, &pairs, 4_000, &run.to_be_bytes());
        flush(&pairs);
    }
    assert_eq!(pairs.tree.l0_run_count(), runs as usize);
    if end == End::Killed {
        let (physical, stored) = pair(5_000, b"in the journal");
        pairs.insert(physical, stored).unwrap();
    }
    database.persist(PersistMode::SyncAll).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_was_stopped_or_killed_with_debt_takes_writes_again() {
    for (runs, end) in DEBTS {
        let directory = tempfile::tempdir().unwrap();
        make_debt(directory.path(), runs, end);
        let store = FjallStore::open(Env::real(), directory.path(), StoreOptions::default()).unwrap();
        let store = Store::new(store);
        // The first write may be let through at once; the next one sees the debt.
        for number in 0..4_u32 {
            let written = store.put(Key::new(b"p", &number.to_be_bytes()), b"new").await;
            assert_eq!(written, Ok(()), "{runs} runs, {end:?}");
        }
        assert!(store.insert_if_absent(Key::new(b"p", b"conditional"), b"new").await.unwrap());
        let last = store.get(Key::new(b"p", &4_000_u32.to_be_bytes())).await.unwrap().unwrap();
        assert_eq!(&last[..], (runs - 1).to_be_bytes());
        let journal = store.get(Key::new(b"p", &5_000_u32.to_be_bytes())).await.unwrap();
        assert_eq!(journal.is_some(), end == End::Killed);
        store.close().await.unwrap();
    }
}

/// Seals the memtable without asking a worker to write it out.
fn seal_unseen(store: &FjallStore) {
    let seal = |engine: &super::engine::Engine| Ok(engine.pairs.tree.rotate_memtable().unwrap());
    store.shared.engine(seal).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn memtables_that_no_worker_flushes_are_flushed_by_the_writer_that_waits() {
    let directory = tempfile::tempdir().unwrap();
    let store = FjallStore::open(Env::real(), directory.path(), StoreOptions::default()).unwrap();
    let put = async |name: &[u8]| {
        let mut batch = seriatim_storage::Batch::new();
        batch.put(Key::new(b"p", name), b"value");
        store.write(batch, seriatim_storage::Durability::Buffered).await
    };
    for name in [b"1", b"2", b"3"] {
        put(name).await.unwrap();
        seal_unseen(&store);
    }
    for name in [b"4", b"5", b"6"] {
        assert_eq!(put(name).await, Ok(()));
    }
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_flushes_what_no_worker_flushes() {
    let directory = tempfile::tempdir().unwrap();
    let store = FjallStore::open(Env::real(), directory.path(), StoreOptions::default()).unwrap();
    let mut batch = seriatim_storage::Batch::new();
    batch.put(Key::new(b"p", b"k"), b"value");
    store.write(batch, seriatim_storage::Durability::Buffered).await.unwrap();
    seal_unseen(&store);
    store.close().await.unwrap();
    let journals = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap());
    let left: Vec<_> = journals
        .filter(|entry| entry.path().extension().is_some_and(|extension| extension == "jnl"))
        .filter(|entry| entry.metadata().unwrap().len() > 0)
        .map(|entry| entry.path())
        .collect();
    assert!(left.is_empty(), "to be replayed: {left:?}");
}
