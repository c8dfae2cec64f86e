//! Conditional writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{get, key, nth, reopen};
use crate::conformance::{Subject, TASKS, join, yield_once};
use seriatim_storage::{Cells, Key};

pub async fn an_insert_writes_only_if_there_is_no_value(subject: Subject<Cells>) {
    let cells = subject.open().await;
    assert!(cells.insert_if_absent(key(b"k"), b"first").await.unwrap());
    assert!(!cells.insert_if_absent(key(b"k"), b"second").await.unwrap());
    assert!(!cells.insert_if_absent(key(b"k"), b"first").await.unwrap());
    assert_eq!(get(&cells, key(b"k")).await.unwrap(), "first");
    // A similar key is another key.
    assert!(cells.insert_if_absent(key(b"kk"), b"third").await.unwrap());
    assert!(cells.insert_if_absent(Key::new(b"pk", b""), b"fourth").await.unwrap());
    assert_eq!(get(&cells, key(b"kk")).await.unwrap(), "third");
    assert_eq!(get(&cells, Key::new(b"pk", b"")).await.unwrap(), "fourth");
    assert_eq!(get(&cells, key(b"")).await, None);
}

pub async fn a_swap_writes_only_over_the_expected_value(subject: Subject<Cells>) {
    let cells = subject.open().await;
    assert!(!cells.compare_and_swap(key(b"k"), b"", b"new").await.unwrap());
    assert_eq!(get(&cells, key(b"k")).await, None);
    assert!(cells.insert_if_absent(key(b"k"), b"old").await.unwrap());
    for other in [&b""[..], b"ol", b"older", b"new", b"OLD"] {
        assert!(!cells.compare_and_swap(key(b"k"), other, b"new").await.unwrap());
        assert_eq!(get(&cells, key(b"k")).await.unwrap(), "old");
    }
    assert!(cells.compare_and_swap(key(b"k"), b"old", b"new").await.unwrap());
    assert_eq!(get(&cells, key(b"k")).await.unwrap(), "new");
    assert!(!cells.compare_and_swap(key(b"k"), b"old", b"newer").await.unwrap());
    assert!(cells.compare_and_swap(key(b"k"), b"new", b"new").await.unwrap());
}

pub async fn a_conditional_delete_removes_only_the_expected_value(subject: Subject<Cells>) {
    let cells = subject.open().await;
    assert!(!cells.compare_and_delete(key(b"k"), b"").await.unwrap());
    assert!(cells.insert_if_absent(key(b"k"), b"value").await.unwrap());
    for other in [&b""[..], b"valu", b"values"] {
        assert!(!cells.compare_and_delete(key(b"k"), other).await.unwrap());
    }
    assert_eq!(get(&cells, key(b"k")).await.unwrap(), "value");
    assert!(cells.compare_and_delete(key(b"k"), b"value").await.unwrap());
    assert_eq!(get(&cells, key(b"k")).await, None);
    assert!(!cells.compare_and_delete(key(b"k"), b"value").await.unwrap());
}

pub async fn written_cells_are_there_after_reopen(subject: Subject<Cells>) {
    let mut cells = subject.open().await;
    for name in [b"inserted", b"swapped\0", b"deleted\0"] {
        assert!(cells.insert_if_absent(key(name), b"first").await.unwrap());
    }
    assert!(cells.compare_and_swap(key(b"swapped\0"), b"first", b"second").await.unwrap());
    assert!(cells.compare_and_delete(key(b"deleted\0"), b"first").await.unwrap());
    cells = reopen(&subject, cells).await;
    assert_eq!(get(&cells, key(b"inserted")).await.unwrap(), "first");
    assert_eq!(get(&cells, key(b"swapped\0")).await.unwrap(), "second");
    assert_eq!(get(&cells, key(b"deleted\0")).await, None);
    assert!(!cells.insert_if_absent(key(b"inserted"), b"x").await.unwrap());
    assert!(cells.compare_and_swap(key(b"swapped\0"), b"second", b"third").await.unwrap());
}

pub async fn of_many_inserts_one_wins(subject: Subject<Cells>) {
    let cells = subject.open().await;
    for round in 0..20 {
        let won = join(subject.tasks(TASKS, |task| {
            let cells = cells.clone();
            async move { cells.insert_if_absent(key(&nth(round)), &nth(task)).await.unwrap() }
        }))
        .await;
        let winners: Vec<_> = (0..TASKS).filter(|&task| won[task]).collect();
        assert_eq!(winners.len(), 1, "{winners:?} won round {round}");
        assert_eq!(get(&cells, key(&nth(round))).await.unwrap(), nth(winners[0])[..]);
    }
}

pub async fn of_many_deletes_one_wins(subject: Subject<Cells>) {
    let cells = subject.open().await;
    for round in 0..20 {
        assert!(cells.insert_if_absent(key(b"k"), &nth(round)).await.unwrap());
        let won = join(subject.tasks(TASKS, |_| {
            let cells = cells.clone();
            async move { cells.compare_and_delete(key(b"k"), &nth(round)).await.unwrap() }
        }))
        .await;
        assert_eq!(won.iter().filter(|won| **won).count(), 1, "round {round}");
        assert_eq!(get(&cells, key(b"k")).await, None);
    }
}

pub async fn a_counter_that_is_swapped_counts_every_increment(subject: Subject<Cells>) {
    const INCREMENTS: usize = 25;
    let cells = subject.open().await;
    assert!(cells.insert_if_absent(key(b"counter"), &nth(0)).await.unwrap());
    let drawn = join(subject.tasks(TASKS, |_| {
        let cells = cells.clone();
        async move {
            let mut drawn = Vec::new();
            while drawn.len() < INCREMENTS {
                yield_once().await;
                let there = get(&cells, key(b"counter")).await.unwrap();
                let next = u64::from_be_bytes(there[..].try_into().unwrap()) + 1;
                if cells.compare_and_swap(key(b"counter"), &there, &next.to_be_bytes()).await.unwrap() {
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
    assert_eq!(get(&cells, key(b"counter")).await.unwrap(), nth(TASKS * INCREMENTS)[..]);
}

pub async fn inserts_and_deletes_can_be_used_as_a_lock(subject: Subject<Cells>) {
    let cells = subject.open().await;
    let holders = Arc::new(AtomicUsize::new(0));
    join(subject.tasks(TASKS, |task| {
        let (cells, holders, env) = (cells.clone(), holders.clone(), subject.env.clone());
        async move {
            let mut acquired = 0;
            while acquired < 10 {
                if !cells.insert_if_absent(key(b"lock"), &nth(task)).await.unwrap() {
                    env.sleep(std::time::Duration::from_millis(1)).await;
                    continue;
                }
                assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0, "another task holds the lock");
                acquired += 1;
                holders.fetch_sub(1, Ordering::SeqCst);
                assert!(cells.compare_and_delete(key(b"lock"), &nth(task)).await.unwrap());
            }
        }
    }))
    .await;
}
