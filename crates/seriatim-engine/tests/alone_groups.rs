//! What a group does to the numbers: staged, dropped, refused, in doubt.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod alone_support;

use std::time::Duration;

use alone_support::{Desk, INVOICE, KIND, PARTITION, TICKET, TIMEOUT, event, on_memory, seal_one, workspace};
use seriatim_sequencer::{Busy, DrawError, LoadError, Mismatch, Settled, Stale, Status, StopReason, builtin};
use seriatim_storage::memory::MemoryLog;
use seriatim_storage::{Digest, Entries, Header, Log};
use seriatim_storage_testing::faulty::{Fault, Operation, Operations};
use seriatim_types::{ErrorKind, Number, Partition, SequenceId, Timestamp, WorkspaceKind, WorkspaceOffset};

#[test]
fn two_transactions_of_a_workspace_in_a_group_follow_each_other() {
    on_memory(|desk| async move {
        let mut sequencer = desk.open_ready().await;
        let pin = sequencer.load(KIND, workspace(1)).await.unwrap();
        let mut group = sequencer.group().unwrap();
        let mut chains = vec![];
        for expected in 1..=3 {
            let mut transaction = group.begin(&pin).unwrap();
            assert_eq!(transaction.partition_offset().get(), expected);
            assert_eq!(transaction.workspace_offset().get(), expected);
            assert_eq!(transaction.draw(INVOICE).unwrap().get(), expected);
            assert_eq!(transaction.chain(), chains.last().copied().unwrap_or(Digest::ZERO));
            chains.push(transaction.stage(&event()).unwrap().chain);
        }
        assert_eq!((group.len(), group.workspaces()), (3, 1));
        let sealed = group.seal();
        desk.commit(&mut sequencer, sealed).await;
        let events = desk.events().await;
        assert_eq!(events.iter().map(|event| event.chain).collect::<Vec<_>>(), chains);
        assert_eq!(desk.invoice(&mut sequencer, workspace(1)).await, 4);
    });
}

#[test]
fn a_dropped_transaction_uses_no_number_and_breaks_no_chain() {
    on_memory(|desk| async move {
        let mut sequencer = desk.open_ready().await;
        let pin = sequencer.load(KIND, workspace(1)).await.unwrap();
        let mut group = sequencer.group().unwrap();
        let mut first = group.begin(&pin).unwrap();
        first.draw(INVOICE).unwrap();
        let staged = first.stage(&event()).unwrap();
        let mut dropped = group.begin(&pin).unwrap();
        assert_eq!(dropped.draw(INVOICE).unwrap().get(), 2);
        dropped.raise(INVOICE, Number::new(50)).unwrap();
        drop(dropped);
        let mut second = group.begin(&pin).unwrap();
        assert_eq!(second.chain(), staged.chain);
        assert_eq!(second.draw(INVOICE).unwrap().get(), 2);
        second.stage(&event()).unwrap();
        let sealed = group.seal();
        desk.commit(&mut sequencer, sealed).await;
        let draws: Vec<_> = desk.events().await.into_iter().map(|event| event.draws).collect();
        assert_eq!(draws, [[(INVOICE, 1, 1)], [(INVOICE, 2, 1)]]);
    });
}

#[test]
fn a_dropped_or_refused_group_uses_no_number() {
    on_memory(|desk| async move {
        let mut sequencer = desk.open_ready().await;
        let pin = sequencer.load(KIND, workspace(1)).await.unwrap();
        let mut group = sequencer.group().unwrap();
        group.begin(&pin).unwrap().stage(&event()).unwrap();
        assert_eq!(group.bytes(), 87 + 32 + 5);
        drop(group);
        assert_eq!(sequencer.status(), Status::Ready);

        let (sealed, drawn) = seal_one(&mut sequencer, &pin, &[INVOICE]);
        assert_eq!(sequencer.status(), Status::InTransaction);
        assert_eq!(sequencer.group().unwrap_err(), Busy::Sealed);
        desk.faults.fail_nth(Operation::Append, 1, Fault::Busy);
        let error = desk.log.append(sealed.owner(), sealed.at(), sealed.entries()).await.unwrap_err();
        assert!(error.is_refused());
        sequencer.discard(sealed);
        assert_eq!(desk.number(&mut sequencer, workspace(1), &[INVOICE]).await, drawn);
    });
}

