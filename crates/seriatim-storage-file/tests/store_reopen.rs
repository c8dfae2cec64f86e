//! A store that fails while it is in use, and is opened again in place.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

use seriatim_env::Env;
use seriatim_storage::{Batch, Durability, Key, Store, StoreError};
use seriatim_storage_file::{FileOptions, FileStorage, OpenError, StoreOptions};
use seriatim_types::ErrorKind;

/// The folders into which the engine writes its tables.
fn tables(store: &Path) -> Vec<PathBuf> {
    let keyspaces = fs::read_dir(store.join("keyspaces")).unwrap();
    keyspaces.map(|entry| entry.unwrap().path().join("tables")).filter(|path| path.exists()).collect()
}

fn away(path: &Path) -> PathBuf {
    path.with_extension("away")
}

async fn open(directory: &Path) -> Result<FileStorage, OpenError> {
    let store = StoreOptions { memtable_bytes: 16 << 10, ..StoreOptions::default() };
    FileStorage::open(&Env::real(), directory, FileOptions { store, ..FileOptions::default() }).await
}

async fn put(store: &Store, number: u64, durability: Durability) -> Result<(), StoreError> {
    let mut batch = Batch::new();
    batch.put(Key::new(b"p", &number.to_be_bytes()), &[7; 1_000]);
    store.write(batch, durability).await
}

/// Lets no table be written until a write is refused. Returns the next number to write.
async fn fail(directory: &Path, store: &Store, mut next: u64) -> u64 {
    let folders = tables(&directory.join("store"));
    folders.iter().for_each(|path| fs::rename(path, away(path)).unwrap());
    while put(store, next, Durability::Buffered).await.is_ok() {
        next += 1;
    }
    folders.iter().for_each(|path| fs::rename(away(path), path).unwrap());
    next
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_failed_is_opened_again_in_place() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let storage = open(directory).await.unwrap();
    let store = storage.store().clone();
    put(&store, 0, Durability::Synced).await.unwrap();
    let lease = Key::new(b"p", b"lease");
    assert!(store.insert_if_absent(lease, b"1").await.unwrap());
    let mut next = 1;
    for generation in 1..=2 {
        next = fail(directory, &store, next).await;
        let refused = put(&store, next, Durability::Synced).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
        let swapped = store.compare_and_swap(lease, b"1", b"2").await;
        assert_eq!(swapped.unwrap_err().kind(), ErrorKind::Unavailable);
        assert_eq!(store.generation(), generation - 1);
        assert!(store.get(Key::new(b"p", &0_u64.to_be_bytes())).await.unwrap().is_some());

        // All that ask at once get the same store.
        let (first, second) = tokio::join!(store.reopen(), store.reopen());
        assert_eq!((first, second, store.generation()), (Ok(generation), Ok(generation), generation));
        // Every write had reached the journal.
        for number in 0..next {
            assert!(store.get(Key::new(b"p", &number.to_be_bytes())).await.unwrap().is_some(), "{number}");
        }
        assert_eq!(store.get(lease).await.unwrap().unwrap(), "1");
        for _ in 0..100 {
            put(&store, next, Durability::Synced).await.unwrap();
            next += 1;
        }
        assert!(!store.insert_if_absent(lease, b"2").await.unwrap());
        // The folder was held all the while.
        assert!(matches!(open(directory).await, Err(OpenError::Held { .. })));
    }
    storage.close().await.unwrap();
    assert_eq!(store.reopen().await, Err(StoreError::Closed));
    let storage = open(directory).await.unwrap();
    assert_eq!(storage.store().generation(), 0);
    assert_eq!(storage.store().get(lease).await.unwrap().unwrap(), "1");
    storage.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_cannot_be_opened_again_is_unavailable_until_it_can() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let storage = open(directory).await.unwrap();
    let store = storage.store().clone();
    let next = fail(directory, &store, 0).await;
    let marker = directory.join("store/version");
    fs::rename(&marker, away(&marker)).unwrap();
    for _ in 0..2 {
        assert!(store.reopen().await.is_err());
        let (read, written) =
            (store.get(Key::new(b"p", b"")).await, put(&store, next, Durability::Buffered).await);
        assert_eq!(read.unwrap_err().kind(), ErrorKind::Unavailable);
        assert_eq!(written.unwrap_err().kind(), ErrorKind::Unavailable);
        assert_eq!(store.generation(), 0);
    }
    fs::rename(away(&marker), &marker).unwrap();
    assert_eq!(store.reopen().await, Ok(1));
    put(&store, next, Durability::Synced).await.unwrap();
    storage.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_was_meant_for_the_store_before_does_not_reach_the_one_that_was_opened_again() {
    let directory = tempfile::tempdir().unwrap();
    let storage = open(directory.path()).await.unwrap();
    let store = storage.store().clone();
    let generation = store.generation();
    let batch = |number: u64| {
        let mut batch = Batch::new();
        batch.put(Key::new(b"late", &number.to_be_bytes()), b"value");
        batch.only_in(generation)
    };
    store.write(batch(0), Durability::Buffered).await.unwrap();
    fail(directory.path(), &store, 1).await;
    // Some of these come before the reopening, some wait for their turn while it is under way, some come after.
    let env = Env::real();
    let writers: Vec<_> = (1..200)
        .map(|number| {
            let (store, batch) = (store.clone(), batch(number));
            env.spawn(async move { store.write(batch, Durability::Buffered).await })
        })
        .collect();
    assert_eq!(store.reopen().await, Ok(generation + 1));
    for writer in writers {
        assert!(writer.await.unwrap().is_err());
    }
    let found = store.scan(b"late", seriatim_storage::ClusteringRange::all()).all().await.unwrap();
    assert_eq!(found.len(), 1, "only what was written before");
    storage.close().await.unwrap();
}
