//! How an allocator behaves if the store is slow, fails or is exhausted, and if callers are cancelled.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use seriatim_blocks::{
    ALLOCATE_MAX, AllocateError, Block, BlockAllocator, BlockOptions, BlockSize, BlockStore, BlockStoreError,
    Demand, LastBlock,
};
use seriatim_env::{Env, Task};
use seriatim_storage_testing::faulty::{Fault, Operation};
use seriatim_types::{ErrorKind, Number};
use support::{TestCells, block, has_to_wait, in_memory, one};

/// Waits long enough for everything that does not wait for a store.
async fn settle(cells: &TestCells) {
    cells.env.sleep(Duration::from_millis(1)).await;
}

fn in_background(
    env: &Env,
    allocator: &Arc<BlockAllocator>,
    count: u64,
) -> Task<Result<Block, AllocateError>> {
    let allocator = allocator.clone();
    env.spawn(async move { allocator.allocate(count).await })
}

#[test]
fn the_next_block_is_reserved_before_the_current_one_ends() {
    in_memory(|cells| async move {
        let allocator = cells.open_fixed(100).await;
        one(&allocator).await;
        cells.env.sleep(Duration::from_secs(1)).await;
        assert_eq!(cells.writes(), 1);
        assert_eq!(allocator.allocate(60).await, Ok(block(1, 60)));
        settle(&cells).await;
        assert_eq!(cells.writes(), 2);
        let counts = allocator.counts();
        assert_eq!((counts.blocks, counts.unused), (2, 139));
    });
}

#[test]
fn a_slow_store_delays_no_caller_while_numbers_are_reserved() {
    in_memory(|cells| async move {
        let allocator = Arc::new(cells.open_fixed(100).await);
        one(&allocator).await;
        let hold = cells.faults.hold(Operation::CompareAndSet);
        let start = cells.env.instant();
        for number in 1..100 {
            assert_eq!(one(&allocator).await, number);
        }
        hold.reached(1).await;
        assert_eq!(cells.env.instant(), start);
        let waits = in_background(&cells.env, &allocator, 1);
        settle(&cells).await;
        assert!(!waits.is_finished());
        hold.release();
        assert_eq!(waits.await.unwrap(), Ok(block(100, 1)));
    });
}

#[test]
fn many_waiting_callers_are_served_by_one_write_in_order() {
    in_memory(|cells| async move {
        let allocator = Arc::new(cells.open_fixed(1_000).await);
        let hold = cells.faults.hold(Operation::CompareAndSet);
        let mut waiting = Vec::new();
        for _ in 0..100 {
            waiting.push(in_background(&cells.env, &allocator, 2));
            settle(&cells).await;
        }
        hold.release();
        for (position, task) in waiting.into_iter().enumerate() {
            assert_eq!(task.await.unwrap(), Ok(block(position as u64 * 2, 2)));
        }
        assert_eq!(cells.writes(), 1);
    });
}

#[test]
fn a_large_request_is_not_starved_by_small_ones() {
    in_memory(|cells| async move {
        cells.faults.delay(Operation::CompareAndSet, Duration::from_millis(1));
        let allocator = Arc::new(cells.open_fixed(8).await);
        let busy: Vec<_> = (0..4)
            .map(|_| {
                let allocator = allocator.clone();
                let env = cells.env.clone();
                cells.env.spawn(async move {
                    loop {
                        one(&allocator).await;
                        env.sleep(Duration::from_micros(10)).await;
                    }
                })
            })
            .collect();
        for _ in 0..50 {
            let large = allocator.allocate(1_000);
            let large = cells.env.timeout(Duration::from_millis(50), large).await;
            assert_eq!(large.expect("it is served in time").unwrap().size(), 1_000);
        }
        busy.iter().for_each(Task::cancel);
    });
}

#[test]
fn cancelled_callers_take_nothing() {
    in_memory(|cells| async move {
        let allocator = cells.open_fixed(10).await;
        let hold = cells.faults.hold(Operation::CompareAndSet);
        for count in [1, 1, 5] {
            let waits = cells.env.timeout(Duration::from_millis(5), allocator.allocate(count)).await;
            assert!(waits.is_err());
        }
        hold.release();
        assert_eq!(one(&allocator).await, 0);
        assert_eq!(allocator.allocate(5).await, Ok(block(1, 5)));
        let counts = allocator.counts();
        assert_eq!((counts.allocated(), counts.wasted), (6, 0));
    });
}

#[test]
fn a_caller_that_is_cancelled_when_its_number_is_ready_takes_nothing() {
    in_memory(|cells| async move {
        let allocator = cells.open_fixed(10).await;
        let mut caller = Box::pin(allocator.allocate_one());
        assert!(has_to_wait(&mut caller).await);
        settle(&cells).await;
        assert_eq!(allocator.counts().unused, 9, "it is granted");
        drop(caller);
        assert_eq!((allocator.counts().unused, one(&allocator).await), (10, 0));
    });
}

