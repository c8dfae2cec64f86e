//! Reservations on a store that fails, is shared, and answers late.

use std::sync::Arc;

use seriatim_env::simulate;
use seriatim_storage_testing::faulty::{Fault, Operation};
use seriatim_types::ErrorKind;

use super::test_world::{Behaviour, KEY, World, block, of, world};
use super::*;
use crate::AllocateError;

#[test]
fn each_block_starts_where_the_last_one_ends_and_costs_one_write_and_no_read() {
    world(|world| async move {
        let (blocks, faults) = world.writer();
        assert_eq!(blocks.last().await, Ok(None));
        for base in [0, 10, 20] {
            assert_eq!(blocks.reserve(of(10)).await, Ok(block(base, 10)));
        }
        let last = LastBlock { block: block(20, 10), unused: 10 };
        assert_eq!(blocks.last().await, Ok(Some(last)));
        assert_eq!(faults.count(Operation::CompareAndSet), 3);
        assert_eq!(faults.count(Operation::Get), 3, "last, the first reservation, last");
    });
}

#[test]
fn a_refused_write_reserves_nothing_and_changes_nothing() {
    world(|world| async move {
        let (blocks, faults) = world.writer();
        for fault in [Fault::Refuse, Fault::Busy] {
            faults.fail_nth(Operation::CompareAndSet, 1, fault);
            let error = blocks.reserve(of(10)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable);
            assert!(error.to_string().contains("ids/orders"), "{error}");
        }
        assert_eq!(world.raw().get(KEY).await, Ok(None));
        assert_eq!(blocks.reserve(of(10)).await, Ok(block(0, 10)));
    });
}

#[test]
fn a_lost_answer_is_settled_by_reading() {
    for fault in [Fault::LoseReply, Fault::LoseRequest] {
        world(|world| async move {
            let (blocks, faults) = world.writer();
            blocks.reserve(of(10)).await.unwrap();
            faults.fail_nth(Operation::CompareAndSet, 1, fault);
            assert_eq!(blocks.reserve(of(10)).await, Ok(block(10, 10)), "{fault:?}");
            assert_eq!(blocks.reserve(of(10)).await, Ok(block(20, 10)), "{fault:?}");
            assert_eq!(blocks.lost_max(), 0);
        });
    }
}

#[test]
fn a_writer_whose_answer_was_lost_does_not_use_the_block_of_another_writer() {
    world(|world| async move {
        let ((one, _), (two, faults)) = (world.writer(), world.writer());
        one.reserve(of(10)).await.unwrap();
        two.last().await.unwrap();
        two.reserve(of(10)).await.unwrap();
        // Both start from [10, 20) and want [20, 30). Their bytes differ only in the id.
        let hold = faults.hold(Operation::CompareAndSet);
        faults.fail_nth(Operation::CompareAndSet, 1, Fault::LoseReply);
        let two = Arc::new(two);
        let late = world.env.spawn({
            let two = two.clone();
            async move { two.reserve(of(10)).await }
        });
        hold.reached(1).await;
        assert_eq!(one.reserve(of(10)).await, Ok(block(20, 10)));
        hold.release();
        assert_eq!(late.await.unwrap(), Ok(block(30, 10)));
    });
}

#[test]
fn a_doubt_that_cannot_be_read_is_settled_by_the_next_call() {
    world(|world| async move {
        let (blocks, faults) = world.writer();
        faults.fail_nth(Operation::CompareAndSet, 1, Fault::LoseReply);
        faults.fail_nth(Operation::Get, 2, Fault::Refuse);
        assert!(blocks.reserve(of(10)).await.is_err());
        // It was reserved, and none of its numbers was given out.
        assert_eq!(blocks.reserve(of(10)).await, Ok(block(0, 10)));
        assert_eq!(faults.count(Operation::CompareAndSet), 1);
    });
}

#[test]
fn a_reservation_in_doubt_that_is_too_small_for_the_next_call_is_replaced() {
    world(|world| async move {
        let (blocks, faults) = world.writer();
        faults.fail_nth(Operation::CompareAndSet, 1, Fault::LoseReply);
        faults.fail_nth(Operation::Get, 2, Fault::Refuse);
        assert!(blocks.reserve(of(10)).await.is_err());
        assert_eq!(blocks.reserve(of(25)).await, Ok(block(0, 25)));
        assert_eq!((blocks.reserve(of(1)).await, blocks.lost_max()), (Ok(block(25, 1)), 0));
    });
}

