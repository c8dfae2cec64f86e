//! Opening a store: after a close, without a close, and in a directory of another program.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

use fjall::{Database, KeyspaceCreateOptions};
use seriatim_env::Env;
use seriatim_storage::{Batch, Durability, Key, Store, StoreError};
use seriatim_storage_file::{StoreOptions, TreeStore};

const KEYS: u32 = 2_000;

fn open(directory: &Path) -> Result<Store, StoreError> {
    TreeStore::open(Env::real(), directory, StoreOptions::default()).map(Store::new)
}

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

async fn fill(store: &Store, durability: Durability) {
    let mut batch = Batch::new();
    (0..KEYS).for_each(|number| batch.put(Key::new(b"p", &key(number)), &[7; 500]));
    store.write(batch, durability).await.unwrap();
}

async fn check_filled(store: &Store) {
    for number in 0..KEYS {
        assert_eq!(store.get(Key::new(b"p", &key(number))).await.unwrap().unwrap(), &[7; 500][..]);
    }
}

fn files_below(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files_below(&path, found) } else { found.push(path) }
    }
}

#[tokio::test]
async fn writes_after_a_stop_replace_earlier_ones() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path().join("store");
    for round in 0..3_u8 {
        let store = open(&directory).unwrap();
        fill(&store, Durability::Buffered).await;
        store.put(Key::new(b"q", b""), &[round]).await.unwrap();
        store.close().await.unwrap();
    }
    let store = open(&directory).unwrap();
    check_filled(&store).await;
    assert_eq!(store.get(Key::new(b"q", b"")).await.unwrap().unwrap(), &[2][..]);
    store.put(Key::new(b"p", &key(1)), b"new").await.unwrap();
    store.sync().await.unwrap();
    drop(store);
    let store = open(&directory).unwrap();
    assert_eq!(store.get(Key::new(b"p", &key(1))).await.unwrap().unwrap(), "new");
}

#[tokio::test]
async fn a_store_that_was_dropped_has_exactly_the_synced_writes() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).unwrap();
    fill(&store, Durability::Synced).await;
    store.put(Key::new(b"q", b""), b"buffered").await.unwrap();
    assert_eq!((store.written(), store.durable()), (2, 1));
    drop(store);
    let store = open(directory.path()).unwrap();
    check_filled(&store).await;
    assert_eq!(store.get(Key::new(b"q", b"")).await.unwrap(), None);
    assert_eq!((store.written(), store.durable()), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn ingestions_of_any_size_lose_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let options = StoreOptions { gather_bytes: 64 << 10, ..StoreOptions::default() };
    let store = Store::new(TreeStore::open(Env::real(), directory.path(), options).unwrap());
    for round in 0..100_u32 {
        let mut batch = Batch::new();
        (0..200).for_each(|number| batch.put(Key::new(&key(number), &key(round)), &[7; 500]));
        store.write(batch, Durability::Buffered).await.unwrap();
    }
    store.close().await.unwrap();
    drop(store);
    let store = open(directory.path()).unwrap();
    for number in 0..200 {
        assert_eq!(store.scan(&key(number), Default::default()).all().await.unwrap().len(), 100);
    }
}

#[tokio::test]
async fn a_store_can_be_open_once() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).unwrap();
    let error = open(directory.path()).unwrap_err();
    assert!(matches!(&error, StoreError::Unavailable(text) if text.contains("another process")), "{error}");
    store.close().await.unwrap();
    open(directory.path()).unwrap();
}

