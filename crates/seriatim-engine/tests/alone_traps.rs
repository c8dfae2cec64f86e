//! What went wrong elsewhere, each as a test of its own.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod alone_support;

use std::time::Duration;

use alone_support::{
    Desk, INVOICE, KIND, PARTITION, TICKET, TIMEOUT, checkpoint_key, offset, on_memory, seal_one,
    stored_checkpoint, workspace,
};
use seriatim_engine::alone::Options;
use seriatim_sequencer::{IgnoredReason, LoadError, NumbersKey, Status, builtin};
use seriatim_storage::memory::MemoryStore;
use seriatim_storage::{Digest, Draw, Entries, Header, Key, Store};
use seriatim_storage_testing::faulty::{Fault, Operation, Operations};
use seriatim_types::{
    ApplicationId, ErrorKind, Number, Partition, SequenceId, Timestamp, WorkspaceId, WorkspaceOffset,
};

/// Appends events to one workspace behind the sequencer's back, with these draws.
async fn append_raw(desk: &Desk, id: WorkspaceId, events: &[&[(SequenceId, u64, u64)]]) {
    let owner = desk.log.take(desk.partition).await.unwrap();
    let mut entries = Entries::new(owner.next_append_id());
    let mut chain = Digest::ZERO;
    for (place, draws) in (1..).zip(events) {
        let draw = |&(sequence, first, count): &(SequenceId, u64, u64)| Draw {
            sequence,
            first: Number::new(first),
            count,
        };
        let draws: Vec<Draw> = draws.iter().map(draw).collect();
        let header = Header {
            workspace: id,
            kind: KIND,
            workspace_offset: WorkspaceOffset::new(place).unwrap(),
            time: Timestamp::from_millis(0),
            body_digest: Digest::of(b""),
            draws: &draws,
            raises: &[],
        };
        chain = entries.push(&header, chain, b"").unwrap();
    }
    desk.log.append(&owner, owner.tail(), &entries).await.unwrap();
}

#[test]
fn the_offset_advances_once_per_event() {
    on_memory(|desk| async move {
        let mut sequencer = desk.open_ready().await;
        for expected in 1..=4 {
            assert_eq!(sequencer.next_offset(), Some(offset(expected)));
            let pin = sequencer.load(KIND, workspace(1)).await.unwrap();
            let (sealed, _) = seal_one(&mut sequencer, &pin, &[]);
            assert_eq!((sealed.at(), sealed.next()), (offset(expected), offset(expected + 1)));
            assert_eq!(sequencer.next_offset(), Some(offset(expected)));
            desk.commit(&mut sequencer, sealed).await;
        }
        assert_eq!(desk.events().await.iter().map(|event| event.offset).collect::<Vec<_>>(), [1, 2, 3, 4]);
    });
}

#[test]
fn next_and_last_do_not_mix() {
    on_memory(|desk| async move {
        let mut sequencer = desk.open_ready().await;
        assert_eq!(desk.invoice(&mut sequencer, workspace(1)).await, 1);
        sequencer.finish(TIMEOUT).await.unwrap();
        let key = NumbersKey::new(PARTITION, workspace(1));
        let stored = desk.store.get(key.as_key()).await.unwrap().unwrap();
        let numbers = seriatim_sequencer::Numbers::decode(&desk.definition, &stored).unwrap();
        assert_eq!(numbers.next(desk.definition.kind(KIND), INVOICE), Some(Number::new(2)));
        assert_eq!(numbers.next_offset().get(), 2);
        assert_eq!(numbers.folded(), Some(offset(1)));
        let mut sequencer = desk.open_ready().await;
        assert_eq!(desk.invoice(&mut sequencer, workspace(1)).await, 2);
    });
}

#[test]
fn a_fresh_partition_starts_at_1_and_keeps_its_first_event() {
    on_memory(|desk| async move {
        let mut sequencer = desk.open_ready().await;
        assert_eq!(sequencer.next_offset(), Some(offset(1)));
        desk.invoice(&mut sequencer, workspace(1)).await;
        // One event alone is flushed too.
        sequencer.finish(TIMEOUT).await.unwrap();
        desk.faults.reset_counts();
        let mut sequencer = desk.open_ready().await;
        assert_eq!(sequencer.next_offset(), Some(offset(2)));
        assert_eq!(
            desk.faults.count(Operation::Read),
            1,
            "the checkpoint is at the tail: only the entry before it is read"
        );
        assert_eq!(desk.invoice(&mut sequencer, workspace(1)).await, 2);
    });
}