#[test]
fn a_cancelled_reservation_is_a_doubt_like_any_other() {
    world(|world| async move {
        let (blocks, faults) = world.writer();
        let hold = faults.hold_answers(Operation::CompareAndSet);
        let pause = Duration::from_secs(1);
        assert!(world.env.timeout(pause, blocks.reserve(of(10))).await.is_err());
        hold.release();
        assert_eq!(blocks.reserve(of(10)).await, Ok(block(0, 10)));
    });
}

#[test]
fn a_block_that_was_lost_before_another_writers_is_counted_and_never_given_out() {
    world(|world| async move {
        let ((one, faults), (two, _)) = (world.writer(), world.writer());
        faults.fail_nth(Operation::CompareAndSet, 1, Fault::LoseReply);
        faults.fail_nth(Operation::Get, 2, Fault::Refuse);
        assert!(one.reserve(of(10)).await.is_err());
        assert_eq!(two.reserve(of(10)).await, Ok(block(10, 10)));
        assert_eq!(one.reserve(of(10)).await, Ok(block(20, 10)));
        assert_eq!((one.lost_max(), two.lost_max()), (10, 0));
    });
}

#[test]
fn an_old_writer_never_uses_its_successors_block() {
    world(|world| async move {
        let ((old, _), (new, _)) = (world.writer(), world.writer());
        assert_eq!(old.reserve(of(10)).await, Ok(block(0, 10)));
        assert_eq!(new.reserve(of(10)).await, Ok(block(10, 10)));
        assert_eq!(old.reserve(of(10)).await, Ok(block(20, 10)));
        assert_eq!(new.reserve(of(10)).await, Ok(block(30, 10)));
    });
}

#[test]
fn garbage_is_corrupt_and_not_changed_and_the_error_names_the_key() {
    for garbage in [&[0; 16][..], &[0xff; 16], &[7; 16], b"", b"garbage", &[1; 37], &[0; 64]] {
        world(|world| async move {
            let (blocks, _) = world.writer();
            world.set(Some(garbage)).await;
            let errors = [blocks.last().await.unwrap_err(), blocks.reserve(of(1)).await.unwrap_err()];
            for error in errors {
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{garbage:?}");
                assert!(error.to_string().contains("ids/orders"), "{error}");
            }
            assert_eq!(world.raw().get(KEY).await.unwrap().unwrap(), garbage);
        });
    }
}

#[test]
fn a_bare_block_is_adopted_on_request_and_replaced_by_the_first_reservation() {
    world(|world| async move {
        world.set(Some(&block(4_096, 4_096).encode())).await;
        let blocks = world.writer().0.adopting_bare();
        let last = LastBlock { block: block(4_096, 4_096), unused: 4_096 };
        assert_eq!(blocks.last().await, Ok(Some(last)));
        assert_eq!(blocks.reserve(of(4_096)).await, Ok(block(8_192, 4_096)));
        let (plain, _) = world.writer();
        assert_eq!(plain.reserve(of(1)).await, Ok(block(12_288, 1)));
        // It still refuses bytes that are not a block.
        world.set(Some(&[0xff; 16])).await;
        assert_eq!(world.writer().0.adopting_bare().last().await.unwrap_err().kind(), ErrorKind::Corrupt);
    });
}

