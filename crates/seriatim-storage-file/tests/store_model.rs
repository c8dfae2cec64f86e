//! The store compared with a map, for any order of operations.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use seriatim_env::Env;
use seriatim_storage::{Batch, ClusteringRange, Durability, Key, Store, StoreBackend as _};
use seriatim_storage_file::{StoreOptions, TreeStore};

type Model = BTreeMap<(u8, u8), Vec<u8>>;

#[derive(Debug, Clone)]
enum Step {
    /// Keys, and the values that they get; `None` removes them.
    Write(Vec<((u8, u8), Option<u8>)>, bool),
    Sync,
    /// Close and open.
    Reopen,
    /// Drop and open. Batches that are not durable may be lost, as a whole and from the end.
    Crash,
}

fn step() -> impl Strategy<Value = Step> {
    let write = ((0..3_u8, 0..12_u8), any::<Option<u8>>());
    prop_oneof![
        8 => (vec(write, 0..40), prop::bool::weighted(0.2)).prop_map(|(writes, synced)| Step::Write(writes, synced)),
        1 => Just(Step::Sync),
        1 => Just(Step::Reopen),
        1 => Just(Step::Crash),
    ]
}

fn open(directory: &Path) -> Store {
    // So small that ingestions also happen in the background.
    let options = StoreOptions { gather_bytes: 8 << 10, ..StoreOptions::default() };
    Store::new(TreeStore::open(Env::real(), directory, options).unwrap())
}

async fn read(store: &Store) -> Model {
    let mut found = Model::new();
    for partition in 0..3 {
        for (clustering, value) in store.scan(&[partition], ClusteringRange::all()).all().await.unwrap() {
            found.insert((partition, clustering[0]), value.to_vec());
        }
    }
    found
}

