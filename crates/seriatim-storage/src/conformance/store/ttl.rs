//! Values that expire.
//!
//! A clause that needs a value to be gone asks until it is. One that needs a value to be there gives it no TTL or a
//! `LONG` one, so that a slow machine changes nothing.

use std::time::Duration;

use bytes::Bytes;

use super::{get, key, keys, reopen};
use crate::conformance::{Subject, breathe};
use crate::{Batch, ClusteringRange, Durability, Key, Store};

/// Soon over. Backends may round it up.
const SHORT: Duration = Duration::from_millis(250);
/// Not over while any test runs.
const LONG: Duration = Duration::from_secs(3_600);

/// Waits until a key is absent.
async fn gone(subject: &Subject<Store>, store: &Store, key: Key<'_>) {
    while get(store, key).await.is_some() {
        subject.env.sleep(Duration::from_millis(10)).await;
    }
}

/// Waits until everything that was given a `SHORT` TTL before has expired: a witness that came later has.
async fn short_is_over(subject: &Subject<Store>, store: &Store) {
    let witness = Key::new(b"witness", b"");
    assert!(store.insert_if_absent(witness, b"", Some(SHORT)).await.unwrap());
    gone(subject, store, witness).await;
}

/// A store in which ("p", "k") has had the value "old" and expired.
async fn with_expired(subject: &Subject<Store>) -> Store {
    let store = subject.open().await;
    assert!(store.insert_if_absent(key(b"k"), b"old", Some(SHORT)).await.unwrap());
    gone(subject, &store, key(b"k")).await;
    store
}

pub async fn a_value_is_there_until_it_expires(subject: Subject<Store>) {
    let store = subject.open().await;
    assert!(store.insert_if_absent(key(b"inserted"), b"value", Some(LONG)).await.unwrap());
    store.put(key(b"swapped"), b"old").await.unwrap();
    assert!(store.compare_and_swap(key(b"swapped"), b"old", b"value", Some(LONG)).await.unwrap());
    let found = store.get_many(&[key(b"inserted"), key(b"swapped")]).await.unwrap();
    assert_eq!(found, [Some("value".into()), Some("value".into())]);
    assert_eq!(keys(&store, b"p", ClusteringRange::all()).await.len(), 2);
    assert!(!store.insert_if_absent(key(b"inserted"), b"new", None).await.unwrap());
    assert!(store.compare_and_swap(key(b"inserted"), b"value", b"new", Some(LONG)).await.unwrap());
    assert!(store.compare_and_delete(key(b"swapped"), b"value").await.unwrap());
    assert_eq!(get(&store, key(b"inserted")).await.unwrap(), "new");
}

pub async fn an_expired_value_cannot_be_got(subject: Subject<Store>) {
    let store = with_expired(&subject).await;
    store.put(key(b"other"), b"value").await.unwrap();
    assert_eq!(get(&store, key(b"k")).await, None);
    let found = store.get_many(&[key(b"k"), key(b"other"), key(b"k")]).await.unwrap();
    assert_eq!(found, [None, Some("value".into()), None]);
}

pub async fn an_expired_value_is_not_scanned(subject: Subject<Store>) {
    let store = subject.open().await;
    // More expired values than a page holds lie between the ones that are left.
    for number in 0..40 {
        assert!(store.insert_if_absent(key(&super::nth(number)), b"old", Some(SHORT)).await.unwrap());
    }
    store.put(key(b""), b"first").await.unwrap();
    store.put(key(b"\xff"), b"last").await.unwrap();
    short_is_over(&subject, &store).await;
    assert_eq!(keys(&store, b"p", ClusteringRange::all()).await, [&b""[..], b"\xff"]);
    let pairs = store.scan(b"p", ClusteringRange::all()).take(1).await.unwrap();
    assert_eq!(pairs, [("".into(), "first".into())]);
    let pairs = store.scan(b"p", ClusteringRange::from(b"\0")).take(1).await.unwrap();
    assert_eq!(pairs, [(Bytes::from_static(b"\xff"), "last".into())]);
}

pub async fn where_a_value_has_expired_another_can_be_inserted(subject: Subject<Store>) {
    let store = with_expired(&subject).await;
    assert!(store.insert_if_absent(key(b"k"), b"new", None).await.unwrap());
    assert!(!store.insert_if_absent(key(b"k"), b"newer", None).await.unwrap());
    short_is_over(&subject, &store).await;
    assert_eq!(get(&store, key(b"k")).await.unwrap(), "new");
    assert_eq!(keys(&store, b"p", ClusteringRange::all()).await, [b"k"]);
}