#[test]
fn a_value_that_disappears_or_is_older_is_corrupt() {
    world(|world| async move {
        let (blocks, _) = world.writer();
        blocks.reserve(of(10)).await.unwrap();
        let early = world.raw().get(KEY).await.unwrap().unwrap();
        blocks.reserve(of(10)).await.unwrap();
        world.set(Some(&early)).await;
        let error = blocks.reserve(of(10)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        let late = world.writer().0.reserve(of(5)).await.unwrap();
        assert_eq!(late, block(10, 5), "a writer that has not read the later value cannot detect this");
        world.set(None).await;
        let error = blocks.reserve(of(10)).await.unwrap_err();
        assert!(error.to_string().contains("disappeared"), "{error}");
    });
}

#[test]
fn numbers_end_with_the_range_and_a_block_that_does_not_fit_takes_nothing() {
    world(|world| async move {
        let range = NumberRange::new(Number::new(100), Number::new(124)).unwrap();
        let (blocks, faults) = world.writer_of(range);
        assert_eq!(blocks.first(), Number::new(100));
        assert_eq!(blocks.reserve(of(20)).await, Ok(block(100, 20)));
        let writes = faults.count(Operation::CompareAndSet);
        let error = blocks.reserve(of(6)).await.unwrap_err();
        let expected = BlockStoreError::Exhausted { key: "ids/orders".to_owned(), min: 6, left: 5 };
        assert_eq!(error, expected);
        assert_eq!(AllocateError::Store(Arc::new(error)).kind(), ErrorKind::Exhausted);
        assert_eq!(faults.count(Operation::CompareAndSet), writes);
        let clipped = Demand { min: 1, want: 20, unused: 0 };
        assert_eq!(blocks.reserve(clipped).await, Ok(block(120, 5)));
        assert_eq!(blocks.reserve(of(1)).await.unwrap_err().kind(), ErrorKind::Exhausted);
    });
}

#[test]
fn the_end_of_the_integer_does_not_wrap() {
    world(|world| async move {
        let range = NumberRange::from(Number::new(u64::MAX - 10)).unwrap();
        let (blocks, _) = world.writer_of(range);
        let all = Demand { min: 1, want: u64::MAX, unused: u64::MAX };
        assert_eq!(blocks.reserve(all).await, Ok(block(u64::MAX - 10, 10)));
        assert_eq!(blocks.reserve(all).await.unwrap_err().kind(), ErrorKind::Exhausted);
    });
}

#[test]
fn the_next_writer_reads_how_many_numbers_are_unused() {
    world(|world| async move {
        let (blocks, _) = world.writer();
        blocks.reserve(Demand { min: 1, want: 10, unused: 5 }).await.unwrap();
        let last = world.writer().0.last().await.unwrap().unwrap();
        assert_eq!(last.unused, 15);
    });
}

#[test]
fn a_writer_that_always_loses_gets_an_error() {
    world(|world| async move {
        let (blocks, _) = world.special_writer(Behaviour::AlwaysTaken);
        assert_eq!(blocks.reserve(of(1)).await.unwrap_err().kind(), ErrorKind::Busy);
    });
}

#[test]
fn a_late_write_after_a_retry_changes_nothing() {
    world(|world| async move {
        let (blocks, late) = world.special_writer(Behaviour::Late(1));
        assert_eq!(blocks.reserve(of(10)).await, Ok(block(0, 10)));
        assert!(!late.complete_late_write().await);
        assert_eq!(blocks.reserve(of(10)).await, Ok(block(10, 10)));
    });
}

#[test]
fn a_late_write_after_another_writer_has_reserved_changes_nothing() {
    world(|world| async move {
        let ((blocks, late), (other, _)) = (world.special_writer(Behaviour::Late(2)), world.writer());
        blocks.reserve(of(10)).await.unwrap();
        assert_eq!(blocks.reserve(of(10)).await, Ok(block(10, 10)));
        assert_eq!(other.reserve(of(10)).await, Ok(block(20, 10)));
        assert!(!late.complete_late_write().await);
        assert_eq!(blocks.reserve(of(10)).await, Ok(block(30, 10)));
    });
}

#[test]
fn writers_that_compete_for_every_block_all_get_blocks() {
    for seed in 0..20 {
        simulate(seed, |env| async move {
            let world = World::new(env.clone());
            let tasks: Vec<_> = (0..8)
                .map(|_| {
                    let (blocks, faults) = world.writer();
                    faults.delay(Operation::CompareAndSet | Operation::Get, Duration::from_millis(2));
                    env.spawn(async move {
                        let mut reserved = Vec::new();
                        for _ in 0..20 {
                            reserved.push(blocks.reserve(of(3)).await.unwrap());
                        }
                        reserved
                    })
                })
                .collect();
            let mut bases = Vec::new();
            for task in tasks {
                bases.extend(task.await.unwrap().into_iter().map(|block| block.base().get()));
            }
            bases.sort_unstable();
            assert_eq!(bases, (0..160).map(|i| i * 3).collect::<Vec<_>>());
        });
    }
}
