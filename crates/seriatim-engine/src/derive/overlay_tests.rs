use std::sync::Arc;

use bytes::BufMut as _;
use seriatim_sequencer::{Definition, Numbers};
use seriatim_types::{PartitionOffset, WorkspaceId};

use super::ahead::Stretch;
use super::budget::{Budget, Limits};
use super::overlay::{FlushStart, Overlay, Writing};

const HERE: WorkspaceId = WorkspaceId::new(1);
const THERE: WorkspaceId = WorkspaceId::new(2);

fn offset(value: u64) -> PartitionOffset {
    PartitionOffset::new(value).unwrap()
}

/// The numbers of a workspace after its event at this offset: the stored form of kind 1, without sequences.
fn after(event: u64) -> Numbers {
    let mut bytes = vec![1, 0, 1];
    bytes.put_u64(2);
    bytes.put_u64(event);
    bytes.put_bytes(0, 34);
    let checksum = crc32fast::hash(&bytes);
    bytes.put_u32(checksum);
    Numbers::decode(&Definition::new([]).unwrap(), &bytes).unwrap()
}

fn limits() -> Limits {
    Limits { flush_at: 100, ..Limits::default() }
}

const FAR: Stretch = Stretch { events: 1_000, bytes: 1 << 20 };

fn overlay_with(limits: Limits, budget: Arc<Budget>) -> Overlay {
    let mut overlay = Overlay::new(limits, budget);
    let round = overlay.suspend();
    assert!(overlay.restart(round, PartitionOffset::FIRST, None));
    overlay
}

fn overlay() -> Overlay {
    overlay_with(limits(), Arc::new(Budget::new(500, usize::MAX, FAR)))
}

fn publish(overlay: &mut Overlay, workspace: WorkspaceId, event: u64) {
    overlay.publish(
        std::iter::empty(),
        [(workspace, &after(event))].into_iter(),
        (offset(event + 1), None),
        100,
    );
}

fn start_flush(overlay: &mut Overlay) -> Option<Arc<Writing>> {
    match overlay.start_flush() {
        FlushStart::Begun(writing) => Some(writing),
        FlushStart::InProgress | FlushStart::Nothing => None,
    }
}

/// What waits: keys, and events and bytes of the log.
fn waiting(overlay: &Overlay) -> (usize, u64, u64) {
    (overlay.keys(), overlay.ahead().events, overlay.ahead().bytes)
}

fn folded(numbers: Option<&Numbers>) -> Option<u64> {
    numbers.and_then(Numbers::folded).map(PartitionOffset::get)
}

#[test]
fn a_value_leaves_only_when_it_is_written_and_has_not_changed_since() {
    let mut overlay = overlay();
    publish(&mut overlay, HERE, 1);
    publish(&mut overlay, THERE, 2);
    let writing = start_flush(&mut overlay).unwrap();
    assert!(start_flush(&mut overlay).is_none(), "one write at a time");
    publish(&mut overlay, HERE, 3);
    assert_eq!(waiting(&overlay), (3, 3, 300), "a value that changed during its write counts twice");
    assert_eq!(folded(overlay.numbers(HERE)), Some(3));
    assert_eq!(folded(overlay.numbers(THERE)), Some(2));
    overlay.flushed(&writing, 0);
    assert!(overlay.settle(0), "in a store that does not count writes, everything is durable");
    assert_eq!(waiting(&overlay), (1, 1, 100));
    assert_eq!((folded(overlay.numbers(HERE)), folded(overlay.numbers(THERE))), (Some(3), None));
}

#[test]
fn a_failed_write_leaves_the_newest_of_everything() {
    let mut overlay = overlay();
    publish(&mut overlay, HERE, 1);
    publish(&mut overlay, THERE, 2);
    let writing = start_flush(&mut overlay).unwrap();
    publish(&mut overlay, HERE, 3);
    overlay.failed(&writing);
    assert_eq!(waiting(&overlay), (2, 3, 300));
    assert_eq!((folded(overlay.numbers(HERE)), folded(overlay.numbers(THERE))), (Some(3), Some(2)));
    assert_eq!(start_flush(&mut overlay).unwrap().next, offset(4));
}

#[test]
fn groups_are_refused_by_keys_by_events_and_by_bytes() {
    let table = [
        (Budget::new(1, usize::MAX, FAR), 1),
        (Budget::new(9, usize::MAX, Stretch { events: 3, ..FAR }), 3),
        (Budget::new(9, usize::MAX, Stretch { bytes: 250, ..FAR }), 2),
    ];
    for (budget, fine) in table {
        let mut overlay = overlay_with(limits(), Arc::new(budget));
        for event in 1..=fine {
            publish(&mut overlay, WorkspaceId::new(event), event);
            assert_eq!(overlay.backlog(), None, "{event} of {fine}");
        }
        publish(&mut overlay, WorkspaceId::new(fine + 1), fine + 1);
        assert!(overlay.backlog().is_some(), "{fine}");
        assert!(overlay.wants_flush(), "{fine}");
    }
}

