//! The limits of sizes: the largest allowed value, and one byte more.

use seriatim_types::ErrorKind;
use seriatim_types::limits::{CLUSTERING_KEY_BYTES_MAX, PARTITION_KEY_BYTES_MAX, VALUE_BYTES_MAX};

use super::{get, key, keys};
use crate::conformance::Subject;
use seriatim_storage::{Batch, ClusteringRange, Durability, Key, Store};

pub async fn the_largest_keys_are_accepted(subject: Subject<Store>) {
    let store = subject.open().await;
    let partition = vec![0xff; PARTITION_KEY_BYTES_MAX];
    // More of them than the first page of a scan holds, all of the largest size.
    let names: Vec<Vec<u8>> =
        (0..20).map(|number| [&vec![0xff; CLUSTERING_KEY_BYTES_MAX - 1][..], &[number]].concat()).collect();
    for name in &names {
        store.put(Key::new(&partition, name), b"value").await.unwrap();
    }
    assert_eq!(get(&store, Key::new(&partition, &names[3])).await.unwrap(), "value");
    assert!(keys(&store, &partition, ClusteringRange::all()).await == names);
    let mut scan = store.scan(&partition, ClusteringRange::from(&names[1]));
    for name in &names[1..] {
        assert!(scan.next().await.unwrap().unwrap().0 == name);
    }
    assert_eq!(scan.next().await, Ok(None));
}

pub async fn the_largest_value_is_accepted(subject: Subject<Store>) {
    let store = subject.open().await;
    let value = vec![0x5a; VALUE_BYTES_MAX];
    store.put(key(b"k"), &value).await.unwrap();
    assert!(get(&store, key(b"k")).await.unwrap() == value);
    assert!(store.scan(b"p", ClusteringRange::all()).all().await.unwrap()[0].1 == value);
}

pub async fn a_write_that_is_too_large_is_refused_and_writes_nothing(subject: Subject<Store>) {
    let store = subject.open().await;
    let (partition, endless) = (vec![1; PARTITION_KEY_BYTES_MAX + 1], vec![1; 100_000]);
    let clustering = vec![1; CLUSTERING_KEY_BYTES_MAX + 1];
    let value = vec![1; VALUE_BYTES_MAX + 1];
    let large = [
        (Key::new(&partition, b"k"), &b"v"[..]),
        (Key::new(&endless, b"k"), b"v"),
        (Key::new(b"p", &clustering), b"v"),
        (key(b"k"), &value),
    ];
    for (key, value) in large {
        let refused = store.put(key, value).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::TooLarge, "{refused}");
        let mut batch = Batch::new();
        batch.put(super::key(b"small"), b"v");
        batch.put(key, value);
        let refused = store.write(batch, Durability::Buffered).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::TooLarge, "{refused}");
    }
    for (key, _) in &large[..3] {
        assert_eq!(store.get(*key).await.unwrap_err().kind(), ErrorKind::TooLarge);
        assert_eq!(
            store.get_many(&[super::key(b"small"), *key]).await.unwrap_err().kind(),
            ErrorKind::TooLarge
        );
    }
    let mut scan = store.scan(&partition, ClusteringRange::all());
    assert_eq!(scan.next().await.unwrap_err().kind(), ErrorKind::TooLarge);
    assert!(keys(&store, b"p", ClusteringRange::all()).await.is_empty());
}
