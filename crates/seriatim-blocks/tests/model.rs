//! Every interleaving of the fast path with the refill task, by the memory model of the language: the sources of the fast
//! and the slow path, compiled with loom's atomics and locks.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, unreachable_pub, reason = "the model uses parts of the sources")]

#[path = "../src/block.rs"]
mod block;
#[path = "../src/counts.rs"]
mod counts;
#[path = "../src/fast_path.rs"]
mod fast_path;
#[path = "../src/stretch.rs"]
mod stretch;
#[path = "../src/supply.rs"]
mod supply;

mod sync {
    pub(crate) use loom::sync::MutexGuard;
    pub(crate) use loom::sync::atomic::AtomicU64;

    /// Loom's mutex, with the methods of `seriatim_types::sync::Mutex`.
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

use block::Block;
use counts::Counts;
use loom::sync::Arc;
use loom::thread;
use seriatim_types::Number;
use supply::{Grant, Outcome, Supply};
use sync::Mutex;

/// The supply, and what was granted to waiting callers.
struct World {
    supply: Supply<usize>,
    granted: Mutex<Vec<Grant<usize>>>,
}

impl World {
    fn new(lookahead: u64) -> Arc<Self> {
        Arc::new(Self {
            supply: Supply::new(0, lookahead, Counts::default()),
            granted: Mutex::new(Vec::new()),
        })
    }

    fn install(&self, base: u64, size: u64, lookahead: u64) {
        let grants = self.supply.install(block(base, size), lookahead);
        self.granted.lock().extend(grants);
    }

    /// Takes a number as the allocator does: `None` if the caller has to wait.
    fn allocate_one(&self, caller: usize) -> Option<Block> {
        match self.supply.fast_path.take_one() {
            Ok(number) => Some(block(number, 1)),
            Err(ticket) => taken(self.supply.allocate_slow(Some(ticket), 1, || caller).0),
        }
    }

    fn allocate(&self, caller: usize, count: u64) -> Option<Block> {
        match self.supply.fast_path.take(count) {
            Some(first) => Some(block(first, count)),
            None => taken(self.supply.allocate_slow(None, count, || caller).0),
        }
    }

