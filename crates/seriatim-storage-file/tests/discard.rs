//! Removing the store of a storage.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use seriatim_env::Env;
use seriatim_storage::Key;
use seriatim_storage_file::{FileOptions, FileStorage, OpenError};
use seriatim_types::{ErrorKind, Partition};

const KEY: Key<'static> = Key::new(b"partition", b"");

async fn open(directory: &Path) -> FileStorage {
    FileStorage::open(&Env::real(), directory, FileOptions::default()).await.unwrap()
}

async fn fill(directory: &Path) {
    let storage = open(directory).await;
    storage.log().take(Partition::new(1, 0)).await.unwrap();
    storage.store().put(KEY, b"value").await.unwrap();
    storage.close().await.unwrap();
}

async fn discard(directory: &Path) -> Result<(), OpenError> {
    FileStorage::discard_store(&Env::real(), directory).await
}

fn contents(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    files
        .map(|file| (file.file_name().to_string_lossy().into_owned(), fs::read(file.path()).unwrap()))
        .collect()
}

#[tokio::test]
async fn a_discarded_store_is_empty_and_the_log_is_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    fill(directory).await;
    let log = contents(&directory.join("log"));
    // The second time there is nothing to discard.
    for _ in 0..2 {
        discard(directory).await.unwrap();
        assert!(!directory.join("store").exists() && !directory.join("store.discarded").exists());
        assert_eq!(contents(&directory.join("log")), log);
    }
    let storage = open(directory).await;
    assert_eq!(storage.store().get(KEY).await.unwrap(), None);
    assert_eq!(storage.log().partitions().await.unwrap(), [Partition::new(1, 0)]);
    storage.store().put(KEY, b"again").await.unwrap();
    storage.close().await.unwrap();
}

#[tokio::test]
async fn a_store_that_cannot_be_opened_can_be_discarded() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    fill(directory).await;
    for name in ["store/format", "store/version", "store/tree/current"] {
        fs::write(directory.join(name), "nonsense").unwrap();
        assert!(FileStorage::open(&Env::real(), directory, FileOptions::default()).await.is_err(), "{name}");
        discard(directory).await.unwrap();
        let storage = open(directory).await;
        assert_eq!(storage.store().get(KEY).await.unwrap(), None);
        storage.store().put(KEY, b"value").await.unwrap();
        storage.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_storage_opens_whatever_a_crash_leaves_of_a_discarded_store() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    fill(directory).await;
    // Renamed, and partly deleted.
    fs::rename(directory.join("store"), directory.join("store.discarded")).unwrap();
    fs::remove_file(directory.join("store.discarded/format")).unwrap();
    let storage = open(directory).await;
    assert_eq!(storage.store().get(KEY).await.unwrap(), None);
    storage.store().put(KEY, b"new").await.unwrap();
    storage.close().await.unwrap();
    assert!(!directory.join("store.discarded").exists());

    // Discarded again while the files of an earlier one are not all deleted.
    fs::create_dir(directory.join("store.discarded")).unwrap();
    discard(directory).await.unwrap();
    assert!(!directory.join("store.discarded").exists());
    assert_eq!(open(directory).await.store().get(KEY).await.unwrap(), None);
}

#[tokio::test]
async fn only_a_storage_that_is_not_open_is_changed() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let held = directory.join("held");
    let storage = open(&held).await;
    assert!(matches!(discard(&held).await, Err(OpenError::Held { .. })));
    storage.store().put(KEY, b"value").await.unwrap();
    assert!(storage.store().get(KEY).await.unwrap().is_some());

    let foreign = directory.join("foreign");
    fs::create_dir_all(foreign.join("store")).unwrap();
    for other in [&foreign, &directory.join("missing"), &directory.join("held/SERIATIM")] {
        assert_eq!(discard(other).await.unwrap_err().kind(), ErrorKind::Invalid);
    }
    assert!(foreign.join("store").exists() && !directory.join("missing").exists());
}
