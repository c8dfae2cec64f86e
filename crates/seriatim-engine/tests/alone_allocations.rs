//! A warm transaction allocates nothing.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod alone_support;

use alone_support::{INVOICE, KIND, event, on_memory, workspace};
use seriatim_sequencer::{Definition, Sequence, builtin};
use seriatim_types::SequenceId;

/// Begin, three draws, stage, seal and commit of a workspace in memory.
fn count_allocations(many_sequences: bool) {
    on_memory(|mut desk| async move {
        if many_sequences {
            // More than a workspace's numbers keep in place.
            let mut sequences = builtin::record_sequences();
            sequences.extend((20..40).map(|id| Sequence::new(SequenceId::new(id), 1)));
            desk.definition = Definition::new([(KIND, sequences)]).unwrap().into();
        }
        let mut sequencer = desk.open_ready().await;
        let event = event();
        for round in 0..20 {
            let pin = sequencer.load(KIND, workspace(1)).await.unwrap();
            let mut sealed = None;
            let staging = allocation_counter::measure(|| {
                let mut group = sequencer.group().unwrap();
                let mut transaction = group.begin(&pin).unwrap();
                transaction.draw(builtin::RECORD_ID).unwrap();
                transaction.draw(builtin::C_RECORD_ID).unwrap();
                transaction.draw(INVOICE).unwrap();
                transaction.stage(&event).unwrap();
                sealed = Some(group.seal());
            });
            let sealed = sealed.unwrap();
            let receipt = desk.log.append(sealed.owner(), sealed.at(), sealed.entries()).await.unwrap();
            let committing = allocation_counter::measure(|| sequencer.commit(sealed, receipt).unwrap());
            // The first rounds make the memory that all later ones use.
            if round >= 2 {
                assert_eq!((staging.count_total, committing.count_total), (0, 0), "round {round}");
            }
        }
    });
}

#[test]
fn a_warm_transaction_allocates_nothing() {
    count_allocations(false);
}

#[test]
fn a_warm_transaction_of_a_kind_with_many_sequences_allocates_nothing() {
    count_allocations(true);
}
