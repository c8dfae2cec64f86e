//! Scans during writes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{key, nth};
use crate::conformance::{Subject, join, yield_once};
use seriatim_storage::{Batch, ClusteringRange, Durability, Store};

/// The number of keys. Multiples of 3 exist all the time; the others are written and removed during the test.
const KEYS: usize = 3_000;

fn lasting_keys() -> impl Iterator<Item = usize> {
    (0..KEYS).step_by(3)
}

pub async fn a_key_that_exists_during_the_whole_scan_is_returned_once(subject: Subject<Store>) {
    let store = subject.open().await;
    let mut batch = Batch::new();
    lasting_keys().for_each(|number| batch.put(key(&nth(number)), b"0"));
    store.write(batch, Durability::Buffered).await.unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let writers = subject.tasks(3, |task| {
        let (store, done) = (store.clone(), done.clone());
        async move {
            let mut round = 0_usize;
            while !done.load(Ordering::Relaxed) {
                yield_once().await;
                let mut batch = Batch::new();
                for step in 0..50 {
                    // Steps of a prime length reach every key, near the scan's position and far from it.
                    let number = ((round * 50 + step) * 1_009 + task) % KEYS;
                    match (number % 3, round % 2) {
                        (0, _) => batch.put(key(&nth(number)), &nth(round)),
                        (_, 0) => batch.put(key(&nth(number)), b"passing"),
                        _ => batch.remove(key(&nth(number))),
                    }
                }
                store.write(batch, Durability::Buffered).await.unwrap();
                round += 1;
            }
        }
    });
    let scans = join(subject.tasks(2, |_| {
        let store = store.clone();
        async move {
            let mut scans = Vec::new();
            for _ in 0..10 {
                let pairs = store.scan(b"p", ClusteringRange::all()).all().await.unwrap();
                scans.push(pairs.into_iter().map(|(clustering, _)| clustering).collect::<Vec<_>>());
            }
            scans
        }
    }))
    .await;
    done.store(true, Ordering::Relaxed);
    join(writers).await;
    for scan in scans.into_iter().flatten() {
        assert!(scan.is_sorted_by(|a, b| a < b), "ascending, and nothing twice");
        let found: BTreeSet<&[u8]> = scan.iter().map(|clustering| &clustering[..]).collect();
        for number in lasting_keys() {
            assert!(found.contains(&nth(number)[..]), "key {number} existed during the whole scan");
        }
    }
}

pub async fn a_scan_continues_after_keys_that_are_removed_during_it(subject: Subject<Store>) {
    let store = subject.open().await;
    let mut batch = Batch::new();
    (0..200).for_each(|number| batch.put(key(&nth(number)), b"value"));
    store.write(batch, Durability::Buffered).await.unwrap();
    let mut scan = store.scan(b"p", ClusteringRange::all());
    let mut found = Vec::new();
    // Each key that was read is removed at once, and a key before the scan's position is written.
    while let Some((clustering, _)) = scan.next().await.unwrap() {
        let mut batch = Batch::new();
        batch.remove(key(&clustering));
        batch.put(key(&[&clustering[..7], &[0], b"passed"].concat()), b"value");
        store.write(batch, Durability::Buffered).await.unwrap();
        found.push(clustering);
    }
    found.retain(|clustering| clustering.len() == 8);
    assert_eq!(found, (0..200).map(|number| nth(number).to_vec()).collect::<Vec<_>>());
}
