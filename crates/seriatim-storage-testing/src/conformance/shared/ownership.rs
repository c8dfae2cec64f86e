//! How a partition moves from one handle to another.

use std::collections::BTreeMap;

use super::{handles, take_over};
use crate::conformance::log::{PARTITION, Writer, append, bodies, entries, offset, take_of};
use crate::conformance::{Subject, TASKS, join, yield_once};
use seriatim_storage::{AppendError, Log, TakeOverError};
use seriatim_types::Epoch;

/// Asserts that the owner with this epoch has lost the partition to this one, by what the log says to it.
async fn assert_deposed(log: &Log, epoch: Epoch, by: &Writer, name: &str) {
    let refused = log.take_over(PARTITION, Some(epoch), &take_of("deposed")).await.unwrap_err();
    match refused {
        TakeOverError::Deposed { partition: PARTITION, held } => {
            assert_eq!((held.epoch, held.take.holder.as_str()), (by.epoch(), name));
        }
        error => panic!("{error}"),
    }
}

pub async fn a_take_over_by_one_handle_makes_the_other_stale_by_name(subject: Subject<Log>) {
    let [one, other] = handles(&subject).await;
    let stale = take_over(&one, None, "one").await;
    append(&one, &stale, 1, &["a"]).await.unwrap();
    let epoch = stale.epoch();
    let owner = take_over(&other, Some(epoch), "other").await;
    assert_eq!(owner.tail(), offset(2));
    let refused = append(&one, &stale, 2, &["b"]).await.unwrap_err();
    assert_eq!(
        refused,
        AppendError::StaleEpoch { partition: PARTITION, held: epoch, current: owner.epoch() }
    );
    assert_deposed(&one, epoch, &owner, "other").await;
    assert_eq!(bodies(&one, PARTITION).await, [b"a"]);
    append(&other, &owner, 2, &["c"]).await.unwrap();
    assert_eq!(bodies(&one, PARTITION).await, [b"a", b"c"]);
}

pub async fn of_many_take_overs_through_several_handles_one_wins(subject: Subject<Log>) {
    let logs: [Log; 4] = handles(&subject).await;
    let mut expected = None;
    for round in 0..10 {
        let answers = join(subject.tasks(TASKS, |task| {
            let log = logs[task % logs.len()].clone();
            async move {
                let name = format!("task {task}");
                (log.take_over(PARTITION, expected, &take_of(&name)).await, name)
            }
        }))
        .await;
        let winners: Vec<_> = answers.iter().filter(|(answer, _)| answer.is_ok()).collect();
        assert_eq!(winners.len(), 1, "round {round}");
        let (epoch, winner) = (winners[0].0.as_ref().unwrap().epoch(), &winners[0].1);
        assert!(Some(epoch) > expected);
        for (answer, name) in &answers {
            match answer {
                Ok(_) => assert_eq!(name, winner),
                Err(TakeOverError::Deposed { held, .. }) => {
                    assert_eq!((held.epoch, held.take.holder.as_str()), (epoch, winner.as_str()));
                }
                Err(error) => panic!("{error}"),
            }
        }
        expected = Some(epoch);
    }
}

pub async fn a_take_is_recognized_through_every_handle(subject: Subject<Log>) {
    let [one, other] = handles(&subject).await;
    let take = take_of("one");
    let first = one.take_over(PARTITION, None, &take).await.unwrap();
    let again = other.take_over(PARTITION, None, &take).await.unwrap();
    assert_eq!((first.epoch(), first.tail()), (again.epoch(), again.tail()));
    assert!(other.take_over(PARTITION, None, &take_of("one")).await.is_err(), "this is another take");
}

pub async fn a_take_over_refused_through_another_handle_changes_nothing(subject: Subject<Log>) {
    let [one, other] = handles(&subject).await;
    let first = take_over(&one, None, "one").await;
    let owner = take_over(&one, Some(first.epoch()), "one").await;
    for at in 1..=6 {
        append(&one, &owner, at, &["x"]).await.unwrap();
        let present = one.holder(PARTITION).await.unwrap();
        let next = owner.epoch().next().unwrap();
        // Never taken, an earlier epoch, and epochs that the partition does not have yet.
        for expected in [None, Some(first.epoch()), Some(next), next.next()] {
            other.take_over(PARTITION, expected, &take_of("other")).await.unwrap_err();
            assert_eq!(one.holder(PARTITION).await, Ok(present.clone()));
            assert_eq!(other.holder(PARTITION).await, Ok(present.clone()));
        }
    }
    assert_eq!(bodies(&other, PARTITION).await.len(), 6);
}

