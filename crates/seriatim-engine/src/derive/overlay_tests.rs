use std::sync::Arc;

use bytes::BufMut as _;
use seriatim_sequencer::{Definition, Numbers};
use seriatim_types::{PartitionOffset, WorkspaceId};

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
    Limits { flush_at: 100, events_max: 1_000, log_bytes_max: 1 << 20, own_keys: 0, own_bytes: 0 }
}

fn overlay_with(limits: Limits, keys_max: usize) -> Overlay {
    let mut overlay = Overlay::new(limits, Arc::new(Budget::new(keys_max, usize::MAX)));
    let round = overlay.suspend();
    assert!(overlay.restart(round, PartitionOffset::FIRST));
    overlay
}

fn overlay() -> Overlay {
    overlay_with(limits(), 500)
}

fn publish(overlay: &mut Overlay, workspace: WorkspaceId, event: u64) {
    overlay.publish(std::iter::empty(), [(workspace, &after(event))].into_iter(), offset(event + 1), 100);
}

fn start_flush(overlay: &mut Overlay) -> Option<Arc<Writing>> {
    match overlay.start_flush() {
        FlushStart::Begun(writing) => Some(writing),
        FlushStart::UnderWay | FlushStart::Nothing => None,
    }
}

/// What waits: keys, and events and bytes of the log.
fn waiting(overlay: &Overlay) -> (usize, u64, u64) {
    (overlay.keys(), overlay.events(), overlay.log_bytes())
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
    assert_eq!(waiting(&overlay), (3, 3, 300), "what is written and has changed is there twice");
    assert_eq!(folded(overlay.numbers(HERE)), Some(3));
    assert_eq!(folded(overlay.numbers(THERE)), Some(2));
    overlay.flushed(&writing);
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
        (limits(), 1, 1),
        (Limits { events_max: 3, ..limits() }, 9, 3),
        (Limits { log_bytes_max: 250, ..limits() }, 9, 2),
    ];
    for (limits, keys_max, fine) in table {
        let mut overlay = overlay_with(limits, keys_max);
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
    assert!(overlay.restart(round, offset(2)));
    assert_eq!((overlay.events(), overlay.log_bytes()), (0, 0));
}

/// Every way in which the owner's commits and reads can fall between the flusher's steps.
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
        overlay.lock().unwrap().flushed(&writing);
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
