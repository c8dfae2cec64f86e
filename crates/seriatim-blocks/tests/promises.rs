//! Each promise of RFC 0002 of OpenData, on every store.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use seriatim_blocks::{BlockAllocator, BlockOptions, BlockStore, DEFAULT_BLOCK_SIZE, Demand, NumberRange};
use seriatim_blocks::{BlockKey, StoredBlocks};
use seriatim_storage_testing::faulty::Operation;
use support::{KEY, TestCells, block, one};

on_every_store! {
    a_block_is_stored_as_base_and_size_in_big_endian
    the_default_block_has_4096_numbers
    a_block_has_as_many_numbers_as_requested_if_that_is_more
    opening_reads_the_last_block_and_writes_nothing
    the_first_allocation_reserves_the_first_block
    further_allocations_come_from_the_block_without_a_write
    a_new_block_starts_where_the_last_one_ended
    a_block_is_durable_before_its_first_number_is_given_out
    after_a_crash_numbers_continue_after_the_last_block
    a_million_allocations_cost_245_writes
    a_range_is_contiguous_also_over_the_end_of_a_block
    peeking_consumes_nothing
    each_key_is_a_separate_sequence
    tasks_that_share_an_allocator_never_overlap
}

async fn a_block_is_stored_as_base_and_size_in_big_endian(cells: TestCells) {
    let blocks = cells.blocks(NumberRange::default());
    blocks.reserve(Demand { min: 0x0102, want: 0x0102, unused: 0 }).await.unwrap();
    blocks.reserve(Demand { min: 0x0304, want: 0x0304, unused: 0 }).await.unwrap();
    let value = cells.raw().get(KEY).await.unwrap().unwrap();
    assert_eq!(&value[..16], &[0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 3, 4]);
}

async fn the_default_block_has_4096_numbers(cells: TestCells) {
    assert_eq!(DEFAULT_BLOCK_SIZE, 4_096);
    let allocator = cells.open().await;
    one(&allocator).await;
    assert_eq!(cells.stored().await, Some(block(0, 4_096)));
}

async fn a_block_has_as_many_numbers_as_requested_if_that_is_more(cells: TestCells) {
    let blocks = cells.blocks(NumberRange::default());
    let demand = |min| Demand { min, want: DEFAULT_BLOCK_SIZE, unused: 0 };
    assert_eq!(blocks.reserve(demand(10_000)).await, Ok(block(0, 10_000)));
    assert_eq!(blocks.reserve(demand(1)).await, Ok(block(10_000, 4_096)));
    let allocator = cells.open().await;
    assert_eq!(allocator.allocate(10_000).await, Ok(block(14_096, 10_000)));
    assert_eq!(one(&allocator).await, 24_096);
}

async fn opening_reads_the_last_block_and_writes_nothing(cells: TestCells) {
    let allocator = cells.open().await;
    assert_eq!((allocator.peek_next().get(), cells.writes()), (0, 0));
    one(&allocator).await;
    drop(allocator);
    let writes = cells.writes();
    let allocator = cells.open().await;
    assert_eq!((allocator.peek_next().get(), cells.writes()), (4_096, writes));
}

async fn the_first_allocation_reserves_the_first_block(cells: TestCells) {
    let allocator = cells.open().await;
    assert_eq!(cells.stored().await, None);
    assert_eq!(one(&allocator).await, 0);
    assert_eq!(cells.stored().await, Some(block(0, 4_096)));
}

async fn further_allocations_come_from_the_block_without_a_write(cells: TestCells) {
    let allocator = cells.open().await;
    for number in 0..1_000 {
        assert_eq!(one(&allocator).await, number);
    }
    assert_eq!(cells.writes(), 1);
}

async fn a_new_block_starts_where_the_last_one_ended(cells: TestCells) {
    let allocator = cells.open_fixed(8).await;
    for number in 0..100 {
        assert_eq!(one(&allocator).await, number);
        let stored = cells.stored().await.unwrap();
        assert!(number < stored.end().get() && stored.base().get() % 8 == 0, "{number} {stored}");
    }
}

