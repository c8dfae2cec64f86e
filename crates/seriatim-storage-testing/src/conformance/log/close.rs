//! Closing a log.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::{PARTITION, append, bodies, entries, offset};
use crate::conformance::{Subject, join, yield_once};
use seriatim_storage::{AppendError, Log, LogError, ReadLimit};
use seriatim_types::{Partition, PartitionOffset};

pub async fn a_closed_log_refuses_every_call(subject: Subject<Log>) {
    let log = subject.open().await;
    let owner = log.take(PARTITION).await.unwrap();
    append(&log, &owner, 1, &["a"]).await.unwrap();
    let mut follower = log.follow(PARTITION, PartitionOffset::FIRST);
    log.close().await.unwrap();
    assert_eq!(append(&log, &owner, 2, &["b"]).await, Err(AppendError::Closed));
    let unverified = log.append_unverified(&owner, offset(2), &entries(&owner, &["b"])).await;
    assert_eq!(unverified, Err(AppendError::Closed));
    assert_eq!(log.take(PARTITION).await.unwrap_err(), LogError::Closed);
    assert_eq!(log.take(Partition::new(1, 1)).await.unwrap_err(), LogError::Closed);
    assert_eq!(log.tail(PARTITION).await, Err(LogError::Closed));
    assert_eq!(log.partitions().await, Err(LogError::Closed));
    let read = log.read(PARTITION, PartitionOffset::FIRST, ReadLimit::default()).await;
    assert_eq!(read, Err(LogError::Closed));
    assert_eq!(follower.next(ReadLimit::default()).await, Err(LogError::Closed));
}

pub async fn a_log_may_be_closed_twice(subject: Subject<Log>) {
    let log = subject.open().await;
    let owner = log.take(PARTITION).await.unwrap();
    append(&log, &owner, 1, &["a"]).await.unwrap();
    log.close().await.unwrap();
    assert_eq!(log.close().await, Ok(()));
    let clone = log.clone();
    assert_eq!(clone.close().await, Ok(()));
    drop((log, clone));
    assert_eq!(bodies(&subject.open().await, PARTITION).await, [b"a"]);
}

pub async fn waiting_followers_get_an_error_when_the_log_is_closed(subject: Subject<Log>) {
    let log = subject.open().await;
    let owner = log.take(PARTITION).await.unwrap();
    append(&log, &owner, 1, &["a"]).await.unwrap();
    let unknown = Partition::new(1, 1);
    let waiting = Arc::new(AtomicUsize::new(0));
    let followers = subject.tasks(8, |task| {
        let partition = if task % 2 == 0 { PARTITION } else { unknown };
        let mut follower = log.follow(partition, offset(2));
        let (env, waiting) = (subject.env.clone(), waiting.clone());
        async move {
            let mut next = Box::pin(follower.next(ReadLimit::default()));
            let early = env.timeout(Duration::from_millis(20), &mut next).await;
            assert!(early.is_err(), "there is nothing to follow yet");
            waiting.fetch_add(1, Ordering::SeqCst);
            next.await
        }
    });
    while waiting.load(Ordering::SeqCst) < 8 {
        subject.env.sleep(Duration::from_millis(1)).await;
    }
    log.close().await.unwrap();
    for answer in join(followers).await {
        assert_eq!(answer, Err(LogError::Closed));
    }
}

pub async fn closing_answers_appends_in_progress(subject: Subject<Log>) {
    let log = Arc::new(subject.open().await);
    let owner = log.take(PARTITION).await.unwrap();
    let answers: Vec<_> = (1..=50)
        .map(|at| log.append(&owner, offset(at), &entries(&owner, &[format!("entry {at}")])))
        .collect();
    log.close().await.unwrap();
    let mut committed = Vec::new();
    for (at, answer) in (1_u64..).zip(answers) {
        match answer.await {
            Ok(receipt) => {
                assert_eq!(receipt.first(), offset(at));
                committed.push(format!("entry {at}").into_bytes());
            }
            Err(error) => assert_eq!(error, AppendError::Closed, "an append at {at}"),
        }
    }
    drop(log);
    assert_eq!(bodies(&subject.open().await, PARTITION).await, committed);
}

pub async fn appends_acknowledged_while_the_log_closes_are_kept(subject: Subject<Log>) {
    let log = subject.open().await;
    let partitions: Vec<_> = (0..4).map(|id| Partition::new(1, id)).collect();
    let owners = log.take_all(&partitions).await.unwrap();
    let mut owners: Vec<_> = owners.into_iter().map(Some).collect();
    let mut writers = Vec::new();
    for owner in &mut owners {
        let (log, owner) = (log.clone(), owner.take().unwrap());
        writers.push(subject.env.spawn(async move {
            let mut at = 1;
            loop {
                yield_once().await;
                match append(&log, &owner, at, &[format!("entry {at}")]).await {
                    Ok(_) => at += 1,
                    Err(AppendError::Closed) => return at,
                    // A conflict whose entry could not be read, because the log was closed meanwhile.
                    Err(error) => panic!("{error}"),
                }
            }
        }));
    }
    // Wait until each of them appends.
    for partition in &partitions {
        log.follow(*partition, offset(3)).next(ReadLimit::entries(1)).await.unwrap();
    }
    log.close().await.unwrap();
    drop(log);
    let tails = join(writers).await;
    let log = subject.open().await;
    for (partition, tail) in partitions.iter().zip(tails) {
        assert_eq!(log.tail(*partition).await, Ok(offset(tail)));
        assert_eq!(bodies(&log, *partition).await.len() as u64, tail - 1);
    }
}
