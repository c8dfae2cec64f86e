//! Every interleaving of a command that reads before its turn with the commit of another and with flushes: the sources of the
//! overlay and of fetching, compiled with loom's lock.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, unreachable_pub, reason = "the model uses parts of the sources")]

#[path = "../src/derive/ahead.rs"]
mod ahead;
#[path = "../src/derive/budget.rs"]
mod budget;
#[path = "../src/derive/draft.rs"]
mod draft;
#[path = "../src/derive/fetched.rs"]
mod fetched;
#[path = "../src/derive/keys.rs"]
mod keys;
#[path = "../src/derive/layer.rs"]
mod layer;
#[path = "../src/derive/overlay.rs"]
mod overlay;

mod definition {
    pub(crate) use seriatim_engine::definition::{DocumentKind, TypeId};
}

mod sync {
    pub(crate) use loom::sync::MutexGuard;

    /// Loom's mutex, with the methods of ours.
    #[derive(Debug)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap()
        }
    }
}

use ahead::Stretch;
use budget::{Budget, Limits};
use bytes::Bytes;
use draft::{Base, DerivedState, Draft, Values, lock};
use fetched::{Fetched, Fetching};
use keys::StoreKey;
use loom::sync::Arc;
use loom::thread;
use overlay::{FlushStart, Overlay, Writing};
use seriatim_types::PartitionOffset;
use sync::Mutex;

/// An overlay, a store with one key, and what both are asked for.
struct World {
    overlay: Mutex<Overlay>,
    store: Mutex<Option<Bytes>>,
    key: StoreKey,
}

impl World {
    fn new() -> Arc<Self> {
        let divided_ahead = Stretch { events: 100, bytes: 1_000 };
        let limits = Limits { flush_at: 1, divided_keys: 100, divided_bytes: 1_000, divided_ahead };
        let budget = Budget::new(1_000, 1_000, divided_ahead);
        let mut overlay = Overlay::new(limits, std::sync::Arc::new(budget));
        let round = overlay.suspend();
        assert!(overlay.restart(round, PartitionOffset::FIRST, None));
        let key = StoreKey::new(b"keys", b"of a command");
        Arc::new(Self { overlay: Mutex::new(overlay), store: Mutex::new(None), key })
    }

    /// As the load does it: the store is read without the overlay's lock.
    fn fetch(&self) -> Fetched {
        let fetching = Fetching::begin(&self.overlay, [&self.key]);
        if fetching.is_empty() {
            return Fetched::default();
        }
        let found = self.store.lock().clone();
        fetching.finish(vec![found])
    }

    /// As staging does it; again, if it has to be fetched first. Returns the value, and how often it was fetched.
    fn find(&self, mut fetched: Fetched) -> (Option<Bytes>, usize) {
        let (group, mut draft) = (Values::new(), Draft::default());
        let mut fetches = 0;
        loop {
            draft.clear();
            let base = Base { group: &group, overlay: &self.overlay, fetched: &fetched };
            if let Ok(found) = (DerivedState { base, draft: &mut draft }).find(&self.key) {
                return (found.into_value(), fetches);
            }
            assert_eq!(draft.unread, std::slice::from_ref(&self.key));
            fetched.extend(self.fetch());
            fetches += 1;
        }
    }

    /// As a commit does it.
    fn publish(&self, value: &'static str) {
        let mut overlay = lock(&self.overlay);
        let next = overlay.next().next().unwrap();
        overlay.publish(
            [(self.key.clone(), Bytes::from_static(value.as_bytes()))].into_iter(),
            std::iter::empty(),
            (next, None),
            10,
        );
    }

    /// As the flusher does it; `works`: whether the store takes the write.
    fn flush(&self, works: bool) {
        let start = lock(&self.overlay).start_flush();
        if let FlushStart::Begun(writing) = start {
            self.finish(&writing, works);
        }
    }

    /// As closing does it.
    fn flush_all(&self) {
        loop {
            let start = lock(&self.overlay).start_flush();
            match start {
                FlushStart::Begun(writing) => return self.finish(&writing, true),
                FlushStart::InProgress => thread::yield_now(),
                FlushStart::Nothing => return,
            }
        }
    }

    fn finish(&self, writing: &Writing, works: bool) {
        if works && let Some(value) = writing.layer.values.get(&self.key) {
            *self.store.lock() = Some(value.clone());
        }
        let mut overlay = lock(&self.overlay);
        if works { overlay.flushed(writing, 0) } else { overlay.failed(writing) }
    }
}

fn model(scenario: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(4);
    builder.check(scenario);
}

const FIRST: &str = "of the first command";
const SECOND: &str = "of the second command";

#[test]
fn a_value_that_was_fetched_before_a_commit_and_a_flush_is_not_used_after_them() {
    model(|| {
        let world = World::new();
        let (loader, flusher) = (world.clone(), world.clone());
        let load = thread::spawn(move || loader.fetch());
        let flush = thread::spawn(move || flusher.flush(true));
        world.publish(FIRST);
        let (value, _) = world.find(load.join().unwrap());
        assert_eq!(value.as_deref(), Some(FIRST.as_bytes()));
        flush.join().unwrap();
    });
}

#[test]
fn a_flush_that_ends_during_the_use_makes_it_fetch_again_and_no_more_than_twice() {
    model(|| {
        let world = World::new();
        world.publish(FIRST);
        let (loader, flusher) = (world.clone(), world.clone());
        let load = thread::spawn(move || loader.fetch());
        let flush = thread::spawn(move || {
            flusher.flush(true);
            flusher.flush(true);
        });
        world.publish(SECOND);
        let (value, fetches) = world.find(load.join().unwrap());
        assert_eq!(value.as_deref(), Some(SECOND.as_bytes()));
        assert!(fetches <= 2, "nothing is published meanwhile, so two flushes can end");
        flush.join().unwrap();
    });
}

#[test]
fn after_a_full_flush_everything_is_in_the_store_also_while_the_flusher_begins() {
    model(|| {
        let world = World::new();
        world.publish(FIRST);
        let flusher = world.clone();
        let flush = thread::spawn(move || flusher.flush(true));
        world.flush_all();
        assert_eq!(world.store.lock().as_deref(), Some(FIRST.as_bytes()));
        flush.join().unwrap();
    });
}

#[test]
fn a_flush_that_fails_loses_nothing() {
    model(|| {
        let world = World::new();
        world.publish(FIRST);
        let (loader, flusher) = (world.clone(), world.clone());
        let load = thread::spawn(move || loader.fetch());
        let flush = thread::spawn(move || {
            flusher.flush(false);
            flusher.flush(true);
        });
        world.publish(SECOND);
        let (value, _) = world.find(load.join().unwrap());
        assert_eq!(value.as_deref(), Some(SECOND.as_bytes()));
        flush.join().unwrap();
    });
}

#[test]
fn what_was_fetched_before_a_recovery_is_not_used_after_it() {
    model(|| {
        let world = World::new();
        world.publish(FIRST);
        world.flush(true);
        let loader = world.clone();
        world.publish(SECOND);
        let load = thread::spawn(move || loader.fetch());
        // The recovery finds the second event in the log again, and it is flushed.
        let round = lock(&world.overlay).suspend();
        assert!(lock(&world.overlay).restart(round, PartitionOffset::new(2).unwrap(), None));
        world.publish(SECOND);
        world.flush(true);
        let (value, _) = world.find(load.join().unwrap());
        assert_eq!(value.as_deref(), Some(SECOND.as_bytes()));
    });
}
