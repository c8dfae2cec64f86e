//! What a restore does: a first take with a later epoch, and entries that are appended as they are.

use super::{PARTITION, append, entries, offset, reopen, take, take_of};
use crate::conformance::{Subject, TASKS, join};
use seriatim_storage::{AppendError, Entries, Log, ReadLimit, TakeOverError};
use seriatim_types::{Epoch, Partition, PartitionOffset};

/// Where the entries are copied to.
const COPY: Partition = Partition::new(7, 9);

fn epoch(value: u64) -> Epoch {
    Epoch::new(value).unwrap()
}

pub async fn a_first_take_can_have_a_later_epoch(subject: Subject<Log>) {
    let mut log = subject.open().await;
    let take = take_of("restore");
    let owner = log.take_first(PARTITION, epoch(5), &take).await.unwrap();
    assert_eq!((owner.epoch(), owner.tail(), owner.holder()), (epoch(5), offset(1), &take.holder));
    // A reply that was lost is repeated with the same take. Any other first take is refused.
    assert_eq!(log.take_first(PARTITION, epoch(5), &take).await.unwrap().epoch(), epoch(5));
    for other in [epoch(1), epoch(5), epoch(9)] {
        let refused = log.take_first(PARTITION, other, &take_of("other")).await.unwrap_err();
        assert!(
            matches!(&refused, TakeOverError::Deposed { held, .. } if held.epoch == epoch(5) && held.take == take),
            "{refused}"
        );
    }
    log = reopen(&subject, log).await;
    let held = log.holder(PARTITION).await.unwrap().unwrap();
    assert_eq!((held.epoch, held.take, held.tail), (epoch(5), take, offset(1)));
    assert_eq!(log.partitions().await, Ok(vec![PARTITION]));
    assert_eq!(log.take(PARTITION).await.unwrap().epoch(), epoch(6));
}

pub async fn of_many_first_takes_one_succeeds(subject: Subject<Log>) {
    let log = subject.open().await;
    let answers = join(subject.tasks(TASKS, |task| {
        let log = log.clone();
        async move { log.take_first(PARTITION, epoch(4), &take_of(&format!("task {task}"))).await }
    }))
    .await;
    let holders: Vec<_> = answers.iter().flatten().map(|owner| owner.holder().clone()).collect();
    assert_eq!(holders.len(), 1);
    assert_eq!(log.holder(PARTITION).await.unwrap().unwrap().take.holder, holders[0]);
}

pub async fn copied_entries_keep_their_bytes_and_append_ids(subject: Subject<Log>) {
    let mut log = subject.open().await;
    // Three appends of two owners, copied in two: the ids in one append differ.
    let owner = take(&log, PARTITION).await;
    append(&log, &owner, 1, &["a", "b"]).await.unwrap();
    append(&log, &owner, 3, &["c"]).await.unwrap();
    let owner = take(&log, PARTITION).await;
    append(&log, &owner, 4, &["d", "e"]).await.unwrap();
    let read = log.read(PARTITION, PartitionOffset::FIRST, ReadLimit::default()).await.unwrap();
    let last = log.holder(PARTITION).await.unwrap().unwrap().epoch;
    let copier = log.take_first(COPY, last, &take_of("restore")).await.unwrap();
    let split: usize = read.iter().take(3).map(|(_, entry)| entry.as_bytes().len()).sum();
    let (first, rest) = read.as_bytes().split_at(split);
    for (at, bytes) in [(1, first), (4, rest)] {
        let copied = Entries::copied(bytes).unwrap();
        while let Err(error) = log.append_copied(&copier, offset(at), &copied).await {
            assert!(matches!(error, AppendError::InDoubt { .. }), "{error}");
        }
    }
    for _ in 0..2 {
        let copy = log.read(COPY, PartitionOffset::FIRST, ReadLimit::default()).await.unwrap();
        assert_eq!(copy.as_bytes(), read.as_bytes());
        log = reopen(&subject, log).await;
    }
    let owner = take(&log, COPY).await;
    assert!(owner.epoch() > last, "a new append has another id than every copied one");
    append(&log, &owner, 6, &["f"]).await.unwrap();
}

pub async fn a_copied_entry_of_a_later_epoch_is_refused(subject: Subject<Log>) {
    let log = subject.open().await;
    log.take(PARTITION).await.unwrap();
    let later = log.take(PARTITION).await.unwrap();
    let copier = log.take_first(COPY, epoch(1), &take_of("restore")).await.unwrap();
    let refused = log.append_copied(&copier, offset(1), &entries(&later, &["a"])).await.unwrap_err();
    assert!(matches!(refused, AppendError::Invalid(_)), "{refused}");
    assert_eq!(log.tail(COPY).await, Ok(offset(1)));
}