pub async fn an_expired_value_cannot_be_swapped(subject: Subject<Store>) {
    let store = with_expired(&subject).await;
    assert!(!store.compare_and_swap(key(b"k"), b"old", b"new", None).await.unwrap());
    assert_eq!(get(&store, key(b"k")).await, None);
}

pub async fn an_expired_value_cannot_be_deleted(subject: Subject<Store>) {
    let store = with_expired(&subject).await;
    assert!(!store.compare_and_delete(key(b"k"), b"old").await.unwrap());
    assert!(store.insert_if_absent(key(b"k"), b"new", None).await.unwrap());
}

pub async fn a_swapped_value_expires_too(subject: Subject<Store>) {
    let store = subject.open().await;
    store.put(key(b"k"), b"old").await.unwrap();
    assert!(store.compare_and_swap(key(b"k"), b"old", b"new", Some(SHORT)).await.unwrap());
    gone(&subject, &store, key(b"k")).await;
    assert!(store.insert_if_absent(key(b"k"), b"again", None).await.unwrap());
}

pub async fn a_put_clears_a_ttl(subject: Subject<Store>) {
    let store = subject.open().await;
    assert!(store.insert_if_absent(key(b"put"), b"old", Some(SHORT)).await.unwrap());
    store.put(key(b"put"), b"new").await.unwrap();
    assert!(store.insert_if_absent(key(b"batch"), b"old", Some(SHORT)).await.unwrap());
    let mut batch = Batch::new();
    batch.put(key(b"batch"), b"new");
    store.write(batch, Durability::Synced).await.unwrap();
    short_is_over(&subject, &store).await;
    assert_eq!(keys(&store, b"p", ClusteringRange::all()).await, [&b"batch"[..], b"put"]);
    assert_eq!(get(&store, key(b"put")).await.unwrap(), "new");
    assert!(!store.insert_if_absent(key(b"batch"), b"newer", None).await.unwrap());
}

pub async fn a_renewed_key_is_not_removed_by_its_old_expiry(subject: Subject<Store>) {
    let store = subject.open().await;
    let renewals = [(&b"for long"[..], Some(LONG)), (b"for ever", None)];
    for (name, ttl) in renewals {
        // On a slow machine the value may expire before it is renewed: then once more.
        loop {
            breathe().await;
            assert!(store.insert_if_absent(key(name), b"old", Some(SHORT)).await.unwrap());
            if store.compare_and_swap(key(name), b"old", b"renewed", ttl).await.unwrap() {
                break;
            }
        }
    }
    let deleted = Key::new(b"p", b"inserted again");
    loop {
        breathe().await;
        assert!(store.insert_if_absent(deleted, b"old", Some(SHORT)).await.unwrap());
        if store.compare_and_delete(deleted, b"old").await.unwrap() {
            break;
        }
    }
    assert!(store.insert_if_absent(deleted, b"new", Some(LONG)).await.unwrap());
    // Twice, for a backend that clears up in the background and in rounds.
    for _ in 0..2 {
        short_is_over(&subject, &store).await;
        assert_eq!(get(&store, key(b"for long")).await.unwrap(), "renewed");
        assert_eq!(get(&store, key(b"for ever")).await.unwrap(), "renewed");
        assert_eq!(get(&store, deleted).await.unwrap(), "new");
        assert_eq!(keys(&store, b"p", ClusteringRange::all()).await.len(), 3);
    }
}

pub async fn a_ttl_is_kept_after_reopen(subject: Subject<Store>) {
    let mut store = subject.open().await;
    for (name, ttl) in [(&b"long"[..], Some(LONG)), (b"never", None), (b"short", Some(SHORT))] {
        assert!(store.insert_if_absent(key(name), b"value", ttl).await.unwrap());
    }
    store = reopen(&subject, store).await;
    gone(&subject, &store, key(b"short")).await;
    assert_eq!(keys(&store, b"p", ClusteringRange::all()).await, [&b"long"[..], b"never"]);
    store = reopen(&subject, store).await;
    assert_eq!(get(&store, key(b"short")).await, None);
    assert_eq!(keys(&store, b"p", ClusteringRange::all()).await, [&b"long"[..], b"never"]);
}

pub async fn of_many_that_insert_over_an_expired_value_one_wins(subject: Subject<Store>) {
    let store = with_expired(&subject).await;
    let won = crate::conformance::join(subject.tasks(16, |task| {
        let store = store.clone();
        async move { store.insert_if_absent(key(b"k"), &super::nth(task), Some(LONG)).await.unwrap() }
    }))
    .await;
    assert_eq!(won.iter().filter(|won| **won).count(), 1);
}
