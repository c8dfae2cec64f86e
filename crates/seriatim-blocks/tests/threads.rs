//! Real threads on one allocator, and its metrics.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::Arc;

use seriatim_blocks::BlockSize;
use seriatim_env::Env;
use seriatim_storage::memory::MemoryCells;
use support::TestCells;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_time().build().unwrap()
}

#[test]
fn threads_on_one_allocator_never_get_the_same_number() {
    const EACH: u64 = 100_000;
    runtime().block_on(async {
        let env = Env::real();
        let cells = TestCells::new(env.clone(), Arc::new(MemoryCells::new()));
        // Small blocks, so that the end of a block is reached often.
        let allocator = Arc::new(cells.open_sized(BlockSize::Fixed(50)).await);
        let tasks: Vec<_> = (0..4)
            .map(|task: u64| {
                let allocator = allocator.clone();
                env.spawn(async move {
                    let mut mine = Vec::new();
                    for call in 0..EACH {
                        if call % 64 == task {
                            mine.extend(allocator.allocate(3).await.unwrap().numbers());
                        } else {
                            mine.push(allocator.allocate_one().await.unwrap());
                        }
                    }
                    assert!(mine.is_sorted());
                    mine
                })
            })
            .collect();
        let mut numbers = Vec::new();
        for task in tasks {
            numbers.extend(task.await.unwrap().into_iter().map(seriatim_types::Number::get));
        }
        numbers.sort_unstable();
        let count = numbers.len();
        numbers.dedup();
        assert_eq!(numbers.len(), count, "no number twice");
        // A thread that is interrupted in the middle of a call while 64 blocks are used up loses its number.
        let (counts, missing) = (allocator.counts(), numbers[count - 1] + 1 - count as u64);
        assert!(missing <= counts.wasted && counts.wasted < 100, "{missing} are missing: {counts:?}");
        assert_eq!(counts.allocated() + counts.wasted, count as u64 + missing);
    });
}

#[test]
fn metrics_count_what_was_reserved_wasted_and_waited_for() {
    let recorder = metrics_util::debugging::DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _guard = metrics::set_default_local_recorder(&recorder);
    support::in_memory(|cells| async move {
        let allocator = cells.open_fixed(10).await;
        allocator.allocate_one().await.unwrap();
        cells.elsewhere().open_fixed(10).await.allocate_one().await.unwrap();
        allocator.close().await.unwrap();
    });
    let metrics: Vec<(String, String)> = snapshotter
        .snapshot()
        .into_vec()
        .into_iter()
        .map(|(key, _, _, value)| (key.key().to_string(), format!("{value:?}")))
        .collect();
    let found = |name: &str, value: &str| {
        let name = format!("Key({name}, [blocks = default])");
        metrics.iter().any(|(key, found)| *key == name && found == value)
    };
    assert!(found("seriatim_blocks_reserved_total", "Counter(2)"), "{metrics:?}");
    assert!(found("seriatim_blocks_waits_total", "Counter(2)"), "{metrics:?}");
    assert!(found("seriatim_blocks_numbers_wasted", "Gauge(9.0)"), "{metrics:?}");
    assert!(found("seriatim_blocks_size", "Gauge(10.0)"), "{metrics:?}");
}