#[test]
fn a_number_of_a_cancelled_caller_is_counted_if_others_have_higher_ones() {
    in_memory(|cells| async move {
        let allocator = cells.open_fixed(10).await;
        let mut gives_up = Box::pin(allocator.allocate(3));
        let mut stays = Box::pin(allocator.allocate(2));
        assert!(has_to_wait(&mut gives_up).await && has_to_wait(&mut stays).await);
        settle(&cells).await;
        drop(gives_up);
        assert_eq!(stays.await, Ok(block(3, 2)));
        let counts = allocator.counts();
        assert_eq!((counts.wasted, counts.allocated()), (3, 2));
    });
}

#[test]
fn waiting_callers_get_the_error_and_the_next_caller_tries_again_at_once() {
    in_memory(|cells| async move {
        let allocator = Arc::new(cells.open_fixed(10).await);
        let hold = cells.faults.hold(Operation::CompareAndSet);
        cells.faults.fail(Operation::CompareAndSet, Fault::Refuse);
        let waiting: Vec<_> = (0..3).map(|_| in_background(&cells.env, &allocator, 1)).collect();
        settle(&cells).await;
        hold.release();
        for task in waiting {
            let error = task.await.unwrap().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable);
            assert!(error.to_string().contains("ids/orders"), "{error}");
        }
        cells.faults.heal();
        let before = cells.env.instant();
        assert_eq!(one(&allocator).await, 0);
        assert_eq!(cells.env.instant(), before, "it does not wait for the next retry");
    });
}

#[test]
fn a_failed_reservation_in_advance_is_retried_until_it_succeeds() {
    in_memory(|cells| async move {
        let allocator = cells.open_fixed(100).await;
        one(&allocator).await;
        cells.faults.fail(Operation::CompareAndSet, Fault::LoseRequest);
        cells.faults.fail(Operation::Get, Fault::Refuse);
        assert_eq!(allocator.allocate(70).await, Ok(block(1, 70)));
        cells.env.sleep(Duration::from_secs(60)).await;
        let attempts = cells.faults.count(Operation::Get);
        assert!((10..60).contains(&attempts), "{attempts} in a minute");
        cells.faults.heal();
        cells.env.sleep(Duration::from_secs(10)).await;
        assert_eq!(allocator.counts().unused, 129);
        assert_eq!(allocator.allocate(129).await, Ok(block(71, 129)));
    });
}

#[test]
fn a_block_in_doubt_is_settled_before_its_first_number_is_given_out() {
    in_memory(|cells| async move {
        let allocator = cells.open_fixed(10).await;
        cells.faults.fail_nth(Operation::CompareAndSet, 1, Fault::LoseReply);
        // The first read gets the expected value, the second one the result.
        cells.faults.fail_nth(Operation::Get, 2, Fault::Refuse);
        let error = allocator.allocate_one().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "it is certain that the caller has no number");
        assert_eq!(cells.stored().await, Some(block(0, 10)), "it was reserved");
        assert_eq!(one(&allocator).await, 0);
        assert_eq!(allocator.counts().wasted, 0);
    });
}

#[test]
fn a_block_that_was_lost_in_doubt_is_counted_as_wasted() {
    in_memory(|cells| async move {
        let allocator = cells.open_fixed(10).await;
        cells.faults.fail_nth(Operation::CompareAndSet, 1, Fault::LoseReply);
        cells.faults.fail_nth(Operation::Get, 2, Fault::Refuse);
        assert!(allocator.allocate_one().await.is_err());
        assert_eq!(one(&cells.elsewhere().open_fixed(10).await).await, 10);
        assert_eq!(one(&allocator).await, 20);
        let counts = allocator.counts();
        assert_eq!((counts.wasted, counts.allocated()), (10, 1));
    });
}

#[test]
fn a_request_that_does_not_fit_into_the_range_takes_nothing() {
    in_memory(|cells| async move {
        let allocator = cells.open_range(100, 124, 10).await;
        assert_eq!(allocator.allocate(18).await, Ok(block(100, 18)));
        assert_eq!(allocator.allocate(8).await, Err(AllocateError::Exhausted { asked: 8, left: 7 }));
        assert_eq!(allocator.allocate(ALLOCATE_MAX).await.unwrap_err().kind(), ErrorKind::Exhausted);
        assert_eq!(allocator.allocate(6).await, Ok(block(118, 6)));
        assert_eq!(one(&allocator).await, 124);
        assert_eq!(allocator.allocate_one().await, Err(AllocateError::Exhausted { asked: 1, left: 0 }));
        assert_eq!(allocator.counts().wasted, 0);
        assert_eq!(cells.open_range(100, 126, 10).await.allocate(2).await, Ok(block(125, 2)));
    });
}

