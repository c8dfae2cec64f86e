//! What the fault-injecting wrapper does.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use seriatim_env::{Env, simulate};
use seriatim_storage::memory::{MemoryCells, MemoryLog, MemoryStore};
use seriatim_storage::{
    AppendError, Batch, Cells, ClusteringRange, Digest, Durability, Entries, Header, Holder, Key, Log,
    LogError, LogIdentity, Owner, ReadLimit, Store, StoreError, Take, TakeOverError,
};
use seriatim_storage_testing::faulty::{
    Fault, Faults, FaultyCells, FaultyLog, FaultyStore, Operation, Operations,
};
use seriatim_types::{
    ErrorKind, Partition, PartitionOffset, Timestamp, WorkspaceId, WorkspaceKind, WorkspaceOffset,
};

const PARTITION: Partition = Partition::new(1, 0);
const KEY: Key<'_> = Key::new(b"partition", b"key");

fn faulty_log(env: &Env) -> (Log, Faults, MemoryLog) {
    let (faults, memory) = (Faults::new(env), MemoryLog::new());
    (Log::new(FaultyLog::new(Arc::new(memory.clone()), &faults)), faults, memory)
}

fn faulty_store(env: &Env) -> (Store, Faults) {
    let faults = Faults::new(env);
    let memory = Arc::new(MemoryStore::new());
    (Store::new(FaultyStore::new(memory, &faults)), faults)
}

fn entries(owner: &Owner, body: &str) -> Entries {
    let mut entries = Entries::new(owner.next_append_id());
    let header = Header {
        workspace: WorkspaceId::FIRST,
        kind: WorkspaceKind::new(1),
        workspace_offset: WorkspaceOffset::FIRST,
        time: Timestamp::from_millis(0),
        body_digest: Digest::of(body.as_bytes()),
        draws: &[],
        raises: &[],
    };
    entries.push(&header, Digest::ZERO, body.as_bytes()).unwrap();
    entries
}

fn offset(value: u64) -> PartitionOffset {
    PartitionOffset::new(value).unwrap()
}

async fn bodies(log: &Log) -> Vec<String> {
    let read = log.read(PARTITION, PartitionOffset::FIRST, ReadLimit::default()).await.unwrap();
    read.iter().map(|(_, entry)| String::from_utf8(entry.body().to_vec()).unwrap()).collect()
}

#[test]
fn each_fault_of_an_append_has_its_effect_and_its_answer() {
    // (fault, kind of the answer, whether the entry is there at once, whether it is there in the end)
    let table = [
        (Fault::Busy, ErrorKind::Busy, false, false),
        (Fault::Refuse, ErrorKind::Unavailable, false, false),
        (Fault::LoseRequest, ErrorKind::InDoubt, false, false),
        (Fault::LoseReply, ErrorKind::InDoubt, true, true),
        (Fault::Late(Duration::from_secs(1)), ErrorKind::InDoubt, false, true),
    ];
    for (fault, kind, at_once, in_the_end) in table {
        simulate(1, |env| async move {
            let (log, faults, _) = faulty_log(&env);
            let owner = log.take(PARTITION).await.unwrap();
            faults.fail_nth(Operation::Append, 1, fault);
            let error = log.append(&owner, offset(1), &entries(&owner, "a")).await.unwrap_err();
            assert_eq!(error.kind(), kind, "{fault:?}");
            assert_eq!(bodies(&log).await.len(), usize::from(at_once), "{fault:?}");
            env.sleep(Duration::from_secs(2)).await;
            assert_eq!(bodies(&log).await.len(), usize::from(in_the_end), "{fault:?}");
            assert_eq!((faults.count(Operation::Append), faults.injected()), (1, 1));
            // Only one append fails.
            let at = log.tail(PARTITION).await.unwrap();
            log.append(&owner, at, &entries(&owner, "b")).await.unwrap();
        });
    }
}

#[test]
fn a_late_append_is_refused_after_a_new_owner_has_taken_the_partition() {
    simulate(2, |env| async move {
        let (log, faults, _) = faulty_log(&env);
        let owner = log.take(PARTITION).await.unwrap();
        faults.fail_nth(Operation::Append, 1, Fault::Late(Duration::from_secs(1)));
        let answer = log.append(&owner, offset(1), &entries(&owner, "late")).await;
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::InDoubt);
        let owner = log.take(PARTITION).await.unwrap();
        env.sleep(Duration::from_secs(2)).await;
        assert_eq!(log.tail(PARTITION).await, Ok(offset(1)));
        log.append(&owner, offset(1), &entries(&owner, "new")).await.unwrap();
        assert_eq!(bodies(&log).await, ["new"]);
    });
}

