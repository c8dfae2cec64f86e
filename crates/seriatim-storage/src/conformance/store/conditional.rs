//! Writes that depend on what is there.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{get, key, keys, nth, reopen};
use crate::conformance::{Subject, TASKS, breathe, join};
use crate::{ClusteringRange, Key, Store};

pub async fn an_insert_writes_only_where_nothing_is(subject: Subject<Store>) {
    let store = subject.open().await;
    assert!(store.insert_if_absent(key(b"k"), b"first").await.unwrap());
    assert!(!store.insert_if_absent(key(b"k"), b"second").await.unwrap());
    assert!(!store.insert_if_absent(key(b"k"), b"first").await.unwrap());
    assert_eq!(get(&store, key(b"k")).await.unwrap(), "first");
    // A neighbour is somebody else.
    assert!(store.insert_if_absent(key(b"kk"), b"third").await.unwrap());
    assert!(store.insert_if_absent(Key::new(b"pk", b""), b"fourth").await.unwrap());
    assert_eq!(keys(&store, b"p", ClusteringRange::all()).await, [&b"k"[..], b"kk"]);
}

pub async fn a_swap_writes_only_over_what_it_expects(subject: Subject<Store>) {
    let store = subject.open().await;
    assert!(!store.compare_and_swap(key(b"k"), b"", b"new").await.unwrap());
    assert_eq!(get(&store, key(b"k")).await, None);
    store.put(key(b"k"), b"old").await.unwrap();
    for other in [&b""[..], b"ol", b"older", b"new", b"OLD"] {
        assert!(!store.compare_and_swap(key(b"k"), other, b"new").await.unwrap());
        assert_eq!(get(&store, key(b"k")).await.unwrap(), "old");
    }
    assert!(store.compare_and_swap(key(b"k"), b"old", b"new").await.unwrap());
    assert_eq!(get(&store, key(b"k")).await.unwrap(), "new");
    assert!(!store.compare_and_swap(key(b"k"), b"old", b"newer").await.unwrap());
    assert!(store.compare_and_swap(key(b"k"), b"new", b"new").await.unwrap());
}

pub async fn a_conditional_delete_removes_only_what_it_expects(subject: Subject<Store>) {
    let store = subject.open().await;
    assert!(!store.compare_and_delete(key(b"k"), b"").await.unwrap());
    store.put(key(b"k"), b"value").await.unwrap();
    for other in [&b""[..], b"valu", b"values"] {
        assert!(!store.compare_and_delete(key(b"k"), other).await.unwrap());
    }
    assert_eq!(get(&store, key(b"k")).await.unwrap(), "value");
    assert!(store.compare_and_delete(key(b"k"), b"value").await.unwrap());
    assert_eq!(get(&store, key(b"k")).await, None);
    assert!(!store.compare_and_delete(key(b"k"), b"value").await.unwrap());
    assert!(keys(&store, b"p", ClusteringRange::all()).await.is_empty());
}

pub async fn conditional_writes_are_there_after_reopen(subject: Subject<Store>) {
    let mut store = subject.open().await;
    for name in [b"inserted", b"swapped\0", b"deleted\0"] {
        assert!(store.insert_if_absent(key(name), b"first").await.unwrap());
    }
    assert!(store.compare_and_swap(key(b"swapped\0"), b"first", b"second").await.unwrap());
    assert!(store.compare_and_delete(key(b"deleted\0"), b"first").await.unwrap());
    store = reopen(&subject, store).await;
    assert_eq!(get(&store, key(b"inserted")).await.unwrap(), "first");
    assert_eq!(get(&store, key(b"swapped\0")).await.unwrap(), "second");
    assert_eq!(get(&store, key(b"deleted\0")).await, None);
    assert!(!store.insert_if_absent(key(b"inserted"), b"x").await.unwrap());
    assert!(store.compare_and_swap(key(b"swapped\0"), b"second", b"third").await.unwrap());
}

pub async fn of_many_inserts_one_wins(subject: Subject<Store>) {
    let store = subject.open().await;
    for round in 0..20 {
        let won = join(subject.tasks(TASKS, |task| {
            let store = store.clone();
            async move { store.insert_if_absent(key(&nth(round)), &nth(task)).await.unwrap() }
        }))
        .await;
        let winners: Vec<_> = (0..TASKS).filter(|&task| won[task]).collect();
        assert_eq!(winners.len(), 1, "{winners:?} won round {round}");
        assert_eq!(get(&store, key(&nth(round))).await.unwrap(), nth(winners[0])[..]);
    }
}