#[test]
fn others_are_loaded_while_a_group_is_on_its_way() {
    on_memory(|desk| async move {
        let mut sequencer = desk.open_ready().await;
        let pin = sequencer.load(KIND, workspace(1)).await.unwrap();
        let (sealed, _) = seal_one(&mut sequencer, &pin, &[INVOICE]);
        let wanted = [(KIND, workspace(2)), (KIND, workspace(1)), (KIND, workspace(2))];
        desk.faults.reset_counts();
        let loading = sequencer.loading(&wanted).unwrap();
        desk.commit(&mut sequencer, sealed).await;
        let loaded = loading.read().await;
        let pins: Vec<_> = sequencer.admit(loaded).into_iter().map(Result::unwrap).collect();
        assert_eq!(
            pins.iter().map(seriatim_sequencer::Pin::workspace).collect::<Vec<_>>(),
            [workspace(2), workspace(1), workspace(2)]
        );
        assert_eq!(desk.faults.count(Operations::READS), 1);
        let (sealed, drawn) = seal_one(&mut sequencer, &pins[1], &[INVOICE]);
        assert_eq!(drawn, [Number::new(2)]);
        sequencer.discard(sealed);
    });
}

#[test]
fn what_was_read_before_a_commit_does_not_overwrite_it() {
    on_memory(|desk| async move {
        let mut sequencer = desk.open_ready().await;
        let early = sequencer.loading(&[(KIND, workspace(1))]).unwrap().read().await;
        assert_eq!(desk.invoice(&mut sequencer, workspace(1)).await, 1);
        let pin = sequencer.admit(early).pop().unwrap().unwrap();
        let (sealed, drawn) = seal_one(&mut sequencer, &pin, &[INVOICE]);
        assert_eq!(drawn, [Number::new(2)]);
        sequencer.discard(sealed);
    });
}

#[test]
fn a_pin_of_before_a_recovery_or_of_another_sequencer_is_stale() {
    on_memory(|mut desk| async move {
        let mut sequencer = desk.open_ready().await;
        let old = sequencer.load(KIND, workspace(1)).await.unwrap();
        sequencer.recover(desk.log.take(PARTITION).await.unwrap()).unwrap();
        sequencer.wait(TIMEOUT).await.unwrap();
        let mut group = sequencer.group().unwrap();
        let stale = Stale { workspace: workspace(1) };
        assert_eq!(group.begin(&old).unwrap_err(), stale);
        drop(group);
        assert_eq!(stale.kind(), ErrorKind::Busy);

        desk.partition = Partition::new(1, 1);
        let mut other = desk.open_ready().await;
        let theirs = other.load(KIND, workspace(1)).await.unwrap();
        assert!(sequencer.group().unwrap().begin(&theirs).is_err());
    });
}

#[test]
fn a_receipt_of_another_log_partition_range_or_append_is_refused() {
    on_memory(|desk| async move {
        let mut sequencer = desk.open_ready().await;
        let pin = sequencer.load(KIND, workspace(1)).await.unwrap();
        let append = async |log: &Log, partition: Partition, count: u64| {
            let owner = log.take(partition).await.unwrap();
            let mut entries = Entries::new(owner.next_append_id());
            for _ in 0..count {
                entries.push(&header(), Digest::ZERO, b"").unwrap();
            }
            log.append(&owner, owner.tail(), &entries).await.unwrap()
        };
        let elsewhere = Log::new(MemoryLog::new());
        let receipts = [
            (append(&elsewhere, PARTITION, 1).await, Mismatch::Log),
            (append(&desk.log, Partition::new(2, 0), 1).await, Mismatch::Partition),
            (append(&desk.log, PARTITION, 2).await, Mismatch::Range),
        ];
        let (mut sealed, _) = seal_one(&mut sequencer, &pin, &[INVOICE]);
        for (receipt, expected) in receipts {
            let error = sequencer.commit(sealed, receipt).unwrap_err();
            assert_eq!((error.problem, error.kind()), (expected, ErrorKind::Invalid));
            sealed = error.sealed;
        }
        sequencer.discard(sealed);
    });
}

