//! Closing a log.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::{PARTITION, append, bodies, entries, offset, take, take_all, take_of, until_decided};
use crate::conformance::{Subject, join, yield_once};
use seriatim_storage::{AppendError, Log, LogError, LogIdentity, ReadLimit};
use seriatim_types::{Partition, PartitionOffset};

pub async fn a_closed_log_refuses_every_call(subject: Subject<Log>) {
    let log = subject.open().await;
    let owner = take(&log, PARTITION).await;
    append(&log, &owner, 1, &["a"]).await.unwrap();
    let mut follower = log.follow(PARTITION, PartitionOffset::FIRST);
    log.close().await.unwrap();
    let (owner, group) = (owner.owner(), entries(&owner.owner(), &["b"]));
    let verified = until_decided(|| log.append(&owner, offset(2), &group)).await;
    assert_eq!(verified, Err(AppendError::Closed));
    let unverified = until_decided(|| log.append_unverified(&owner, offset(2), &group)).await;
    assert_eq!(unverified, Err(AppendError::Closed));
    let taken = log.take_over(PARTITION, Some(owner.epoch()), &take_of("late")).await;
    assert_eq!(taken.unwrap_err(), LogError::Closed.into());
    assert_eq!(log.holder(PARTITION).await, Err(LogError::Closed));
    assert_eq!(log.identity().await, Err(LogError::Closed));
    assert_eq!(log.identify(LogIdentity::from_bytes([1; 16])).await, Err(LogError::Closed));
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
    let owner = take(&log, PARTITION).await;
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
    let owner = take(&log, PARTITION).await;
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
    let owner = take(&log, PARTITION).await;
    let body = |at: u64| format!("entry {at}").into_bytes();
    let owner = owner.owner();
    let answers: Vec<_> =
        (1..=50).map(|at| log.append(&owner, offset(at), &entries(&owner, &[body(at)]))).collect();
    log.close().await.unwrap();
    let (mut committed, mut in_doubt) = (0, false);
    for (at, answer) in (1_u64..).zip(answers) {
        match answer.await {
            Ok(receipt) => {
                assert_eq!(receipt.first(), offset(at));
                assert!(at == committed + 1 || in_doubt, "{at} after {committed}");
                committed = at;
            }
            Err(AppendError::InDoubt { .. }) => in_doubt = true,
            Err(error) => assert!(error == AppendError::Closed || in_doubt, "an append at {at}: {error}"),
        }
    }
    drop(log);
    // Only if an append was in doubt, more than what was acknowledged may be there.
    let found = bodies(&subject.open().await, PARTITION).await;
    assert!(found.len() as u64 == committed || (in_doubt && found.len() as u64 > committed));
    assert_eq!(found, (1..=found.len() as u64).map(body).collect::<Vec<_>>());
}

pub async fn appends_acknowledged_while_the_log_closes_are_kept(subject: Subject<Log>) {
    let log = subject.open().await;
    let partitions: Vec<_> = (0..4).map(|id| Partition::new(1, id)).collect();
    let owners = take_all(&log, &partitions).await;
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
                    Err(AppendError::Closed) => return (at, at),
                    // The log was closed before it could be settled.
                    Err(AppendError::InDoubt { .. }) => return (at, at + 1),
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
    for (partition, (least, most)) in partitions.iter().zip(tails) {
        let tail = log.tail(*partition).await.unwrap().get();
        assert!((least..=most).contains(&tail), "{tail}, not {least} to {most}");
        assert_eq!(bodies(&log, *partition).await.len() as u64, tail - 1);
    }
}
