//! A disk that is nearly full.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use seriatim_env::Env;
use seriatim_storage::{Batch, Durability, Key, Store, StoreError};
use seriatim_storage_file::{StoreOptions, TreeStore};

#[tokio::test]
async fn a_nearly_full_disk_refuses_writes_and_reads_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let full = Arc::new(AtomicBool::new(false));
    let space_check = {
        let full = full.clone();
        move || if full.load(Ordering::Relaxed) { Err((10, 20)) } else { Ok(()) }
    };
    let options = StoreOptions { space_check: Some(Arc::new(space_check)), ..StoreOptions::default() };
    let store = Store::new(TreeStore::open(Env::real(), directory.path(), options).unwrap());
    let (tea, milk) = (Key::new(b"p", b"tea"), Key::new(b"p", b"milk"));
    store.put(tea, b"1").await.unwrap();

    full.store(true, Ordering::Relaxed);
    let refused = StoreError::DiskNearlyFull { free_bytes: 10, needed_bytes: 20 };
    let mut batch = Batch::new();
    batch.put(milk, b"1");
    assert_eq!(store.put(milk, b"1").await, Err(refused.clone()));
    assert_eq!(store.write(batch, Durability::Synced).await, Err(refused.clone()));
    assert_eq!(store.insert_if_absent(milk, b"1").await, Err(refused.clone()));
    assert_eq!(store.compare_and_delete(tea, b"1").await, Err(refused));
    assert_eq!(store.get(tea).await.unwrap().unwrap(), "1");
    assert_eq!(store.get(milk).await.unwrap(), None);
    store.sync().await.unwrap();

    full.store(false, Ordering::Relaxed);
    assert!(store.insert_if_absent(milk, b"1").await.unwrap());
    store.close().await.unwrap();
}
