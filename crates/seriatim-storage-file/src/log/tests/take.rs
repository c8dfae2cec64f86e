//! Takes: who took a partition is durable, and nothing is answered before it is.

use seriatim_storage::{Held, Holder, Take, TakeOverError};

use super::*;
use crate::disk::Crash;

fn take(name: &str, id: u64) -> Take {
    Take::new(Holder::new(name), id)
}

fn epoch(value: u64) -> Option<Epoch> {
    Epoch::new(value)
}

async fn held(log: &Log, id: u16) -> Option<(u64, Take, u64)> {
    let held = log.holder(partition(id)).await.unwrap();
    held.map(|Held { epoch, take, tail }| (epoch.get(), take, tail.get()))
}

#[tokio::test]
async fn the_holder_of_a_partition_is_known_after_a_power_cut_in_whichever_segment_it_was_taken() {
    let disk = SimulatedDisk::new();
    let log = open_log(&disk).unwrap();
    // Partition 0 is taken once, in the first segment. Partition 1 is taken again and again.
    let long = "x".repeat(255);
    log.take_over(partition(0), None, &take(&long, u64::MAX)).await.unwrap();
    let mut owner = log.take_over(partition(1), None, &take("node 0", 0)).await.unwrap();
    for round in 1..60 {
        append(&log, &owner, owner.tail(), &format!("{round}"), 10).await.unwrap();
        let name = format!("node {round}");
        owner = log.take_over(partition(1), Some(owner.epoch()), &take(&name, round)).await.unwrap();
    }
    let segments = disk.list(Path::new(DIRECTORY)).unwrap();
    assert!(segments.contains(&"0000000004.segment".to_owned()), "{segments:?}");
    // The indexes are read in one case and rebuilt in the other.
    for remove_indexes in [false, true] {
        let disk = disk.after(Crash::PowerLosesAll);
        if remove_indexes {
            for name in disk.list(Path::new(DIRECTORY)).unwrap() {
                if name.ends_with(".index") {
                    disk.remove(&Path::new(DIRECTORY).join(name)).unwrap();
                }
            }
        }
        let log = open_log(&disk).unwrap();
        assert_eq!(held(&log, 0).await, Some((1, take(&long, u64::MAX), 1)));
        assert_eq!(held(&log, 1).await, Some((60, take("node 59", 59), 591)));
        assert_eq!(held(&log, 2).await, None);
        // The reply to the last take was lost: after a restart it is still recognized, and by no one else.
        log.take_over(partition(1), epoch(59), &take("node 59", 59)).await.unwrap();
        let refused = log.take_over(partition(1), epoch(59), &take("node 59", 60)).await.unwrap_err();
        assert!(matches!(refused, TakeOverError::Deposed { held, .. } if held.take.id == 59));
    }
}

#[tokio::test]
async fn a_refused_take_over_writes_nothing() {
    let disk = SimulatedDisk::new();
    let log = open_log(&disk).unwrap();
    log.take_over(partition(0), None, &take("holder", 1)).await.unwrap();
    let operations = disk.operations();
    for expected in [None, epoch(2), epoch(9)] {
        assert!(log.take_over(partition(0), expected, &take("other", 2)).await.is_err());
    }
    assert!(log.take_over_all(&[], &take("other", 2)).await.unwrap().is_empty());
    assert_eq!(disk.operations(), operations);
    // The log still works, and its frames follow each other.
    let owner = log.take_over(partition(0), epoch(1), &take("other", 2)).await.unwrap();
    append(&log, &owner, owner.tail(), "event", 1).await.unwrap();
    log.close().await.unwrap();
    assert_eq!(held(&open_log(&disk).unwrap(), 0).await, Some((2, take("other", 2), 2)));
}

#[tokio::test]
async fn a_refusal_is_answered_only_when_the_take_and_the_appends_that_it_counts_are_durable() {
    let disk = SimulatedDisk::new();
    let log = open_log(&disk).unwrap();
    let owner = log.take_over(partition(0), None, &take("first", 1)).await.unwrap();
    disk.fail_syncs(1);
    // All are submitted before the first is answered, in this order.
    let appended = log.append(&owner, owner.tail(), &batch(&owner, "event", 1));
    let (second, third) = (take("second", 2), take("third", 3));
    let taken = log.take_over(partition(0), epoch(1), &second);
    let refused = log.take_over(partition(0), epoch(1), &third);
    let (appended, taken, refused) = tokio::join!(appended, taken, refused);
    assert!(!appended.unwrap_err().is_refused());
    for answer in [taken, refused] {
        assert!(matches!(answer, Err(TakeOverError::Log(_))), "{answer:?}");
    }
    assert_eq!(held(&log, 0).await, Some((1, take("first", 1), 1)), "only what is durable is reported");
}

#[tokio::test]
async fn a_take_that_found_no_space_is_written_when_it_is_repeated() {
    let disk = SimulatedDisk::new();
    let log = open_log(&disk).unwrap();
    // The names are so long that the takes do not fit into the first segment.
    let partitions: Vec<_> = (0..60).map(|id| (partition(id), None)).collect();
    let many = take(&"x".repeat(255), 7);
    disk.fail_creates(1);
    assert!(matches!(log.take_over_all(&partitions, &many).await, Err(LogError::Unavailable(_))));
    assert_eq!((held(&log, 0).await, log.partitions().await), (None, Ok(Vec::new())));
    let owners = log.take_over_all(&partitions, &many).await.unwrap();
    let owner = owners[0].as_ref().unwrap();
    append(&log, owner, owner.tail(), "event", 1).await.unwrap();
    let log = open_log(&disk.after(Crash::PowerLosesAll)).unwrap();
    assert_eq!(held(&log, 0).await, Some((1, many.clone(), 2)));
    assert_eq!(held(&log, 59).await, Some((1, many, 1)));
}
