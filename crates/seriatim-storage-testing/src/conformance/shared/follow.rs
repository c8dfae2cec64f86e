//! Following through one handle what another appends. A handle may notice appends of others late, but it notices them.

use std::time::Duration;

use super::{handles, take_over};
use crate::conformance::Subject;
use crate::conformance::log::{PARTITION, append, offset};
use seriatim_storage::{Log, ReadLimit};

/// Appends entries through one handle, each while a follower of the other handle waits for it.
async fn follow(subject: &Subject<Log>, hint: bool) {
    let [one, other] = handles(subject).await;
    let owner = take_over(&one, None, "one").await;
    let mut follower = other.follow(PARTITION, offset(1));
    for at in 1..=5 {
        let mut next = Box::pin(follower.next(ReadLimit::default()));
        let early = subject.env.timeout(Duration::from_millis(5), &mut next).await;
        assert!(early.is_err(), "nothing is at {at} yet");
        let body = format!("entry {at}");
        append(&one, &owner, at, &[&body]).await.unwrap();
        if hint {
            other.hint_tail(PARTITION, offset(at + 1));
        }
        let read = next.await.unwrap();
        assert_eq!((read.first(), read.len()), (offset(at), 1));
        assert_eq!(read.iter().next().unwrap().1.body(), body.as_bytes());
    }
}

pub async fn a_follower_reads_what_another_handle_appends(subject: Subject<Log>) {
    follow(&subject, false).await;
}

pub async fn a_follower_reads_what_was_hinted(subject: Subject<Log>) {
    follow(&subject, true).await;
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