async fn run(steps: Vec<Step>) {
    let directory = tempfile::tempdir().unwrap();
    let mut store = open(directory.path());
    // The model after each write, and how many of them are certainly durable.
    let (mut models, mut durable) = (vec![Model::new()], 0);
    for step in steps {
        match step {
            Step::Write(writes, synced) => {
                let (mut model, mut batch) = (models.last().unwrap().clone(), Batch::new());
                for ((partition, clustering), value) in writes {
                    let bytes = value.map(|value| vec![value; 150]);
                    let (name, inside) = ([partition], [clustering]);
                    match bytes {
                        Some(value) => {
                            batch.put(Key::new(&name, &inside), &value);
                            model.insert((partition, clustering), value);
                        }
                        None => {
                            batch.remove(Key::new(&name, &inside));
                            model.remove(&(partition, clustering));
                        }
                    }
                }
                store
                    .write(batch, if synced { Durability::Synced } else { Durability::Buffered })
                    .await
                    .unwrap();
                models.push(model);
                durable = if synced { models.len() - 1 } else { durable };
            }
            Step::Sync => {
                store.sync().await.unwrap();
                durable = models.len() - 1;
            }
            Step::Reopen => {
                store.close().await.unwrap();
                drop(store);
                store = open(directory.path());
                durable = models.len() - 1;
            }
            Step::Crash => {
                drop(store);
                store = open(directory.path());
                let found = read(&store).await;
                let kept = models.iter().rposition(|model| *model == found);
                let kept = kept.expect("the content is that after one of the writes");
                assert!(kept >= durable, "{durable} writes were durable, {kept} are there");
                models.truncate(kept + 1);
                durable = kept;
            }
        }
        let model = models.last().unwrap();
        assert_eq!(read(&store).await, *model);
        for (partition, clustering) in [(0, 0), (1, 5), (2, 11)] {
            let value = store.get(Key::new(&[partition], &[clustering])).await.unwrap();
            assert_eq!(value.as_deref(), model.get(&(partition, clustering)).map(|value| &value[..]));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn the_store_agrees_with_a_map(steps in vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(run(steps));
    }
}

/// How many keys a batch of the test below writes.
const KEYS: u8 = 30;

/// Reads the keys of one writer again and again: every batch is there completely or not at all, and none is older than the
/// one read before. Returns how often it has read.
async fn read_until_done(store: &Store, backend: &TreeStore, writer: u8, done: &AtomicBool) -> u64 {
    let (mut last, mut reads) = (0, 0_u64);
    while !done.load(Ordering::Relaxed) {
        let round = |value: &Bytes| u64::from_be_bytes(value[..].try_into().unwrap());
        // Only one page, because the next one may show a later state.
        let scanned = backend.scan_page(&[writer], &ClusteringRange::all(), 64).await.unwrap();
        if let Some((_, value)) = scanned.first() {
            let found = round(value);
            assert!(found >= last, "{found} after {last}");
            last = found;
            assert!(scanned.iter().all(|(_, value)| round(value) == found), "a part of a batch");
            let expected = (0..KEYS).filter(|key| *key < 10 || (found + u64::from(*key)) % 4 != 0);
            assert_eq!(scanned.len(), expected.count(), "a part of a batch of removals");
        }
        let names: Vec<[u8; 1]> = (0..10).map(|key| [key]).collect();
        let partition = [writer];
        let keys: Vec<_> = names.iter().map(|name| Key::new(&partition, name)).collect();
        let values = store.get_many(&keys).await.unwrap();
        let rounds: Vec<_> = values.iter().map(|value| value.as_ref().map(round)).collect();
        assert!(rounds.iter().all(|round| *round == rounds[0]), "{rounds:?}");
        assert!(rounds[0] >= Some(last) || last == 0, "{rounds:?} after {last}");
        last = rounds[0].unwrap_or(last);
        reads += 1;
        tokio::task::yield_now().await;
    }
    reads
}

/// Writers, readers, syncs, ingestions and compactions at the same time, on real threads. A batch writes one number under
/// many keys. A reader that finds two numbers has read a part of a batch.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn readers_never_read_a_part_of_a_batch_or_an_older_one() {
    const ROUNDS: u64 = 400;
    let directory = tempfile::tempdir().unwrap();
    let (env, options) = (Env::real(), StoreOptions { gather_bytes: 8 << 10, ..StoreOptions::default() });
    let backend = Arc::new(TreeStore::open(env.clone(), directory.path(), options).unwrap());
    let store = Store::from_arc(backend.clone());
    let done = Arc::new(AtomicBool::new(false));
    let batch = |writer: u8, round: u64| {
        let mut batch = Batch::new();
        for key in 0..KEYS {
            // Some keys are removed and written again, so that there are tombstones too.
            match (round + u64::from(key)) % 4 {
                0 if key >= 10 => batch.remove(Key::new(&[writer], &[key])),
                _ => batch.put(Key::new(&[writer], &[key]), &round.to_be_bytes()),
            }
        }
        batch
    };
    let writers: Vec<_> = (0..3_u8)
        .map(|writer| {
            let store = store.clone();
            env.spawn(async move {
                for round in 0..ROUNDS {
                    let synced = round.is_multiple_of(50);
                    let durability = if synced { Durability::Synced } else { Durability::Buffered };
                    store.write(batch(writer, round), durability).await.unwrap();
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    let readers: Vec<_> = (0..3_u8)
        .map(|writer| {
            let (store, backend, done) = (store.clone(), backend.clone(), done.clone());
            env.spawn(async move { read_until_done(&store, &backend, writer, &done).await })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    done.store(true, Ordering::Relaxed);
    for reader in readers {
        assert!(reader.await.unwrap() > 0);
    }
    store.close().await.unwrap();
    drop((store, backend));
    let store = open(directory.path());
    for writer in 0..3_u8 {
        let last = store.get(Key::new(&[writer], &[0])).await.unwrap().unwrap();
        assert_eq!(last, &(ROUNDS - 1).to_be_bytes()[..]);
    }
}