#[test]
fn a_write_that_returns_after_a_recovery_has_begun_changes_nothing() {
    let mut overlay = overlay();
    publish(&mut overlay, HERE, 1);
    let writing = start_flush(&mut overlay).unwrap();
    publish(&mut overlay, THERE, 2);
    let round = overlay.suspend();
    assert!(start_flush(&mut overlay).is_none() && overlay.is_writing());
    overlay.failed(&writing);
    assert_eq!((overlay.keys(), overlay.numbers(HERE)), (0, None));
    assert!(overlay.restart(round, offset(2), None));
    assert_eq!(overlay.ahead(), Stretch::default());
}

#[test]
fn a_write_counts_until_it_is_durable() {
    let budget = Arc::new(Budget::new(500, usize::MAX, Stretch { events: 4, ..FAR }));
    // Divided by two: one event for each.
    let divided_ahead = Stretch { events: 2, ..FAR };
    let [mut busy, mut other] =
        [0; 2].map(|_| overlay_with(Limits { divided_ahead, ..limits() }, budget.clone()));
    for event in 1..=4 {
        publish(&mut busy, HERE, event);
    }
    assert!(busy.wants_flush(), "more than its share waits, and more than half of what may");
    assert!(!budget.ahead.wants_sync(), "the store was handed nothing");
    let writing = start_flush(&mut busy).unwrap();
    busy.flushed(&writing, 7);
    assert_eq!((waiting(&busy), busy.checkpoint()), ((0, 4, 400), offset(5)));
    assert!(!busy.wants_flush() && budget.ahead.wants_sync());
    publish(&mut busy, HERE, 5);
    assert!(busy.backlog().is_some(), "all are too far ahead, and it has more than its share");
    publish(&mut other, THERE, 1);
    assert_eq!(other.backlog(), None, "it is within its share");
    // Another partition's sync makes it durable.
    budget.ahead.settle(6);
    assert!(!busy.settle(6) && budget.ahead.wants_sync());
    budget.ahead.settle(7);
    assert!(!budget.ahead.wants_sync());
    assert_eq!(busy.backlog(), None);
    assert!(busy.settle(7));
    assert_eq!(waiting(&busy), (1, 1, 100));
}

#[test]
fn a_write_counts_until_it_is_durable_also_during_a_recovery_and_after_the_partition_has_ended() {
    let budget = Arc::new(Budget::new(500, usize::MAX, Stretch { events: 2, ..FAR }));
    let mut overlay = overlay_with(limits(), budget.clone());
    publish(&mut overlay, HERE, 1);
    publish(&mut overlay, HERE, 2);
    let writing = start_flush(&mut overlay).unwrap();
    publish(&mut overlay, HERE, 3);
    let round = overlay.suspend();
    overlay.flushed(&writing, 1);
    assert!(overlay.restart(round, offset(3), None));
    assert_eq!(overlay.ahead(), Stretch { events: 2, bytes: 200 });
    drop(overlay);
    assert!(budget.ahead.wants_sync());
    budget.ahead.settle(1);
    assert!(!budget.ahead.wants_sync());
}

/// Every interleaving of the owner's commits and reads with the flusher's steps.
#[test]
fn owner_and_flusher_agree_in_every_interleaving() {
    use loom::sync::{Arc as LoomArc, Mutex as LoomMutex};

    type Stored = (Option<Numbers>, PartitionOffset);

    fn flush(overlay: &LoomMutex<Overlay>, store: &LoomMutex<Stored>, fails: bool) {
        let Some(writing) = start_flush(&mut overlay.lock().unwrap()) else { return };
        if let Some(numbers) = writing.layer.numbers.get(&HERE) {
            store.lock().unwrap().0 = Some(numbers.clone());
        }
        if fails {
            overlay.lock().unwrap().failed(&writing);
            return;
        }
        {
            let mut store = store.lock().unwrap();
            assert!(writing.next > store.1, "a checkpoint never moves back");
            store.1 = writing.next;
            let value = folded(store.0.as_ref());
            assert!(value.is_some_and(|value| value + 1 >= store.1.get()), "{value:?} before {}", store.1);
        }
        overlay.lock().unwrap().flushed(&writing, 0);
    }

    for fails in [false, true] {
        loom::model(move || {
            let overlay = LoomArc::new(LoomMutex::new(overlay()));
            let store: LoomArc<LoomMutex<Stored>> = LoomArc::new(LoomMutex::new((None, offset(1))));
            let flusher = loom::thread::spawn({
                let (overlay, store) = (overlay.clone(), store.clone());
                move || {
                    flush(&overlay, &store, fails);
                    flush(&overlay, &store, false);
                }
            });
            for event in 1..=2 {
                publish(&mut overlay.lock().unwrap(), HERE, event);
                // A load after an eviction: the overlay first, then the store.
                let waiting = folded(overlay.lock().unwrap().numbers(HERE));
                let found = waiting.or_else(|| folded(store.lock().unwrap().0.as_ref()));
                assert_eq!(found, Some(event));
            }
            flusher.join().unwrap();
            flush(&overlay, &store, false);
            let store = store.lock().unwrap();
            assert_eq!((folded(store.0.as_ref()), store.1), (Some(2), offset(3)));
            assert_eq!(overlay.lock().unwrap().keys(), 0);
        });
    }
}