#[test]
fn values_and_offset_are_never_published_in_two_steps() {
    // However the tasks interleave, a crash never leaves a checkpoint in front of a value.
    for seed in 0..40 {
        seriatim_env::simulate(seed, |env| async move {
            let mut desk = Desk::memory(&env);
            desk.options = Options { flush_at: 1, flush_interval: Duration::from_millis(3), ..desk.options };
            desk.faults.delay(Operations::ALL, Duration::from_millis(4));
            let mut sequencer = desk.open_ready().await;
            for number in 0..20 {
                desk.invoice(&mut sequencer, workspace(number % 3)).await;
                let checkpoint = stored_checkpoint(&desk.store, desk.partition).await;
                for id in (0..3).map(workspace) {
                    let events = desk.events().await;
                    let last =
                        events.iter().rfind(|event| event.workspace == id && event.offset < checkpoint);
                    let folded = stored_folded(&desk, id).await;
                    assert!(folded >= last.map(|event| event.offset), "{folded:?} {last:?} {checkpoint}");
                }
            }
        });
    }
}

async fn stored_folded(desk: &Desk, id: WorkspaceId) -> Option<u64> {
    let key = NumbersKey::new(PARTITION, id);
    let bytes = desk.store.get(key.as_key()).await.unwrap()?;
    let numbers = seriatim_sequencer::Numbers::decode(&desk.definition, &bytes).unwrap();
    numbers.folded().map(seriatim_types::PartitionOffset::get)
}

#[test]
fn a_stop_does_not_hang_while_writes_fail() {
    on_memory(|desk| async move {
        let mut sequencer = desk.open_ready().await;
        desk.invoice(&mut sequencer, workspace(1)).await;
        desk.faults.fail(Operation::Write, Fault::Refuse);
        let started = desk.env.instant();
        let status = sequencer.status_handle();
        let error = sequencer.finish(TIMEOUT).await.unwrap_err();
        assert_eq!((error.unflushed, error.kind()), (1, ErrorKind::Unavailable));
        assert!(desk.env.instant() - started < Duration::from_secs(1));
        assert_eq!(status.status(), Status::Finished);
    });
}

#[test]
fn a_stop_does_not_hang_while_storage_does() {
    on_memory(|desk| async move {
        let mut sequencer = desk.open_ready().await;
        desk.invoice(&mut sequencer, workspace(1)).await;
        let hold = desk.faults.hold(Operation::Write);
        hold.reached(1).await;
        let started = desk.env.instant();
        let error = sequencer.finish(Duration::from_secs(3)).await.unwrap_err();
        assert_eq!(error.unflushed, 1);
        assert!(desk.env.instant() - started < Duration::from_secs(4));
    });
}

#[test]
fn a_stop_does_not_hang_in_a_recovery_that_cannot_read_or_write() {
    for operation in [Operation::Get, Operation::Read, Operation::Write] {
        on_memory(|mut desk| async move {
            desk.options = Options { unflushed_max: 1, ..desk.options };
            let mut sequencer = desk.open_ready().await;
            for number in 0..6 {
                sequencer.wait(TIMEOUT).await.unwrap();
                desk.invoice(&mut sequencer, workspace(number)).await;
            }
            drop(sequencer);
            let fresh = desk.with_empty_store();
            fresh.faults.fail(operation, Fault::Refuse);
            let mut sequencer = fresh.open().await;
            assert!(sequencer.wait(Duration::from_secs(3)).await.is_err());
            assert!(matches!(sequencer.status(), Status::Recovering { .. }));
            let started = fresh.env.instant();
            let _ = sequencer.finish(TIMEOUT).await;
            assert!(fresh.env.instant() - started < Duration::from_secs(1));
            // And when storage works again, so does recovery.
            fresh.faults.heal();
            let mut sequencer = fresh.open_ready().await;
            assert_eq!(fresh.invoice(&mut sequencer, workspace(5)).await, 2);
        });
    }
}

#[test]
fn recovery_continues_when_storage_works_again() {
    on_memory(|desk| async move {
        let mut sequencer = desk.open_ready().await;
        desk.invoice(&mut sequencer, workspace(1)).await;
        drop(sequencer);
        desk.faults.fail(Operation::Get, Fault::Refuse);
        let mut sequencer = desk.open().await;
        assert!(sequencer.wait(Duration::from_secs(2)).await.is_err());
        desk.faults.heal();
        sequencer.wait(TIMEOUT).await.unwrap();
        assert_eq!(desk.invoice(&mut sequencer, workspace(1)).await, 2);
    });
}

