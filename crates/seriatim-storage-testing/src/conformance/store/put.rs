//! Putting and removing single values.

use super::{get, key, keys};
use crate::conformance::Subject;
use seriatim_storage::{Batch, ClusteringRange, Durability, Key, Store};

pub async fn a_put_overwrites(subject: Subject<Store>) {
    let store = subject.open().await;
    for value in ["first", "second", "", "a much longer value than before"] {
        store.put(key(b"k"), value.as_bytes()).await.unwrap();
        assert_eq!(get(&store, key(b"k")).await.unwrap(), value);
    }
    assert_eq!(keys(&store, b"p", ClusteringRange::all()).await, [b"k"]);
}

pub async fn a_removed_key_is_absent(subject: Subject<Store>) {
    let store = subject.open().await;
    for name in [b"a", b"b", b"c"] {
        store.put(key(name), b"value").await.unwrap();
    }
    let mut batch = Batch::new();
    batch.remove(key(b"b"));
    batch.remove(key(b"never there"));
    store.write(batch, Durability::Buffered).await.unwrap();
    assert_eq!(get(&store, key(b"b")).await, None);
    assert_eq!(store.get_many(&[key(b"b")]).await.unwrap(), [None]);
    assert_eq!(keys(&store, b"p", ClusteringRange::all()).await, [b"a", b"c"]);
    store.put(key(b"b"), b"again").await.unwrap();
    assert_eq!(get(&store, key(b"b")).await.unwrap(), "again");
}

pub async fn values_of_megabytes_are_read_as_written(subject: Subject<Store>) {
    let store = subject.open().await;
    let value: Vec<u8> = (0..(1_u32 << 20) + 13).map(|i| (i ^ (i >> 8)).to_le_bytes()[0]).collect();
    store.put(key(b"put"), &value).await.unwrap();
    store.put(key(b"too"), &value).await.unwrap();
    assert!(get(&store, key(b"put")).await.unwrap() == value);
    let found = store.get_many(&[key(b"too"), key(b"put")]).await.unwrap();
    assert!(found.into_iter().all(|found| found.unwrap() == value));
    let pairs = store.scan(b"p", ClusteringRange::all()).all().await.unwrap();
    assert!(pairs.len() == 2 && pairs.iter().all(|(_, found)| found == &value));
}

pub async fn keys_and_values_may_have_any_bytes(subject: Subject<Store>) {
    let store = subject.open().await;
    let mut names: Vec<Vec<u8>> = (0..=u8::MAX).map(|byte| vec![byte]).collect();
    names.extend((0..=u8::MAX).map(|byte| vec![0xff, byte, 0, byte]));
    let mut batch = Batch::new();
    for name in &names {
        batch.put(Key::new(name, name), name);
        batch.put(Key::new(b"p", name), name);
    }
    store.write(batch, Durability::Buffered).await.unwrap();
    for name in &names {
        assert_eq!(get(&store, Key::new(name, name)).await.unwrap(), name);
        // 'p' itself is one of the names, and its partition has all the others.
        let found = keys(&store, name, ClusteringRange::all()).await;
        assert_eq!(found.len(), if name == b"p" { names.len() } else { 1 });
    }
    names.sort();
    assert_eq!(keys(&store, b"p", ClusteringRange::all()).await, names);
}

pub async fn a_write_can_be_read_by_every_task_when_it_has_returned(subject: Subject<Store>) {
    let store = subject.open().await;
    for round in 0..50_u8 {
        store.put(key(b"k"), &[round]).await.unwrap();
        let readers = subject.tasks(4, |_| {
            let store = store.clone();
            async move { get(&store, key(b"k")).await.unwrap() }
        });
        for value in crate::conformance::join(readers).await {
            assert_eq!(value[..], [round]);
        }
    }
}
