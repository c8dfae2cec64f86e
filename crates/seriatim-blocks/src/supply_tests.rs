//! The slow path, step by step.

use seriatim_types::Number;

use crate::supply::{Grant, Need, Outcome, Supply};
use crate::{Block, Counts};

fn block(base: u64, size: u64) -> Block {
    Block::new(Number::new(base), size).unwrap()
}

fn supply(lookahead: u64) -> Supply<&'static str> {
    Supply::new(0, lookahead, Counts::default())
}

/// Takes one number as the allocator does.
fn one(supply: &Supply<&'static str>, caller: &'static str) -> Outcome {
    match supply.fast_path.take_one() {
        Ok(number) => Outcome::Taken(block(number, 1)),
        Err(ticket) => supply.allocate_slow(Some(ticket), 1, || caller).0,
    }
}

fn many(supply: &Supply<&'static str>, count: u64, caller: &'static str) -> Outcome {
    match supply.fast_path.take(count) {
        Some(first) => Outcome::Taken(block(first, count)),
        None => supply.allocate_slow(None, count, || caller).0,
    }
}

fn taken(base: u64, size: u64) -> Outcome {
    Outcome::Taken(block(base, size))
}

fn grant(caller: &'static str, base: u64, size: u64) -> Grant<&'static str> {
    Grant { caller, numbers: block(base, size) }
}

fn needed(supply: &Supply<&'static str>) -> Option<u64> {
    match supply.need() {
        Need::Block { min, .. } => Some(min),
        Need::Nothing | Need::Closing => None,
    }
}

#[test]
fn waiting_callers_are_served_in_the_order_of_their_calls() {
    let supply = supply(0);
    assert_eq!(one(&supply, "a"), Outcome::Waits(1));
    assert_eq!(many(&supply, 3, "b"), Outcome::Waits(2));
    assert_eq!(one(&supply, "c"), Outcome::Waits(3));
    let grants = supply.install(block(0, 10), 0);
    assert_eq!(grants, [grant("a", 0, 1), grant("b", 1, 3), grant("c", 4, 1)]);
    assert_eq!(one(&supply, "d"), taken(5, 1));
    assert_eq!(supply.counts().unused, 4);
}

#[test]
fn a_small_request_does_not_overtake_one_that_waits() {
    let supply = supply(0);
    supply.install(block(0, 1), 0);
    assert_eq!(one(&supply, "a"), taken(0, 1));
    assert_eq!(many(&supply, 5, "b"), Outcome::Waits(1));
    assert_eq!(one(&supply, "c"), Outcome::Waits(2));
    assert_eq!(needed(&supply), Some(5));
    assert_eq!(supply.install(block(1, 5), 0), [grant("b", 1, 5)]);
    assert_eq!(needed(&supply), Some(1));
}

#[test]
fn a_block_that_another_thread_took_from_is_followed_by_a_larger_one() {
    let supply = supply(0);
    supply.install(block(0, 1), 0);
    assert_eq!(one(&supply, "a"), taken(0, 1));
    assert_eq!(many(&supply, 5, "b"), Outcome::Waits(1));
    // This thread has taken a ticket after the end and does not know that yet.
    let ticket = supply.fast_path.take_one().unwrap_err();
    assert_eq!(supply.install(block(1, 5), 0), []);
    assert!(matches!(supply.need(), Need::Block { min: 5, want: 1_029, .. }));
    assert_eq!(supply.allocate_slow(Some(ticket), 1, || "other").0, taken(1, 1));
    assert_eq!(supply.install(block(6, 1_029), 0), [grant("b", 2, 5)]);
    assert_eq!(supply.counts().wasted, 0);
}

#[test]
fn small_requests_are_served_while_a_large_one_waits() {
    let supply = supply(0);
    supply.install(block(0, 4), 0);
    assert_eq!(many(&supply, 9, "large"), Outcome::Waits(1));
    assert_eq!(one(&supply, "a"), taken(0, 1));
    assert_eq!(many(&supply, 2, "b"), taken(1, 2));
    // The request gets the rest of the old block and a part of the new one.
    assert_eq!(supply.install(block(4, 9), 0), [grant("large", 3, 9)]);
    assert_eq!(supply.counts().wasted, 0);
}

#[test]
fn the_next_block_is_due_when_few_numbers_are_left() {
    let supply = supply(4);
    supply.install(block(0, 10), 4);
    for number in 0..6 {
        assert_eq!(needed(&supply), None, "{number}");
        assert_eq!(one(&supply, "a"), taken(number, 1));
    }
    assert_eq!(needed(&supply), Some(1));
    let ticket = supply.fast_path.take_one().unwrap_err();
    assert_eq!(supply.allocate_slow(Some(ticket), 1, || "a"), (taken(6, 1), true));
    // From there on the fast path is open again, up to the end.
    assert_eq!(supply.fast_path.take_one(), Ok(7));
    assert_eq!(supply.fast_path.take_one(), Ok(8));
    supply.install(block(10, 10), 4);
    assert_eq!(supply.fast_path.take_one(), Ok(9));
    assert_eq!(supply.fast_path.take_one(), Ok(10));
}

#[test]
fn blocks_are_reserved_until_one_and_a_half_times_the_lookahead_is_there() {
    let supply = supply(20);
    supply.install(block(0, 10), 20);
    for blocks in 1..=3 {
        assert_eq!(needed(&supply), Some(1), "{blocks}");
        supply.install(block(blocks * 10, 10), 20);
    }
    assert_eq!(supply.counts().unused, 40);
    for number in 0..20 {
        assert_eq!(needed(&supply), None, "{number}");
        assert_eq!(one(&supply, "a"), taken(number, 1));
    }
    assert_eq!(needed(&supply), Some(1));
}

#[test]
fn nothing_is_reserved_before_the_first_request() {
    let supply = supply(4);
    assert_eq!(supply.need(), Need::Nothing);
    one(&supply, "a");
    assert_eq!(needed(&supply), Some(1));
}

#[test]
fn a_block_that_is_not_adjacent_is_used_after_the_current_one() {
    let supply = supply(0);
    supply.install(block(0, 2), 0);
    supply.install(block(50, 2), 0);
    let numbers: Vec<_> = (0..4).map(|_| one(&supply, "a")).collect();
    assert_eq!(numbers, [taken(0, 1), taken(1, 1), taken(50, 1), taken(51, 1)]);
    assert_eq!(supply.counts().wasted, 0);
}

#[test]
fn a_request_that_does_not_fit_skips_to_a_larger_block_and_counts_the_waste() {
    let supply = supply(0);
    for (base, size) in [(0, 5), (50, 2), (60, 8)] {
        supply.install(block(base, size), 0);
    }
    assert_eq!(one(&supply, "a"), taken(0, 1));
    assert_eq!(many(&supply, 7, "b"), taken(60, 7));
    assert_eq!(supply.counts().wasted, 4 + 2);
    assert_eq!(one(&supply, "a"), taken(67, 1));
    let counts = supply.counts();
    assert_eq!((counts.allocated(), counts.unused), (9, 0));
}

#[test]
fn nothing_is_skipped_for_a_request_that_fits_no_block() {
    let supply = supply(0);
    supply.install(block(0, 2), 0);
    supply.install(block(50, 2), 0);
    assert_eq!(many(&supply, 3, "large"), Outcome::Waits(1));
    assert_eq!(supply.fail_first(), (Some(("large", 3)), vec![]));
    assert_eq!(one(&supply, "a"), taken(0, 1));
    assert_eq!(supply.counts().wasted, 0);
}

#[test]
fn a_caller_that_stops_waiting_takes_nothing_and_the_next_one_is_served() {
    let supply = supply(0);
    supply.install(block(0, 3), 0);
    assert_eq!(many(&supply, 4, "large"), Outcome::Waits(1));
    let fits = supply.allocate_slow(None, 3, || "fits").0;
    assert_eq!(fits, Outcome::Waits(2));
    assert_eq!(supply.stop_waiting(1), Some(vec![grant("fits", 0, 3)]));
    assert_eq!(supply.stop_waiting(1), None);
}

#[test]
fn numbers_that_were_granted_last_are_put_back_and_others_are_wasted() {
    let supply = supply(0);
    supply.install(block(10, 9), 0);
    let Outcome::Taken(first) = many(&supply, 2, "a") else { panic!("there are nine") };
    let Outcome::Taken(last) = many(&supply, 3, "b") else { panic!("there are seven") };
    supply.put_back(last);
    supply.put_back(first);
    assert_eq!(supply.counts().unused, 9);
    let Outcome::Taken(first) = many(&supply, 2, "a") else { panic!("there are nine") };
    assert_eq!(many(&supply, 3, "b"), taken(12, 3));
    supply.put_back(first);
    assert_eq!((supply.counts().wasted, supply.counts().unused), (2, 4));
}

#[test]
fn a_closed_supply_gives_back_one_run_that_ends_with_the_last_block() {
    let supply = supply(0);
    supply.install(block(0, 4), 0);
    assert_eq!(one(&supply, "a"), taken(0, 1));
    assert_eq!(many(&supply, 9, "waits"), Outcome::Waits(1));
    assert_eq!(supply.close(), ["waits"]);
    assert_eq!(one(&supply, "b"), Outcome::Closed);
    assert_eq!(supply.need(), Need::Closing);
    // A reservation was in progress.
    assert_eq!(supply.install(block(4, 6), 0), []);
    assert_eq!(supply.drain(), Some(block(1, 9)));
    supply.drained(block(1, 9), true);
    assert_eq!(supply.peek(), 1);
    let counts = supply.counts();
    assert_eq!((counts.allocated(), counts.given_back, counts.unused), (1, 9, 0));
}

#[test]
fn a_closed_supply_gives_back_only_what_is_after_another_writers_block() {
    let supply = supply(0);
    supply.install(block(0, 4), 0);
    supply.install(block(8, 4), 0);
    supply.close();
    assert_eq!(supply.drain(), Some(block(8, 4)));
    assert_eq!(supply.counts().wasted, 4);
    assert_eq!(supply.drain(), None);
}

#[test]
fn peeking_takes_nothing() {
    let supply: Supply<()> = Supply::new(7, 0, Counts::default());
    assert_eq!(supply.peek(), 7);
    supply.install(block(7, 2), 0);
    supply.install(block(20, 2), 0);
    let mut found = Vec::new();
    while let Outcome::Taken(numbers) = match supply.fast_path.take_one() {
        Ok(number) => Outcome::Taken(block(number, 1)),
        Err(ticket) => supply.allocate_slow(Some(ticket), 1, || ()).0,
    } {
        found.push((numbers.base().get(), supply.peek()));
    }
    assert_eq!(found, [(7, 8), (8, 20), (20, 21), (21, 22)]);
}

#[test]
fn a_request_for_more_than_all_tickets_has_no_room() {
    let supply: Supply<()> = Supply::new(0, 0, Counts::default());
    supply.allocate_slow(None, u64::MAX, || ());
    assert!(matches!(supply.need(), Need::Block { min: u64::MAX, room, .. } if room < u64::MAX));
}