#[tokio::test]
async fn a_directory_of_another_program_is_not_changed() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("letter.txt"), "dear").unwrap();
    let error = open(directory.path()).unwrap_err();
    assert!(matches!(&error, StoreError::Corrupt(text) if text.contains("letter.txt")), "{error}");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);

    for (name, content) in [("version", &b"1.0.3"[..]), ("format", b"pdf"), ("format", &[0xff, 0xfe])] {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(name), content).unwrap();
        assert!(matches!(open(directory.path()), Err(StoreError::Corrupt(_))), "{name}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}

#[tokio::test]
async fn a_database_of_another_program_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::builder(directory.path()).open().unwrap();
    let theirs = database.keyspace("theirs", KeyspaceCreateOptions::default).unwrap();
    theirs.insert("a", "b").unwrap();
    drop((theirs, database));
    for _ in 0..2 {
        let error = open(directory.path()).unwrap_err();
        assert!(matches!(&error, StoreError::Corrupt(text) if text.contains("another program")), "{error}");
    }
    let database = Database::builder(directory.path()).open().unwrap();
    let theirs = database.keyspace("theirs", KeyspaceCreateOptions::default).unwrap();
    assert_eq!(&*theirs.get("a").unwrap().unwrap(), b"b");
}

#[tokio::test]
async fn a_newer_format_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    open(directory.path()).unwrap().close().await.unwrap();
    let marker = directory.path().join("format");
    assert_eq!(fs::read_to_string(&marker).unwrap(), "seriatim store\nformat 2\n");
    fs::write(&marker, "seriatim store\nformat 3\n").unwrap();
    assert_eq!(open(directory.path()).unwrap_err(), StoreError::Newer { found: 3, known: 2 });

    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("version"), b"FJL\x04").unwrap();
    assert_eq!(open(directory.path()).unwrap_err(), StoreError::Newer { found: 4, known: 3 });
}

#[tokio::test]
async fn a_store_whose_creation_was_interrupted_opens_empty() {
    let whole = tempfile::tempdir().unwrap();
    open(whole.path()).unwrap().close().await.unwrap();
    // Interrupted after each step: the lock, the tree, the marker under its temporary name.
    for names in [&["in-use"][..], &["in-use", "tree"], &["in-use", "tree", "format.new"]] {
        let directory = tempfile::tempdir().unwrap();
        for name in names {
            match *name {
                "tree" => fs::create_dir(directory.path().join(name)).unwrap(),
                _ => fs::write(directory.path().join(name), "seria").unwrap(),
            }
        }
        let store = open(directory.path()).unwrap();
        fill(&store, Durability::Synced).await;
        store.close().await.unwrap();
        check_filled(&open(directory.path()).unwrap()).await;
    }

    // Format 1, interrupted at its beginning.
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("keyspaces")).unwrap();
    fs::write(directory.path().join("lock"), "").unwrap();
    fs::write(directory.path().join("0.jnl"), [0; 100]).unwrap();
    let store = open(directory.path()).unwrap();
    fill(&store, Durability::Synced).await;
    store.close().await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    drop(Database::builder(directory.path()).open().unwrap());
    fill(&open(directory.path()).unwrap(), Durability::Synced).await;
}

#[tokio::test]
async fn damage_is_an_error_and_never_read_as_a_value() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).unwrap();
    fill(&store, Durability::Buffered).await;
    store.close().await.unwrap();
    drop(store);
    let mut files = Vec::new();
    files_below(&directory.path().join("tree/tables"), &mut files);
    let largest = files.iter().max_by_key(|file| file.metadata().unwrap().len()).unwrap();
    let whole = fs::read(largest).unwrap();

    let mut changed = whole.clone();
    changed.iter_mut().step_by(997).for_each(|byte| *byte ^= 1);
    for damaged in [changed, whole[..whole.len() / 2].to_vec(), Vec::new()] {
        fs::write(largest, damaged).unwrap();
        let store = match open(directory.path()) {
            Ok(store) => store,
            Err(StoreError::Corrupt(_)) => continue,
            Err(other) => panic!("{other}"),
        };
        let mut errors = 0;
        for number in 0..KEYS {
            match store.get(Key::new(b"p", &key(number))).await {
                Ok(value) => assert_eq!(value.unwrap(), &[7; 500][..]),
                Err(StoreError::Corrupt(_)) => errors += 1,
                Err(other) => panic!("{other}"),
            }
        }
        assert!(errors > 0);
        assert!(matches!(store.scan(b"p", Default::default()).all().await, Err(StoreError::Corrupt(_))));
    }
    fs::write(largest, whole).unwrap();
    check_filled(&open(directory.path()).unwrap()).await;
}
