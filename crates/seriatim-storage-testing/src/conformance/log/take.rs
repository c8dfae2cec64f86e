//! Taking a partition.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{PARTITION, append, bodies, entries, offset, reopen};
use crate::conformance::{Subject, TASKS, join};
use seriatim_storage::{AppendError, Log, ReadLimit};
use seriatim_types::{Partition, PartitionOffset};

pub async fn a_new_partition_has_the_tail_1(subject: Subject<Log>) {
    let log = subject.open().await;
    assert_eq!(log.tail(PARTITION).await, Ok(PartitionOffset::FIRST));
    let owner = log.take(PARTITION).await.unwrap();
    assert_eq!(owner.tail(), PartitionOffset::FIRST);
    assert_eq!(owner.partition(), PARTITION);
    assert_eq!(log.tail(PARTITION).await, Ok(PartitionOffset::FIRST));
}

pub async fn taking_a_partition_raises_its_epoch(subject: Subject<Log>) {
    let log = subject.open().await;
    let mut last = log.take(PARTITION).await.unwrap().epoch();
    for _ in 0..5 {
        let epoch = log.take(PARTITION).await.unwrap().epoch();
        assert!(epoch > last, "epoch {epoch} after {last}");
        last = epoch;
    }
}

pub async fn an_epoch_is_kept_after_reopen(subject: Subject<Log>) {
    let mut log = subject.open().await;
    let mut last = log.take(PARTITION).await.unwrap().epoch();
    for _ in 0..3 {
        log = reopen(&subject, log).await;
        let epoch = log.take(PARTITION).await.unwrap().epoch();
        assert!(epoch > last, "epoch {epoch} after {last}, with a reopen between");
        last = epoch;
    }
}

pub async fn taking_returns_the_tail_of_the_partition(subject: Subject<Log>) {
    let log = subject.open().await;
    let first = log.take(PARTITION).await.unwrap();
    append(&log, &first, 1, &["a", "b", "c"]).await.unwrap();
    let second = log.take(PARTITION).await.unwrap();
    assert_eq!(second.tail(), offset(4));
    append(&log, &second, 4, &["d"]).await.unwrap();
    assert_eq!(bodies(&log, PARTITION).await, [b"a", b"b", b"c", b"d"]);
}

pub async fn owners_are_returned_in_the_order_of_their_partitions(subject: Subject<Log>) {
    let log = subject.open().await;
    // Each partition has another tail, and the list is neither ascending nor descending.
    let partitions = [(5, 1), (2, 9), (5, 0), (2, 300), (1, 5)].map(|(app, id)| Partition::new(app, id));
    for (count, partition) in partitions.iter().enumerate() {
        let owner = log.take(*partition).await.unwrap();
        append(&log, &owner, 1, &vec![b"x"; count + 1]).await.unwrap();
    }
    let owners = log.take_all(&partitions).await.unwrap();
    assert_eq!(owners.len(), partitions.len());
    for (count, (owner, partition)) in owners.iter().zip(partitions).enumerate() {
        assert_eq!(owner.partition(), partition);
        assert_eq!(owner.tail(), offset(count as u64 + 2));
        append(&log, owner, owner.tail().get(), &["y"]).await.unwrap();
    }
}

pub async fn taking_no_partition_gives_no_owner(subject: Subject<Log>) {
    let log = subject.open().await;
    assert!(log.take_all(&[]).await.unwrap().is_empty());
    assert_eq!(log.partitions().await, Ok(Vec::new()));
}

pub async fn two_applications_with_the_same_partition_number_are_separate(subject: Subject<Log>) {
    let log = subject.open().await;
    let (ours, theirs) = (Partition::new(1, 4), Partition::new(2, 4));
    let our_owner = log.take(ours).await.unwrap();
    append(&log, &our_owner, 1, &["ours", "ours too"]).await.unwrap();
    let their_owner = log.take(theirs).await.unwrap();
    assert_eq!(their_owner.tail(), PartitionOffset::FIRST);
    append(&log, &their_owner, 1, &["theirs"]).await.unwrap();
    // Taking one partition did not end the ownership of the other.
    append(&log, &our_owner, 3, &["ours again"]).await.unwrap();
    assert_eq!(bodies(&log, ours).await, [&b"ours"[..], b"ours too", b"ours again"]);
    assert_eq!(bodies(&log, theirs).await, [b"theirs"]);
}

