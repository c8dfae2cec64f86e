//! Each handle is closed by itself.

use std::time::Duration;

use super::{handles, take_over};
use crate::conformance::Subject;
use crate::conformance::log::{PARTITION, append, bodies, offset};
use seriatim_storage::{Log, LogError, ReadLimit};

pub async fn closing_one_handle_leaves_the_other_usable(subject: Subject<Log>) {
    let [one, other] = handles(&subject).await;
    let stale = take_over(&one, None, "one").await;
    append(&one, &stale, 1, &["a"]).await.unwrap();
    one.bulletin().put("key", b"1").await.unwrap();
    one.close().await.unwrap();
    assert_eq!(one.tail(PARTITION).await, Err(LogError::Closed));
    assert_eq!(bodies(&other, PARTITION).await, [b"a"]);
    let owner = take_over(&other, Some(stale.epoch()), "other").await;
    append(&other, &owner, 2, &["b"]).await.unwrap();
    let read = other.follow(PARTITION, offset(2)).next(ReadLimit::default()).await.unwrap();
    assert_eq!(read.len(), 1);
    assert_eq!(other.bulletin().get("key").await.unwrap().unwrap(), "1");
    other.bulletin().put("key", b"2").await.unwrap();
    // A handle that is opened later finds everything, and closing it changes nothing either.
    let third = subject.open().await;
    assert_eq!(bodies(&third, PARTITION).await, [b"a", b"b"]);
    third.close().await.unwrap();
    append(&other, &owner, 3, &["c"]).await.unwrap();
    assert_eq!(bodies(&other, PARTITION).await, [b"a", b"b", b"c"]);
}

pub async fn a_follower_continues_when_another_handle_is_closed(subject: Subject<Log>) {
    let [one, other, third] = handles(&subject).await;
    let owner = take_over(&one, None, "one").await;
    let mut follower = third.follow(PARTITION, offset(1));
    let mut next = Box::pin(follower.next(ReadLimit::default()));
    let early = subject.env.timeout(Duration::from_millis(10), &mut next).await;
    assert!(early.is_err(), "there is nothing to follow yet");
    other.close().await.unwrap();
    let early = subject.env.timeout(Duration::from_millis(10), &mut next).await;
    assert!(early.is_err(), "it still waits");
    append(&one, &owner, 1, &["a"]).await.unwrap();
    third.hint_tail(PARTITION, offset(2));
    assert_eq!(next.await.unwrap().len(), 1);
}
