//! Known defects of a published allocator of this kind, each as a test that passes here.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use seriatim_blocks::{BlockSize, NumberRange};
use seriatim_storage_testing::faulty::{Fault, Operation};
use seriatim_types::ErrorKind;
use support::{TestCells, block, one};

on_every_store! {
    a_failed_write_gives_out_nothing_and_no_number_twice
    a_lost_answer_gives_out_no_number_twice
    an_old_allocator_does_not_use_its_successors_block
    the_end_of_the_integer_does_not_wrap
    sixteen_bytes_of_garbage_do_not_load
    a_block_size_of_zero_is_refused
    a_restart_wastes_nothing
}

async fn a_failed_write_gives_out_nothing_and_no_number_twice(cells: TestCells) {
    let allocator = cells.open_fixed(2).await;
    assert_eq!([one(&allocator).await, one(&allocator).await], [0, 1]);
    // The next block may already be reserved. Then nothing can fail yet.
    cells.faults.fail(Operation::CompareAndSet, Fault::Refuse);
    let mut next = 2;
    let error = loop {
        match allocator.allocate_one().await {
            Ok(number) => {
                assert_eq!(number.get(), next);
                next += 1;
            }
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(allocator.allocate(3).await.is_err());
    cells.faults.heal();
    assert_eq!(one(&allocator).await, next, "the failed calls took nothing");
    drop(allocator);
    assert!(one(&cells.open().await).await > next);
}

async fn a_lost_answer_gives_out_no_number_twice(cells: TestCells) {
    let allocator = cells.open_fixed(2).await;
    for fault in [Fault::LoseReply, Fault::LoseRequest] {
        cells.faults.chance(Operation::CompareAndSet, fault, 0.4);
    }
    for number in 0..40 {
        assert_eq!(one(&allocator).await, number, "a lost answer loses no number either");
    }
    assert!(cells.faults.injected() > 0);
    drop(allocator);
    cells.faults.heal();
    assert!(one(&cells.open().await).await >= 40);
}

async fn an_old_allocator_does_not_use_its_successors_block(cells: TestCells) {
    let (old, new) = (cells.open_fixed(4).await, cells.elsewhere().open_fixed(4).await);
    let mut numbers = Vec::new();
    for _ in 0..20 {
        numbers.extend([one(&old).await, one(&new).await]);
    }
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 40);
}

async fn the_end_of_the_integer_does_not_wrap(cells: TestCells) {
    let allocator = cells.open_range(u64::MAX - 10, u64::MAX, 4).await;
    assert_eq!(allocator.allocate(9).await, Ok(block(u64::MAX - 10, 9)));
    assert_eq!(allocator.allocate(2).await.unwrap_err().kind(), ErrorKind::Exhausted);
    assert_eq!(one(&allocator).await, u64::MAX - 1);
    assert_eq!(allocator.allocate_one().await.unwrap_err().kind(), ErrorKind::Exhausted);
}

async fn sixteen_bytes_of_garbage_do_not_load(cells: TestCells) {
    cells.set(&[0x5e; 16]).await;
    let blocks = cells.blocks(NumberRange::default());
    let error = cells.open_blocks(blocks, BlockSize::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("ids/orders"), "{error}");
}

async fn a_block_size_of_zero_is_refused(cells: TestCells) {
    let blocks = cells.blocks(NumberRange::default());
    let error = cells.open_blocks(blocks, BlockSize::Fixed(0)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

async fn a_restart_wastes_nothing(cells: TestCells) {
    let mut next = 0;
    for restart in 0..5 {
        let allocator = cells.open().await;
        assert_eq!(allocator.counts().skipped_max, 0);
        for _ in 0..restart {
            assert_eq!(one(&allocator).await, next);
            next += 1;
        }
        let counts = allocator.close().await.unwrap();
        assert_eq!((counts.wasted, counts.unused, counts.allocated()), (0, 0, restart));
    }
}
