//! A full disk loses nothing and can be read.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;

#[tokio::test]
async fn a_full_disk_refuses_appends_that_need_a_new_segment_until_there_is_space() {
    let disk = SimulatedDisk::new();
    let log = open_log(&disk).unwrap();
    let owner = log.take(partition(0)).await.unwrap();
    disk.limit_capacity(Some(20 << 10));
    let mut at = owner.tail();
    let error = loop {
        match append(&log, &owner, at, "event", 10).await {
            Ok(receipt) => at = receipt.next(),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, AppendError::DiskNearlyFull { .. }), "{error}");
    assert!(error.is_refused());
    let before = bodies(&log, partition(0)).await.unwrap();
    assert_eq!(log.tail(partition(0)).await.unwrap(), at);

    disk.limit_capacity(None);
    let receipt = append(&log, &owner, at, "event", 10).await.unwrap();
    assert_eq!(receipt.first(), at);
    assert_eq!(bodies(&log, partition(0)).await.unwrap().len(), before.len() + 10);
}

#[tokio::test]
async fn below_the_threshold_writes_are_refused_and_reads_continue() {
    let free = Arc::new(AtomicU64::new(u64::MAX));
    let probe = free.clone();
    let space =
        FreeSpace::new(Path::new(DIRECTORY), 1_000, Box::new(move |_| Ok(probe.load(Ordering::Relaxed))));
    let disk = Arc::new(SimulatedDisk::new());
    let space = Arc::new(space);
    let log = FileLog::open(
        &Env::real(),
        disk,
        Path::new(DIRECTORY),
        OPTIONS,
        space,
        OpenMode::CreateIfMissing,
        None,
    );
    let log = Log::new(log.unwrap());
    let owner = log.take(partition(0)).await.unwrap();
    append(&log, &owner, owner.tail(), "event", 1).await.unwrap();
    free.store(999, Ordering::Relaxed);
    // The committer checks before each frame, so the first append after the change may still be accepted.
    let _ = append(&log, &owner, PartitionOffset::new(2).unwrap(), "event", 1).await;
    let tail = log.tail(partition(0)).await.unwrap();
    let error = append(&log, &owner, tail, "event", 1).await.unwrap_err();
    assert_eq!(error, AppendError::DiskNearlyFull { free_bytes: 999, needed_bytes: 1_000 });
    assert!(!bodies(&log, partition(0)).await.unwrap().is_empty());
    free.store(1_000, Ordering::Relaxed);
    append(&log, &owner, tail, "event", 1).await.unwrap();
}
