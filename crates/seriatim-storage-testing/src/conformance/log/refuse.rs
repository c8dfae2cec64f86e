//! Refused appends, which leave nothing in the log.

use super::{PARTITION, append, bodies, entries, offset, reopen, take, until_decided};
use crate::conformance::Subject;
use seriatim_storage::{AppendError, Entries, Log};
use seriatim_types::{ErrorKind, PartitionOffset};

pub async fn a_stale_owner_is_refused(subject: Subject<Log>) {
    let log = subject.open().await;
    let stale = take(&log, PARTITION).await;
    append(&log, &stale, 1, &["a"]).await.unwrap();
    let owner = take(&log, PARTITION).await;
    let refused = append(&log, &stale, 2, &["b", "c"]).await;
    assert_eq!(
        refused,
        Err(AppendError::StaleEpoch { partition: PARTITION, held: stale.epoch(), current: owner.epoch() })
    );
    assert_eq!(bodies(&log, PARTITION).await, [b"a"]);
    append(&log, &owner, 2, &["d"]).await.unwrap();
    assert_eq!(bodies(&log, PARTITION).await, [b"a", b"d"]);
}

pub async fn an_append_before_the_tail_is_a_conflict(subject: Subject<Log>) {
    let log = subject.open().await;
    let owner = take(&log, PARTITION).await;
    let there = owner.append(&log, offset(1), |owner| entries(owner, &["a", "b"])).await.unwrap();
    for at in 1..=2 {
        let refused = append(&log, &owner, at, &["x", "y", "z"]).await;
        assert_eq!(
            refused,
            Err(AppendError::Conflict {
                partition: PARTITION,
                at: offset(at),
                tail: offset(3),
                found: Some(there.receipt.append_id())
            })
        );
    }
    assert_eq!(bodies(&log, PARTITION).await, [b"a", b"b"]);
}

pub async fn an_append_after_the_tail_is_a_conflict(subject: Subject<Log>) {
    let log = subject.open().await;
    let owner = take(&log, PARTITION).await;
    append(&log, &owner, 1, &["a"]).await.unwrap();
    for at in [3, 4, 1_000_000, u64::MAX - 9] {
        let refused = append(&log, &owner, at, &["x", "y"]).await;
        assert_eq!(
            refused,
            Err(AppendError::Conflict { partition: PARTITION, at: offset(at), tail: offset(2), found: None })
        );
    }
    assert_eq!(bodies(&log, PARTITION).await, [b"a"]);
    append(&log, &owner, 2, &["b"]).await.unwrap();
    assert_eq!(bodies(&log, PARTITION).await, [b"a", b"b"]);
}

pub async fn a_stale_owner_with_a_wrong_offset_gets_the_error_of_a_stale_owner(subject: Subject<Log>) {
    let log = subject.open().await;
    let stale = take(&log, PARTITION).await;
    append(&log, &stale, 1, &["a"]).await.unwrap();
    take(&log, PARTITION).await;
    for at in [1, 3] {
        let refused = append(&log, &stale, at, &["x"]).await.unwrap_err();
        assert!(matches!(refused, AppendError::StaleEpoch { .. }), "{refused}");
    }
    assert_eq!(bodies(&log, PARTITION).await, [b"a"]);
}

pub async fn a_refused_append_leaves_nothing_after_reopen(subject: Subject<Log>) {
    let mut log = subject.open().await;
    let stale = take(&log, PARTITION).await;
    let owner = take(&log, PARTITION).await;
    append(&log, &owner, 1, &["a"]).await.unwrap();
    append(&log, &stale, 2, &["stale"; 20]).await.unwrap_err();
    append(&log, &owner, 1, &["early"; 20]).await.unwrap_err();
    append(&log, &owner, 3, &["late"; 20]).await.unwrap_err();
    log = reopen(&subject, log).await;
    assert_eq!(take(&log, PARTITION).await.tail(), offset(2));
    assert_eq!(bodies(&log, PARTITION).await, [b"a"]);
}

pub async fn an_append_whose_reply_was_lost_is_recognized_when_it_is_repeated(subject: Subject<Log>) {
    let log = subject.open().await;
    let owner = take(&log, PARTITION).await;
    let first = owner.append(&log, offset(1), |owner| entries(owner, &["a", "b"])).await.unwrap();
    assert_eq!(first.repeat(&log).await.as_ref(), Ok(&first.receipt));
    append(&log, &owner, 3, &["c"]).await.unwrap();
    assert_eq!(first.repeat(&log).await.as_ref(), Ok(&first.receipt));
    assert_eq!(bodies(&log, PARTITION).await, [b"a", b"b", b"c"]);
}

pub async fn a_written_append_is_recognized_after_its_partition_was_taken_over(subject: Subject<Log>) {
    let log = subject.open().await;
    let stale = take(&log, PARTITION).await;
    let first = stale.append(&log, offset(1), |owner| entries(owner, &["a", "b"])).await.unwrap();
    let owner = take(&log, PARTITION).await;
    assert_eq!(first.repeat(&log).await.as_ref(), Ok(&first.receipt));
    append(&log, &owner, 3, &["c"]).await.unwrap();
    assert_eq!(first.repeat(&log).await.as_ref(), Ok(&first.receipt));
    // What is not in the log is refused, at an offset that has an entry and at one that has none.
    for at in [1, 3, 4] {
        let refused = append(&log, &stale, at, &["x", "y"]).await.unwrap_err();
        assert!(matches!(refused, AppendError::StaleEpoch { .. }), "{refused}");
    }
    assert_eq!(bodies(&log, PARTITION).await, [b"a", b"b", b"c"]);
}

pub async fn an_owner_of_another_log_is_refused(subject: Subject<Log>) {
    let mut log = subject.open().await;
    let foreign = take(&log, PARTITION).await;
    append(&log, &foreign, 1, &["a"]).await.unwrap();
    log = reopen(&subject, log).await;
    let refused = append(&log, &foreign, 2, &["b"]).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert_eq!(bodies(&log, PARTITION).await, [b"a"]);
}

pub async fn a_malformed_append_is_refused(subject: Subject<Log>) {
    let log = subject.open().await;
    let [stale, owner] =
        [take(&log, PARTITION).await, take(&log, PARTITION).await].map(|writer| writer.owner());
    let empty = Entries::new(owner.next_append_id());
    let of_another_epoch = entries(&stale, &["a"]);
    for malformed in [&empty, &of_another_epoch] {
        let refused = until_decided(|| log.append(&owner, offset(1), malformed)).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid);
    }
    let last = PartitionOffset::new(u64::MAX).unwrap();
    let beyond = entries(&owner, &["a"]);
    let refused = until_decided(|| log.append(&owner, last, &beyond)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid, "there is no offset after it");
    assert!(bodies(&log, PARTITION).await.is_empty());
}
