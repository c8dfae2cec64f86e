//! Taking a partition.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{PARTITION, append, bodies, entries, offset, reopen, take, take_all};
use crate::conformance::{Subject, TASKS, join};
use seriatim_storage::{AppendError, Log, ReadLimit};
use seriatim_types::{Partition, PartitionOffset};

pub async fn a_new_partition_has_the_tail_1(subject: Subject<Log>) {
    let log = subject.open().await;
    assert_eq!(log.tail(PARTITION).await, Ok(PartitionOffset::FIRST));
    let owner = take(&log, PARTITION).await;
    assert_eq!(owner.tail(), PartitionOffset::FIRST);
    assert_eq!(owner.partition(), PARTITION);
    assert_eq!(log.tail(PARTITION).await, Ok(PartitionOffset::FIRST));
}

pub async fn taking_a_partition_raises_its_epoch(subject: Subject<Log>) {
    let log = subject.open().await;
    let mut last = take(&log, PARTITION).await.epoch();
    for _ in 0..5 {
        let epoch = take(&log, PARTITION).await.epoch();
        assert!(epoch > last, "epoch {epoch} after {last}");
        last = epoch;
    }
}

pub async fn an_epoch_is_kept_after_reopen(subject: Subject<Log>) {
    let mut log = subject.open().await;
    let mut last = take(&log, PARTITION).await.epoch();
    for _ in 0..3 {
        log = reopen(&subject, log).await;
        let epoch = take(&log, PARTITION).await.epoch();
        assert!(epoch > last, "epoch {epoch} after {last}, with a reopen between");
        last = epoch;
    }
}

pub async fn taking_returns_the_tail_of_the_partition(subject: Subject<Log>) {
    let log = subject.open().await;
    let first = take(&log, PARTITION).await;
    append(&log, &first, 1, &["a", "b", "c"]).await.unwrap();
    let second = take(&log, PARTITION).await;
    assert_eq!(second.tail(), offset(4));
    append(&log, &second, 4, &["d"]).await.unwrap();
    assert_eq!(bodies(&log, PARTITION).await, [b"a", b"b", b"c", b"d"]);
}

pub async fn owners_are_returned_in_the_order_of_their_partitions(subject: Subject<Log>) {
    let log = subject.open().await;
    // Each partition has another tail, and the list is neither ascending nor descending.
    let partitions = [(5, 1), (2, 9), (5, 0), (2, 300), (1, 5)].map(|(app, id)| Partition::new(app, id));
    for (count, partition) in partitions.iter().enumerate() {
        let owner = take(&log, *partition).await;
        append(&log, &owner, 1, &vec![b"x"; count + 1]).await.unwrap();
    }
    let owners = take_all(&log, &partitions).await;
    assert_eq!(owners.len(), partitions.len());
    for (count, (owner, partition)) in owners.iter().zip(partitions).enumerate() {
        assert_eq!(owner.partition(), partition);
        assert_eq!(owner.tail(), offset(count as u64 + 2));
        append(&log, owner, owner.tail().get(), &["y"]).await.unwrap();
    }
}

pub async fn taking_no_partition_gives_no_owner(subject: Subject<Log>) {
    let log = subject.open().await;
    assert!(take_all(&log, &[]).await.is_empty());
    assert_eq!(log.partitions().await, Ok(Vec::new()));
}

pub async fn two_applications_with_the_same_partition_number_are_separate(subject: Subject<Log>) {
    let log = subject.open().await;
    let (ours, theirs) = (Partition::new(1, 4), Partition::new(2, 4));
    let our_owner = take(&log, ours).await;
    append(&log, &our_owner, 1, &["ours", "ours too"]).await.unwrap();
    let their_owner = take(&log, theirs).await;
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
    let owner = take(&log, other).await;
    for _ in 0..3 {
        take(&log, PARTITION).await;
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
        take(&log, Partition::new(app, id)).await;
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
        async move { take(&log, PARTITION).await }
    }))
    .await;
    let epochs: BTreeSet<_> = owners.iter().map(|owner| owner.epoch()).collect();
    assert_eq!(epochs.len(), TASKS, "no two owners have the same epoch");
    let last = *epochs.last().unwrap();
    for owner in &owners {
        let epoch = owner.epoch();
        let answer = append(&log, owner, 1, &["mine"]).await;
        if epoch == last {
            assert!(answer.unwrap().append_id().epoch >= last);
        } else {
            match answer.unwrap_err() {
                AppendError::StaleEpoch { partition: PARTITION, held, current } => {
                    assert!(held == epoch && current >= last);
                }
                error => panic!("{error}"),
            }
        }
    }
    assert_eq!(bodies(&log, PARTITION).await, [b"mine"]);
}

pub async fn an_append_in_progress_when_the_partition_is_taken_is_counted_or_refused(subject: Subject<Log>) {
    let log = subject.open().await;
    for round in 0..20 {
        let writer = take(&log, PARTITION).await;
        let owner = writer.owner();
        let start = owner.tail().get();
        let groups: Vec<_> = (start..start + 10).map(|at| (offset(at), entries(&owner, &["x"]))).collect();
        let answers: Vec<_> = groups.iter().map(|(at, group)| log.append(&owner, *at, group)).collect();
        let successor = take(&log, PARTITION).await;
        let mut committed = 0;
        for ((at, group), answer) in groups.iter().zip(answers) {
            match writer.decide(&log, &owner, *at, group, answer.await).await {
                Ok(_) => committed += 1,
                Err(error) => assert!(error.is_refused(), "round {round}: {error}"),
            }
        }
        assert_eq!(successor.tail(), offset(start + committed), "round {round}");
        assert_eq!(log.tail(PARTITION).await, Ok(successor.tail()), "nothing was written later");
    }
}