#[test]
fn a_receipt_for_the_same_place_by_another_append_is_refused() {
    on_memory(|desk| async move {
        let mut sequencer = desk.open_ready().await;
        let pin = sequencer.load(KIND, workspace(1)).await.unwrap();
        let (sealed, _) = seal_one(&mut sequencer, &pin, &[INVOICE]);
        let owner = desk.log.take(PARTITION).await.unwrap();
        let mut entries = Entries::new(owner.next_append_id());
        entries.push(&header(), Digest::ZERO, b"").unwrap();
        let receipt = desk.log.append(&owner, owner.tail(), &entries).await.unwrap();
        let error = sequencer.commit(sealed, receipt).unwrap_err();
        assert_eq!(error.problem, Mismatch::Append);
        sequencer.discard(error.sealed);
    });
}

fn header() -> Header<'static> {
    Header {
        workspace: workspace(9),
        kind: KIND,
        workspace_offset: WorkspaceOffset::FIRST,
        time: Timestamp::from_millis(0),
        body_digest: Digest::of(b""),
        draws: &[],
        raises: &[],
    }
}

#[test]
fn a_lost_reply_is_settled_by_asking_the_log() {
    for (fault, expected) in [
        (Fault::LoseReply, Settled::Committed),
        (Fault::LoseRequest, Settled::Discarded),
        (Fault::Late(Duration::from_secs(5)), Settled::Discarded),
    ] {
        on_memory(|desk| async move {
            let mut sequencer = desk.open_ready().await;
            let pin = sequencer.load(KIND, workspace(1)).await.unwrap();
            let (sealed, _) = seal_one(&mut sequencer, &pin, &[INVOICE]);
            desk.faults.fail_nth(Operation::Append, 1, fault);
            let error = desk.log.append(sealed.owner(), sealed.at(), sealed.entries()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InDoubt);
            assert_eq!(desk.settle(&mut sequencer, sealed).await, expected);
            let next = if expected == Settled::Committed { 2 } else { 1 };
            assert_eq!(desk.invoice(&mut sequencer, workspace(1)).await, next);
            // A late append is shut out by the raised epoch.
            desk.env.sleep(Duration::from_secs(6)).await;
            assert_eq!(desk.events().await.len() as u64, next);
            assert_eq!(desk.invoice(&mut sequencer, workspace(1)).await, next + 1);
        });
    }
}

#[test]
fn a_group_that_cannot_be_settled_comes_back_and_is_settled_later() {
    on_memory(|desk| async move {
        let mut sequencer = desk.open_ready().await;
        let pin = sequencer.load(KIND, workspace(1)).await.unwrap();
        let (sealed, _) = seal_one(&mut sequencer, &pin, &[INVOICE]);
        desk.faults.fail(Operation::Take, Fault::Refuse);
        let error = sequencer.settle(sealed, &desk.log).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InDoubt);
        desk.faults.heal();
        assert_eq!(desk.settle(&mut sequencer, error.sealed).await, Settled::Discarded);
        let (sealed, _) = seal_one(&mut sequencer, &pin, &[INVOICE]);
        let error = sequencer.settle(sealed, &Log::new(MemoryLog::new())).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        sequencer.discard(error.sealed);
    });
}