#[test]
fn an_append_whose_reply_was_lost_gets_its_receipt_when_it_is_repeated() {
    simulate(3, |env| async move {
        let (log, faults, _) = faulty_log(&env);
        let owner = log.take(PARTITION).await.unwrap();
        let group = entries(&owner, "a");
        faults.fail_nth(Operation::Append, 1, Fault::LoseReply);
        log.append(&owner, offset(1), &group).await.unwrap_err();
        let receipt = log.append(&owner, offset(1), &group).await.unwrap();
        assert_eq!(receipt.append_id(), group.append_id());
        assert_eq!(bodies(&log).await, ["a"]);
        // Checking the conflict took one read. If that read fails, the append is in doubt.
        faults.reset_counts();
        faults.fail_nth(Operation::Read, 1, Fault::Refuse);
        let error = log.append(&owner, offset(1), &group).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InDoubt);
        assert_eq!((faults.count(Operation::Append), faults.count(Operation::Read)), (1, 1));
    });
}

#[test]
fn a_take_without_an_answer_has_raised_the_epoch_or_not() {
    simulate(4, |env| async move {
        let (log, faults, _) = faulty_log(&env);
        let owner = log.take(PARTITION).await.unwrap();
        faults.fail_nth(Operation::Take, 1, Fault::LoseRequest);
        assert!(matches!(log.take(PARTITION).await, Err(LogError::Unavailable(_))));
        log.append(&owner, offset(1), &entries(&owner, "a")).await.unwrap();
        faults.fail_nth(Operation::Take, 1, Fault::LoseReply);
        assert!(matches!(log.take(PARTITION).await, Err(LogError::Unavailable(_))));
        let error = log.append(&owner, offset(2), &entries(&owner, "b")).await.unwrap_err();
        assert!(matches!(error, AppendError::StaleEpoch { .. }), "{error}");
    });
}

#[test]
fn delayed_appends_keep_their_order() {
    for seed in 0..50 {
        simulate(seed, |env| async move {
            let (log, faults, _) = faulty_log(&env);
            let owner = log.take(PARTITION).await.unwrap();
            faults.delay(Operation::Append, Duration::from_millis(50));
            let answers: Vec<_> = (1..=20)
                .map(|at| log.append(&owner, offset(at), &entries(&owner, &at.to_string())))
                .collect();
            assert_eq!(log.tail(PARTITION).await, Ok(offset(1)), "nothing is there yet");
            faults.delay(Operation::Append, Duration::ZERO);
            let last = log.append(&owner, offset(21), &entries(&owner, "21"));
            last.await.unwrap();
            for answer in answers {
                answer.await.unwrap();
            }
            let expected: Vec<_> = (1..=21).map(|at| at.to_string()).collect();
            assert_eq!(bodies(&log).await, expected);
        });
    }
}

