//! Closing a store.

use std::time::Duration;

use super::{get, key};
use crate::conformance::{Subject, join, yield_once};
use seriatim_storage::{Batch, ClusteringRange, Durability, Store, StoreError};

pub async fn a_closed_store_refuses_every_call(subject: Subject<Store>) {
    let store = subject.open().await;
    store.put(key(b"k"), b"value").await.unwrap();
    let mut scan = store.scan(b"p", ClusteringRange::all());
    store.close().await.unwrap();
    let closed = StoreError::Closed;
    assert_eq!(store.get(key(b"k")).await, Err(closed.clone()));
    assert_eq!(store.get_many(&[key(b"k")]).await, Err(closed.clone()));
    assert_eq!(scan.next().await, Err(closed.clone()));
    assert_eq!(store.put(key(b"k"), b"new").await, Err(closed.clone()));
    let mut batch = Batch::new();
    batch.put(key(b"other"), b"new");
    assert_eq!(store.write(batch, Durability::Synced).await, Err(closed.clone()));
    assert_eq!(store.sync().await, Err(closed));
    drop((scan, store));
    let store = subject.open().await;
    assert_eq!(get(&store, key(b"k")).await.unwrap(), "value");
    assert_eq!(get(&store, key(b"other")).await, None);
}

pub async fn a_store_may_be_closed_twice(subject: Subject<Store>) {
    let store = subject.open().await;
    store.put(key(b"k"), b"value").await.unwrap();
    let clone = store.clone();
    assert_eq!(store.close().await, Ok(()));
    assert_eq!(store.close().await, Ok(()));
    assert_eq!(clone.close().await, Ok(()));
    drop((store, clone));
    assert_eq!(get(&subject.open().await, key(b"k")).await.unwrap(), "value");
}

pub async fn writes_acknowledged_while_the_store_closes_are_kept(subject: Subject<Store>) {
    let store = subject.open().await;
    let writers = subject.tasks(4, |task| {
        let store = store.clone();
        async move {
            let mut written = 0;
            loop {
                yield_once().await;
                let name = [super::nth(task), super::nth(written)].concat();
                match store.put(key(&name), b"value").await {
                    Ok(()) => written += 1,
                    Err(StoreError::Closed) => return written,
                    Err(error) => panic!("{error}"),
                }
            }
        }
    });
    // Wait until each of them writes.
    for task in 0..4 {
        while get(&store, key(&[super::nth(task), super::nth(2)].concat())).await.is_none() {
            subject.env.sleep(Duration::from_millis(1)).await;
        }
    }
    store.close().await.unwrap();
    drop(store);
    let written = join(writers).await;
    let store = subject.open().await;
    for (task, written) in written.into_iter().enumerate() {
        let found = super::keys(&store, b"p", ClusteringRange::prefix(&super::nth(task))).await;
        assert!(found.len() >= written, "task {task} wrote {written}, {} are there", found.len());
    }
}