#[test]
fn an_event_that_creates_only_a_singleton_does_not_move_the_record_sequence_back() {
    on_memory(|desk| async move {
        let first = 322_680_000_131_072;
        let singleton = [(builtin::RECORD_ID, 65_536, 1)];
        append_raw(&desk, workspace(1), &[&[(builtin::RECORD_ID, first, 5)], &singleton, &[]]).await;
        let mut sequencer = desk.open_ready().await;
        let drawn = desk.number(&mut sequencer, workspace(1), &[builtin::RECORD_ID]).await;
        assert_eq!(drawn, [Number::new(first + 5)]);
    });
}

#[test]
fn a_smaller_number_in_a_later_event_does_not_lower_a_counter() {
    on_memory(|desk| async move {
        append_raw(&desk, workspace(1), &[&[(INVOICE, 100, 1)], &[(INVOICE, 50, 1)]]).await;
        let mut sequencer = desk.open_ready().await;
        assert_eq!(desk.invoice(&mut sequencer, workspace(1)).await, 101);
    });
}

#[test]
fn numbers_out_of_range_are_ignored_and_reported() {
    on_memory(|desk| async move {
        let outside = (builtin::RECORD_ID, 131_072, 3);
        let partly = (TICKET, 12, 5);
        let unknown = (SequenceId::new(99), 7, 1);
        let endless = (INVOICE, u64::MAX, u64::MAX);
        append_raw(&desk, workspace(1), &[&[outside, partly], &[unknown, endless]]).await;
        let mut sequencer = desk.open_ready().await;
        let drawn = desk.number(&mut sequencer, workspace(1), &[builtin::RECORD_ID, TICKET, INVOICE]).await;
        assert_eq!(drawn.iter().map(|number| number.get()).collect::<Vec<_>>(), [322_680_000_131_072, 20, 1]);
        let ignored = sequencer.ignored_numbers();
        assert_eq!(ignored.count, 4);
        let told: Vec<_> = ignored
            .examples
            .iter()
            .map(|ignored| (ignored.offset.get(), ignored.number.get(), ignored.reason))
            .collect();
        assert_eq!(
            told,
            [
                (1, 131_072, IgnoredReason::OutOfRange),
                (1, 12, IgnoredReason::OutOfRange),
                (2, 7, IgnoredReason::UnknownSequence),
                (2, u64::MAX, IgnoredReason::OutOfRange),
            ]
        );
    });
}

#[test]
fn a_miss_is_not_read_as_zero() {
    on_memory(|desk| async move {
        let mut sequencer = desk.open_ready().await;
        desk.invoice(&mut sequencer, workspace(1)).await;
        sequencer.finish(TIMEOUT).await.unwrap();
        let mut sequencer = desk.open_ready().await;
        // A store that does not answer is an error, not an empty workspace.
        desk.faults.fail_nth(Operation::Get, 1, Fault::Refuse);
        let error = sequencer.load(KIND, workspace(1)).await.unwrap_err();
        assert!(matches!(error, LoadError::Store { .. }), "{error}");
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        desk.faults.fail_nth(Operation::GetMany, 1, Fault::Refuse);
        let both = sequencer.loading(&[(KIND, workspace(1)), (KIND, workspace(2))]).unwrap().read().await;
        for pin in sequencer.admit(both) {
            assert!(matches!(pin, Err(LoadError::Store { .. })), "{pin:?}");
        }
        assert_eq!(desk.invoice(&mut sequencer, workspace(1)).await, 2);
        // A workspace that is not there begins at its first numbers, which are not zero.
        let draws = [builtin::C_RECORD_ID, INVOICE];
        let drawn = desk.number(&mut sequencer, workspace(2), &draws).await;
        assert_eq!(drawn, [Number::new(322_685_000_131_072), Number::new(1)]);
    });
}