#[test]
fn a_sequencer_whose_partition_was_taken_over_settles_and_stops() {
    on_memory(|desk| async move {
        let mut sequencer = desk.open_ready().await;
        let pin = sequencer.load(KIND, workspace(1)).await.unwrap();
        let (sealed, drawn) = seal_one(&mut sequencer, &pin, &[INVOICE]);
        let mut second = desk.with_empty_store().open_ready().await;
        assert_eq!(desk.number(&mut second, workspace(1), &[INVOICE]).await, drawn);
        let error = desk.log.append(sealed.owner(), sealed.at(), sealed.entries()).await.unwrap_err();
        assert!(error.is_refused());
        assert_eq!(desk.settle(&mut sequencer, sealed).await, Settled::Discarded);
        let busy = sequencer.wait(TIMEOUT).await.unwrap_err();
        assert!(matches!(busy, Busy::Stopped(StopReason::Deposed(_))), "{busy}");
        assert!(matches!(sequencer.status(), Status::Stopped(StopReason::Deposed(_))));
        // The second one still owns the partition: it was not taken back.
        assert_eq!(desk.invoice(&mut second, workspace(1)).await, 2);
    });
}

#[test]
fn a_sealed_group_of_another_sequencer_changes_nothing() {
    on_memory(|mut desk| async move {
        let mut sequencer = desk.open_ready().await;
        desk.partition = Partition::new(1, 1);
        let mut other = desk.open_ready().await;
        let pin = other.load(KIND, workspace(1)).await.unwrap();
        let (sealed, _) = seal_one(&mut other, &pin, &[INVOICE]);
        let receipt = desk.log.append(sealed.owner(), sealed.at(), sealed.entries()).await.unwrap();
        let error = sequencer.commit(sealed, receipt).unwrap_err();
        assert_eq!(error.problem, Mismatch::Group);
        let settled = sequencer.settle(error.sealed, &desk.log).await.unwrap_err();
        assert_eq!(settled.kind(), ErrorKind::Invalid);
        assert_eq!(desk.settle(&mut other, settled.sealed).await, Settled::Committed);
    });
}

#[test]
fn ranges_follow_each_other_and_the_last_one_ends_in_exhausted() {
    on_memory(|desk| async move {
        let mut sequencer = desk.open_ready().await;
        let mut found = vec![];
        for _ in 0..5 {
            found.push(desk.number(&mut sequencer, workspace(1), &[TICKET]).await[0].get());
        }
        assert_eq!(found, [10, 11, 12, 20, 21]);
        let pin = sequencer.load(KIND, workspace(1)).await.unwrap();
        let mut group = sequencer.group().unwrap();
        let mut transaction = group.begin(&pin).unwrap();
        let error = transaction.draw(TICKET).unwrap_err();
        assert_eq!(error, DrawError::Exhausted { sequence: TICKET });
        assert_eq!(error.kind(), ErrorKind::Exhausted);
        // The refused call does not change the transaction.
        assert_eq!(transaction.draw(INVOICE).unwrap().get(), 1);
    });
}

#[test]
fn many_draws_of_a_sequence_are_one_run_and_a_new_range_is_a_new_one() {
    on_memory(|desk| async move {
        let mut sequencer = desk.open_ready().await;
        let draws = [TICKET, INVOICE, TICKET, TICKET, INVOICE, TICKET];
        desk.number(&mut sequencer, workspace(1), &draws).await;
        let event = &desk.events().await[0];
        assert_eq!(event.draws, [(TICKET, 10, 3), (INVOICE, 1, 2), (TICKET, 20, 1)]);
    });
}

#[test]
fn unknown_sequences_and_kinds_are_refused_by_name() {
    on_memory(|desk| async move {
        let mut sequencer = desk.open_ready().await;
        let pin = sequencer.load(KIND, workspace(1)).await.unwrap();
        let mut group = sequencer.group().unwrap();
        let mut transaction = group.begin(&pin).unwrap();
        for sequence in [SequenceId::new(99), builtin::PARTITION_OFFSET, builtin::WORKSPACE_OFFSET] {
            let error = transaction.draw(sequence).unwrap_err();
            assert_eq!(error, DrawError::UnknownSequence { kind: KIND, sequence });
            assert_eq!(error.kind(), ErrorKind::Invalid);
        }
        drop(transaction);
        drop(group);
        let error = sequencer.load(WorkspaceKind::new(77), workspace(2)).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("kind 77 of workspace {} is not defined: add it to the definition", workspace(2))
        );
        desk.invoice(&mut sequencer, workspace(1)).await;
        let other = WorkspaceKind::new(2);
        let error = sequencer.load(other, workspace(1)).await.unwrap_err();
        assert_eq!(error, LoadError::KindMismatch { workspace: workspace(1), found: KIND, asked: other });
        // Asking with the wrong kind first must not spoil the right one.
        sequencer.finish(TIMEOUT).await.unwrap();
        let mut sequencer = desk.open_ready().await;
        assert!(sequencer.load(other, workspace(1)).await.is_err());
        assert_eq!(desk.invoice(&mut sequencer, workspace(1)).await, 2);
    });
}

