//! Giving back unused numbers.

use seriatim_storage_testing::faulty::{Fault, Operation};
use seriatim_types::ErrorKind;

use super::test_world::{Behaviour, KEY, block, of, world};
use super::*;

#[test]
fn the_unused_tail_is_given_back_and_reserved_again() {
    world(|world| async move {
        let (blocks, _) = world.writer();
        blocks.reserve(of(10)).await.unwrap();
        assert_eq!(blocks.release(block(4, 6)).await, Ok(true));
        let last = LastBlock { block: block(0, 4), unused: 0 };
        assert_eq!(blocks.last().await, Ok(Some(last)));
        assert_eq!(world.writer().0.reserve(of(10)).await, Ok(block(4, 10)));
        assert_eq!(blocks.reserve(of(10)).await, Ok(block(14, 10)));
    });
}

#[test]
fn a_block_that_was_not_used_is_removed() {
    world(|world| async move {
        let (blocks, _) = world.writer();
        blocks.reserve(of(10)).await.unwrap();
        assert_eq!(blocks.release(block(0, 10)).await, Ok(true));
        assert_eq!(world.raw().get(KEY).await, Ok(None));
        assert_eq!(blocks.reserve(of(10)).await, Ok(block(0, 10)));
    });
}

#[test]
fn a_tail_may_include_several_blocks_of_the_same_writer() {
    world(|world| async move {
        let ((blocks, _), (other, _)) = (world.writer(), world.writer());
        other.reserve(of(5)).await.unwrap();
        blocks.reserve(of(10)).await.unwrap();
        blocks.reserve(of(10)).await.unwrap();
        assert_eq!(blocks.release(block(3, 22)).await, Ok(false), "[3, 5) belongs to another writer");
        assert_eq!(blocks.release(block(7, 18)).await, Ok(true));
        assert_eq!(blocks.last().await.unwrap().unwrap().block, block(6, 1));
        assert_eq!(other.reserve(of(1)).await, Ok(block(7, 1)));
    });
}

#[test]
fn nothing_is_given_back_after_another_writer_has_reserved() {
    world(|world| async move {
        let ((blocks, _), (other, _)) = (world.writer(), world.writer());
        blocks.reserve(of(10)).await.unwrap();
        other.reserve(of(10)).await.unwrap();
        assert_eq!(blocks.release(block(4, 6)).await, Ok(false));
        assert_eq!(blocks.reserve(of(1)).await, Ok(block(20, 1)));
    });
}

#[test]
fn only_the_end_of_what_was_reserved_here_can_be_given_back_and_only_once() {
    world(|world| async move {
        let (blocks, _) = world.writer();
        assert_eq!(blocks.release(block(0, 1)).await, Ok(false));
        blocks.reserve(of(10)).await.unwrap();
        assert_eq!(blocks.release(block(4, 5)).await, Ok(false));
        assert_eq!(blocks.release(block(5, 5)).await, Ok(true));
        assert_eq!(blocks.release(block(5, 5)).await, Ok(false));
        assert_eq!(blocks.release(block(4, 1)).await, Ok(false));
    });
}

#[test]
fn a_lost_answer_to_a_release_is_settled_by_reading() {
    for (fault, given_back) in [(Fault::LoseReply, true), (Fault::LoseRequest, false)] {
        for used in [0, 4] {
            world(|world| async move {
                let (blocks, faults) = world.writer();
                blocks.reserve(of(10)).await.unwrap();
                faults.fail_nth(Operation::CompareAndSet, 1, fault);
                assert_eq!(blocks.release(block(used, 10 - used)).await, Ok(given_back));
                let next = if given_back { used } else { 10 };
                assert_eq!(blocks.reserve(of(1)).await, Ok(block(next, 1)), "{fault:?}");
            });
        }
    }
}

#[test]
fn a_release_that_fails_leaves_the_numbers_taken() {
    world(|world| async move {
        let (blocks, faults) = world.writer();
        blocks.reserve(of(10)).await.unwrap();
        faults.fail_nth(Operation::CompareAndSet, 1, Fault::Refuse);
        assert_eq!(blocks.release(block(4, 6)).await.unwrap_err().kind(), ErrorKind::Unavailable);
        assert_eq!(blocks.reserve(of(1)).await, Ok(block(10, 1)));
    });
}

#[test]
fn a_late_release_takes_nothing_from_a_later_reservation() {
    world(|world| async move {
        let ((blocks, late), (other, _)) = (world.special_writer(Behaviour::Late(2)), world.writer());
        assert_eq!(blocks.reserve(of(10)).await, Ok(block(0, 10)));
        assert_eq!(blocks.release(block(4, 6)).await, Ok(false));
        assert_eq!(other.reserve(of(10)).await, Ok(block(10, 10)));
        assert!(!late.complete_late_write().await);
        assert_eq!(blocks.reserve(of(10)).await, Ok(block(20, 10)));
    });
}

#[test]
fn a_late_release_may_still_give_back_unused_numbers() {
    world(|world| async move {
        let (blocks, late) = world.special_writer(Behaviour::Late(2));
        assert_eq!(blocks.reserve(of(10)).await, Ok(block(0, 10)));
        assert_eq!(blocks.release(block(4, 6)).await, Ok(false));
        assert!(late.complete_late_write().await);
        assert_eq!(blocks.reserve(of(10)).await, Ok(block(4, 10)));
    });
}
