//! Following through one handle what another appends. A handle may notice appends of others late, but it notices them.

use std::time::Duration;

use super::{handles, take_over};
use crate::conformance::log::{PARTITION, append, bodies, offset};
use crate::conformance::{Subject, join};
use seriatim_storage::{Log, ReadLimit};

/// Follows from the first offset until `count` entries were returned.
async fn follow(log: Log, count: usize) -> Vec<Vec<u8>> {
    let mut follower = log.follow(PARTITION, offset(1));
    let mut found = Vec::new();
    while found.len() < count {
        let read = follower.next(ReadLimit::default()).await.unwrap();
        assert_eq!(read.first(), offset(found.len() as u64 + 1));
        found.extend(read.iter().map(|(_, entry)| entry.body().to_vec()));
    }
    found
}

pub async fn a_follower_reads_what_another_handle_appends(subject: Subject<Log>) {
    let [one, other] = handles(&subject).await;
    let owner = take_over(&one, None, "one").await;
    let following = subject.env.spawn(follow(other.clone(), 3));
    for at in 1..=3 {
        // The follower waits when this is appended: before the first entry, and after each one.
        append(&one, &owner, at, &[format!("entry {at}")]).await.unwrap();
        other.follow(PARTITION, offset(at)).next(ReadLimit::default()).await.unwrap();
    }
    assert_eq!(join(vec![following]).await, [bodies(&one, PARTITION).await]);
}

pub async fn a_follower_reads_what_was_hinted(subject: Subject<Log>) {
    let [one, other] = handles(&subject).await;
    let owner = take_over(&one, None, "one").await;
    let following = subject.env.spawn(follow(other.clone(), 30));
    for at in 1..=30 {
        append(&one, &owner, at, &[format!("entry {at}")]).await.unwrap();
        other.hint_tail(PARTITION, offset(at + 1));
    }
    assert_eq!(join(vec![following]).await, [bodies(&one, PARTITION).await]);
}

pub async fn a_wrong_hint_has_no_effect(subject: Subject<Log>) {
    let [one, other] = handles(&subject).await;
    let owner = take_over(&one, None, "one").await;
    append(&one, &owner, 1, &["a"]).await.unwrap();
    for hinted in [2, 3, 100] {
        let mut committed = Box::pin(other.backend().committed(PARTITION, offset(2)));
        let early = subject.env.timeout(Duration::from_millis(10), &mut committed).await;
        assert!(early.is_err(), "nothing is at 2");
        other.hint_tail(PARTITION, offset(hinted));
        let early = subject.env.timeout(Duration::from_millis(10), &mut committed).await;
        assert!(early.is_err(), "nothing is at 2, although {hinted} was hinted");
        assert_eq!(other.tail(PARTITION).await, Ok(offset(2)));
    }
    let mut committed = Box::pin(other.backend().committed(PARTITION, offset(2)));
    append(&one, &owner, 2, &["b"]).await.unwrap();
    // A hint that is too low prevents nothing.
    other.hint_tail(PARTITION, offset(1));
    committed.as_mut().await.unwrap();
}
