//! What is written through one handle is read through the others.

use super::{handles, take_over};
use crate::conformance::Subject;
use crate::conformance::log::{PARTITION, append, bodies, offset};
use seriatim_storage::{Log, ReadLimit};

pub async fn entries_appended_through_one_handle_are_read_through_another(subject: Subject<Log>) {
    let [one, other] = handles(&subject).await;
    let owner = take_over(&one, None, "one").await;
    for at in 1..=20 {
        let body = format!("entry {at}");
        append(&one, &owner, at, &[&body]).await.unwrap();
        let read = other.read(PARTITION, offset(at), ReadLimit::default()).await.unwrap();
        assert_eq!(
            read.iter().map(|(_, entry)| entry.body().to_vec()).collect::<Vec<_>>(),
            [body.as_bytes()]
        );
    }
    assert_eq!(bodies(&other, PARTITION).await, bodies(&one, PARTITION).await);
}

pub async fn the_tail_counts_what_another_handle_has_acknowledged(subject: Subject<Log>) {
    let [one, other] = handles(&subject).await;
    let owner = take_over(&one, None, "one").await;
    for at in 1..=20 {
        // Both before and after, so that a handle which remembers a tail is noticed.
        assert_eq!(other.tail(PARTITION).await, Ok(offset(at)));
        append(&one, &owner, at, &["x"]).await.unwrap();
        assert_eq!(other.tail(PARTITION).await, Ok(offset(at + 1)));
        let held = other.holder(PARTITION).await.unwrap().unwrap();
        assert_eq!(held.tail, offset(at + 1));
    }
}

pub async fn a_partition_taken_through_one_handle_is_known_to_all(subject: Subject<Log>) {
    let [one, other, third] = handles(&subject).await;
    for log in [&one, &other, &third] {
        assert_eq!((log.partitions().await, log.holder(PARTITION).await), (Ok(Vec::new()), Ok(None)));
    }
    let mut expected = None;
    for (taker, name) in [(&one, "one"), (&other, "other"), (&third, "third"), (&one, "one again")] {
        let owner = take_over(taker, expected, name).await;
        expected = Some(owner.epoch());
        for log in [&one, &other, &third] {
            assert_eq!(log.partitions().await, Ok(vec![PARTITION]));
            let held = log.holder(PARTITION).await.unwrap().unwrap();
            assert_eq!((held.epoch, held.take.holder.as_str()), (owner.epoch(), name));
        }
    }
}
