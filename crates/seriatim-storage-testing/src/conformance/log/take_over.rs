//! Taking a partition over: a take names the epoch that it follows.

use super::{PARTITION, Writer, append, bodies, entries, offset, reopen, take_of};
use crate::conformance::{Subject, TASKS, join};
use seriatim_storage::{Held, Log, Take, TakeOverError};
use seriatim_types::{Epoch, Partition};

fn epoch(value: u64) -> Option<Epoch> {
    Epoch::new(value)
}

fn held(epoch: u64, take: &Take, tail: u64) -> Held {
    Held { epoch: Epoch::new(epoch).unwrap(), take: take.clone(), tail: offset(tail) }
}

/// Takes a partition over; the epoch is still the expected one.
async fn take_over(log: &Log, expected: u64, take: &Take) -> Writer {
    Writer::new(log.take_over(PARTITION, epoch(expected), take).await.unwrap())
}

pub async fn a_take_over_raises_the_epoch_that_it_expects(subject: Subject<Log>) {
    let log = subject.open().await;
    assert_eq!(log.holder(PARTITION).await, Ok(None));
    let (first, second) = (take_of("first"), take_of("second"));
    let owner = log.take_over(PARTITION, None, &first).await.unwrap();
    assert_eq!((owner.epoch(), owner.tail()), (Epoch::FIRST, offset(1)));
    assert_eq!((owner.partition(), owner.holder()), (PARTITION, &first.holder));
    assert_eq!(log.holder(PARTITION).await, Ok(Some(held(1, &first, 1))));
    let owner = log.take_over(PARTITION, epoch(1), &second).await.unwrap();
    assert_eq!((owner.epoch().get(), owner.holder()), (2, &second.holder));
    assert_eq!(log.holder(PARTITION).await, Ok(Some(held(2, &second, 1))));
    assert_eq!(log.holder(Partition::new(7, 4)).await, Ok(None));
}

pub async fn of_many_take_overs_that_expect_the_same_epoch_one_succeeds(subject: Subject<Log>) {
    let log = subject.open().await;
    for expected in 0..10_u64 {
        let answers = join(subject.tasks(TASKS, |task| {
            let log = log.clone();
            async move {
                let take = take_of(&format!("task {task}"));
                (log.take_over(PARTITION, epoch(expected), &take).await, take)
            }
        }))
        .await;
        let winners: Vec<_> = answers.iter().filter(|(answer, _)| answer.is_ok()).collect();
        assert_eq!(winners.len(), 1, "of the take-overs that expect epoch {expected}");
        let winner = held(expected + 1, &winners[0].1, 1);
        for (answer, _) in answers {
            match answer {
                Ok(owner) => assert_eq!(owner.epoch(), winner.epoch),
                Err(error) => {
                    assert_eq!(error, TakeOverError::Deposed { partition: PARTITION, held: winner.clone() });
                }
            }
        }
    }
}

pub async fn a_refused_take_over_names_epoch_holder_and_tail_and_changes_nothing(subject: Subject<Log>) {
    let log = subject.open().await;
    let (first, second) = (take_of("first"), take_of("second"));
    take_over(&log, 0, &first).await;
    let owner = take_over(&log, 1, &second).await;
    append(&log, &owner, 1, &["a", "b"]).await.unwrap();
    // If an append was in doubt, the writer has settled it with a take-over of its own.
    let present = log.holder(PARTITION).await.unwrap().unwrap();
    assert_eq!((present.epoch, present.tail), (owner.epoch(), offset(3)));
    for expected in [None, epoch(1)] {
        let refused = log.take_over(PARTITION, expected, &take_of("third")).await.unwrap_err();
        assert_eq!(refused, TakeOverError::Deposed { partition: PARTITION, held: present.clone() });
    }
    assert_eq!(log.holder(PARTITION).await, Ok(Some(present)));
    append(&log, &owner, 3, &["c"]).await.unwrap();
    assert_eq!(bodies(&log, PARTITION).await, [b"a", b"b", b"c"]);
}

pub async fn a_take_over_whose_reply_was_lost_succeeds_when_it_is_repeated(subject: Subject<Log>) {
    let mut log = subject.open().await;
    for expected in 0..3 {
        let take = take_of("holder");
        let first = log.take_over(PARTITION, epoch(expected), &take).await.unwrap();
        let again = log.take_over(PARTITION, epoch(expected), &take).await.unwrap();
        assert_eq!((first.epoch(), first.tail()), (again.epoch(), again.tail()));
        log = reopen(&subject, log).await;
        let again = log.take_over(PARTITION, epoch(expected), &take).await.unwrap();
        assert_eq!((first.epoch(), first.tail()), (again.epoch(), again.tail()));
    }
}

pub async fn a_take_over_of_the_same_holder_with_another_id_is_refused(subject: Subject<Log>) {
    let log = subject.open().await;
    let (first, second) = (take_of("holder"), take_of("holder"));
    take_over(&log, 0, &first).await;
    let refused = log.take_over(PARTITION, None, &second).await.unwrap_err();
    assert_eq!(refused, TakeOverError::Deposed { partition: PARTITION, held: held(1, &first, 1) });
    // The same id of another holder is another take, too.
    let other = Take { id: first.id, ..take_of("other") };
    let refused = log.take_over(PARTITION, None, &other).await.unwrap_err();
    assert_eq!(refused, TakeOverError::Deposed { partition: PARTITION, held: held(1, &first, 1) });
}

