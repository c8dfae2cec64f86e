//! A store of format 1, written with fjall as format 1 was, becomes format 2.

use std::path::Path;

use fjall::{Database, KeyspaceCreateOptions, PersistMode};
use seriatim_env::Env;
use seriatim_storage::{Cells, ClusteringRange, Key, Store, StoreError, StoreKey};

use super::fault::Hook;
use super::{StoreOptions, TreeStore};
use crate::FileCells;

const OFFSET: Key<'static> = Key::new(b"eo\0\0\0\x01\0\x02", b"mail");
const CHECKPOINT: Key<'static> = Key::new(b"ek\0\0\0\x01\0\x02", b"");
const RESERVED: Key<'static> = Key::new(b"ids", b"orders");
const PLACES: [&str; 4] = ["before the copy", "between cells and tree", "after the copy", "after the mark"];

/// Writes a store of format 1 with this many reservations.
fn write_format_1(directory: &Path, reservations: u32) {
    let database = Database::builder(directory).open().unwrap();
    let meta = database.keyspace("meta", KeyspaceCreateOptions::default).unwrap();
    meta.insert("format", 1_u32.to_be_bytes()).unwrap();
    let pairs = database.keyspace("pairs", KeyspaceCreateOptions::default).unwrap();
    let insert = |key: Key<'_>, value: &[u8]| {
        pairs.insert(StoreKey::from(key).as_bytes(), [&[0], value].concat()).unwrap();
    };
    insert(CHECKPOINT, b"derived");
    for number in 0..300_u16 {
        let event = [&b"el\0\0\0\x01"[..], &7_u64.to_be_bytes(), &0_u64.to_be_bytes()].concat();
        insert(Key::new(&event, &number.to_be_bytes()), &[7; 200]);
    }
    insert(OFFSET, b"17");
    pairs.insert(StoreKey::from(RESERVED).as_bytes(), b"\x01\0\0\0\0\0\0\0\0with a time").unwrap();
    for number in 0..reservations {
        insert(Key::new(b"ids", &number.to_be_bytes()), &number.to_be_bytes());
    }
    database.persist(PersistMode::SyncAll).unwrap();
}

fn open(directory: &Path) -> Result<Store, StoreError> {
    let (store, cells) = (directory.join("store"), directory.join("cells"));
    TreeStore::open_with_cells(Env::real(), &store, &cells, StoreOptions::default()).map(Store::new)
}

async fn check(directory: &Path, store: &Store, reservations: u32) {
    assert_eq!(store.get(OFFSET).await.unwrap().unwrap(), "17");
    assert_eq!(store.get(CHECKPOINT).await.unwrap().unwrap(), "derived");
    assert_eq!(store.get(RESERVED).await.unwrap().unwrap(), "with a time");
    // The numbered reservations, and the one above.
    let kept = store.scan(b"ids", ClusteringRange::all()).all().await.unwrap();
    assert_eq!(kept.len(), reservations as usize + 1);
    let event = [&b"el\0\0\0\x01"[..], &7_u64.to_be_bytes(), &0_u64.to_be_bytes()].concat();
    assert!(store.scan(&event, ClusteringRange::all()).all().await.unwrap().is_empty());
    let cells = Cells::new(FileCells::new(Env::real(), &directory.join("cells")));
    assert_eq!(cells.get(RESERVED).await.unwrap().unwrap(), "with a time");
    for number in 0..reservations {
        let value = cells.get(Key::new(b"ids", &number.to_be_bytes())).await.unwrap();
        assert_eq!(value.unwrap(), &number.to_be_bytes()[..]);
    }
    for key in [OFFSET, CHECKPOINT] {
        assert_eq!(cells.get(key).await.unwrap(), None);
    }
    cells.close().await.unwrap();
    let names = std::fs::read_dir(directory.join("store")).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["format", "in-use", "tree"]);
}

#[tokio::test]
async fn values_that_are_not_derived_are_kept_wherever_the_migration_is_interrupted() {
    for (place, reservations) in PLACES.into_iter().zip([0, 10, 1_500, 2_000]) {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        write_format_1(&directory.join("store"), reservations);
        let hook = Hook::failing(directory, place);
        for _ in 0..2 {
            // After the marker is written, it opens, and only removes the files of format 1.
            let cut = open(directory);
            assert!(cut.is_err() || place == "after the mark", "{place}");
            if cut.is_ok() {
                break;
            }
        }
        drop(hook);
        for _ in 0..2 {
            let store = open(directory).unwrap();
            check(directory, &store, reservations).await;
            store.close().await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_separate_store_has_its_cells_next_to_it() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("mine");
    write_format_1(&store, 3);
    drop(TreeStore::open(Env::real(), &store, StoreOptions::default()).unwrap());
    let cells = Cells::new(FileCells::new(Env::real(), &directory.path().join("mine-cells")));
    assert_eq!(cells.get(RESERVED).await.unwrap().unwrap(), "with a time");
}

#[tokio::test]
async fn without_reservations_no_cells_are_created_and_an_open_store_is_not_changed() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("store");
    let database = Database::builder(&store).open().unwrap();
    let meta = database.keyspace("meta", KeyspaceCreateOptions::default).unwrap();
    meta.insert("format", 1_u32.to_be_bytes()).unwrap();
    database.keyspace("pairs", KeyspaceCreateOptions::default).unwrap();
    let error = open(directory.path()).unwrap_err();
    assert!(matches!(&error, StoreError::Unavailable(text) if text.contains("another process")), "{error}");
    drop((meta, database));
    drop(open(directory.path()).unwrap());
    assert!(!directory.path().join("cells").exists());
}
