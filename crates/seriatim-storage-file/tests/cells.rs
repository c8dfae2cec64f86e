//! Cells on files.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use seriatim_env::Env;
use seriatim_storage::{Cells, Key, StoreError};
use seriatim_storage_file::{FileCells, FileOptions, FileStorage, StoreOptions};
use seriatim_storage_testing::conformance::CellsFixture;

struct Folder(tempfile::TempDir);

impl CellsFixture for Folder {
    async fn open(&self) -> Cells {
        Cells::new(FileCells::new(Env::real(), &self.0.path().join("cells")))
    }
}

seriatim_storage_testing::cells_conformance!(Folder(tempfile::tempdir().unwrap()));

const KEY: Key<'static> = Key::new(b"ids", b"orders");

#[tokio::test]
async fn cells_are_created_with_the_first_use_and_kept_when_the_store_is_discarded() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let open = async || FileStorage::open(&Env::real(), directory, FileOptions::default()).await.unwrap();
    open().await.close().await.unwrap();
    assert!(!directory.join("cells").exists());
    let storage = open().await;
    assert!(storage.cells().insert_if_absent(KEY, b"1").await.unwrap());
    storage.close().await.unwrap();
    FileStorage::discard_store(&Env::real(), directory).await.unwrap();
    let storage = open().await;
    assert_eq!(storage.cells().get(KEY).await.unwrap().unwrap(), "1");
    storage.close().await.unwrap();
}

#[tokio::test]
async fn a_nearly_full_disk_refuses_cells() {
    let directory = tempfile::tempdir().unwrap();
    let full = Arc::new(AtomicBool::new(false));
    let space_check = {
        let full = full.clone();
        move || if full.load(Ordering::Relaxed) { Err((10, 20)) } else { Ok(()) }
    };
    let store = StoreOptions { space_check: Some(Arc::new(space_check)), ..StoreOptions::default() };
    let options = FileOptions { store, ..FileOptions::default() };
    let storage = FileStorage::open(&Env::real(), directory.path(), options).await.unwrap();
    let cells = storage.cells();
    assert!(cells.insert_if_absent(KEY, b"1").await.unwrap());
    full.store(true, Ordering::Relaxed);
    let refused = StoreError::DiskNearlyFull { free_bytes: 10, needed_bytes: 20 };
    assert_eq!(cells.compare_and_swap(KEY, b"1", b"2").await, Err(refused.clone()));
    assert_eq!(cells.compare_and_delete(KEY, b"1").await, Err(refused));
    assert_eq!(cells.get(KEY).await.unwrap().unwrap(), "1");
    full.store(false, Ordering::Relaxed);
    assert!(cells.compare_and_swap(KEY, b"1", b"2").await.unwrap());
    storage.close().await.unwrap();
}

#[tokio::test]
async fn cells_can_be_open_once_and_a_directory_of_another_program_is_not_changed() {
    let directory = tempfile::tempdir().unwrap();
    let open = || Cells::new(FileCells::new(Env::real(), directory.path()));
    let (first, second) = (open(), open());
    assert!(first.insert_if_absent(KEY, b"1").await.unwrap());
    let error = second.get(KEY).await.unwrap_err();
    assert!(matches!(&error, StoreError::Unavailable(text) if text.contains("another process")), "{error}");
    first.close().await.unwrap();
    assert_eq!(second.get(KEY).await.unwrap().unwrap(), "1");

    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("letter.txt"), "dear").unwrap();
    let error = Cells::new(FileCells::new(Env::real(), directory.path())).get(KEY).await.unwrap_err();
    assert!(matches!(&error, StoreError::Corrupt(text) if text.contains("letter.txt")), "{error}");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn writes_that_have_returned_are_there_without_a_close() {
    let directory = tempfile::tempdir().unwrap();
    let mut before = None;
    for round in 0..20_u64 {
        let cells = Cells::new(FileCells::new(Env::real(), directory.path()));
        assert_eq!(
            cells.get(KEY).await.unwrap().as_deref(),
            before.as_ref().map(|before: &[u8; 8]| &before[..])
        );
        let next = round.to_be_bytes();
        match &before {
            None => assert!(cells.insert_if_absent(KEY, &next).await.unwrap()),
            Some(before) => assert!(cells.compare_and_swap(KEY, before, &next).await.unwrap()),
        }
        before = Some(next);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_large_cells_are_written_without_getting_stuck() {
    let directory = tempfile::tempdir().unwrap();
    let open = || Cells::new(FileCells::new(Env::real(), directory.path()));
    let cells = open();
    for number in 0..40_u8 {
        assert!(cells.insert_if_absent(Key::new(b"large", &[number]), &vec![number; 3 << 20]).await.unwrap());
    }
    cells.close().await.unwrap();
    let cells = open();
    for number in 0..40_u8 {
        let value = cells.get(Key::new(b"large", &[number])).await.unwrap().unwrap();
        assert!(value == vec![number; 3 << 20]);
    }
}
