//! Following a partition.

use std::sync::Arc;
use std::time::Duration;

use super::{PARTITION, append, offset, take};
use crate::conformance::{Subject, join, yield_once};
use seriatim_storage::{Follower, Log, ReadLimit};
use seriatim_types::{Partition, PartitionOffset};

/// Follows until `count` entries were returned; checks that none is missing and none is returned twice.
async fn follow(mut follower: Follower, count: u64, limit: ReadLimit) {
    let mut found = 0;
    while found < count {
        assert_eq!(follower.offset(), offset(found + 1));
        let read = follower.next(limit).await.unwrap();
        assert!(!read.is_empty(), "a follower returns at least one entry");
        for (at, entry) in read.iter() {
            found += 1;
            assert_eq!(at, offset(found));
            assert_eq!(entry.body(), format!("entry {at}").as_bytes());
        }
    }
}

/// Appends entries one by one.
async fn write(log: &Log, partition: Partition, count: u64) {
    let owner = take(log, partition).await;
    for at in 1..=count {
        yield_once().await;
        append(log, &owner, at, &[format!("entry {at}")]).await.unwrap();
    }
}

pub async fn a_follower_reads_existing_entries_and_then_new_ones(subject: Subject<Log>) {
    let log = subject.open().await;
    let owner = take(&log, PARTITION).await;
    append(&log, &owner, 1, &["a", "b"]).await.unwrap();
    let mut follower = log.follow(PARTITION, PartitionOffset::FIRST);
    assert_eq!(follower.next(ReadLimit::default()).await.unwrap().len(), 2);
    let waiting = subject.env.spawn(async move {
        let read = follower.next(ReadLimit::default()).await.unwrap();
        (read.first(), read.iter().next().unwrap().1.body().to_vec())
    });
    append(&log, &owner, 3, &["c"]).await.unwrap();
    assert_eq!(join(vec![waiting]).await, [(offset(3), b"c".to_vec())]);
}

pub async fn a_follower_may_start_before_the_partition_exists(subject: Subject<Log>) {
    let log = subject.open().await;
    let follower = log.follow(PARTITION, PartitionOffset::FIRST);
    let waiting = subject.env.spawn(follow(follower, 3, ReadLimit::default()));
    write(&log, PARTITION, 3).await;
    join(vec![waiting]).await;
}

pub async fn a_follower_waits_for_the_offset_that_it_was_given(subject: Subject<Log>) {
    let log = subject.open().await;
    let owner = take(&log, PARTITION).await;
    append(&log, &owner, 1, &["1", "2"]).await.unwrap();
    let mut follower = log.follow(PARTITION, offset(5));
    let waiting = subject.env.spawn(async move {
        let read = follower.next(ReadLimit::default()).await.unwrap();
        assert_eq!(read.first(), offset(5));
        read.iter().next().unwrap().1.body().to_vec()
    });
    append(&log, &owner, 3, &["3", "4"]).await.unwrap();
    append(&log, &owner, 5, &["5"]).await.unwrap();
    assert_eq!(join(vec![waiting]).await, [b"5"]);
}

pub async fn many_followers_read_every_entry(subject: Subject<Log>) {
    let log = subject.open().await;
    let followers = subject.tasks(32, |task| {
        let follower = log.follow(PARTITION, PartitionOffset::FIRST);
        let limit = ReadLimit::entries(1 + task % 3);
        follow(follower, 100, limit)
    });
    write(&log, PARTITION, 100).await;
    join(followers).await;
}

pub async fn no_entry_is_missed_while_eight_writers_append(subject: Subject<Log>) {
    let log = Arc::new(subject.open().await);
    let partition = |task: usize| Partition::new(1, u16::try_from(task % 8).unwrap());
    let followers = subject.tasks(16, |task| {
        let follower = log.follow(partition(task), PartitionOffset::FIRST);
        follow(follower, 100, ReadLimit::default())
    });
    let writers = subject.tasks(8, |task| {
        let log = log.clone();
        async move { write(&log, partition(task), 100).await }
    });
    join(writers).await;
    join(followers).await;
}

pub async fn a_follower_that_is_cancelled_skips_nothing(subject: Subject<Log>) {
    let log = Arc::new(subject.open().await);
    let writer = {
        let log = log.clone();
        subject.env.spawn(async move { write(&log, PARTITION, 200).await })
    };
    let mut follower = log.follow(PARTITION, PartitionOffset::FIRST);
    let shortest = Duration::from_micros(1);
    let (mut found, mut timeout) = (0, shortest);
    while found < 200 {
        let next = follower.next(ReadLimit::entries(3));
        let Ok(read) = subject.env.timeout(timeout, next).await else {
            // The timeout cancels the call at a later point each time, until the call succeeds.
            timeout *= 2;
            continue;
        };
        timeout = shortest;
        for (at, entry) in read.unwrap().iter() {
            found += 1;
            assert_eq!(at, offset(found));
            assert_eq!(entry.body(), format!("entry {at}").as_bytes());
        }
    }
    join(vec![writer]).await;
}

pub async fn an_offset_counts_as_committed_when_it_can_be_read(subject: Subject<Log>) {
    let log = subject.open().await;
    let owner = take(&log, PARTITION).await;
    for at in 1..=5 {
        let mut committed = Box::pin(log.backend().committed(PARTITION, offset(at)));
        let early = subject.env.timeout(Duration::from_millis(10), &mut committed).await;
        assert!(early.is_err(), "nothing is at {at} yet");
        append(&log, &owner, at, &["x"]).await.unwrap();
        committed.await.unwrap();
        // Returns at once for an entry that exists.
        log.backend().committed(PARTITION, PartitionOffset::FIRST).await.unwrap();
    }
}
