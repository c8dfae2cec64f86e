//! A disk that is nearly full.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use seriatim_env::Env;
use seriatim_storage::{Batch, Durability, Key, Store, StoreError};
use seriatim_storage_file::{StoreOptions, TreeStore};

#[tokio::test]
async fn a_nearly_full_disk_refuses_to_make_durable_and_reads_and_buffering_continue() {
    let directory = tempfile::tempdir().unwrap();
    let full = Arc::new(AtomicBool::new(false));
    let space_check = {
        let full = full.clone();
        move || if full.load(Ordering::Relaxed) { Err((10, 20)) } else { Ok(()) }
    };
    let options = StoreOptions {
        gather_bytes: 32 << 10,
        space_check: Some(Arc::new(space_check)),
        ..StoreOptions::default()
    };
    let store = Store::new(TreeStore::open(Env::real(), directory.path(), options.clone()).unwrap());
    let (tea, milk) = (Key::new(b"p", b"tea"), Key::new(b"p", b"milk"));
    store.put(tea, b"1").await.unwrap();
    store.sync().await.unwrap();

    full.store(true, Ordering::Relaxed);
    let refused = StoreError::DiskNearlyFull { free_bytes: 10, needed_bytes: 20 };
    let mut batch = Batch::new();
    batch.put(milk, b"1");
    assert_eq!(store.write(batch, Durability::Synced).await, Err(refused.clone()));
    assert_eq!(store.get(milk).await.unwrap(), None, "nothing was written");
    store.put(milk, b"2").await.unwrap();
    assert_eq!(store.sync().await, Err(refused.clone()));
    assert_eq!(store.get(tea).await.unwrap().unwrap(), "1");
    assert_eq!(store.get(milk).await.unwrap().unwrap(), "2");

    // Buffered writes are accepted until too much is in memory.
    let mut written = 0_u32;
    let error = loop {
        match store.put(Key::new(b"q", &written.to_be_bytes()), &[7; 1_000]).await {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
        assert!(written < 1_000);
    };
    assert_eq!(error, refused);
    assert!(written > 32, "{written}");
    assert_eq!(store.scan(b"q", Default::default()).all().await.unwrap().len(), written as usize);

    full.store(false, Ordering::Relaxed);
    store.put(Key::new(b"q", &written.to_be_bytes()), &[7; 1_000]).await.unwrap();
    store.sync().await.unwrap();
    assert_eq!(store.written(), store.durable());
    drop(store);
    let store = Store::new(TreeStore::open(Env::real(), directory.path(), options).unwrap());
    assert_eq!(store.get(milk).await.unwrap().unwrap(), "2");
    assert_eq!(store.scan(b"q", Default::default()).all().await.unwrap().len(), written as usize + 1);
    store.close().await.unwrap();
}
