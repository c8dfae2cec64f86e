//! A clean stop.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use seriatim_blocks::AllocateError;
use seriatim_storage_testing::faulty::{Fault, Operation};
use seriatim_types::ErrorKind;
use support::{Place, block, in_memory, one};

on_every_store! {
    a_clean_stop_gives_the_unused_tail_back
    a_block_that_is_being_reserved_is_given_back_too
    nothing_is_given_back_if_somebody_reserved_behind_it
}

async fn a_clean_stop_gives_the_unused_tail_back(place: Place) {
    let allocator = place.open_fixed(100).await;
    assert_eq!(allocator.allocate(30).await, Ok(block(0, 30)));
    let counts = allocator.close().await.unwrap();
    assert_eq!((counts.allocated(), counts.given_back, counts.wasted, counts.unused), (30, 70, 0, 0));
    assert_eq!(allocator.allocate_one().await, Err(AllocateError::Closed));
    assert_eq!(allocator.allocate(5).await, Err(AllocateError::Closed));
    assert_eq!(allocator.close().await, Ok(counts), "closing twice is fine");
    assert_eq!(place.stored().await, Some(block(0, 30)));
    assert_eq!(one(&place.open().await).await, 30);
}

async fn a_block_that_is_being_reserved_is_given_back_too(place: Place) {
    let allocator = Arc::new(place.open_fixed(100).await);
    one(&allocator).await;
    let hold = place.faults.hold(Operation::CompareAndSet);
    assert_eq!(allocator.allocate(80).await, Ok(block(1, 80)));
    hold.reached(1).await;
    let closing = place.env.spawn({
        let allocator = allocator.clone();
        async move { allocator.close().await }
    });
    // No number is handed out while the close waits for the store.
    while allocator.allocate_one().await.is_ok() {}
    hold.release();
    let counts = closing.await.unwrap().unwrap();
    assert_eq!((counts.reserved, counts.wasted, counts.unused), (200, 0, 0));
    assert_eq!(one(&place.open().await).await, counts.allocated());
}

async fn nothing_is_given_back_if_somebody_reserved_behind_it(place: Place) {
    let allocator = place.open_fixed(100).await;
    one(&allocator).await;
    assert_eq!(one(&place.elsewhere().open_fixed(100).await).await, 100);
    let counts = allocator.close().await.unwrap();
    assert_eq!((counts.given_back, counts.wasted), (0, 99));
    assert_eq!(one(&place.open().await).await, 200);
}

#[test]
fn closing_an_allocator_that_nobody_used_writes_nothing() {
    in_memory(|place| async move {
        let allocator = place.open().await;
        assert_eq!(allocator.close().await.unwrap().reserved, 0);
        assert_eq!((place.writes(), place.stored().await), (0, None));
    });
}

#[test]
fn those_who_wait_are_told_that_it_is_closed() {
    in_memory(|place| async move {
        let allocator = Arc::new(place.open().await);
        let hold = place.faults.hold(Operation::CompareAndSet);
        let waiting = place.env.spawn({
            let allocator = allocator.clone();
            async move { allocator.allocate_one().await }
        });
        hold.reached(1).await;
        let closing = place.env.spawn(async move { allocator.close().await });
        assert_eq!(waiting.await.unwrap(), Err(AllocateError::Closed));
        hold.release();
        closing.await.unwrap().unwrap();
        assert_eq!(place.stored().await, None, "the block was given back whole");
    });
}

#[test]
fn a_close_that_cannot_give_back_says_so_and_counts_the_waste() {
    in_memory(|place| async move {
        let allocator = place.open_fixed(100).await;
        one(&allocator).await;
        place.faults.fail(Operation::CompareAndSet, Fault::Refuse);
        assert_eq!(allocator.close().await.unwrap_err().kind(), ErrorKind::Unavailable);
        let counts = allocator.counts();
        assert_eq!((counts.allocated(), counts.wasted, counts.unused), (1, 99, 0));
        place.faults.heal();
        assert_eq!(one(&place.open().await).await, 100);
    });
}

#[test]
fn a_close_whose_answer_was_lost_gives_back_once() {
    in_memory(|place| async move {
        let allocator = place.open_fixed(100).await;
        one(&allocator).await;
        place.faults.fail_nth(Operation::CompareAndSet, 1, Fault::LoseReply);
        assert_eq!(allocator.close().await.unwrap().given_back, 99);
        assert_eq!(one(&place.open().await).await, 1);
    });
}

#[test]
fn a_close_that_hangs_can_be_left_and_goes_on_by_itself() {
    in_memory(|place| async move {
        let allocator = place.open_fixed(100).await;
        one(&allocator).await;
        let hold = place.faults.hold(Operation::CompareAndSet);
        assert!(place.env.timeout(Duration::from_secs(1), allocator.close()).await.is_err());
        assert_eq!(allocator.allocate_one().await, Err(AllocateError::Closed));
        hold.release();
        assert_eq!(allocator.close().await.unwrap().given_back, 99);
    });
}

#[test]
fn a_retry_after_a_failure_does_not_hold_up_the_close() {
    in_memory(|place| async move {
        let allocator = place.open_fixed(100).await;
        one(&allocator).await;
        place.faults.fail(Operation::CompareAndSet, Fault::Refuse);
        assert_eq!(allocator.allocate(80).await, Ok(block(1, 80)));
        place.env.sleep(Duration::from_secs(30)).await;
        place.faults.heal();
        let start = place.env.instant();
        assert_eq!(allocator.close().await.unwrap().given_back, 19);
        assert_eq!(place.env.instant(), start);
    });
}