async fn a_block_is_durable_before_its_first_number_is_given_out(cells: TestCells) {
    let allocator = Arc::new(cells.open_fixed(4).await);
    let hold = cells.faults.hold(Operation::CompareAndSet);
    let waiting = cells.env.spawn({
        let allocator = allocator.clone();
        async move { one(&allocator).await }
    });
    hold.reached(1).await;
    assert!(!waiting.is_finished());
    assert_eq!(cells.stored().await, None);
    hold.release();
    assert_eq!(waiting.await, Ok(0));
    assert!(cells.stored().await.is_some());
}

async fn after_a_crash_numbers_continue_after_the_last_block(cells: TestCells) {
    let mut highest = None;
    for restart in 0..5 {
        let allocator = cells.open().await;
        let number = one(&allocator).await;
        assert_eq!(number, restart * 4_096);
        assert!(Some(number) > highest);
        highest = Some(one(&allocator).await);
    }
    let skipped = cells.open().await.counts().skipped_max;
    assert_eq!(skipped, 4_096, "the next allocator knows how many may be wasted");
}

async fn a_million_allocations_cost_245_writes(cells: TestCells) {
    let allocator = cells.open().await;
    for number in 0..1_000_000 {
        assert_eq!(one(&allocator).await, number);
        // Slow enough that only half a block is reserved in advance.
        if cells.env.is_simulated() && number % 1_000 == 0 {
            cells.env.sleep(Duration::from_millis(100)).await;
        }
    }
    let blocks = allocator.counts().blocks;
    // On real files it runs as fast as possible, and many blocks are reserved in advance.
    let ahead = allocator.counts().unused / 4_096;
    assert!((245..=245 + ahead).contains(&blocks), "{blocks} blocks");
    assert!(cells.writes() <= blocks + 1);
    if cells.env.is_simulated() {
        assert_eq!(cells.writes(), 245);
    }
}

async fn a_range_is_contiguous_also_over_the_end_of_a_block(cells: TestCells) {
    let allocator = cells.open_fixed(10).await;
    let mut next = 0;
    for count in [3, 4, 5, 1, 9, 10, 11, 30, 2] {
        assert_eq!(allocator.allocate(count).await, Ok(block(next, count)));
        next += count;
    }
    assert_eq!(allocator.counts().wasted, 0);
}

async fn peeking_consumes_nothing(cells: TestCells) {
    let allocator = cells.open_fixed(4).await;
    for number in 0..10 {
        assert_eq!(allocator.peek_next().get(), number);
        assert_eq!(allocator.peek_next().get(), number);
        assert_eq!(one(&allocator).await, number);
    }
}

async fn each_key_is_a_separate_sequence(cells: TestCells) {
    for key in
        [BlockKey::new(b"\x01\x02", b""), BlockKey::new(b"\x01\x08", b""), BlockKey::new(b"\x01", b"\x02")]
    {
        let blocks = StoredBlocks::new(cells.env.clone(), cells.cells(), key, NumberRange::default());
        let allocator = BlockAllocator::open(cells.env.clone(), Arc::new(blocks), BlockOptions::default());
        assert_eq!(one(&allocator.await.unwrap()).await, 0);
    }
}

async fn tasks_that_share_an_allocator_never_overlap(cells: TestCells) {
    let allocator = Arc::new(cells.open_fixed(64).await);
    let tasks: Vec<_> = (0..8_u64)
        .map(|task| {
            let allocator = allocator.clone();
            cells.env.spawn(async move {
                let mut mine = Vec::new();
                for call in 0..200 {
                    mine.push(allocator.allocate(1 + (task + call) % 7).await.unwrap());
                }
                assert!(mine.is_sorted_by(|one, next| one.end() <= next.base()), "numbers rise");
                mine
            })
        })
        .collect();
    let (mut numbers, mut count) = (BTreeSet::new(), 0);
    for task in tasks {
        for range in task.await.unwrap() {
            count += range.size();
            numbers.extend(range.numbers());
        }
    }
    assert_eq!(numbers.len() as u64, count);
    assert_eq!(numbers.last().unwrap().get() + 1, count, "nothing is wasted");
}