    fn grants(&self) -> Vec<Grant<usize>> {
        std::mem::take(&mut *self.granted.lock())
    }
}

fn block(base: u64, size: u64) -> Block {
    Block::new(Number::new(base), size).unwrap()
}

fn taken(outcome: Outcome) -> Option<Block> {
    match outcome {
        Outcome::Taken(numbers) => Some(numbers),
        Outcome::Waits(_) | Outcome::Closed => None,
    }
}

fn model(scenario: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    // Two preemptions find every mistake that was inserted to test this model. Three find no more, and take four times as
    // long.
    builder.preemption_bound = Some(2);
    builder.check(scenario);
}

/// Checks that no number was given out twice or without being reserved, and that all are counted.
fn check(world: &World, reserved: &[Block], handed_out: impl IntoIterator<Item = Block>) {
    let mut numbers: Vec<Number> = handed_out.into_iter().flat_map(Block::numbers).collect();
    let count = numbers.len();
    numbers.sort();
    numbers.dedup();
    assert_eq!(numbers.len(), count, "a number was given out twice");
    let known = |number: &Number| reserved.iter().any(|block| block.contains(*number));
    assert!(numbers.iter().all(known), "{numbers:?} are not all reserved");
    assert_eq!(world.supply.counts().allocated(), count as u64, "{:?}", world.supply.counts());
}

fn rises(numbers: &[Block]) -> bool {
    numbers.is_sorted_by(|one, next| one.end() <= next.base())
}

/// Two callers take `each` numbers one by one while blocks are installed.
fn race(first: (u64, u64), next: (u64, u64), lookahead: u64, each: usize) {
    let world = World::new(lookahead);
    world.install(first.0, first.1, lookahead);
    let callers: Vec<_> = (0..2)
        .map(|caller| {
            let world = world.clone();
            thread::spawn(move || {
                let numbers: Vec<Block> = (0..each).filter_map(|_| world.allocate_one(caller)).collect();
                assert!(rises(&numbers), "{numbers:?}");
                numbers
            })
        })
        .collect();
    world.install(next.0, next.1, lookahead);
    let mut handed_out: Vec<Block> = callers.into_iter().flat_map(|caller| caller.join().unwrap()).collect();
    handed_out.extend(world.grants().into_iter().map(|grant| grant.numbers));
    check(&world, &[block(first.0, first.1), block(next.0, next.1)], handed_out);
    assert_eq!(world.supply.counts().wasted, 0, "taking numbers one by one wastes nothing");
}

#[test]
fn an_adjacent_block_is_added_while_callers_pass_the_end() {
    model(|| race((0, 2), (2, 2), 0, 2));
}

#[test]
fn a_block_that_is_not_adjacent_is_started_while_callers_pass_the_end() {
    model(|| race((0, 2), (10, 2), 0, 2));
}

#[test]
fn callers_pass_the_fast_end_while_the_next_block_is_installed() {
    model(|| race((0, 3), (3, 1), 1, 2));
}

#[test]
fn consecutive_numbers_stay_consecutive_while_the_block_changes() {
    model(|| {
        let world = World::new(0);
        world.install(0, 3, 0);
        let one = thread::spawn({
            let world = world.clone();
            move || [world.allocate_one(0), world.allocate_one(0)]
        });
        let two = thread::spawn({
            let world = world.clone();
            move || [world.allocate(1, 2), None]
        });
        world.install(10, 3, 0);
        let taken = [one.join().unwrap(), two.join().unwrap()].concat();
        let granted = world.grants().into_iter().map(|grant| grant.numbers);
        let handed_out = taken.into_iter().flatten().chain(granted);
        check(&world, &[block(0, 3), block(10, 3)], handed_out);
    });
}

#[test]
fn numbers_that_a_close_gives_back_were_not_taken() {
    model(|| {
        let world = World::new(1);
        world.install(0, 2, 1);
        let callers: Vec<_> = (0..2)
            .map(|caller| {
                let world = world.clone();
                thread::spawn(move || world.allocate_one(caller))
            })
            .collect();
        let waiting = world.supply.close();
        world.install(2, 1, 1);
        let tail = world.supply.drain();
        let handed_out: Vec<Block> = callers.into_iter().flat_map(|caller| caller.join().unwrap()).collect();
        assert!(waiting.is_empty() && tail.is_some());
        if let Some(tail) = tail {
            world.supply.drained(tail, true);
            assert!(handed_out.iter().all(|numbers| numbers.end() <= tail.base()));
            assert_eq!(tail.end(), Number::new(3));
        }
        assert_eq!(world.supply.counts().unused, 0);
        check(&world, &[block(0, 3)], handed_out);
    });
}

#[test]
fn numbers_that_are_put_back_are_taken_again_or_counted() {
    model(|| {
        let world = World::new(0);
        world.install(0, 4, 0);
        let gone = world.allocate(0, 2).unwrap();
        let caller = thread::spawn({
            let world = world.clone();
            move || [world.allocate_one(1), world.allocate_one(1)]
        });
        world.supply.put_back(gone);
        let handed_out = caller.join().unwrap();
        check(&world, &[block(0, 4)], handed_out.into_iter().flatten());
    });
}

#[test]
fn a_caller_stops_waiting_while_its_block_is_installed() {
    model(|| {
        let world = World::new(0);
        let Outcome::Waits(id) = world.supply.allocate_slow(None, 2, || 0).0 else {
            unreachable!("there are no numbers yet")
        };
        let leaver = thread::spawn({
            let world = world.clone();
            move || world.supply.stop_waiting(id).is_some()
        });
        world.install(0, 2, 0);
        let left = leaver.join().unwrap();
        let grants = world.grants();
        assert_eq!(left, grants.is_empty(), "it stops waiting, or it is served");
        check(&world, &[block(0, 2)], grants.into_iter().map(|grant| grant.numbers));
    });
}