pub async fn taking_a_partition_does_not_change_the_others(subject: Subject<Log>) {
    let log = subject.open().await;
    let other = Partition::new(7, 4);
    let owner = log.take(other).await.unwrap();
    for _ in 0..3 {
        log.take(PARTITION).await.unwrap();
    }
    append(&log, &owner, 1, &["a"]).await.unwrap();
    assert_eq!(log.tail(PARTITION).await, Ok(PartitionOffset::FIRST));
    assert_eq!(log.tail(other).await, Ok(offset(2)));
}

pub async fn the_partitions_are_those_that_were_taken(subject: Subject<Log>) {
    let mut log = subject.open().await;
    let unknown = Partition::new(9, 9);
    assert_eq!(log.partitions().await, Ok(Vec::new()));
    assert!(log.read(unknown, PartitionOffset::FIRST, ReadLimit::default()).await.unwrap().is_empty());
    assert_eq!(log.tail(unknown).await, Ok(PartitionOffset::FIRST));
    let mut follower = log.follow(unknown, PartitionOffset::FIRST);
    let waited =
        subject.env.timeout(std::time::Duration::from_millis(1), follower.next(ReadLimit::default())).await;
    assert!(waited.is_err(), "there is nothing to follow yet");
    // They are taken in another order, and one of them twice.
    for (app, id) in [(2, 256), (1, 7), (2, 1), (256, 0), (1, 7)] {
        log.take(Partition::new(app, id)).await.unwrap();
    }
    let taken = [(1, 7), (2, 1), (2, 256), (256, 0)].map(|(app, id)| Partition::new(app, id));
    assert_eq!(log.partitions().await, Ok(taken.to_vec()));
    log = reopen(&subject, log).await;
    assert_eq!(log.partitions().await, Ok(taken.to_vec()));
}

pub async fn of_many_tasks_that_take_a_partition_one_can_append(subject: Subject<Log>) {
    let log = Arc::new(subject.open().await);
    let owners = join(subject.tasks(TASKS, |_| {
        let log = log.clone();
        async move { log.take(PARTITION).await.unwrap() }
    }))
    .await;
    let epochs: BTreeSet<_> = owners.iter().map(|owner| owner.epoch()).collect();
    assert_eq!(epochs.len(), TASKS, "no two owners have the same epoch");
    let last = *epochs.last().unwrap();
    for owner in &owners {
        let answer = append(&log, owner, 1, &["mine"]).await;
        if owner.epoch() == last {
            assert_eq!(answer.unwrap().append_id().epoch, last);
        } else {
            assert_eq!(
                answer,
                Err(AppendError::StaleEpoch { partition: PARTITION, held: owner.epoch(), current: last })
            );
        }
    }
    assert_eq!(bodies(&log, PARTITION).await, [b"mine"]);
}

pub async fn an_append_in_progress_when_the_partition_is_taken_is_counted_or_refused(subject: Subject<Log>) {
    let log = subject.open().await;
    for round in 0..20 {
        let owner = log.take(PARTITION).await.unwrap();
        let start = owner.tail().get();
        let answers: Vec<_> =
            (start..start + 10).map(|at| log.append(&owner, offset(at), &entries(&owner, &["x"]))).collect();
        let successor = log.take(PARTITION).await.unwrap();
        let mut committed = 0;
        for answer in answers {
            match answer.await {
                Ok(_) => committed += 1,
                Err(error) => assert!(error.is_refused(), "round {round}: {error}"),
            }
        }
        assert_eq!(successor.tail(), offset(start + committed), "round {round}");
        assert_eq!(log.tail(PARTITION).await, Ok(successor.tail()), "nothing was written later");
    }
}
