//! Appends that succeed.

use std::sync::Arc;

use super::{PARTITION, append, append_all, bodies, entries, header, offset, take};
use crate::conformance::{Subject, join};
use seriatim_storage::{Digest, Entries, Log, Owner, ReadLimit};
use seriatim_types::{Partition, PartitionOffset, limits};

pub async fn an_append_can_be_read_when_it_is_answered(subject: Subject<Log>) {
    let log = subject.open().await;
    let owner = take(&log, PARTITION).await;
    for at in 1..=20 {
        let body = format!("entry {at}");
        append(&log, &owner, at, &[&body]).await.unwrap();
        assert_eq!(log.tail(PARTITION).await, Ok(offset(at + 1)));
        let read = log.read(PARTITION, offset(at), ReadLimit::default()).await.unwrap();
        assert_eq!(read.len(), 1);
        assert_eq!(read.iter().next().unwrap().1.body(), body.as_bytes());
    }
}

pub async fn a_receipt_names_log_partition_and_range(subject: Subject<Log>) {
    let log = subject.open().await;
    let owner = take(&log, PARTITION).await;
    append(&log, &owner, 1, &["a", "b"]).await.unwrap();
    let group = |owner: &Owner| entries(owner, &["c", "d", "e"]);
    let written = owner.append(&log, offset(3), group).await.unwrap();
    let receipt = written.receipt;
    assert_eq!(receipt.log(), log.id());
    assert_eq!(receipt.partition(), PARTITION);
    assert_eq!((receipt.first(), receipt.next()), (offset(3), offset(6)));
    assert_eq!(receipt.append_id(), written.entries.append_id());
}

pub async fn appends_of_any_size_are_dense(subject: Subject<Log>) {
    let log = subject.open().await;
    let owner = take(&log, PARTITION).await;
    let mut expected = Vec::new();
    for size in [1, 7, 1, 64, 3, 500] {
        let group: Vec<_> = (0..size).map(|i| format!("{size}/{i}").into_bytes()).collect();
        let at = expected.len() as u64 + 1;
        let receipt = append(&log, &owner, at, &group).await.unwrap();
        assert_eq!(receipt.next(), offset(at + size));
        expected.extend(group);
    }
    assert_eq!(bodies(&log, PARTITION).await, expected);
}

pub async fn entries_of_megabytes_are_read_as_written(subject: Subject<Log>) {
    let log = subject.open().await;
    let owner = take(&log, PARTITION).await;
    let large: Vec<u8> = (0..(1_u32 << 20) + 77).map(|i| (i ^ (i >> 8)).to_le_bytes()[0]).collect();
    let group = [&b"before"[..], &large, b"between", &large, b"after"];
    append(&log, &owner, 1, &group).await.unwrap();
    append(&log, &owner, 6, &[&large]).await.unwrap();
    let found = bodies(&log, PARTITION).await;
    assert!(found[..5].iter().zip(group).all(|(found, body)| found == body));
    assert!(found[5] == large);
}

pub async fn the_largest_append_is_accepted(subject: Subject<Log>) {
    let log = subject.open().await;
    let owner = take(&log, PARTITION).await;
    // Two entries of the largest size fill an append to the byte. Their digest does not matter here.
    let bare = entries(&owner.owner(), &[""]).as_bytes().len();
    let body = vec![0xa5; limits::ENTRY_BYTES_MAX - bare];
    let group = |owner: &Owner| {
        let mut group = Entries::new(owner.next_append_id());
        for _ in 0..2 {
            group.push(&header(b""), Digest::ZERO, &body).unwrap();
        }
        assert_eq!(group.as_bytes().len(), limits::APPEND_BYTES_MAX);
        assert!(group.push(&header(b""), Digest::ZERO, b"").is_err(), "there is no room for more");
        group
    };
    owner.append(&log, offset(1), group).await.unwrap();
    for at in 1..=2 {
        let read = log.read(PARTITION, offset(at), ReadLimit::default()).await.unwrap();
        assert_eq!(
            read.len(),
            1,
            "one entry is larger than the limit of a read, and is returned nevertheless"
        );
        assert!(read.iter().next().unwrap().1.body() == body);
    }
}

pub async fn an_append_of_as_many_entries_as_allowed_is_accepted(subject: Subject<Log>) {
    let log = subject.open().await;
    let owner = take(&log, PARTITION).await;
    let group = |owner: &Owner| {
        let mut group = Entries::new(owner.next_append_id());
        let header = header(b"");
        while group.len() < limits::APPEND_ENTRIES_MAX {
            group.push(&header, Digest::ZERO, b"").unwrap();
        }
        assert!(group.push(&header, Digest::ZERO, b"").is_err(), "one more is too many");
        group
    };
    let written = owner.append(&log, offset(1), group).await.unwrap();
    assert_eq!(written.receipt.next(), offset(limits::APPEND_ENTRIES_MAX as u64 + 1));
    let mut count = 0;
    let mut next = PartitionOffset::FIRST;
    loop {
        let read = log.read(PARTITION, next, ReadLimit::default()).await.unwrap();
        if read.is_empty() {
            break;
        }
        count += read.len();
        next = read.next();
    }
    assert_eq!(count, limits::APPEND_ENTRIES_MAX);
}

pub async fn thousands_of_entries_are_kept_in_order(subject: Subject<Log>) {
    let log = subject.open().await;
    let owner = take(&log, PARTITION).await;
    let mut at = 1;
    let mut groups = Vec::new();
    for group in 0..100_u64 {
        let size = 1 + group % 97;
        groups.push((at..at + size).map(|at| format!("entry {at}")).collect());
        at += size;
    }
    append_all(&log, &owner, 1, &groups).await;
    let found = bodies(&log, PARTITION).await;
    assert_eq!(found.len() as u64, at - 1);
    for (at, body) in (1..).zip(found) {
        assert_eq!(body, format!("entry {at}").into_bytes());
    }
}

pub async fn partitions_are_written_at_the_same_time(subject: Subject<Log>) {
    let log = Arc::new(subject.open().await);
    let partitions: Vec<_> = (0..8).map(|id| Partition::new(1 + u32::from(id) % 2, id)).collect();
    join(subject.tasks(partitions.len(), |task| {
        let (log, partition) = (log.clone(), partitions[task]);
        async move {
            let owner = take(&log, partition).await;
            for at in 1..=50 {
                append(&log, &owner, at, &[format!("{partition} {at}")]).await.unwrap();
            }
        }
    }))
    .await;
    for partition in partitions {
        let expected: Vec<_> = (1..=50).map(|at| format!("{partition} {at}").into_bytes()).collect();
        assert_eq!(bodies(&log, partition).await, expected);
    }
}