#[test]
fn a_skip_moves_every_sequence_on_but_those_excepted() {
    on_memory(|desk| async move {
        let mut sequencer = desk.open_ready().await;
        desk.invoice(&mut sequencer, workspace(1)).await;
        let pin = sequencer.load(KIND, workspace(1)).await.unwrap();
        let mut group = sequencer.group().unwrap();
        let mut transaction = group.begin(&pin).unwrap();
        assert_eq!(transaction.folded().map(|folded| folded.get()), Some(1));
        transaction.skip(1_000_000, &[INVOICE]).unwrap();
        assert_eq!(transaction.drawn().count(), 0, "a skip draws nothing");
        assert_eq!(transaction.next(INVOICE).unwrap().get(), 2);
        assert_eq!(transaction.draw(TICKET).unwrap_err(), DrawError::Exhausted { sequence: TICKET });
        assert_eq!(transaction.draw(INVOICE).unwrap().get(), 2);
        transaction.raise(INVOICE, Number::new(50)).unwrap();
        assert_eq!(transaction.drawn().collect::<Vec<_>>(), [INVOICE], "drawn before it was raised");
        transaction.stage(&event()).unwrap();
        let mut next = group.begin(&pin).unwrap();
        assert_eq!(next.folded().map(|folded| folded.get()), Some(2), "staged ones count");
        assert_eq!(next.draw(INVOICE).unwrap().get(), 50);
        let unknown = next.next(SequenceId::new(99)).unwrap_err();
        assert_eq!(unknown, DrawError::UnknownSequence { kind: KIND, sequence: SequenceId::new(99) });
    });
}

#[test]
fn a_raise_moves_a_sequence_on_and_recovery_knows_it() {
    on_memory(|desk| async move {
        let mut sequencer = desk.open_ready().await;
        let pin = sequencer.load(KIND, workspace(1)).await.unwrap();
        let mut group = sequencer.group().unwrap();
        let mut transaction = group.begin(&pin).unwrap();
        assert_eq!(transaction.draw(INVOICE).unwrap().get(), 1);
        transaction.raise(INVOICE, Number::new(1_000)).unwrap();
        assert_eq!(transaction.draw(INVOICE).unwrap().get(), 1_000);
        let back = transaction.raise(INVOICE, Number::new(1_000)).unwrap_err();
        assert!(matches!(back, DrawError::Backwards { .. }), "{back}");
        let outside = transaction.raise(TICKET, Number::new(15)).unwrap_err();
        assert_eq!(outside, DrawError::OutOfRange { sequence: TICKET, asked: Number::new(15) });
        transaction.raise(TICKET, Number::new(22)).unwrap();
        assert!(transaction.draw(TICKET).is_err());
        transaction.stage(&event()).unwrap();
        let sealed = group.seal();
        desk.commit(&mut sequencer, sealed).await;
        for desk in [desk.with_empty_store(), desk] {
            let mut sequencer = desk.open_ready().await;
            let pin = sequencer.load(KIND, workspace(1)).await.unwrap();
            let mut group = sequencer.group().unwrap();
            let mut transaction = group.begin(&pin).unwrap();
            assert_eq!(transaction.draw(INVOICE).unwrap().get(), 1_001);
            assert!(transaction.draw(TICKET).is_err());
        }
    });
}

