//! Closing and opening again.

use super::{get, key, keys, nth, reopen};
use crate::conformance::Subject;
use seriatim_storage::{Batch, ClusteringRange, Durability, Key, Store};

pub async fn everything_written_is_there_after_reopen(subject: Subject<Store>) {
    let mut store = subject.open().await;
    let mut batch = Batch::new();
    for number in 0..2_000 {
        batch.put(Key::new(&nth(number % 7), &nth(number)), &nth(number * 5));
    }
    batch.put(key(b""), b"");
    batch.put(Key::new(b"", b""), b"nowhere");
    batch.put(key(b"large"), &vec![9; 1 << 20]);
    store.write(batch, Durability::Buffered).await.unwrap();
    store = reopen(&subject, store).await;
    for partition in 0..7 {
        let pairs = store.scan(&nth(partition), ClusteringRange::all()).all().await.unwrap();
        let expected: Vec<_> =
            (partition..2_000).step_by(7).map(|number| (nth(number), nth(number * 5))).collect();
        assert_eq!(pairs.len(), expected.len());
        for ((clustering, value), expected) in pairs.iter().zip(&expected) {
            assert_eq!((&clustering[..], &value[..]), (&expected.0[..], &expected.1[..]));
        }
    }
    assert_eq!(get(&store, key(b"")).await.unwrap(), "");
    assert_eq!(get(&store, Key::new(b"", b"")).await.unwrap(), "nowhere");
    assert!(get(&store, key(b"large")).await.unwrap() == vec![9; 1 << 20]);
}

pub async fn what_was_removed_stays_removed_after_reopen(subject: Subject<Store>) {
    let mut store = subject.open().await;
    for name in [b"a", b"b", b"c"] {
        store.put(key(name), b"value").await.unwrap();
    }
    store = reopen(&subject, store).await;
    let mut batch = Batch::new();
    batch.remove(key(b"b"));
    batch.put(key(b"c"), b"changed");
    store.write(batch, Durability::Buffered).await.unwrap();
    store = reopen(&subject, store).await;
    assert_eq!(keys(&store, b"p", ClusteringRange::all()).await, [b"a", b"c"]);
    assert_eq!(get(&store, key(b"c")).await.unwrap(), "changed");
    assert_eq!(get(&store, key(b"b")).await, None);
}

pub async fn a_store_can_be_opened_many_times(subject: Subject<Store>) {
    let mut store = subject.open().await;
    for round in 0..5 {
        store.put(key(&nth(round)), &nth(round)).await.unwrap();
        store = reopen(&subject, store).await;
        assert_eq!(
            keys(&store, b"p", ClusteringRange::all()).await,
            (0..=round).map(nth).collect::<Vec<_>>()
        );
    }
}
