//! Named block sequences.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;

use seriatim_engine::{Engine, Options};
use seriatim_env::{Env, simulate};
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{Log, Store};
use seriatim_types::ErrorKind;

async fn open_with(env: &Env, log: &MemoryLog, store: &MemoryStore, options: Options) -> Engine {
    let (log, store) = (Log::new(log.reopen()), Store::new(store.reopen()));
    Engine::open(env.clone(), log, store, [], options).await.unwrap()
}

async fn open(env: &Env, log: &MemoryLog, store: &MemoryStore) -> Engine {
    open_with(env, log, store, Options::default()).await
}

async fn take(engine: &Engine, name: &str, count: u64) -> u64 {
    let allocated = engine.blocks().allocate(name, count).await.unwrap();
    assert_eq!(allocated.count, count);
    allocated.first
}

#[test]
fn settings_and_names_are_checked() {
    simulate(1, |env| async move {
        let engine = open(&env, &MemoryLog::new(), &MemoryStore::new()).await;
        let blocks = engine.blocks();
        assert!(blocks.put("b", 5, 16).await.unwrap());
        assert!(!blocks.put("b", 5, 16).await.unwrap());
        for (first, size) in [(6, 16), (5, 17)] {
            assert_eq!(blocks.put("b", first, size).await.unwrap_err().kind(), ErrorKind::Conflict);
        }
        for (name, first, size) in
            [("a b", 1, 1), ("", 1, 1), ("sys.Own", 1, 1), ("c", 1, 0), ("c", 1 << 53, 1)]
        {
            assert_eq!(blocks.put(name, first, size).await.unwrap_err().kind(), ErrorKind::Invalid, "{name}");
        }
        assert_eq!(blocks.allocate("none", 1).await.unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(blocks.state("none").await.unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(blocks.allocate("sys.WorkspaceIds", 1).await.unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(blocks.allocate("b", 0).await.unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(take(&engine, "b", 3).await, 5);
        assert_eq!(take(&engine, "b", 1).await, 8);
        let state = blocks.state("b").await.unwrap();
        assert_eq!((state.first, state.block_size, state.next, state.wasted), (5, 16, 9, 0));
        assert!(state.reserved > state.next);
        blocks.put("a", 1, 1).await.unwrap();
        blocks.put("z", 1, 1).await.unwrap();
        let names = async |after: Option<&str>, limit| {
            let states = blocks.list(after, limit).await.unwrap();
            states.into_iter().map(|state| state.name).collect::<Vec<_>>()
        };
        assert_eq!(names(None, 10).await, ["a", "b", "z"]);
        assert_eq!(names(None, 2).await, ["a", "b"]);
        assert_eq!(names(Some("b"), 10).await, ["z"]);
        engine.close().await;
        assert_eq!(engine.blocks().allocate("b", 1).await.unwrap_err().kind(), ErrorKind::Closed);
    });
}

#[test]
fn a_clean_stop_gives_the_rest_back_and_a_crash_wastes_it() {
    simulate(1, |env| async move {
        let (log, store) = (MemoryLog::new(), MemoryStore::new());
        let engine = open(&env, &log, &store).await;
        engine.blocks().put("b", 1, 16).await.unwrap();
        // More than one block, so that the rest may be of two.
        assert_eq!(take(&engine, "b", 10).await, 1);
        assert_eq!(take(&engine, "b", 4).await, 11);
        engine.close().await;
        let mut highest = 14;
        for (stop, store) in [("clean", store), ("store lost", MemoryStore::new())] {
            let engine = open(&env, &log, &store).await;
            assert_eq!(engine.blocks().state("b").await.unwrap().next, highest + 1, "{stop}");
            assert_eq!(take(&engine, "b", 20).await, highest + 1, "{stop}");
            highest += 20;
            assert_eq!(engine.blocks().state("b").await.unwrap().wasted, 0, "{stop}");
            engine.close().await;
        }
        // Crashes: nothing is closed, and the store is gone.
        for crash in 1..4_u64 {
            let engine = open(&env, &log, &MemoryStore::new()).await;
            let first = take(&engine, "b", 2).await;
            assert!(first > highest, "{first} after {highest}");
            assert!(
                first <= highest + 1 + 2 * 16,
                "a crash wastes a block or two, not {first} after {highest}"
            );
            highest = first + 1;
            let wasted = engine.blocks().state("b").await.unwrap().wasted;
            assert_eq!(wasted > 0, crash > 1, "{crash}: {wasted}");
            drop(engine);
        }
    });
}

#[test]
fn a_key_gives_the_same_numbers_again_and_no_other_caller_gets_them() {
    simulate(1, |env| async move {
        let (log, store) = (MemoryLog::new(), MemoryStore::new());
        let engine = open(&env, &log, &store).await;
        engine.blocks().put("b", 1, 16).await.unwrap();
        engine.blocks().put("other", 1, 16).await.unwrap();
        let mut seen: BTreeSet<u64> = (take(&engine, "b", 3).await..).take(3).collect();
        let first = engine.blocks().allocate_once("b", 5, "order-1").await.unwrap();
        assert_eq!(first.count, 5);
        assert_eq!(engine.blocks().allocate_once("b", 5, "order-1").await.unwrap(), first);
        let reused = engine.blocks().allocate_once("b", 6, "order-1").await.unwrap_err();
        assert_eq!((reused.kind(), reused.to_string().contains("order-1")), (ErrorKind::Conflict, true));
        // Another sequence, another thing: the same key.
        assert_eq!(engine.blocks().allocate_once("other", 2, "order-1").await.unwrap().first, 1);
        for number in first.first..first.first + 5 {
            assert!(seen.insert(number), "{number} is given out twice");
        }
        // More than the block holds that others are served from.
        for _ in 0..20 {
            for number in (take(&engine, "b", 2).await..).take(2) {
                assert!(seen.insert(number), "{number} is given out twice");
            }
        }
        engine.close().await;
        // Whether the store was lost or not, and whether what was held was given back or not.
        for store in [store, MemoryStore::new()] {
            let engine = open(&env, &log, &store).await;
            assert_eq!(engine.blocks().allocate_once("b", 5, "order-1").await.unwrap(), first);
            let next = take(&engine, "b", 1).await;
            assert!(seen.insert(next), "{next} is given out twice");
            drop(engine);
        }
    });
}

#[test]
fn numbers_under_a_key_have_the_same_limits() {
    simulate(1, |env| async move {
        let engine = open(&env, &MemoryLog::new(), &MemoryStore::new()).await;
        let last = (1 << 53) - 1;
        engine.blocks().put("b", last - 10, 1).await.unwrap();
        let once = async |name: &str, count, key: &str| engine.blocks().allocate_once(name, count, key).await;
        for (name, count, key, kind) in [
            ("none", 1, "k", ErrorKind::NotFound),
            ("sys.WorkspaceIds", 1, "k", ErrorKind::Invalid),
            ("b", 0, "k", ErrorKind::Invalid),
            ("b", 1, "", ErrorKind::Invalid),
            ("b", 1, &"k".repeat(201), ErrorKind::Invalid),
            ("b", 11, "k", ErrorKind::Exhausted),
        ] {
            assert_eq!(once(name, count, key).await.unwrap_err().kind(), kind, "{name} {count} {key}");
        }
        // What was refused has not used the key up.
        assert_eq!(once("b", 10, "k").await.unwrap().first, last - 10);
        assert_eq!(once("b", 1, "l").await.unwrap_err().kind(), ErrorKind::Exhausted);
        assert_eq!(once("b", 10, "k").await.unwrap().first, last - 10);
        engine.close().await;
    });
}

#[test]
fn few_allocators_stay_open_and_each_gives_back_what_it_held() {
    simulate(1, |env| async move {
        let options = Options { open_blocks: 2, ..Options::default() };
        let engine = open_with(&env, &MemoryLog::new(), &MemoryStore::new(), options).await;
        for name in ["a", "b", "c", "d"] {
            engine.blocks().put(name, 1, 100).await.unwrap();
        }
        for turn in 0..5 {
            for name in ["a", "b", "c", "d"] {
                assert_eq!(take(&engine, name, 3).await, 1 + turn * 3, "{name}");
            }
        }
        engine.close().await;
    });
}

#[test]
fn numbers_are_unique_and_rise_for_each_caller_while_allocators_come_and_go() {
    for seed in 1..6 {
        simulate(seed, |env| async move {
            let options = Options { open_blocks: 1, ..Options::default() };
            let engine = open_with(&env, &MemoryLog::new(), &MemoryStore::new(), options).await;
            for name in ["a", "b"] {
                engine.blocks().put(name, 1, 8).await.unwrap();
            }
            let tasks: Vec<_> = (0..6)
                .map(|task| {
                    let engine = engine.clone();
                    let name = if task % 2 == 0 { "a" } else { "b" };
                    env.spawn(async move {
                        let mut taken = Vec::new();
                        for count in (1..4).cycle().take(30) {
                            taken.push((take(&engine, name, count).await, count));
                        }
                        (name, taken)
                    })
                })
                .collect();
            let mut seen = BTreeSet::new();
            for task in tasks {
                let (name, taken) = task.await.unwrap();
                assert!(taken.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
                for (first, count) in taken {
                    assert!((first..first + count).all(|number| seen.insert((name, number))));
                }
            }
            engine.close().await;
        });
    }
}

#[test]
fn one_call_takes_at_most_2_to_the_32_numbers_with_a_key_and_without() {
    simulate(1, |env| async move {
        let engine = open(&env, &MemoryLog::new(), &MemoryStore::new()).await;
        engine.blocks().put("b", 1, 16).await.unwrap();
        for count in [(1 << 32) + 1, 1 << 52, u64::MAX] {
            let errors = [
                engine.blocks().allocate("b", count).await.unwrap_err(),
                engine.blocks().allocate_once("b", count, "key").await.unwrap_err(),
            ];
            for error in errors {
                assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
                assert!(error.to_string().contains("at most 4294967296"), "{error}");
            }
        }
        assert_eq!(take(&engine, "b", 1 << 32).await, 1, "nothing was taken");
        engine.close().await;
    });
}

#[test]
fn what_is_not_left_is_exhausted() {
    simulate(1, |env| async move {
        let engine = open(&env, &MemoryLog::new(), &MemoryStore::new()).await;
        let first = (1 << 53) - 6;
        engine.blocks().put("b", first, 16).await.unwrap();
        assert_eq!(engine.blocks().allocate("b", 10).await.unwrap_err().kind(), ErrorKind::Exhausted);
        assert_eq!(take(&engine, "b", 3).await, first);
        engine.close().await;
    });
}
