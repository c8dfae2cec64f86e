//! Appends that are submitted before the previous one is answered.

use super::{PARTITION, append, bodies, entries, offset};
use crate::conformance::Subject;
use seriatim_storage::{AppendError, Log, ReadLimit};

pub async fn appends_are_written_in_the_order_of_their_calls(subject: Subject<Log>) {
    let log = subject.open().await;
    let owner = log.take(PARTITION).await.unwrap();
    let mut answers: Vec<_> = (1..=200)
        .map(|at| log.append(&owner, offset(at), &entries(&owner, &[format!("entry {at}")])))
        .collect();
    // The order of waiting for the answers does not matter.
    answers.reverse();
    for answer in answers {
        answer.await.unwrap();
    }
    let expected: Vec<_> = (1..=200).map(|at| format!("entry {at}").into_bytes()).collect();
    assert_eq!(bodies(&log, PARTITION).await, expected);
}

pub async fn an_append_after_a_refused_one_is_refused_too(subject: Subject<Log>) {
    let log = subject.open().await;
    let owner = log.take(PARTITION).await.unwrap();
    let good = log.append(&owner, offset(1), &entries(&owner, &["a"]));
    let bad = log.append(&owner, offset(3), &entries(&owner, &["x", "y"]));
    let after = log.append(&owner, offset(5), &entries(&owner, &["z"]));
    good.await.unwrap();
    for answer in [bad.await, after.await] {
        let refused = answer.unwrap_err();
        assert!(matches!(refused, AppendError::Conflict { found: None, .. }), "{refused}");
    }
    assert_eq!(bodies(&log, PARTITION).await, [b"a"]);
    append(&log, &owner, 2, &["b"]).await.unwrap();
    assert_eq!(bodies(&log, PARTITION).await, [b"a", b"b"]);
}

pub async fn of_two_appends_at_one_offset_the_first_wins(subject: Subject<Log>) {
    let log = subject.open().await;
    let owner = log.take(PARTITION).await.unwrap();
    for at in 1..=20 {
        let first = log.append(&owner, offset(at), &entries(&owner, &["first"]));
        let second = log.append(&owner, offset(at), &entries(&owner, &["second"]));
        let second = second.await.unwrap_err();
        assert!(matches!(second, AppendError::Conflict { .. }), "{second}");
        first.await.unwrap();
    }
    assert_eq!(bodies(&log, PARTITION).await, vec![b"first"; 20]);
}

pub async fn an_append_continues_when_its_future_is_dropped(subject: Subject<Log>) {
    let log = subject.open().await;
    let owner = log.take(PARTITION).await.unwrap();
    for at in 1..=10 {
        drop(log.append(&owner, offset(at), &entries(&owner, &[format!("dropped {at}")])));
    }
    append(&log, &owner, 11, &["awaited"]).await.unwrap();
    let found = bodies(&log, PARTITION).await;
    assert_eq!((found.len(), &found[0][..]), (11, &b"dropped 1"[..]));
    // Without awaiting anything: a follower reads the entry nevertheless.
    drop(log.append(&owner, offset(12), &entries(&owner, &["last"])));
    let mut follower = log.follow(PARTITION, offset(12));
    let read = follower.next(ReadLimit::default()).await.unwrap();
    assert_eq!(read.iter().next().unwrap().1.body(), b"last");
}
