//! Appends without checks that have a cost (trust level 2).

use super::{PARTITION, Writer, append, bodies, entries, offset, reopen, take, until_decided};
use crate::conformance::Subject;
use seriatim_storage::{AppendError, Log, Receipt};

/// Appends without checks. If the answer is in doubt, the same entries are appended again: the result is the same.
async fn append_unverified(
    log: &Log,
    writer: &Writer,
    at: u64,
    bodies: &[&str],
) -> Result<Receipt, AppendError> {
    let owner = writer.owner();
    let group = entries(&owner, bodies);
    let answer = until_decided(|| log.append_unverified(&owner, offset(at), &group)).await;
    assert!(answer.as_ref().is_ok_and(|receipt| receipt.append_id() == group.append_id()) || answer.is_err());
    answer
}

pub async fn an_unverified_append_at_the_tail_is_written(subject: Subject<Log>) {
    let mut log = subject.open().await;
    let owner = take(&log, PARTITION).await;
    append(&log, &owner, 1, &["a"]).await.unwrap();
    let receipt = append_unverified(&log, &owner, 2, &["b", "c"]).await.unwrap();
    assert_eq!((receipt.first(), receipt.next()), (offset(2), offset(4)));
    append(&log, &owner, 4, &["d"]).await.unwrap();
    log = reopen(&subject, log).await;
    assert_eq!(bodies(&log, PARTITION).await, [b"a", b"b", b"c", b"d"]);
}

pub async fn an_unverified_append_before_the_tail_is_refused_or_overwrites(subject: Subject<Log>) {
    let log = subject.open().await;
    let owner = take(&log, PARTITION).await;
    append(&log, &owner, 1, &["a", "b", "c"]).await.unwrap();
    let answer = append_unverified(&log, &owner, 2, &["x"]).await;
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
    let stale = take(&log, PARTITION).await;
    take(&log, PARTITION).await;
    let answer = append_unverified(&log, &stale, 1, &["x"]).await;
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
    let owner = take(&log, PARTITION).await;
    append(&log, &owner, 1, &["a"]).await.unwrap();
    let refused = append_unverified(&log, &owner, 3, &["x"]).await;
    assert!(matches!(refused, Err(AppendError::Conflict { .. })), "{refused:?}");
    assert_eq!(bodies(&log, PARTITION).await, [b"a"]);
}
