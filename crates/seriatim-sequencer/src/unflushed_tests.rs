use seriatim_types::WorkspaceKind;

use super::*;

const HERE: WorkspaceId = WorkspaceId::new(1);
const THERE: WorkspaceId = WorkspaceId::new(2);

fn offset(value: u64) -> PartitionOffset {
    PartitionOffset::new(value).unwrap()
}

/// The numbers of a workspace behind its event at this offset.
fn behind(event: u64) -> Numbers {
    let mut numbers = Numbers::fresh(WorkspaceKind::new(1), None);
    numbers.folded = Some(offset(event));
    numbers
}

fn unflushed(options: &Options) -> Unflushed {
    let mut unflushed = Unflushed::new(options);
    unflushed.restart(Generation::unique(), PartitionOffset::FIRST);
    unflushed
}

fn publish(unflushed: &mut Unflushed, workspace: WorkspaceId, event: u64) {
    unflushed.put(workspace, &behind(event));
    unflushed.advance(offset(event + 1), 100);
}

fn folded(numbers: Option<&Numbers>) -> Option<u64> {
    numbers.and_then(Numbers::folded).map(PartitionOffset::get)
}

#[test]
fn a_value_leaves_only_when_it_is_written_and_has_not_changed_since() {
    let mut unflushed = unflushed(&Options::default());
    publish(&mut unflushed, HERE, 1);
    publish(&mut unflushed, THERE, 2);
    let writing = unflushed.start_flush().unwrap();
    assert!(unflushed.start_flush().is_none(), "one write at a time");
    publish(&mut unflushed, HERE, 3);
    assert_eq!((unflushed.keys(), unflushed.events(), unflushed.bytes()), (2, 3, 300));
    assert_eq!(folded(unflushed.get(HERE)), Some(3));
    assert_eq!(folded(unflushed.get(THERE)), Some(2));
    unflushed.flushed(writing);
    assert_eq!((unflushed.keys(), unflushed.events(), unflushed.bytes()), (1, 1, 100));
    assert_eq!((folded(unflushed.get(HERE)), folded(unflushed.get(THERE))), (Some(3), None));
}

#[test]
fn a_failed_write_leaves_the_newest_of_everything() {
    let mut unflushed = unflushed(&Options::default());
    publish(&mut unflushed, HERE, 1);
    publish(&mut unflushed, THERE, 2);
    let writing = unflushed.start_flush().unwrap();
    publish(&mut unflushed, HERE, 3);
    unflushed.failed(&writing);
    assert_eq!((unflushed.keys(), unflushed.events(), unflushed.bytes()), (2, 3, 300));
    assert_eq!((folded(unflushed.get(HERE)), folded(unflushed.get(THERE))), (Some(3), Some(2)));
    assert_eq!(unflushed.start_flush().unwrap().next, offset(4));
}

#[test]
fn groups_are_refused_by_keys_by_events_and_by_bytes() {
    let base = Options { unflushed_max: 9, ..Options::default() };
    let table = [
        (Options { unflushed_max: 1, ..base }, 1),
        (Options { uncheckpointed_events_max: 3, ..base }, 3),
        (Options { uncheckpointed_bytes_max: 250, ..base }, 2),
    ];
    for (options, fine) in table {
        let mut unflushed = unflushed(&options);
        for event in 1..=fine {
            publish(&mut unflushed, WorkspaceId::new(event), event);
            assert_eq!(unflushed.backlog(), None, "{event} of {fine}");
        }
        publish(&mut unflushed, WorkspaceId::new(fine + 1), fine + 1);
        assert!(unflushed.backlog().is_some(), "{fine}");
        assert!(unflushed.wants_flush(), "{fine}");
    }
}

#[test]
fn a_write_that_returns_after_a_recovery_has_begun_changes_nothing() {
    let mut unflushed = unflushed(&Options::default());
    publish(&mut unflushed, HERE, 1);
    let writing = unflushed.start_flush().unwrap();
    publish(&mut unflushed, THERE, 2);
    unflushed.suspend();
    assert!(unflushed.start_flush().is_none() && unflushed.is_writing());
    unflushed.failed(&writing);
    assert_eq!((unflushed.keys(), unflushed.get(HERE)), (0, None));
    unflushed.restart(Generation::unique(), offset(2));
    assert_eq!((unflushed.events(), unflushed.bytes()), (0, 0));
}

/// Every way in which the owner's commits and reads can fall between the flusher's steps.
#[test]
fn owner_and_flusher_agree_in_every_interleaving() {
    use loom::sync::{Arc as LoomArc, Mutex as LoomMutex};

    type Stored = (Option<Numbers>, PartitionOffset);

    fn flush(unflushed: &LoomMutex<Unflushed>, store: &LoomMutex<Stored>, fails: bool) {
        let Some(writing) = unflushed.lock().unwrap().start_flush() else { return };
        if let Some(numbers) = writing.values.get(&HERE) {
            store.lock().unwrap().0 = Some(numbers.clone());
        }
        if fails {
            unflushed.lock().unwrap().failed(&writing);
            return;
        }
        {
            let mut store = store.lock().unwrap();
            assert!(writing.next > store.1, "a checkpoint never moves back");
            store.1 = writing.next;
            let value = folded(store.0.as_ref());
            assert!(value.is_some_and(|value| value + 1 >= store.1.get()), "{value:?} behind {}", store.1);
        }
        unflushed.lock().unwrap().flushed(writing);
    }

    for fails in [false, true] {
        loom::model(move || {
            let overlay = LoomArc::new(LoomMutex::new(unflushed(&Options::default())));
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
                let waiting = folded(overlay.lock().unwrap().get(HERE));
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