#[test]
fn a_damaged_value_is_corrupt_and_not_a_fresh_workspace() {
    on_memory(|desk| async move {
        let mut sequencer = desk.open_ready().await;
        desk.invoice(&mut sequencer, workspace(1)).await;
        sequencer.finish(TIMEOUT).await.unwrap();
        let key = NumbersKey::new(PARTITION, workspace(1));
        for damage in [&b""[..], b"garbage", &[0; 80]] {
            desk.store.put(key.as_key(), damage).await.unwrap();
            let mut sequencer = desk.open_ready().await;
            let error = sequencer.load(KIND, workspace(1)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
            // Other partitions continue.
            sequencer.load(KIND, workspace(2)).await.unwrap();
        }
        // Deleted, it comes back from the log, like everything derived.
        let mut batch = seriatim_storage::Batch::new();
        batch.remove(key.as_key());
        batch.remove(checkpoint_key(PARTITION).as_key());
        desk.store.write(batch, seriatim_storage::Durability::Synced).await.unwrap();
        let mut sequencer = desk.open_ready().await;
        assert_eq!(desk.invoice(&mut sequencer, workspace(1)).await, 2);
    });
}

#[test]
fn two_applications_with_the_same_partition_number_share_nothing() {
    on_memory(|mut desk| async move {
        let mut one = desk.open_ready().await;
        for expected in 1..=3 {
            assert_eq!(desk.invoice(&mut one, workspace(1)).await, expected);
        }
        one.finish(TIMEOUT).await.unwrap();
        desk.partition = Partition { application: ApplicationId::new(2), ..PARTITION };
        let mut other = desk.open_ready().await;
        assert_eq!(other.next_offset(), Some(offset(1)));
        assert_eq!(desk.invoice(&mut other, workspace(1)).await, 1);
        other.finish(TIMEOUT).await.unwrap();
        desk.partition = PARTITION;
        let mut one = desk.open_ready().await;
        assert_eq!(one.next_offset(), Some(offset(4)));
        assert_eq!(desk.invoice(&mut one, workspace(1)).await, 4);
    });
}

#[test]
fn a_checkpoint_or_a_value_beyond_the_end_of_the_log_is_corrupt() {
    on_memory(|desk| async move {
        let mut sequencer = desk.open_ready().await;
        for _ in 0..5 {
            desk.invoice(&mut sequencer, workspace(1)).await;
        }
        sequencer.finish(TIMEOUT).await.unwrap();
        // The same store beside a log that has lost everything.
        let lost = Desk { store: desk.store.clone(), ..Desk::memory(&desk.env) };
        let identity = desk.log.identity().await.unwrap().unwrap();
        lost.log.identify(identity).await.unwrap();
        let mut sequencer = lost.open().await;
        let busy = sequencer.wait(TIMEOUT).await.unwrap_err();
        assert_eq!(busy.kind(), ErrorKind::Corrupt);
        assert!(busy.to_string().contains("the checkpoint is 6, and the log ends at 1"), "{busy}");

        // The same without the checkpoint: the value tells, when it is loaded and when it is recovered.
        let mut batch = seriatim_storage::Batch::new();
        batch.remove(checkpoint_key(PARTITION).as_key());
        desk.store.write(batch, seriatim_storage::Durability::Synced).await.unwrap();
        let mut sequencer = lost.open_ready().await;
        let error = sequencer.load(KIND, workspace(1)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains("include event 5, and the log ends at 1"), "{error}");
        drop(sequencer);
        append_raw(&lost, workspace(1), &[&[]]).await;
        let mut sequencer = lost.open().await;
        let busy = sequencer.wait(TIMEOUT).await.unwrap_err();
        assert!(busy.to_string().contains("include event 5, and the log ends at 2"), "{busy}");
    });
}

#[test]
fn a_checkpoint_that_a_migration_has_kept_tells_that_the_log_has_lost_events() {
    on_memory(|desk| async move {
        let mut sequencer = desk.open_ready().await;
        for _ in 0..5 {
            desk.invoice(&mut sequencer, workspace(1)).await;
        }
        drop(sequencer);
        // A store as a migration leaves it: the checkpoint, and nothing that it speaks of.
        let migrated = |checkpoint: u64| {
            let mut bytes = [&[1][..], &checkpoint.to_be_bytes()].concat();
            bytes.extend(crc32fast::hash(&bytes).to_be_bytes());
            let partition = [&b"ek"[..], &1_u32.to_be_bytes(), &0_u16.to_be_bytes()].concat();
            let store = Store::new(MemoryStore::new());
            async move {
                store.put(Key::new(&partition, b""), &bytes).await.unwrap();
                store
            }
        };
        let beside = Desk { store: migrated(7).await, log: desk.log.clone(), ..Desk::memory(&desk.env) };
        let busy = beside.open().await.wait(TIMEOUT).await.unwrap_err();
        assert!(busy.to_string().contains("the checkpoint is 7, and the log ends at 6"), "{busy}");
        // One that the log has reached means nothing: everything is derived from the beginning.
        let beside = Desk { store: migrated(6).await, ..beside };
        let mut sequencer = beside.open_ready().await;
        assert_eq!(beside.invoice(&mut sequencer, workspace(1)).await, 6);
    });
}

#[test]
fn a_flush_signal_of_before_a_recovery_flushes_nothing_early() {
    on_memory(|mut desk| async move {
        desk.options = Options { flush_at: 2, flush_interval: Duration::from_secs(3_600), ..desk.options };
        let mut sequencer = desk.open_ready().await;
        let hold = desk.faults.hold(Operation::Write);
        desk.invoice(&mut sequencer, workspace(1)).await;
        desk.invoice(&mut sequencer, workspace(2)).await;
        hold.reached(1).await;
        // More signals while the flusher is busy, then everything begins again.
        desk.invoice(&mut sequencer, workspace(3)).await;
        desk.invoice(&mut sequencer, workspace(4)).await;
        sequencer.recover(desk.log.take(PARTITION).await.unwrap()).unwrap();
        hold.release();
        sequencer.wait(TIMEOUT).await.unwrap();
        desk.env.sleep(Duration::from_secs(60)).await;
        let writes = desk.faults.count(Operation::Write);
        desk.invoice(&mut sequencer, workspace(5)).await;
        desk.env.sleep(Duration::from_secs(60)).await;
        assert_eq!(desk.faults.count(Operation::Write), writes, "one waiting workspace is below flush_at");
        for number in 1..=4 {
            sequencer.wait(TIMEOUT).await.unwrap();
            assert_eq!(desk.invoice(&mut sequencer, workspace(number)).await, 2, "{number}");
        }
    });
}

#[test]
fn a_cold_workspace_costs_exactly_one_read_and_a_warm_one_none() {
    on_memory(|desk| async move {
        let mut sequencer = desk.open_ready().await;
        for number in 0..10 {
            desk.invoice(&mut sequencer, workspace(number)).await;
        }
        sequencer.finish(TIMEOUT).await.unwrap();
        let mut sequencer = desk.open_ready().await;
        for number in 0..10 {
            desk.faults.reset_counts();
            let draws = [builtin::RECORD_ID, builtin::C_RECORD_ID, INVOICE, TICKET];
            desk.number(&mut sequencer, workspace(number), &draws).await;
            assert_eq!(desk.faults.count(Operations::READS), 1);
            desk.number(&mut sequencer, workspace(number), &draws).await;
            assert_eq!(desk.faults.count(Operations::READS), 1);
        }
    });
}

#[test]
fn what_is_evicted_before_it_is_flushed_is_not_lost() {
    on_memory(|mut desk| async move {
        desk.options =
            Options { cache_numbers: 0, flush_interval: Duration::from_secs(3_600), ..desk.options };
        let mut sequencer = desk.open_ready().await;
        desk.faults.reset_counts();
        for round in 1..=3 {
            for number in 0..20 {
                assert_eq!(desk.invoice(&mut sequencer, workspace(number)).await, round);
            }
        }
        assert_eq!(desk.faults.count(Operation::Write), 0);
        assert_eq!(desk.faults.count(Operations::READS), 20, "the overlay is asked first");
    });
}

#[test]
fn many_workspaces_and_a_small_cache_give_the_same_numbers() {
    on_memory(|mut desk| async move {
        desk.options = Options { cache_numbers: 7, unflushed_max: 3, flush_at: 2, ..desk.options };
        let mut sequencer = desk.open_ready().await;
        for round in 1..=20 {
            for number in 0..10 {
                sequencer.wait(TIMEOUT).await.unwrap();
                desk.invoice(&mut sequencer, workspace(number * number % 7)).await;
            }
            if round % 5 == 0 {
                drop(sequencer);
                sequencer = desk.open_ready().await;
            }
        }
        let mut next = std::collections::BTreeMap::new();
        for event in desk.events().await {
            let expected = next.entry(event.workspace).or_insert(1);
            assert_eq!(event.draws, [(INVOICE, *expected, 1)]);
            *expected += 1;
        }
    });
}

#[test]
fn a_panic_in_a_flush_stops_the_sequencer_and_a_stop_says_so() {
    on_memory(|mut desk| async move {
        desk.options = Options { flush_at: 1, ..desk.options };
        let mut sequencer = desk.open_ready().await;
        desk.faults.fail_nth(Operation::Write, 1, Fault::Panic);
        desk.invoice(&mut sequencer, workspace(1)).await;
        let busy = loop {
            match sequencer.check_room() {
                Ok(()) => desk.env.sleep(Duration::from_millis(1)).await,
                Err(busy) => break busy,
            }
        };
        assert!(busy.to_string().contains("a flush panicked"), "{busy}");
        let error = sequencer.finish(TIMEOUT).await.unwrap_err();
        assert!(error.reason.contains("a flush panicked") && error.unflushed == 1, "{error}");
        let mut sequencer = desk.open_ready().await;
        assert_eq!(desk.invoice(&mut sequencer, workspace(1)).await, 2);
    });
}
