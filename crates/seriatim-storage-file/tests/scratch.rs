//! A scratch store is removed after use.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use seriatim_env::Env;
use seriatim_storage_file::{FileOptions, FileStorage};

#[tokio::test]
async fn there_is_one_scratch_store_at_a_time_and_none_after_a_crash() {
    let (env, folder) = (Env::real(), tempfile::tempdir().unwrap());
    let storage = FileStorage::open(&env, folder.path(), FileOptions::default()).await.unwrap();
    let scratch = storage.scratch().await.unwrap();
    assert!(storage.scratch().await.is_err(), "there is already one");
    scratch.close().await.unwrap();
    assert!(!folder.path().join("scratch").exists());
    let left = storage.scratch().await.unwrap();
    drop(left);
    assert!(folder.path().join("scratch").exists(), "it was not closed");
    storage.close().await.unwrap();
    let storage = FileStorage::open(&env, folder.path(), FileOptions::default()).await.unwrap();
    assert!(!folder.path().join("scratch").exists());
    storage.close().await.unwrap();
}

#[tokio::test]
async fn a_storage_reports_how_much_space_is_free() {
    let (env, folder) = (Env::real(), tempfile::tempdir().unwrap());
    let options = FileOptions { free_bytes_min: 100, ..FileOptions::default() };
    FileStorage::open(&env, folder.path(), options.clone()).await.unwrap().close().await.unwrap();
    let probe = Box::new(|_: &std::path::Path| Ok(99));
    let storage = FileStorage::open_with_probe(&env, folder.path(), options, probe).await.unwrap();
    let space = storage.disk_space();
    assert_eq!((space.free_bytes, space.needed_bytes, space.is_too_low()), (99, 100, true));
    storage.close().await.unwrap();
}
