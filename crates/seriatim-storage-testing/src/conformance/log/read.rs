//! Reading.

use super::{PARTITION, append, entries, header, offset, take};
use crate::conformance::Subject;
use seriatim_storage::{Digest, Draw, Entries, Header, Log, Owner, Raise, ReadLimit};
use seriatim_types::sync::Mutex;
use seriatim_types::{
    Number, Partition, PartitionOffset, SequenceId, Timestamp, WorkspaceId, WorkspaceKind, WorkspaceOffset,
    limits,
};

pub async fn an_unknown_partition_is_empty(subject: Subject<Log>) {
    let log = subject.open().await;
    let owner = take(&log, PARTITION).await;
    append(&log, &owner, 1, &["a"]).await.unwrap();
    for unknown in [Partition::new(7, 4), Partition::new(8, 3), Partition::new(0, 0)] {
        for from in [1, 2, u64::MAX] {
            let read = log.read(unknown, offset(from), ReadLimit::default()).await.unwrap();
            assert!(read.is_empty());
            assert_eq!((read.first(), read.next()), (offset(from), offset(from)));
        }
        assert_eq!(log.tail(unknown).await, Ok(PartitionOffset::FIRST));
    }
}

pub async fn at_and_after_the_tail_there_is_nothing(subject: Subject<Log>) {
    let log = subject.open().await;
    let owner = take(&log, PARTITION).await;
    append(&log, &owner, 1, &["a", "b"]).await.unwrap();
    for from in [3, 4, 1_000_000, u64::MAX] {
        let read = log.read(PARTITION, offset(from), ReadLimit::default()).await.unwrap();
        assert!(read.is_empty(), "from {from}");
        assert_eq!(read.next(), offset(from));
    }
}

pub async fn a_read_returns_what_its_limit_of_entries_allows(subject: Subject<Log>) {
    let log = subject.open().await;
    let owner = take(&log, PARTITION).await;
    append(&log, &owner, 1, &["1", "2", "3"]).await.unwrap();
    append(&log, &owner, 4, &["4"]).await.unwrap();
    append(&log, &owner, 5, &["5", "6"]).await.unwrap();
    for from in 1..=7 {
        for limit in 0..=8 {
            let read = log.read(PARTITION, offset(from), ReadLimit::entries(limit)).await.unwrap();
            let found: Vec<_> = read.iter().map(|(at, entry)| (at.get(), entry.body().to_vec())).collect();
            let expected: Vec<_> =
                (from..=6).take(limit).map(|at| (at, at.to_string().into_bytes())).collect();
            assert_eq!(found, expected, "from {from}, at most {limit}");
        }
    }
}

pub async fn a_read_returns_what_its_limit_of_bytes_allows(subject: Subject<Log>) {
    let log = subject.open().await;
    let owner = take(&log, PARTITION).await;
    let written = owner.append(&log, offset(1), |owner| entries(owner, &[[7; 100]; 10])).await.unwrap();
    let size = written.entries.as_bytes().len() / 10;
    // (bytes, entries)
    let table = [
        (0, 1),
        (1, 1),
        (size, 1),
        (2 * size - 1, 1),
        (2 * size, 2),
        (9 * size, 9),
        (10 * size, 10),
        (usize::MAX, 10),
    ];
    for (bytes, expected) in table {
        let limit = ReadLimit { entries: usize::MAX, bytes };
        let read = log.read(PARTITION, offset(1), limit).await.unwrap();
        assert_eq!(read.len(), expected, "{bytes} bytes");
    }
}

pub async fn a_read_is_bounded_whatever_its_limit_is(subject: Subject<Log>) {
    let log = subject.open().await;
    let owner = take(&log, PARTITION).await;
    let body = vec![3; limits::READ_BYTES_MAX / 4];
    let group = |owner: &Owner| {
        let mut group = Entries::new(owner.next_append_id());
        for _ in 0..6 {
            group.push(&header(b""), Digest::ZERO, &body).unwrap();
        }
        group
    };
    owner.append(&log, offset(1), group).await.unwrap();
    let limit = ReadLimit { entries: usize::MAX, bytes: usize::MAX };
    let read = log.read(PARTITION, offset(1), limit).await.unwrap();
    assert_eq!(read.len(), 3, "a fourth would pass {} bytes", limits::READ_BYTES_MAX);
    let rest = log.read(PARTITION, read.next(), limit).await.unwrap();
    assert_eq!((rest.first(), rest.len()), (offset(4), 3));
}

pub async fn headers_and_bodies_are_read_byte_for_byte(subject: Subject<Log>) {
    let log = subject.open().await;
    let owner = take(&log, PARTITION).await;
    let draws: Vec<_> = (0..40)
        .map(|i| Draw {
            sequence: SequenceId::new(i),
            first: Number::new(u64::MAX - u64::from(i)),
            count: u64::from(i) + 1,
        })
        .collect();
    let raises = [Raise { sequence: SequenceId::new(u16::MAX), next: Number::LAST }];
    let every_byte: Vec<u8> = (0..=u8::MAX).collect();
    let bodies = [&b""[..], b"\0", &[0xff; 300], &every_byte];
    // Each header differs in all fields. Returns the heads of the chain too, which depend on the id of the append.
    let group = |owner: &Owner| {
        let mut group = Entries::new(owner.next_append_id());
        let mut heads = vec![Digest::ZERO];
        for (i, body) in (0_u16..).zip(bodies) {
            let header = Header {
                workspace: WorkspaceId::new(u64::MAX - u64::from(i)),
                kind: WorkspaceKind::new(u16::MAX - i),
                workspace_offset: WorkspaceOffset::new(u64::MAX - u64::from(i)).unwrap(),
                time: Timestamp::from_millis(u64::MAX - u64::from(i)),
                body_digest: Digest::of(body),
                draws: &draws[..usize::from(i) * 13],
                raises: &raises[..usize::from(i % 2)],
            };
            heads.push(group.push(&header, heads[usize::from(i)], body).unwrap());
        }
        (group, heads)
    };
    let heads = Mutex::new(Vec::new());
    let build = |owner: &Owner| {
        let (group, heads_of_group) = group(owner);
        *heads.lock() = heads_of_group;
        group
    };
    let group = owner.append(&log, offset(1), build).await.unwrap().entries;
    let heads = heads.lock().clone();
    let read = log.read(PARTITION, offset(1), ReadLimit::default()).await.unwrap();
    assert!(read.as_bytes() == group.as_bytes());
    for (i, ((_, entry), body)) in read.iter().zip(bodies).enumerate() {
        assert_eq!(entry.append_id(), group.append_id());
        assert_eq!(entry.body(), body);
        assert_eq!(entry.draws().count(), i * 13);
        assert!(entry.continues(heads[i]));
        assert_eq!(entry.chain(), heads[i + 1]);
    }
}
