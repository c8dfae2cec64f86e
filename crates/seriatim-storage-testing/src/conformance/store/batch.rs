//! Batches.

use super::{get, key, keys, nth, reopen};
use crate::conformance::{Subject, TASKS, join};
use seriatim_storage::{Batch, ClusteringRange, Durability, Key, Store};

pub async fn the_later_write_of_a_batch_wins(subject: Subject<Store>) {
    let store = subject.open().await;
    store.put(key(b"kept"), b"old").await.unwrap();
    store.put(key(b"removed"), b"old").await.unwrap();
    let mut batch = Batch::new();
    for value in [&b"first"[..], b"second", b"last"] {
        batch.put(key(b"twice"), value);
    }
    batch.remove(key(b"kept"));
    batch.put(key(b"kept"), b"new");
    batch.put(key(b"removed"), b"new");
    batch.remove(key(b"removed"));
    batch.put(key(b"passing"), b"new");
    batch.remove(key(b"passing"));
    store.write(batch, Durability::Buffered).await.unwrap();
    assert_eq!(get(&store, key(b"twice")).await.unwrap(), "last");
    assert_eq!(get(&store, key(b"kept")).await.unwrap(), "new");
    assert_eq!(keys(&store, b"p", ClusteringRange::all()).await, [&b"kept"[..], b"twice"]);
}

pub async fn a_batch_may_cross_partitions(subject: Subject<Store>) {
    let store = subject.open().await;
    let mut batch = Batch::new();
    for partition in 0..300 {
        for clustering in 0..3 {
            batch.put(Key::new(&nth(partition), &nth(clustering)), &nth(partition * 3 + clustering));
        }
    }
    store.write(batch, Durability::Synced).await.unwrap();
    for partition in 0..300 {
        let pairs = store.scan(&nth(partition), ClusteringRange::all()).all().await.unwrap();
        let expected: Vec<_> = (0..3).map(|number| nth(partition * 3 + number)).collect();
        let found: Vec<_> = pairs.into_iter().map(|(_, value)| value.to_vec()).collect();
        assert_eq!(found, expected, "partition {partition}");
    }
}

pub async fn an_empty_batch_changes_nothing(subject: Subject<Store>) {
    let store = subject.open().await;
    store.put(key(b"k"), b"value").await.unwrap();
    store.write(Batch::new(), Durability::Buffered).await.unwrap();
    store.write(Batch::new(), Durability::Synced).await.unwrap();
    assert_eq!(keys(&store, b"p", ClusteringRange::all()).await, [b"k"]);
}

pub async fn a_batch_of_tens_of_thousands_of_writes_is_accepted(subject: Subject<Store>) {
    const WRITES: usize = 50_000;
    let store = subject.open().await;
    let mut batch = Batch::new();
    for number in 0..WRITES {
        batch.put(Key::new(&nth(number % 10), &nth(number)), &nth(number));
    }
    store.write(batch, Durability::Buffered).await.unwrap();
    for partition in 0..10 {
        let found = keys(&store, &nth(partition), ClusteringRange::all()).await;
        assert_eq!(found.len(), WRITES / 10);
        assert_eq!((&found[0][..], &found[1][..]), (&nth(partition)[..], &nth(partition + 10)[..]));
    }
    let mut batch = Batch::new();
    for number in 0..WRITES {
        batch.remove(Key::new(&nth(number % 10), &nth(number)));
    }
    store.write(batch, Durability::Buffered).await.unwrap();
    for partition in 0..10 {
        assert!(keys(&store, &nth(partition), ClusteringRange::all()).await.is_empty());
    }
}

pub async fn a_batch_of_many_megabytes_is_accepted(subject: Subject<Store>) {
    const VALUES: usize = 40;
    let store = subject.open().await;
    let value = |number: usize| vec![u8::try_from(number).unwrap(); (1 << 20) + number];
    let mut batch = Batch::new();
    for number in 0..VALUES {
        batch.put(key(&nth(number)), &value(number));
    }
    store.write(batch, Durability::Synced).await.unwrap();
    let mut scan = store.scan(b"p", ClusteringRange::all());
    for number in 0..VALUES {
        let (clustering, found) = scan.next().await.unwrap().unwrap();
        assert_eq!(clustering[..], nth(number));
        assert!(found == value(number), "value {number}");
    }
    assert_eq!(scan.next().await, Ok(None));
}

pub async fn buffered_and_synced_writes_can_be_read(subject: Subject<Store>) {
    let mut store = subject.open().await;
    for (round, durability) in [Durability::Buffered, Durability::Synced].into_iter().enumerate() {
        let mut batch = Batch::new();
        batch.put(key(&nth(round)), b"value");
        store.write(batch, durability).await.unwrap();
        assert_eq!(get(&store, key(&nth(round))).await.unwrap(), "value");
    }
    store.put(key(b"last"), b"value").await.unwrap();
    store.sync().await.unwrap();
    store.sync().await.unwrap();
    store = reopen(&subject, store).await;
    assert_eq!(keys(&store, b"p", ClusteringRange::all()).await.len(), 3);
}

pub async fn batches_of_many_tasks_are_all_written(subject: Subject<Store>) {
    let store = subject.open().await;
    join(subject.tasks(TASKS, |task| {
        let store = store.clone();
        async move {
            for round in 0..20 {
                let mut batch = Batch::new();
                for number in 0..10 {
                    batch.put(Key::new(&nth(number), &nth(task * 20 + round)), &nth(task));
                }
                store.write(batch, Durability::Buffered).await.unwrap();
            }
        }
    }))
    .await;
    for number in 0..10 {
        let pairs = store.scan(&nth(number), ClusteringRange::all()).all().await.unwrap();
        assert_eq!(pairs.len(), TASKS * 20);
        assert!(pairs.iter().enumerate().all(|(at, (_, value))| value[..] == nth(at / 20)));
    }
}

pub async fn the_count_of_durable_writes_is_correct(subject: Subject<Store>) {
    let store = subject.open().await;
    let mut last = store.written();
    for round in 0..10 {
        store.put(key(&nth(round)), b"value").await.unwrap();
        assert!(store.written() >= last, "the number only rises");
        last = store.written();
        assert!(store.durable() <= last);
    }
    store.sync().await.unwrap();
    assert!(store.durable() >= last, "{} of {last}", store.durable());
}
