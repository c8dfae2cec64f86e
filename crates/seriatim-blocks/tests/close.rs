//! A clean stop.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use seriatim_blocks::AllocateError;
use seriatim_storage_testing::faulty::{Fault, Operation};
use seriatim_types::ErrorKind;
use support::{TestCells, block, in_memory, one};

on_every_store! {
    a_clean_stop_gives_the_unused_tail_back
    a_block_that_is_being_reserved_is_given_back_too
    nothing_is_given_back_if_another_process_has_reserved_after_it
}

async fn a_clean_stop_gives_the_unused_tail_back(cells: TestCells) {
    let allocator = cells.open_fixed(100).await;
    assert_eq!(allocator.allocate(30).await, Ok(block(0, 30)));
    let counts = allocator.close().await.unwrap();
    assert_eq!((counts.allocated(), counts.given_back, counts.wasted, counts.unused), (30, 70, 0, 0));
    assert_eq!(allocator.allocate_one().await, Err(AllocateError::Closed));
    assert_eq!(allocator.allocate(5).await, Err(AllocateError::Closed));
    assert_eq!(allocator.close().await, Ok(counts), "closing twice is allowed");
    assert_eq!(cells.stored().await, Some(block(0, 30)));
    assert_eq!(one(&cells.open().await).await, 30);
}

async fn a_block_that_is_being_reserved_is_given_back_too(cells: TestCells) {
    let allocator = Arc::new(cells.open_fixed(100).await);
    one(&allocator).await;
    let hold = cells.faults.hold(Operation::CompareAndSet);
    assert_eq!(allocator.allocate(80).await, Ok(block(1, 80)));
    hold.reached(1).await;
    let closing = cells.env.spawn({
        let allocator = allocator.clone();
        async move { allocator.close().await }
    });
    // No number is given out while the close waits for the store.
    while allocator.allocate_one().await.is_ok() {}
    hold.release();
    let counts = closing.await.unwrap().unwrap();
    assert_eq!((counts.reserved, counts.wasted, counts.unused), (200, 0, 0));
    assert_eq!(one(&cells.open().await).await, counts.allocated());
}

async fn nothing_is_given_back_if_another_process_has_reserved_after_it(cells: TestCells) {
    let allocator = cells.open_fixed(100).await;
    one(&allocator).await;
    assert_eq!(one(&cells.elsewhere().open_fixed(100).await).await, 100);
    let counts = allocator.close().await.unwrap();
    assert_eq!((counts.given_back, counts.wasted), (0, 99));
    assert_eq!(one(&cells.open().await).await, 200);
}

#[test]
fn closing_an_unused_allocator_writes_nothing() {
    in_memory(|cells| async move {
        let allocator = cells.open().await;
        assert_eq!(allocator.close().await.unwrap().reserved, 0);
        assert_eq!((cells.writes(), cells.stored().await), (0, None));
    });
}

#[test]
fn waiting_callers_get_the_error_that_it_is_closed() {
    in_memory(|cells| async move {
        let allocator = Arc::new(cells.open().await);
        let hold = cells.faults.hold(Operation::CompareAndSet);
        let waiting = cells.env.spawn({
            let allocator = allocator.clone();
            async move { allocator.allocate_one().await }
        });
        hold.reached(1).await;
        let closing = cells.env.spawn(async move { allocator.close().await });
        assert_eq!(waiting.await.unwrap(), Err(AllocateError::Closed));
        hold.release();
        closing.await.unwrap().unwrap();
        assert_eq!(cells.stored().await, None, "the whole block was given back");
    });
}

#[test]
fn a_close_that_cannot_give_back_gives_an_error_and_counts_the_waste() {
    in_memory(|cells| async move {
        let allocator = cells.open_fixed(100).await;
        one(&allocator).await;
        cells.faults.fail(Operation::CompareAndSet, Fault::Refuse);
        assert_eq!(allocator.close().await.unwrap_err().kind(), ErrorKind::Unavailable);
        let counts = allocator.counts();
        assert_eq!((counts.allocated(), counts.wasted, counts.unused), (1, 99, 0));
        cells.faults.heal();
        assert_eq!(one(&cells.open().await).await, 100);
    });
}

#[test]
fn a_close_whose_answer_was_lost_gives_back_once() {
    in_memory(|cells| async move {
        let allocator = cells.open_fixed(100).await;
        one(&allocator).await;
        cells.faults.fail_nth(Operation::CompareAndSet, 1, Fault::LoseReply);
        assert_eq!(allocator.close().await.unwrap().given_back, 99);
        assert_eq!(one(&cells.open().await).await, 1);
    });
}

#[test]
fn a_close_that_is_stuck_can_be_cancelled_and_continues_in_the_background() {
    in_memory(|cells| async move {
        let allocator = cells.open_fixed(100).await;
        one(&allocator).await;
        let hold = cells.faults.hold(Operation::CompareAndSet);
        assert!(cells.env.timeout(Duration::from_secs(1), allocator.close()).await.is_err());
        assert_eq!(allocator.allocate_one().await, Err(AllocateError::Closed));
        hold.release();
        assert_eq!(allocator.close().await.unwrap().given_back, 99);
    });
}

#[test]
fn a_retry_after_a_failure_does_not_delay_the_close() {
    in_memory(|cells| async move {
        let allocator = cells.open_fixed(100).await;
        one(&allocator).await;
        cells.faults.fail(Operation::CompareAndSet, Fault::Refuse);
        assert_eq!(allocator.allocate(80).await, Ok(block(1, 80)));
        cells.env.sleep(Duration::from_secs(30)).await;
        cells.faults.heal();
        let start = cells.env.instant();
        assert_eq!(allocator.close().await.unwrap().given_back, 19);
        assert_eq!(cells.env.instant(), start);
    });
}