pub async fn of_many_deletes_one_wins(subject: Subject<Store>) {
    let store = subject.open().await;
    for round in 0..20 {
        store.put(key(b"k"), &nth(round)).await.unwrap();
        let won = join(subject.tasks(TASKS, |_| {
            let store = store.clone();
            async move { store.compare_and_delete(key(b"k"), &nth(round)).await.unwrap() }
        }))
        .await;
        assert_eq!(won.iter().filter(|won| **won).count(), 1, "round {round}");
        assert_eq!(get(&store, key(b"k")).await, None);
    }
}

pub async fn a_counter_that_is_swapped_loses_nothing(subject: Subject<Store>) {
    const INCREMENTS: usize = 25;
    let store = subject.open().await;
    store.put(key(b"counter"), &nth(0)).await.unwrap();
    let drawn = join(subject.tasks(TASKS, |_| {
        let store = store.clone();
        async move {
            let mut drawn = Vec::new();
            while drawn.len() < INCREMENTS {
                breathe().await;
                let there = get(&store, key(b"counter")).await.unwrap();
                let next = u64::from_be_bytes(there[..].try_into().unwrap()) + 1;
                if store.compare_and_swap(key(b"counter"), &there, &next.to_be_bytes()).await.unwrap() {
                    drawn.push(next);
                }
            }
            drawn
        }
    }))
    .await;
    let mut drawn = drawn.concat();
    drawn.sort_unstable();
    assert_eq!(drawn, (1..=(TASKS * INCREMENTS) as u64).collect::<Vec<_>>(), "each number once");
    assert_eq!(get(&store, key(b"counter")).await.unwrap(), nth(TASKS * INCREMENTS)[..]);
}

pub async fn inserts_and_deletes_make_a_lock(subject: Subject<Store>) {
    let store = subject.open().await;
    let inside = Arc::new(AtomicUsize::new(0));
    join(subject.tasks(TASKS, |task| {
        let (store, inside, env) = (store.clone(), inside.clone(), subject.env.clone());
        async move {
            let mut entered = 0;
            while entered < 10 {
                if !store.insert_if_absent(key(b"lock"), &nth(task)).await.unwrap() {
                    env.sleep(std::time::Duration::from_millis(1)).await;
                    continue;
                }
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "somebody else is inside");
                entered += 1;
                inside.fetch_sub(1, Ordering::SeqCst);
                assert!(store.compare_and_delete(key(b"lock"), &nth(task)).await.unwrap());
            }
        }
    }))
    .await;
}

pub async fn a_put_among_swaps_is_not_lost(subject: Subject<Store>) {
    const ROUNDS: usize = 100;
    let store = subject.open().await;
    // A swap that expected the value from before the put must lose. So once a put of round r has returned, every
    // value that shows up has grown from it: its first half is r.
    let value = |round: usize, count: usize| [nth(round), nth(count)].concat();
    store.put(key(b"k"), &value(0, 0)).await.unwrap();
    let reached = Arc::new(AtomicUsize::new(0));
    let swappers = subject.tasks(4, |_| {
        let (store, reached) = (store.clone(), reached.clone());
        async move {
            while reached.load(Ordering::SeqCst) < ROUNDS {
                breathe().await;
                let before = reached.load(Ordering::SeqCst);
                let there = get(&store, key(b"k")).await.unwrap();
                let round = u64::from_be_bytes(there[..8].try_into().unwrap());
                assert!(round >= before as u64, "a swap undid the put of round {before}");
                let count = u64::from_be_bytes(there[8..].try_into().unwrap()) + 1;
                let next = [round.to_be_bytes(), count.to_be_bytes()].concat();
                store.compare_and_swap(key(b"k"), &there, &next).await.unwrap();
            }
        }
    });
    for round in 1..=ROUNDS {
        store.put(key(b"k"), &value(round, 0)).await.unwrap();
        reached.store(round, Ordering::SeqCst);
        breathe().await;
        let there = get(&store, key(b"k")).await.unwrap();
        assert_eq!(there[..8], nth(round), "a swap undid the put");
    }
    join(swappers).await;
}
