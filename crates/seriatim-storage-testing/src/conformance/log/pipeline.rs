//! Appends that are submitted before the previous one is answered.

use std::time::Duration;

use super::{PARTITION, append, append_all, bodies, entries, offset, take};
use crate::conformance::Subject;
use seriatim_storage::{AppendError, Log, ReadLimit};

/// How often something is tried again that an append in doubt has spoiled.
const ROUNDS: u32 = 30;

pub async fn appends_are_written_in_the_order_of_their_calls(subject: Subject<Log>) {
    let log = subject.open().await;
    let owner = take(&log, PARTITION).await;
    let groups: Vec<_> = (1..=200).map(|at| vec![format!("entry {at}")]).collect();
    append_all(&log, &owner, 1, &groups).await;
    let expected: Vec<_> = (1..=200).map(|at| format!("entry {at}").into_bytes()).collect();
    assert_eq!(bodies(&log, PARTITION).await, expected);
}

pub async fn an_append_after_a_refused_one_is_refused_too(subject: Subject<Log>) {
    let log = subject.open().await;
    let writer = take(&log, PARTITION).await;
    let owner = writer.owner();
    let groups =
        [(1, entries(&owner, &["a"])), (3, entries(&owner, &["x", "y"])), (5, entries(&owner, &["z"]))];
    let submitted = groups.each_ref().map(|(at, group)| log.append(&owner, offset(*at), group));
    for ((at, group), answer) in groups.iter().zip(submitted) {
        let answer = answer.await;
        let was_in_doubt = matches!(answer, Err(AppendError::InDoubt { .. }));
        match writer.decide(&log, &owner, offset(*at), group, answer).await {
            Ok(receipt) => assert_eq!(receipt.first(), offset(1)),
            Err(AppendError::Conflict { found: None, .. }) if *at > 1 => {}
            Err(error) => assert!(was_in_doubt && error.is_refused(), "an append at {at}: {error}"),
        }
    }
    if log.tail(PARTITION).await == Ok(offset(1)) {
        // It was in doubt and is not in the log.
        append(&log, &writer, 1, &["a"]).await.unwrap();
    }
    assert_eq!(bodies(&log, PARTITION).await, [b"a"]);
    append(&log, &writer, 2, &["b"]).await.unwrap();
    assert_eq!(bodies(&log, PARTITION).await, [b"a", b"b"]);
}

pub async fn of_two_appends_at_one_offset_the_first_wins(subject: Subject<Log>) {
    let log = subject.open().await;
    let writer = take(&log, PARTITION).await;
    let (mut at, mut rounds) = (offset(1), 0);
    let mut expected = Vec::new();
    while expected.len() < 20 {
        rounds += 1;
        assert!(rounds < 20 + ROUNDS, "{} of {rounds} rounds have succeeded", expected.len());
        let owner = writer.owner();
        let groups = [entries(&owner, &["first"]), entries(&owner, &["second"])];
        let [first, second] = groups.each_ref().map(|group| log.append(&owner, at, group));
        let answers = [second.await, first.await];
        let was_in_doubt = answers.iter().any(|answer| matches!(answer, Err(AppendError::InDoubt { .. })));
        let [second, first] = answers;
        let first = writer.decide(&log, &owner, at, &groups[0], first).await;
        let second = writer.decide(&log, &owner, at, &groups[1], second).await;
        assert!(first.is_err() || second.is_err(), "both are at {at}");
        if was_in_doubt {
            // The second may have won, or neither. What matters here was not seen.
            for (answer, body) in [(first, "first"), (second, "second")] {
                if let Ok(receipt) = answer {
                    at = receipt.next();
                    expected.push(body.as_bytes().to_vec());
                }
            }
            continue;
        }
        let second = second.unwrap_err();
        assert!(matches!(second, AppendError::Conflict { .. }), "{second}");
        at = first.unwrap().next();
        expected.push(b"first".to_vec());
    }
    assert_eq!(bodies(&log, PARTITION).await, expected);
}

pub async fn an_append_continues_when_its_future_is_dropped(subject: Subject<Log>) {
    let log = subject.open().await;
    let mut rounds = 0;
    loop {
        rounds += 1;
        assert!(rounds < ROUNDS, "no append whose future was dropped is in the log");
        // Taking the partition again decides what was dropped in the round before.
        let owner = log.take(PARTITION).await.unwrap();
        let start = owner.tail();
        let at = |step| start.advance(step).unwrap();
        for step in 0..10 {
            drop(log.append(&owner, at(step), &entries(&owner, &[format!("dropped {step}")])));
        }
        let awaited = log.append(&owner, at(10), &entries(&owner, &["awaited"])).await;
        if awaited.is_err() {
            // One of the dropped appends may have been in doubt. Without its answer it is not known.
            continue;
        }
        let read = log.read(PARTITION, start, ReadLimit::default()).await.unwrap();
        assert_eq!((read.len(), read.iter().next().unwrap().1.body()), (11, &b"dropped 0"[..]));
        // Without awaiting anything: a follower reads the entry nevertheless.
        drop(log.append(&owner, at(11), &entries(&owner, &["last"])));
        let mut follower = log.follow(PARTITION, at(11));
        let read = subject.env.timeout(Duration::from_secs(5), follower.next(ReadLimit::default())).await;
        if let Ok(read) = read {
            assert_eq!(read.unwrap().iter().next().unwrap().1.body(), b"last");
            return;
        }
    }
}
