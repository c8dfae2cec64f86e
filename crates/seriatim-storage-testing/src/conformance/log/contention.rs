//! Many tasks, one partition.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{PARTITION, append, bodies, offset, take};
use crate::conformance::{Subject, TASKS, join, yield_once};
use seriatim_storage::{AppendError, Log, ReadLimit};
use seriatim_types::PartitionOffset;

/// How many appends each task must succeed with.
const APPENDS: usize = 12;

/// The bodies that were acknowledged, by offset: each offset once.
fn by_offset(acknowledged: Vec<Vec<(PartitionOffset, String)>>) -> BTreeMap<PartitionOffset, Vec<u8>> {
    let mut bodies = BTreeMap::new();
    for (at, body) in acknowledged.into_iter().flatten() {
        let other = bodies.insert(at, body.into_bytes());
        assert_eq!(other, None, "two appends were acknowledged at {at}");
    }
    bodies
}

pub async fn one_append_wins_each_offset(subject: Subject<Log>) {
    let log = Arc::new(subject.open().await);
    let owner = Arc::new(take(&log, PARTITION).await);
    let acknowledged = join(subject.tasks(TASKS, |task| {
        let (log, owner) = (log.clone(), owner.clone());
        async move {
            let mut acknowledged = Vec::new();
            while acknowledged.len() < APPENDS {
                yield_once().await;
                let at = log.tail(PARTITION).await.unwrap();
                let body = format!("task {task} {}", acknowledged.len());
                match append(&log, &owner, at.get(), &[&body]).await {
                    Ok(receipt) => acknowledged.push((receipt.first(), body)),
                    Err(AppendError::Conflict { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            acknowledged
        }
    }))
    .await;
    let acknowledged = by_offset(acknowledged);
    assert_eq!(acknowledged.len(), TASKS * APPENDS);
    let found = bodies(&log, PARTITION).await;
    assert_eq!(found, acknowledged.into_values().collect::<Vec<_>>());
}

pub async fn owners_that_replace_each_other_lose_nothing(subject: Subject<Log>) {
    let log = Arc::new(subject.open().await);
    let acknowledged = join(subject.tasks(TASKS / 2, |task| {
        let log = log.clone();
        async move {
            let mut acknowledged = Vec::new();
            for round in 0..APPENDS {
                yield_once().await;
                let owner = take(&log, PARTITION).await;
                let mut at = owner.tail();
                for part in 0..3 {
                    let body = format!("task {task} {round} {part}");
                    match append(&log, &owner, at.get(), &[&body]).await {
                        Ok(receipt) => {
                            acknowledged.push((at, body));
                            at = receipt.next();
                        }
                        Err(AppendError::StaleEpoch { .. }) => break,
                        Err(error) => panic!("an owner has no conflict before it is stale: {error}"),
                    }
                }
            }
            acknowledged
        }
    }))
    .await;
    let acknowledged = by_offset(acknowledged);
    let found = bodies(&log, PARTITION).await;
    assert_eq!(found, acknowledged.into_values().collect::<Vec<_>>());
}

pub async fn a_reader_reads_only_whole_appends(subject: Subject<Log>) {
    const GROUP: u64 = 10;
    const GROUPS: u64 = 60;
    let log = Arc::new(subject.open().await);
    let writer = {
        let log = log.clone();
        subject.env.spawn(async move {
            let owner = take(&log, PARTITION).await;
            for group in 0..GROUPS {
                yield_once().await;
                let group_bodies = vec![format!("group {group}"); 10];
                append(&log, &owner, 1 + group * GROUP, &group_bodies).await.unwrap();
            }
        })
    };
    join(subject.tasks(4, |_| {
        let log = log.clone();
        async move {
            let mut count = 0;
            while count < GROUPS * GROUP {
                yield_once().await;
                let read = log.read(PARTITION, offset(count + 1), ReadLimit::default()).await.unwrap();
                let tail = log.tail(PARTITION).await.unwrap();
                assert!(read.next() <= tail, "what was read is committed");
                count += read.len() as u64;
                assert_eq!(count % GROUP, 0, "a part of an append was read");
                assert_eq!((tail.get() - 1) % GROUP, 0, "the tail is in the middle of an append");
            }
        }
    }))
    .await;
    join(vec![writer]).await;
}
