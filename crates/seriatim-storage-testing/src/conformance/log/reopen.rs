//! Closing and opening again.

use std::collections::BTreeSet;

use super::{PARTITION, append, bodies, entries, offset, reopen, take, take_all};
use crate::conformance::Subject;
use seriatim_storage::{Log, Owner, ReadLimit};
use seriatim_types::{Partition, PartitionOffset};

pub async fn everything_appended_is_there_after_reopen(subject: Subject<Log>) {
    let mut log = subject.open().await;
    let partitions: Vec<_> = (0..6).map(|id| Partition::new(u32::from(id % 2), id)).collect();
    let mut expected = Vec::new();
    for partition in &partitions {
        let owner = take(&log, *partition).await;
        let count = 20 + u64::from(partition.id.get());
        let all: Vec<_> = (1..=count).map(|at| format!("{partition} {at}").into_bytes()).collect();
        for (at, body) in (1..).zip(&all) {
            append(&log, &owner, at, &[body]).await.unwrap();
        }
        expected.push(all);
    }
    log = reopen(&subject, log).await;
    for (partition, expected) in partitions.iter().zip(&expected) {
        assert_eq!(bodies(&log, *partition).await, *expected);
    }
    for (owner, expected) in take_all(&log, &partitions).await.iter().zip(&expected) {
        assert_eq!(owner.tail(), offset(expected.len() as u64 + 1));
    }
}

pub async fn entries_are_read_byte_for_byte_after_reopen(subject: Subject<Log>) {
    let mut log = subject.open().await;
    let owner = take(&log, PARTITION).await;
    let large = vec![0xee; (1 << 20) + 1];
    let group = |owner: &Owner| entries(owner, &[&b""[..], b"small", &large, b"\0\xff"]);
    let group = owner.append(&log, offset(1), group).await.unwrap().entries;
    log = reopen(&subject, log).await;
    let read = log.read(PARTITION, offset(1), ReadLimit::default()).await.unwrap();
    assert!(read.as_bytes() == group.as_bytes());
}

pub async fn appends_continue_at_the_tail_after_reopen(subject: Subject<Log>) {
    let mut log = subject.open().await;
    let mut expected = Vec::new();
    for session in 0..4 {
        let owner = take(&log, PARTITION).await;
        assert_eq!(owner.tail(), offset(expected.len() as u64 + 1));
        for part in 0..5 {
            let body = format!("session {session} {part}").into_bytes();
            append(&log, &owner, expected.len() as u64 + 1, &[&body]).await.unwrap();
            expected.push(body);
        }
        assert_eq!(bodies(&log, PARTITION).await, expected);
        log = reopen(&subject, log).await;
    }
    assert_eq!(bodies(&log, PARTITION).await, expected);
}

pub async fn append_ids_are_unique_across_reopens(subject: Subject<Log>) {
    let mut log = subject.open().await;
    for session in 0..3 {
        for taken in 0..3 {
            let owner = take(&log, PARTITION).await;
            for _ in 0..taken {
                append(&log, &owner, log.tail(PARTITION).await.unwrap().get(), &["x"]).await.unwrap();
            }
        }
        assert_eq!(log.tail(PARTITION).await, Ok(offset(1 + 3 * (session + 1))));
        log = reopen(&subject, log).await;
    }
    let read = log.read(PARTITION, offset(1), ReadLimit::default()).await.unwrap();
    let ids: BTreeSet<_> = read.iter().map(|(_, entry)| entry.append_id()).collect();
    assert_eq!((ids.len(), read.len()), (9, 9));
}

pub async fn an_empty_log_is_empty_after_reopen(subject: Subject<Log>) {
    let mut log = subject.open().await;
    for _ in 0..3 {
        log = reopen(&subject, log).await;
        assert_eq!(log.partitions().await, Ok(Vec::new()));
        assert_eq!(log.tail(PARTITION).await, Ok(PartitionOffset::FIRST));
    }
}

pub async fn a_follower_reads_what_was_appended_before_the_reopen(subject: Subject<Log>) {
    let mut log = subject.open().await;
    let owner = take(&log, PARTITION).await;
    append(&log, &owner, 1, &["a", "b"]).await.unwrap();
    log = reopen(&subject, log).await;
    let mut follower = log.follow(PARTITION, offset(2));
    let read = follower.next(ReadLimit::default()).await.unwrap();
    assert_eq!((read.first(), read.len()), (offset(2), 1));
}