#[test]
fn the_seed_decides_about_faults_and_delays() {
    let run = |seed| {
        simulate(seed, |env| async move {
            let (store, faults) = faulty_store(&env);
            faults.chance(Operation::Get, Fault::Refuse, 0.5);
            faults.delay(Operation::Get, Duration::from_millis(5));
            let mut outcomes = Vec::new();
            for _ in 0..40 {
                outcomes.push((store.get(KEY).await.is_ok(), env.now()));
            }
            outcomes
        })
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn faults_with_a_chance_occur_about_that_often() {
    simulate(5, |env| async move {
        let (store, faults) = faulty_store(&env);
        faults.chance(Operations::READS, Fault::Refuse, 0.25);
        faults.chance(Operations::WRITES, Fault::LoseReply, 1.0);
        faults.chance(Operation::Sync, Fault::Refuse, 0.0);
        for _ in 0..2_000 {
            let _ = store.get(KEY).await;
        }
        assert!((350..650).contains(&faults.injected()), "{}", faults.injected());
        let error = store.put(KEY, b"value").await.unwrap_err();
        assert!(matches!(error, StoreError::InDoubt(_)), "{error}");
    });
}

#[test]
fn all_writes_fail_until_healed() {
    simulate(6, |env| async move {
        let (store, faults) = faulty_store(&env);
        let cells = Cells::new(FaultyCells::new(Arc::new(MemoryCells::new()), &faults));
        store.put(KEY, b"old").await.unwrap();
        assert!(cells.insert_if_absent(KEY, b"old").await.unwrap());
        faults.fail(Operations::WRITES, Fault::Refuse);
        for _ in 0..3 {
            assert_eq!(store.put(KEY, b"new").await.unwrap_err().kind(), ErrorKind::Unavailable);
            let swap = cells.compare_and_swap(KEY, b"old", b"new").await;
            assert_eq!(swap.unwrap_err().kind(), ErrorKind::Unavailable);
            assert_eq!(store.sync().await.unwrap_err().kind(), ErrorKind::Unavailable);
            assert_eq!(store.get(KEY).await.unwrap().unwrap(), "old", "reads still work");
        }
        faults.heal();
        assert!(cells.compare_and_swap(KEY, b"old", b"new").await.unwrap());
        let counts = [Operation::Write, Operation::CompareAndSet, Operation::Sync, Operation::Get];
        assert_eq!(counts.map(|operation| faults.count(operation)), [4, 5, 3, 3]);
        assert_eq!(faults.count(Operations::ALL), 15);
        assert_eq!((faults.count(Operations::WRITES), faults.count(Operations::READS)), (12, 3));
        assert_eq!(faults.injected(), 9);
        faults.reset_counts();
        assert_eq!((faults.count(Operations::ALL), faults.injected()), (0, 0));
    });
}

#[test]
fn the_nth_operation_fails_and_no_other() {
    simulate(7, |env| async move {
        let (store, faults) = faulty_store(&env);
        faults.fail_nth(Operation::Get | Operation::Write, 3, Fault::LoseRequest);
        store.put(KEY, b"1").await.unwrap();
        store.get(KEY).await.unwrap();
        store.sync().await.unwrap();
        let error = store.put(KEY, b"2").await.unwrap_err();
        assert!(matches!(error, StoreError::InDoubt(_)), "{error}");
        assert_eq!(store.get(KEY).await.unwrap().unwrap(), "1");
        store.put(KEY, b"3").await.unwrap();
        // A fault on a page of a scan: the scan continues at its place.
        faults.fail_nth(Operation::ScanPage, 1, Fault::LoseReply);
        let mut scan = store.scan(b"partition", ClusteringRange::all());
        assert!(scan.next().await.is_err());
        assert_eq!(scan.next().await.unwrap().unwrap().1, "3");
    });
}

#[test]
fn after_a_crash_every_operation_is_refused_until_healed() {
    for (fault, found) in [(Fault::LoseRequest, None), (Fault::LoseReply, Some("second".into()))] {
        simulate(8, |env| async move {
            let (store, faults) = faulty_store(&env);
            faults.crash_at(Operations::WRITES, 2, fault);
            store.put(Key::new(b"p", b"1"), b"first").await.unwrap();
            assert!(!faults.has_crashed());
            let waiting = faults.clone();
            let crashed = env.spawn(async move { waiting.crashed().await });
            let mut batch = Batch::new();
            batch.put(Key::new(b"p", b"2"), b"second");
            store.write(batch, Durability::Synced).await.unwrap_err();
            assert!(faults.has_crashed());
            env.timeout(Duration::from_secs(1), crashed)
                .await
                .expect("a task that waits for the crash is woken")
                .unwrap();
            assert!(store.get(Key::new(b"p", b"1")).await.is_err(), "every operation is refused");
            assert!(store.put(Key::new(b"p", b"3"), b"third").await.is_err());
            faults.heal();
            assert_eq!(store.get(Key::new(b"p", b"1")).await.unwrap().unwrap(), "first");
            assert_eq!(store.get(Key::new(b"p", b"2")).await.unwrap(), found);
            assert_eq!(store.get(Key::new(b"p", b"3")).await.unwrap(), None);
        });
    }
}

#[test]
fn a_held_operation_waits_until_it_is_released() {
    simulate(9, |env| async move {
        let (log, faults, _) = faulty_log(&env);
        let owner = log.take(PARTITION).await.unwrap();
        // Before the effect: nothing is there, also after a long time.
        let hold = faults.hold(Operation::Append);
        let append = env.spawn(log.append(&owner, offset(1), &entries(&owner, "a")));
        hold.reached(1).await;
        env.sleep(Duration::from_secs(60)).await;
        assert!(!append.is_finished());
        assert!(bodies(&log).await.is_empty());
        hold.release();
        append.await.unwrap().unwrap();
        // Before the answer: the entry is there, and the append is not answered yet.
        let hold = faults.hold_answers(Operation::Append);
        let append = env.spawn(log.append(&owner, offset(2), &entries(&owner, "b")));
        hold.reached(1).await;
        assert_eq!(bodies(&log).await, ["a", "b"]);
        assert!(!append.is_finished());
        faults.heal();
        append.await.unwrap().unwrap();
        log.append(&owner, offset(3), &entries(&owner, "c")).await.unwrap();
    });
}

#[test]
fn an_append_after_a_held_one_waits_for_it() {
    simulate(10, |env| async move {
        let (log, faults, _) = faulty_log(&env);
        let other = Partition::new(1, 1);
        let owners = log.take_all(&[PARTITION, other]).await.unwrap();
        let hold = faults.hold(Operation::Append);
        let first = env.spawn(log.append(&owners[0], offset(1), &entries(&owners[0], "a")));
        hold.reached(1).await;
        // The next append waits for the first one; an append to another partition reaches the gate independently.
        drop(env.spawn(log.append(&owners[0], offset(2), &entries(&owners[0], "b"))));
        let elsewhere = env.spawn(log.append(&owners[1], offset(1), &entries(&owners[1], "c")));
        hold.reached(2).await;
        assert!(!first.is_finished() && !elsewhere.is_finished());
        hold.release();
        first.await.unwrap().unwrap();
        elsewhere.await.unwrap().unwrap();
        log.append(&owners[0], offset(3), &entries(&owners[0], "d")).await.unwrap();
        assert_eq!(bodies(&log).await, ["a", "b", "d"]);
    });
}

#[test]
fn a_fault_on_closing_changes_only_the_answer() {
    simulate(11, |env| async move {
        let (log, faults, memory) = faulty_log(&env);
        faults.fail(Operations::ALL, Fault::Refuse);
        assert!(matches!(log.close().await, Err(LogError::Unavailable(_))));
        assert_eq!(Log::new(memory).tail(PARTITION).await, Err(LogError::Closed));
        let (store, faults) = faulty_store(&env);
        faults.fail(Operation::CloseStore, Fault::Refuse);
        assert!(store.close().await.is_err());
        assert_eq!(store.get(KEY).await, Err(StoreError::Closed));
    });
}

fn take(name: &str, id: u64) -> Take {
    Take::new(Holder::new(name), id)
}

#[test]
fn a_take_over_whose_reply_was_lost_succeeds_when_it_is_repeated() {
    // Whether the request or the reply was lost is not known to the one that repeats it.
    for fault in [Fault::LoseRequest, Fault::LoseReply] {
        simulate(12, |env| async move {
            let (log, faults, memory) = faulty_log(&env);
            let first = log.take_over(PARTITION, None, &take("first", 1)).await.unwrap();
            let second = take("second", 2);
            faults.fail_nth(Operation::Take, 1, fault);
            let error = log.take_over(PARTITION, Some(first.epoch()), &second).await.unwrap_err();
            assert!(matches!(error, TakeOverError::Log(LogError::Unavailable(_))), "{fault:?}: {error}");
            let holder = Log::new(memory).holder(PARTITION).await.unwrap().unwrap().take.holder;
            assert_eq!(holder.as_str(), if fault == Fault::LoseReply { "second" } else { "first" });

            let owner = log.take_over(PARTITION, Some(first.epoch()), &second).await.unwrap();
            assert_eq!((owner.epoch().get(), owner.holder()), (2, &second.holder));
            log.append(&owner, owner.tail(), &entries(&owner, "a")).await.unwrap();
            assert_eq!(faults.count(Operation::Take), 3);
        });
    }
}

#[test]
fn an_append_is_never_written_late_after_a_take_over_was_refused_because_the_epoch_is_higher() {
    for seed in 0..100 {
        simulate(seed, |env| async move {
            let (log, faults, memory) = faulty_log(&env);
            let other = Log::new(memory.reopen());
            let owner = log.take_over(PARTITION, None, &take("one", 1)).await.unwrap();
            faults.fail_nth(Operation::Append, 1, Fault::Late(Duration::from_millis(20)));
            let late = entries(&owner, "late");
            log.append(&owner, offset(1), &late).await.unwrap_err();
            // Meanwhile another one takes over.
            env.sleep(Duration::from_millis(env.random_below(20))).await;
            other.take_over(PARTITION, Some(owner.epoch()), &take("other", 2)).await.unwrap();
            env.sleep(Duration::from_millis(env.random_below(20))).await;
            let refused = log.take_over(PARTITION, Some(owner.epoch()), &take("one", 3)).await.unwrap_err();
            let TakeOverError::Deposed { held, .. } = refused else { panic!("{refused}") };
            // The append is decided: the tail of the refusal counts it or not, and this stays so.
            let verdict = held.tail > offset(1);
            assert_eq!(bodies(&log).await.len(), usize::from(verdict));
            env.sleep(Duration::from_secs(1)).await;
            assert_eq!(bodies(&log).await.len(), usize::from(verdict));
            assert_eq!(log.append(&owner, offset(1), &late).await.is_ok(), verdict);
        });
    }
}

/// Shows why only a refusal because of a higher epoch counts: after the refusal of an epoch that is too high, and after a read,
/// the append is still written.
#[test]
fn a_refusal_because_the_epoch_is_lower_and_a_read_decide_nothing() {
    simulate(13, |env| async move {
        let (log, faults, _) = faulty_log(&env);
        let owner = log.take_over(PARTITION, None, &take("one", 1)).await.unwrap();
        faults.fail_nth(Operation::Append, 1, Fault::Late(Duration::from_secs(1)));
        log.append(&owner, offset(1), &entries(&owner, "late")).await.unwrap_err();
        let too_high = owner.epoch().next();
        let refused = log.take_over(PARTITION, too_high, &take("one", 2)).await.unwrap_err();
        assert!(matches!(refused, TakeOverError::Rewound { .. }), "{refused}");
        assert!(bodies(&log).await.is_empty());
        env.sleep(Duration::from_secs(2)).await;
        assert_eq!(bodies(&log).await, ["late"]);
    });
}

#[test]
fn an_append_whose_reply_was_lost_gets_its_receipt_also_after_the_partition_was_taken_over() {
    simulate(14, |env| async move {
        let (log, faults, memory) = faulty_log(&env);
        let other = Log::new(memory.reopen());
        let owner = log.take_over(PARTITION, None, &take("one", 1)).await.unwrap();
        let (written, lost) = (entries(&owner, "written"), entries(&owner, "lost"));
        faults.fail_nth(Operation::Append, 1, Fault::LoseReply);
        faults.fail_nth(Operation::Append, 2, Fault::LoseRequest);
        log.append(&owner, offset(1), &written).await.unwrap_err();
        log.append(&owner, offset(2), &lost).await.unwrap_err();
        let successor = other.take_over(PARTITION, Some(owner.epoch()), &take("other", 2)).await.unwrap();
        other.append(&successor, offset(2), &entries(&successor, "other")).await.unwrap();

        let receipt = log.append(&owner, offset(1), &written).await.unwrap();
        assert_eq!((receipt.first(), receipt.append_id()), (offset(1), written.append_id()));
        let stale =
            AppendError::StaleEpoch { partition: PARTITION, held: owner.epoch(), current: successor.epoch() };
        assert_eq!(log.append(&owner, offset(2), &lost).await, Err(stale));
        // If the entry cannot be read, the stale epoch alone does not say that nothing was written.
        faults.fail_nth(Operation::Read, 1, Fault::Refuse);
        let error = log.append(&owner, offset(1), &written).await.unwrap_err();
        assert!(matches!(&error, AppendError::InDoubt { .. }), "{error}");
        assert_eq!(bodies(&log).await, ["written", "other"]);
    });
}

#[test]
fn the_holder_and_the_identity_have_faults_of_their_own() {
    simulate(15, |env| async move {
        let (log, faults, _) = faulty_log(&env);
        let (first, second) = (LogIdentity::from_bytes([1; 16]), LogIdentity::from_bytes([2; 16]));
        faults.fail_nth(Operation::Identity, 1, Fault::LoseRequest);
        faults.fail_nth(Operation::Identity, 3, Fault::LoseReply);
        assert!(log.identify(first).await.is_err());
        assert_eq!(log.identity().await, Ok(None));
        assert!(log.identify(first).await.is_err());
        assert_eq!(log.identify(second).await, Ok(first));
        faults.fail_nth(Operation::Holder, 1, Fault::Refuse);
        assert!(log.holder(PARTITION).await.is_err());
        assert_eq!(log.holder(PARTITION).await, Ok(None));
        assert_eq!((faults.count(Operation::Identity), faults.count(Operation::Holder)), (4, 2));
        faults.crash_at(Operation::Tail, 1, Fault::LoseRequest);
        log.tail(PARTITION).await.unwrap_err();
        assert!(log.identity().await.is_err() && log.holder(PARTITION).await.is_err());
    });
}