#[test]
fn callers_after_a_request_that_is_too_large_are_served() {
    in_memory(|cells| async move {
        let allocator = Arc::new(cells.open_range(0, 9, 4).await);
        let hold = cells.faults.hold(Operation::CompareAndSet | Operation::Get);
        let counts = [3, 8, 2, 9, 5];
        let mut tasks = Vec::new();
        for count in counts {
            tasks.push(in_background(&cells.env, &allocator, count));
            settle(&cells).await;
        }
        hold.release();
        let mut served = Vec::new();
        for task in tasks {
            served.push(task.await.unwrap().ok().map(Block::size));
        }
        assert_eq!(served, [Some(3), None, Some(2), None, Some(5)]);
    });
}

#[test]
fn zero_numbers_are_refused() {
    in_memory(|cells| async move {
        let error = cells.open().await.allocate(0).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    });
}

#[test]
fn more_numbers_than_one_call_may_take_are_refused_and_none_is_taken() {
    in_memory(|cells| async move {
        let allocator = cells.open().await;
        for count in [ALLOCATE_MAX + 1, u64::MAX] {
            let error = allocator.allocate(count).await.unwrap_err();
            assert_eq!(error, AllocateError::TooMany { asked: count });
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().contains("at most 4294967296"), "{error}");
        }
        assert_eq!(allocator.allocate(ALLOCATE_MAX).await, Ok(block(0, ALLOCATE_MAX)));
    });
}

#[test]
fn allocators_that_share_a_key_all_get_numbers_and_rise() {
    in_memory(|cells| async move {
        cells.faults.delay(Operation::CompareAndSet | Operation::Get, Duration::from_millis(1));
        let mut tasks = Vec::new();
        for _ in 0..6 {
            let allocator = cells.open_fixed(3).await;
            tasks.push(cells.env.spawn(async move {
                let mut mine = Vec::new();
                for _ in 0..100 {
                    mine.push(one(&allocator).await);
                }
                assert!(mine.is_sorted_by(|one, next| one < next));
                mine
            }));
        }
        let mut all = Vec::new();
        for task in tasks {
            all.extend(task.await.unwrap());
        }
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 600);
    });
}

#[test]
fn a_size_that_follows_the_rate_keeps_writes_under_the_limit() {
    in_memory(|cells| async move {
        let size = BlockSize::Follow { writes_per_second: 5, min: 16, max: 1 << 20 };
        let allocator = cells.open_sized(size).await;
        // Blocks that were reserved for a higher rate last for some time, so a falling rate may need no write at all.
        for (rate_per_ms, least) in [(1, 1.0), (50, 1.0), (1_000, 1.0), (20, 0.0)] {
            let run = async |seconds| {
                for _ in 0..seconds * 100 {
                    allocator.allocate(rate_per_ms * 10).await.unwrap();
                    cells.env.sleep(Duration::from_millis(10)).await;
                }
            };
            // It takes a few blocks to adapt.
            run(10).await;
            let before = cells.writes();
            run(20).await;
            let per_second = (cells.writes() - before) as f64 / 20.0;
            assert!((least..=5.0).contains(&per_second), "{rate_per_ms}/ms: {per_second} writes/s");
        }
    });
}

/// A store that panics when a block is reserved.
#[derive(Debug)]
struct PanickingStore;

#[async_trait]
impl BlockStore for PanickingStore {
    fn first(&self) -> Number {
        Number::new(0)
    }

    async fn last(&self) -> Result<Option<LastBlock>, BlockStoreError> {
        Ok(None)
    }

    async fn reserve(&self, _: Demand) -> Result<Block, BlockStoreError> {
        panic!("a defect")
    }

    async fn release(&self, _: Block) -> Result<bool, BlockStoreError> {
        Ok(false)
    }
}

#[test]
fn a_panic_of_the_store_closes_the_allocator_and_no_caller_is_stuck() {
    in_memory(|cells| async move {
        let options = BlockOptions::default();
        let allocator =
            BlockAllocator::open(cells.env.clone(), Arc::new(PanickingStore), options).await.unwrap();
        assert_eq!(allocator.allocate_one().await, Err(AllocateError::Closed));
        assert_eq!(allocator.allocate(2).await, Err(AllocateError::Closed));
        assert!(allocator.close().await.is_ok());
    });
}

#[test]
fn a_dropped_allocator_ends_its_task() {
    in_memory(|cells| async move {
        let store: Arc<dyn BlockStore> = Arc::new(cells.blocks(seriatim_blocks::NumberRange::default()));
        let options = BlockOptions::default();
        let allocator = BlockAllocator::open(cells.env.clone(), store.clone(), options).await.unwrap();
        one(&allocator).await;
        drop(allocator);
        settle(&cells).await;
        assert_eq!(Arc::strong_count(&store), 1);
        assert_eq!(cells.stored().await, Some(block(0, 4_096)), "nothing is given back");
    });
}
