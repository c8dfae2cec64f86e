//! Blocks in the caller's own batch.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use seriatim_blocks::{ALLOCATE_MAX, AllocateError, BatchedBlocks, Block, BlockKey, NumberRange, OpenError};
use seriatim_env::{Env, simulate};
use seriatim_storage::memory::MemoryStore;
use seriatim_storage::{Batch, Durability, Key, Store, Write};
use seriatim_types::{ErrorKind, Number};

const KEY: Key<'static> = Key::new(b"ids", b"orders");

async fn open(env: &Env, store: &Store, range: NumberRange) -> Result<BatchedBlocks, OpenError> {
    let last = store.get(KEY).await.unwrap();
    BatchedBlocks::open(env.clone(), BlockKey::new(b"ids", b"orders"), last.as_deref(), range, 10)
}

async fn write(store: &Store, write: Option<Write>) {
    let mut batch = Batch::new();
    write.into_iter().for_each(|write| batch.push(write));
    store.write(batch, Durability::Synced).await.unwrap();
}

fn block(base: u64, size: u64) -> Block {
    Block::new(Number::new(base), size).unwrap()
}

fn world<F: Future<Output = ()>>(scenario: impl FnOnce(Env, Store) -> F) {
    simulate(1, |env| {
        let store = Store::new(MemoryStore::new());
        scenario(env, store)
    });
}

#[test]
fn numbers_continue_from_block_to_block_and_most_need_no_write() {
    world(|env, store| async move {
        let mut blocks = open(&env, &store, NumberRange::default()).await.unwrap();
        let mut writes = 0;
        for (count, expected) in [(1, block(0, 1)), (8, block(1, 8)), (4, block(9, 4)), (25, block(13, 25))] {
            let (record, claim) = blocks.prepare(count).unwrap();
            writes += usize::from(record.is_some());
            write(&store, record).await;
            assert_eq!(claim.confirm(), expected);
        }
        assert_eq!(writes, 3);
        assert_eq!(blocks.peek_next(), Number::new(38));
    });
}

#[test]
fn after_a_crash_the_next_block_starts_after_the_last_written_one() {
    world(|env, store| async move {
        let mut blocks = open(&env, &store, NumberRange::default()).await.unwrap();
        let (record, claim) = blocks.prepare(3).unwrap();
        write(&store, record).await;
        assert_eq!(claim.confirm(), block(0, 3));
        drop(blocks);
        let mut blocks = open(&env, &store, NumberRange::default()).await.unwrap();
        assert_eq!(blocks.prepare(1).unwrap().1.confirm(), block(10, 1));
    });
}

#[test]
fn a_claim_that_is_dropped_takes_nothing_whether_its_write_happened_or_not() {
    world(|env, store| async move {
        for happened in [false, true] {
            let mut blocks = open(&env, &store, NumberRange::default()).await.unwrap();
            let next = blocks.peek_next();
            let (record, claim) = blocks.prepare(15).unwrap();
            drop(claim);
            if happened {
                write(&store, record).await;
            }
            assert_eq!(blocks.peek_next(), next);
            let (record, claim) = blocks.prepare(2).unwrap();
            write(&store, record).await;
            assert_eq!(claim.confirm().base(), next);
            assert_eq!(blocks.prepare(1).unwrap().1.confirm().base(), next.advance(2).unwrap());
        }
    });
}

#[test]
fn a_clean_stop_gives_back_what_is_unused() {
    world(|env, store| async move {
        for (taken, next) in [(3, 3), (7, 10), (4, 14)] {
            let mut blocks = open(&env, &store, NumberRange::default()).await.unwrap();
            let (record, claim) = blocks.prepare(taken).unwrap();
            write(&store, record).await;
            assert_eq!(claim.confirm().end(), Number::new(next));
            write(&store, blocks.close()).await;
        }
        let blocks = open(&env, &store, NumberRange::default()).await.unwrap();
        assert!(blocks.close().is_none(), "nothing is unused");
    });
}

#[test]
fn the_end_of_the_range_and_a_count_of_zero_are_errors_that_take_nothing() {
    world(|env, store| async move {
        let range = NumberRange::new(Number::new(5), Number::new(18)).unwrap();
        let mut blocks = open(&env, &store, range).await.unwrap();
        for count in [0, ALLOCATE_MAX + 1] {
            assert_eq!(blocks.prepare(count).unwrap_err().kind(), ErrorKind::Invalid);
        }
        assert_eq!(blocks.prepare(8).unwrap().1.confirm(), block(5, 8));
        let error = blocks.prepare(7).unwrap_err();
        assert_eq!(error, AllocateError::Exhausted { asked: 7, left: 6 });
        assert_eq!(blocks.prepare(6).unwrap().1.confirm(), block(13, 6));
        assert_eq!(blocks.prepare(1).unwrap_err().kind(), ErrorKind::Exhausted);
    });
}

#[test]
fn a_damaged_value_and_a_block_size_of_zero_are_refused() {
    world(|env, _| async move {
        let open = |last: Option<&[u8]>, size| {
            BatchedBlocks::open(env.clone(), BlockKey::new(b"ids", b""), last, NumberRange::default(), size)
        };
        let error = open(Some(&[7; 16]), 10).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains("ids/"), "{error}");
        assert_eq!(open(None, 0).unwrap_err().kind(), ErrorKind::Invalid);
    });
}