pub async fn a_take_over_that_was_followed_by_another_is_not_recognized(subject: Subject<Log>) {
    let log = subject.open().await;
    let (first, second) = (take_of("first"), take_of("second"));
    take_over(&log, 0, &first).await;
    take_over(&log, 1, &second).await;
    let refused = log.take_over(PARTITION, None, &first).await.unwrap_err();
    assert_eq!(refused, TakeOverError::Deposed { partition: PARTITION, held: held(2, &second, 1) });
}

pub async fn a_take_over_that_expects_too_high_an_epoch_is_refused_as_rewound(subject: Subject<Log>) {
    let log = subject.open().await;
    let rewound = |expected| TakeOverError::Rewound { partition: PARTITION, expected };
    let never_taken = log.take_over(PARTITION, epoch(1), &take_of("early")).await;
    assert_eq!(never_taken.unwrap_err(), rewound(Epoch::FIRST));
    assert_eq!((log.holder(PARTITION).await, log.partitions().await), (Ok(None), Ok(Vec::new())));
    let first = take_of("first");
    let owner = take_over(&log, 0, &first).await;
    for expected in [2, 3, 1_000] {
        let refused = log.take_over(PARTITION, epoch(expected), &take_of("early")).await;
        assert_eq!(refused.unwrap_err(), rewound(Epoch::new(expected).unwrap()));
        assert_eq!(log.holder(PARTITION).await, Ok(Some(held(1, &first, 1))));
    }
    append(&log, &owner, 1, &["a"]).await.unwrap();
}

pub async fn each_partition_of_a_take_over_is_decided_by_itself(subject: Subject<Log>) {
    let log = subject.open().await;
    let partitions = [(3, 1), (1, 1), (2, 1)].map(|(app, id)| Partition::new(app, id));
    let (first, second) = (take_of("first"), take_of("second"));
    log.take_over(partitions[1], None, &first).await.unwrap();
    let expected = [(partitions[0], None), (partitions[1], None), (partitions[2], epoch(1))];
    let answers = log.take_over_all(&expected, &second).await.unwrap();
    let [taken, deposed, rewound] = <[_; 3]>::try_from(answers).unwrap();
    let taken = taken.unwrap();
    assert_eq!((taken.partition(), taken.epoch()), (partitions[0], Epoch::FIRST));
    assert!(matches!(deposed, Err(TakeOverError::Deposed { partition, held })
        if partition == partitions[1] && held.take == first));
    assert!(matches!(rewound, Err(TakeOverError::Rewound { partition, .. }) if partition == partitions[2]));
    let takes = [Some(second), Some(first), None];
    for (partition, take) in partitions.into_iter().zip(takes) {
        assert_eq!(log.holder(partition).await.unwrap().map(|held| held.take), take, "{partition}");
    }
}

pub async fn the_holder_of_a_partition_is_known_after_reopen(subject: Subject<Log>) {
    let mut log = subject.open().await;
    let names = ["plain", "", "with spaces and Ä", &"x".repeat(seriatim_storage::HOLDER_BYTES_MAX)];
    let takes = names.map(take_of);
    for (id, take) in (0..).zip(&takes) {
        log.take_over(Partition::new(1, id), None, &take_of("earlier")).await.unwrap();
        log.take_over(Partition::new(1, id), epoch(1), take).await.unwrap();
    }
    for _ in 0..2 {
        log = reopen(&subject, log).await;
        for (id, take) in (0..).zip(&takes) {
            assert_eq!(log.holder(Partition::new(1, id)).await, Ok(Some(held(2, take, 1))));
        }
    }
}

pub async fn an_append_in_progress_when_the_partition_is_taken_over_is_in_the_tail_or_never_written(
    subject: Subject<Log>,
) {
    let log = subject.open().await;
    let mut owner = log.take_over(PARTITION, None, &take_of("round")).await.unwrap();
    for round in 0..20 {
        let start = owner.tail();
        let at = |step| start.advance(step).unwrap();
        let groups: Vec<_> = (0..10).map(|step| (at(step), entries(&owner, &["x"]))).collect();
        let answers: Vec<_> = groups.iter().map(|(at, group)| log.append(&owner, *at, group)).collect();
        // Even rounds: by the take. Odd rounds: by the refusal of a take-over that comes too late.
        let next = log.take_over(PARTITION, Some(owner.epoch()), &take_of("round")).await.unwrap();
        let mut tail = next.tail();
        if round % 2 == 1 {
            let refused = log.take_over(PARTITION, Some(owner.epoch()), &take_of("late")).await.unwrap_err();
            let TakeOverError::Deposed { held, .. } = refused else { panic!("{refused}") };
            tail = held.tail;
        }
        let writer = Writer::new(owner);
        let mut committed = 0;
        for ((at, group), answer) in groups.iter().zip(answers) {
            match writer.decide(&log, &writer.owner(), *at, group, answer.await).await {
                Ok(_) => committed += 1,
                Err(error) => assert!(error.is_refused(), "round {round}: {error}"),
            }
        }
        assert_eq!(tail, at(committed), "round {round}");
        assert_eq!(log.tail(PARTITION).await, Ok(tail), "nothing was written later");
        owner = next;
    }
}