#[test]
fn the_chain_continues_after_recovery_and_a_broken_one_is_corrupt() {
    on_memory(|desk| async move {
        let mut sequencer = desk.open_ready().await;
        for _ in 0..3 {
            desk.invoice(&mut sequencer, workspace(1)).await;
        }
        drop(sequencer);
        let fresh = desk.with_empty_store();
        let mut sequencer = fresh.open_ready().await;
        fresh.invoice(&mut sequencer, workspace(1)).await;
        let events = desk.events().await;
        let mut head = Digest::ZERO;
        for logged in &events {
            let entry = seriatim_storage::Entry::decode(&logged.bytes).unwrap();
            assert!(entry.continues(head), "{}", logged.offset);
            head = entry.chain();
        }
        // An event that follows nothing.
        let owner = desk.log.take(PARTITION).await.unwrap();
        let mut entries = Entries::new(owner.next_append_id());
        let header = Header {
            workspace: workspace(1),
            workspace_offset: WorkspaceOffset::new(5).unwrap(),
            ..header()
        };
        entries.push(&header, Digest::ZERO, b"").unwrap();
        desk.log.append(&owner, owner.tail(), &entries).await.unwrap();
        let mut sequencer = desk.with_empty_store().open().await;
        let busy = sequencer.wait(TIMEOUT).await.unwrap_err();
        assert_eq!(busy.kind(), ErrorKind::Corrupt);
        assert!(busy.to_string().contains("event 5 does not continue the chain"), "{busy}");
        assert!(matches!(sequencer.status(), Status::Stopped(_)));
    });
}

#[test]
fn an_event_that_is_too_large_is_refused_and_uses_no_number() {
    on_memory(|desk| async move {
        let mut sequencer = desk.open_ready().await;
        let pin = sequencer.load(KIND, workspace(1)).await.unwrap();
        let mut group = sequencer.group().unwrap();
        let mut transaction = group.begin(&pin).unwrap();
        transaction.draw(INVOICE).unwrap();
        let body = vec![0; seriatim_types::limits::ENTRY_BYTES_MAX];
        let event = seriatim_sequencer::Event::new(desk.env.now(), &body);
        assert_eq!(transaction.stage(&event).unwrap_err().kind(), ErrorKind::TooLarge);
        assert!(group.is_empty());
        assert_eq!(group.begin(&pin).unwrap().draw(INVOICE).unwrap().get(), 1);
    });
}

#[test]
fn a_workspace_in_the_open_group_is_not_evicted() {
    on_memory(|mut desk| async move {
        desk.options.cache_numbers = 1;
        let mut sequencer = desk.open_ready().await;
        let mut sealed = None;
        {
            let pins = [
                sequencer.load(KIND, workspace(1)).await.unwrap(),
                sequencer.load(KIND, workspace(2)).await.unwrap(),
            ];
            let mut group = sequencer.group().unwrap();
            for pin in &pins {
                let mut transaction = group.begin(pin).unwrap();
                transaction.draw(INVOICE).unwrap();
                transaction.stage(&event()).unwrap();
            }
            sealed.replace(group.seal());
        }
        // The pins are gone, and others push into the cache.
        for number in 3..20 {
            sequencer.load(KIND, workspace(number)).await.unwrap();
        }
        desk.commit(&mut sequencer, sealed.unwrap()).await;
        for number in 1..=2 {
            assert_eq!(desk.invoice(&mut sequencer, workspace(number)).await, 2);
        }
    });
}

/// Keeps the helper honest: the desk's own numbers come from the log too.
#[test]
fn what_the_desk_hands_out_is_what_the_log_has() {
    on_memory(|desk: Desk| async move {
        let mut sequencer = desk.open_ready().await;
        for expected in 1..=3 {
            assert_eq!(desk.invoice(&mut sequencer, workspace(7)).await, expected);
        }
        let events = desk.events().await;
        assert_eq!(events.iter().map(|event| event.offset).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(events.iter().map(|event| event.workspace_offset).collect::<Vec<_>>(), [1, 2, 3]);
        assert!(events.iter().all(|event| event.workspace == workspace(7)));
    });
}
