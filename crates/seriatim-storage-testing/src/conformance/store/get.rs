//! Reading values, and which keys are equal.

use super::{get, key};
use crate::conformance::Subject;
use seriatim_storage::{Key, Store};

pub async fn a_value_that_was_put_can_be_read(subject: Subject<Store>) {
    let store = subject.open().await;
    assert_eq!(get(&store, key(b"k")).await, None);
    store.put(key(b"k"), b"value").await.unwrap();
    assert_eq!(get(&store, key(b"k")).await.unwrap(), "value");
    assert_eq!(get(&store, key(b"kk")).await, None);
    assert_eq!(get(&store, key(b"")).await, None);
    assert_eq!(get(&store, Key::new(b"q", b"k")).await, None);
}

pub async fn an_empty_value_is_a_value(subject: Subject<Store>) {
    let store = subject.open().await;
    store.put(key(b"empty"), b"").await.unwrap();
    assert_eq!(get(&store, key(b"empty")).await.unwrap(), "");
    let keys = [key(b"empty"), key(b"absent")];
    assert_eq!(store.get_many(&keys).await.unwrap(), [Some("".into()), None]);
    let pairs = store.scan(b"p", Default::default()).all().await.unwrap();
    assert_eq!(pairs, [("empty".into(), "".into())]);
}

pub async fn an_empty_clustering_key_is_a_key(subject: Subject<Store>) {
    let store = subject.open().await;
    store.put(key(b"a"), b"with").await.unwrap();
    assert_eq!(get(&store, key(b"")).await, None);
    store.put(key(b""), b"without").await.unwrap();
    assert_eq!(get(&store, key(b"")).await.unwrap(), "without");
    assert_eq!(get(&store, key(b"a")).await.unwrap(), "with");
    let pairs = store.scan(b"p", Default::default()).all().await.unwrap();
    assert_eq!(pairs, [("".into(), "without".into()), ("a".into(), "with".into())]);
    let mut batch = seriatim_storage::Batch::new();
    batch.remove(key(b""));
    store.write(batch, seriatim_storage::Durability::Buffered).await.unwrap();
    assert_eq!(get(&store, key(b"")).await, None);
}

pub async fn an_empty_partition_key_is_a_key(subject: Subject<Store>) {
    let store = subject.open().await;
    let (empty, other) = (Key::new(b"", b"k"), Key::new(b"k", b""));
    store.put(empty, b"empty").await.unwrap();
    assert_eq!(get(&store, other).await, None);
    store.put(other, b"other").await.unwrap();
    store.put(Key::new(b"", b""), b"both").await.unwrap();
    assert_eq!(get(&store, empty).await.unwrap(), "empty");
    let pairs = store.scan(b"", Default::default()).all().await.unwrap();
    assert_eq!(pairs, [("".into(), "both".into()), ("k".into(), "empty".into())]);
}

pub async fn keys_that_join_to_the_same_bytes_are_different_keys(subject: Subject<Store>) {
    let store = subject.open().await;
    // The parts of each of these give the same bytes when they are joined.
    let borders: &[(&[u8], &[u8])] = &[
        (b"abc", b""),
        (b"ab", b"c"),
        (b"a", b"bc"),
        (b"", b"abc"),
        (b"a\0", b"\0b"),
        (b"a", b"\0\0b"),
        (b"a\0\0", b"b"),
        (b"\0", b"\x01a"),
        (b"\0\x01", b"a"),
        (b"\xff", b"\xff\xff"),
        (b"\xff\xff", b"\xff"),
    ];
    for (number, (partition, clustering)) in borders.iter().enumerate() {
        assert_eq!(get(&store, Key::new(partition, clustering)).await, None);
        store.put(Key::new(partition, clustering), &[u8::try_from(number).unwrap()]).await.unwrap();
    }
    for (number, (partition, clustering)) in borders.iter().enumerate() {
        let value = get(&store, Key::new(partition, clustering)).await.unwrap();
        assert_eq!(value[..], [u8::try_from(number).unwrap()], "{partition:?} {clustering:?}");
    }
}

pub async fn many_values_are_returned_in_the_order_of_their_keys(subject: Subject<Store>) {
    let store = subject.open().await;
    for name in [&b"a"[..], b"b", b"c"] {
        store.put(key(name), name).await.unwrap();
        store.put(Key::new(b"q", name), &[name, b"q"].concat()).await.unwrap();
    }
    let keys = [
        key(b"c"),
        key(b"absent"),
        Key::new(b"q", b"a"),
        key(b"a"),
        key(b"c"),
        key(b"absent"),
        Key::new(b"absent", b"a"),
        key(b"b"),
        key(b"c"),
    ];
    let found = store.get_many(&keys).await.unwrap();
    let expected = [Some("c"), None, Some("aq"), Some("a"), Some("c"), None, None, Some("b"), Some("c")];
    assert_eq!(found, expected.map(|value| value.map(Into::into)));
    assert_eq!(store.get_many(&[]).await.unwrap(), Vec::<Option<bytes::Bytes>>::new());
}

pub async fn thousands_of_keys_can_be_read_at_once(subject: Subject<Store>) {
    let store = subject.open().await;
    let mut batch = seriatim_storage::Batch::new();
    for number in 0..3_000 {
        batch.put(key(&super::nth(number * 2)), &super::nth(number));
    }
    store.write(batch, seriatim_storage::Durability::Buffered).await.unwrap();
    let names: Vec<_> = (0..6_000).rev().map(super::nth).collect();
    let keys: Vec<_> = names.iter().map(|name| key(name)).collect();
    let found = store.get_many(&keys).await.unwrap();
    assert_eq!(found.len(), 6_000);
    for (number, value) in (0..6_000).rev().zip(found) {
        let expected = (number % 2 == 0).then(|| super::nth(number / 2).to_vec());
        assert_eq!(value.map(|value| value.to_vec()), expected, "key {number}");
    }
}