pub async fn after_a_refused_take_over_the_entry_in_question_is_decided(subject: Subject<Log>) {
    let [one, other] = handles(&subject).await;
    let mut stale = take_over(&one, None, "one").await;
    for round in 0..10 {
        let at = one.tail(PARTITION).await.unwrap();
        let late = stale.owner();
        let group = entries(&late, &["late"]);
        // The append has been sent and has not arrived. Its owner asks, and learns that it was deposed.
        let owner = take_over(&other, Some(late.epoch()), "other").await;
        assert_deposed(&one, late.epoch(), &owner, "other").await;
        assert_eq!(one.tail(PARTITION).await, Ok(at), "it is not in the log, round {round}");
        // Now it arrives, through each of the handles that its owner has used.
        let answer = one.append(&late, at, &group).await;
        let answer = stale.decide(&one, &late, at, &group, answer).await.unwrap_err();
        assert!(matches!(answer, AppendError::StaleEpoch { .. }), "round {round}: {answer}");
        assert_eq!(other.tail(PARTITION).await, Ok(at), "it was written after it was decided, round {round}");
        append(&other, &owner, at.get(), &["other"]).await.unwrap();
        stale = take_over(&one, Some(owner.epoch()), "one").await;
    }
    assert_eq!(bodies(&one, PARTITION).await, vec![b"other"; 10]);
}

pub async fn what_is_in_progress_in_one_handle_when_another_takes_is_counted_or_refused(
    subject: Subject<Log>,
) {
    let logs: [Log; 2] = handles(&subject).await;
    let mut owner = take_over(&logs[0], None, "round").await;
    for round in 0..20 {
        let (one, other) = (&logs[round % 2], &logs[(round + 1) % 2]);
        let late = owner.owner();
        let start = late.tail();
        let at = |step| start.advance(step).unwrap();
        let groups: Vec<_> = (0..10).map(|step| (at(step), entries(&late, &["x"]))).collect();
        let answers: Vec<_> = groups.iter().map(|(at, group)| one.append(&late, *at, group)).collect();
        let successor = take_over(other, Some(late.epoch()), "round").await;
        let tail = successor.tail();
        let mut committed = 0;
        for ((at, group), answer) in groups.iter().zip(answers) {
            match owner.decide(one, &late, *at, group, answer.await).await {
                Ok(_) => committed += 1,
                Err(error) => assert!(error.is_refused(), "round {round}: {error}"),
            }
        }
        assert_eq!(tail, at(committed), "round {round}");
        assert_eq!(one.tail(PARTITION).await, Ok(tail), "nothing was written later, round {round}");
        owner = successor;
    }
}

pub async fn a_handle_that_slept_for_long_is_still_refused(subject: Subject<Log>) {
    const TAKES: u64 = 50;
    let [one, other] = handles(&subject).await;
    let stale = take_over(&one, None, "one").await;
    append(&one, &stale, 1, &["a"]).await.unwrap();
    let slept_with = stale.epoch();
    let mut owner = take_over(&other, Some(slept_with), "other").await;
    for at in 2..=TAKES {
        append(&other, &owner, at, &["b"]).await.unwrap();
        owner = take_over(&other, Some(owner.epoch()), "other").await;
    }
    // Where it would have continued, and at the tail of today.
    for at in [2, TAKES + 1] {
        let refused = append(&one, &stale, at, &["late"]).await.unwrap_err();
        assert!(matches!(refused, AppendError::StaleEpoch { .. }), "at {at}: {refused}");
    }
    assert_deposed(&one, slept_with, &owner, "other").await;
    let found = bodies(&one, PARTITION).await;
    assert_eq!(found.len() as u64, TAKES);
    assert!(found[1..].iter().all(|body| body == b"b"));
    append(&other, &owner, TAKES + 1, &["c"]).await.unwrap();
}

pub async fn owners_of_several_handles_that_replace_each_other_lose_nothing(subject: Subject<Log>) {
    let logs: [Log; 4] = handles(&subject).await;
    let acknowledged = join(subject.tasks(logs.len(), |task| {
        let log = logs[task].clone();
        async move {
            let mut acknowledged = Vec::new();
            for round in 0..12 {
                yield_once().await;
                let held = log.holder(PARTITION).await.unwrap();
                let taken = log.take_over(PARTITION, held.map(|held| held.epoch), &take_of("task")).await;
                let Ok(owner) = taken.map(Writer::new) else { continue };
                let mut at = owner.tail();
                for part in 0..3 {
                    let body = format!("task {task} {round} {part}");
                    match append(&log, &owner, at.get(), &[&body]).await {
                        Ok(receipt) => {
                            acknowledged.push((at, body.into_bytes()));
                            at = receipt.next();
                        }
                        Err(AppendError::StaleEpoch { .. }) => break,
                        Err(error) => panic!("an owner has no conflict before it is stale: {error}"),
                    }
                }
            }
            acknowledged
        }
    }))
    .await;
    let mut by_offset = BTreeMap::new();
    for (at, body) in acknowledged.into_iter().flatten() {
        assert_eq!(by_offset.insert(at, body), None, "two appends were acknowledged at {at}");
    }
    assert!(!by_offset.is_empty());
    for log in &logs {
        assert_eq!(bodies(log, PARTITION).await, by_offset.values().cloned().collect::<Vec<_>>());
    }
}
