//! Appends without checks that have a cost (trust level 2).

use super::{PARTITION, append, bodies, entries, offset, reopen};
use crate::conformance::Subject;
use seriatim_storage::{AppendError, Log};

pub async fn an_unverified_append_at_the_tail_is_written(subject: Subject<Log>) {
    let mut log = subject.open().await;
    let owner = log.take(PARTITION).await.unwrap();
    append(&log, &owner, 1, &["a"]).await.unwrap();
    let group = entries(&owner, &["b", "c"]);
    let receipt = log.append_unverified(&owner, offset(2), &group).await.unwrap();
    assert_eq!((receipt.first(), receipt.next()), (offset(2), offset(4)));
    assert_eq!(receipt.append_id(), group.append_id());
    append(&log, &owner, 4, &["d"]).await.unwrap();
    log = reopen(&subject, log).await;
    assert_eq!(bodies(&log, PARTITION).await, [b"a", b"b", b"c", b"d"]);
}

pub async fn an_unverified_append_before_the_tail_is_refused_or_overwrites(subject: Subject<Log>) {
    let log = subject.open().await;
    let owner = log.take(PARTITION).await.unwrap();
    append(&log, &owner, 1, &["a", "b", "c"]).await.unwrap();
    let answer = log.append_unverified(&owner, offset(2), &entries(&owner, &["x"])).await;
    if subject.always_verifies {
        assert!(matches!(answer, Err(AppendError::Conflict { .. })), "{answer:?}");
        assert_eq!(bodies(&log, PARTITION).await, [b"a", b"b", b"c"]);
    } else {
        assert_eq!(answer.unwrap().first(), offset(2));
        assert_eq!(bodies(&log, PARTITION).await, [b"a", b"x", b"c"]);
    }
}

pub async fn an_unverified_append_of_a_stale_owner_is_refused_or_written(subject: Subject<Log>) {
    let log = subject.open().await;
    let stale = log.take(PARTITION).await.unwrap();
    log.take(PARTITION).await.unwrap();
    let answer = log.append_unverified(&stale, offset(1), &entries(&stale, &["x"])).await;
    if subject.always_verifies {
        assert!(matches!(answer, Err(AppendError::StaleEpoch { .. })), "{answer:?}");
        assert!(bodies(&log, PARTITION).await.is_empty());
    } else {
        assert_eq!(answer.unwrap().append_id().epoch, stale.epoch());
        assert_eq!(bodies(&log, PARTITION).await, [b"x"]);
    }
}

pub async fn an_unverified_append_leaves_no_gap(subject: Subject<Log>) {
    let log = subject.open().await;
    let owner = log.take(PARTITION).await.unwrap();
    append(&log, &owner, 1, &["a"]).await.unwrap();
    let refused = log.append_unverified(&owner, offset(3), &entries(&owner, &["x"])).await;
    assert!(matches!(refused, Err(AppendError::Conflict { .. })), "{refused:?}");
    assert_eq!(bodies(&log, PARTITION).await, [b"a"]);
}
