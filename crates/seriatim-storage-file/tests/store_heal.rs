//! A store whose disk fails while it is used.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

use seriatim_env::Env;
use seriatim_storage::{Batch, ClusteringRange, Durability, Key, Store, StoreError};
use seriatim_storage_file::{StoreOptions, TreeStore};
use seriatim_types::ErrorKind;

fn open(directory: &Path) -> Store {
    let options = StoreOptions { gather_bytes: 64 << 10, ..StoreOptions::default() };
    Store::new(TreeStore::open(Env::real(), directory, options).unwrap())
}

async fn put(store: &Store, number: u64, durability: Durability) -> Result<(), StoreError> {
    let mut batch = Batch::new();
    batch.put(Key::new(b"p", &number.to_be_bytes()), &[7; 1_000]);
    store.write(batch, durability).await
}

async fn count(store: &Store) -> u64 {
    store.scan(b"p", ClusteringRange::all()).all().await.unwrap().len() as u64
}

/// Prevents the store from writing: a file or folder of its tree is replaced by something else. Permissions would not stop
/// a test that runs as root.
struct Obstacle {
    place: PathBuf,
    away: PathBuf,
}

impl Obstacle {
    fn new(directory: &Path, name: &str) -> Self {
        let place = directory.join("tree").join(name);
        let away = directory.join("away");
        // A compaction may create the file again in between.
        loop {
            fs::rename(&place, &away).unwrap();
            // A file instead of a folder, and a folder instead of a file.
            let made =
                if away.is_dir() { fs::File::create_new(&place).map(drop) } else { fs::create_dir(&place) };
            if made.is_ok() {
                return Self { place, away };
            }
        }
    }

    fn remove(self) {
        if self.place.is_dir() { fs::remove_dir(&self.place) } else { fs::remove_file(&self.place) }.unwrap();
        fs::rename(self.away, self.place).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_buffered_write_is_lost_and_the_store_recovers() {
    for name in ["tables", "current"] {
        let directory = tempfile::tempdir().unwrap();
        let store = open(directory.path());
        let mut next = 0;
        for round in 0..3 {
            for _ in 0..10 {
                put(&store, next, Durability::Buffered).await.unwrap();
                next += 1;
            }
            store.sync().await.unwrap();
            let obstacle = Obstacle::new(directory.path(), name);
            // A synced write can be read, and may not be durable.
            let error = put(&store, next, Durability::Synced).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InDoubt, "{error}");
            next += 1;
            let durable = store.durable();
            // Buffered writes are accepted until too much is in memory. Then a write is refused as a whole.
            let refused = loop {
                match put(&store, next, Durability::Buffered).await {
                    Ok(()) => next += 1,
                    Err(error) => break error,
                }
            };
            assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
            assert_eq!(store.sync().await.unwrap_err().kind(), ErrorKind::Unavailable);
            assert_eq!(store.durable(), durable);
            // All writes that are only in memory can be read. Those in tables may not be readable without the tables.
            for number in durable..next {
                let value = store.get(Key::new(b"p", &number.to_be_bytes())).await;
                assert!(value.unwrap().is_some(), "{number} in round {round}");
            }
            obstacle.remove();
            put(&store, next, Durability::Synced).await.unwrap();
            next += 1;
            assert_eq!(store.written(), store.durable());
            assert_eq!(count(&store).await, next);
        }
        let tables = fs::read_dir(directory.path().join("tree/tables")).unwrap().count();
        assert!(tables < 12, "{tables} tables: those of failed attempts are removed");
        drop(store);
        assert_eq!(count(&open(directory.path())).await, next);
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_ingestion_is_retried_in_the_background() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let obstacle = Obstacle::new(directory.path(), "current");
    put(&store, 0, Durability::Synced).await.unwrap_err();
    obstacle.remove();
    let env = Env::real();
    while store.durable() < store.written() {
        env.sleep(std::time::Duration::from_millis(100)).await;
    }
    // A buffered write is written when its time is over.
    put(&store, 1, Durability::Buffered).await.unwrap();
    let start = env.instant();
    while store.durable() < store.written() {
        env.sleep(std::time::Duration::from_secs(1)).await;
    }
    assert!((50..70).contains(&(env.instant() - start).as_secs()));
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_cannot_write_when_it_closes_gives_an_error_and_is_closed() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    put(&store, 0, Durability::Synced).await.unwrap();
    put(&store, 1, Durability::Buffered).await.unwrap();
    let obstacle = Obstacle::new(directory.path(), "current");
    assert_eq!(store.close().await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(store.close().await, Ok(()));
    assert_eq!(store.get(Key::new(b"p", b"")).await, Err(StoreError::Closed));
    obstacle.remove();
    assert_eq!(count(&open(directory.path())).await, 1);
}
