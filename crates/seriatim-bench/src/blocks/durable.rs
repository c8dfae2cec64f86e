//! Allocation on durable storage: how much the writes of blocks cost.

use std::sync::Arc;
use std::time::Duration;

use seriatim_blocks::{BlockSize, DEFAULT_BLOCK_SIZE};

use super::contestants::{Ours, TokioMutex, storage};
use super::memory::FOLLOW;
use super::threads::{as_float, nanoseconds_each, per_second};
use super::timed::TimedBlocks;
use super::{OPENDATA, place};
use crate::measure::{Goal, Measure};
use crate::sample::{median, medians};
use crate::suite::Run;

const THREADS: usize = 4;

/// A fixed size compared with its own durable writes and with the peer; a size that follows the rate compared with memory.
pub(super) fn measure(run: &Run) -> anyhow::Result<Vec<Measure>> {
    run.progress("allocate_one on files, 4 threads");
    let (rounds, duration) = (run.pick(15, 31), Duration::from_millis(run.pick(100, 400)));
    let runtime = run.runtime()?;
    let directory = run.directory("blocks-")?;
    let (ours, theirs) = (directory.path().join("ours"), directory.path().join("theirs"));
    std::fs::create_dir(&theirs)?;
    let cells = place::on_files(&ours);
    let timed = Arc::new(TimedBlocks::new(place::blocks(&cells, "fixed")));
    let contestants = runtime.block_on(async {
        let fixed = Ours(place::open(timed.clone(), BlockSize::default()).await?);
        let following = Ours(place::allocator(&cells, "following", FOLLOW).await?);
        let memory = Ours(place::allocator(&place::in_memory(), "memory", FOLLOW).await?);
        let peer = TokioMutex::new(&storage(Some(&theirs)).await?, true).await?;
        anyhow::Ok((Arc::new(fixed), Arc::new(following), Arc::new(memory), Arc::new(peer)))
    });
    let (fixed, following, memory, peer) = contestants?;
    let handle = runtime.handle();
    let mut writes_ns = Vec::new();
    let [fixed_ns, peer_ns, following_ns, memory_ns] = medians(
        rounds,
        [
            &mut || {
                timed.times();
                let each = nanoseconds_each(handle, &fixed, THREADS, duration)?;
                writes_ns.push(mean_ns(&timed.times()));
                Ok(each)
            },
            &mut || nanoseconds_each(handle, &peer, THREADS, duration),
            &mut || nanoseconds_each(handle, &following, THREADS, duration),
            &mut || nanoseconds_each(handle, &memory, THREADS, duration),
        ],
    )?;
    runtime.block_on(async {
        fixed.0.close().await?;
        following.0.close().await?;
        cells.close().await?;
        anyhow::Ok(())
    })?;

    let rate = || Measure::new("durable numbers, blocks of 4096, 4 threads", per_second(fixed_ns), "1/s");
    // The first round warms up.
    let writes = per_second(median(&writes_ns[1..]));
    Ok(vec![
        rate()
            .compared_with("4096 in each of its durable writes", writes * as_float(DEFAULT_BLOCK_SIZE))
            .goal(Goal::RatioAtLeast(0.9)),
        rate().compared_with(format!("{OPENDATA}, tokio mutex, SlateDB without fsync"), per_second(peer_ns)),
        Measure::new("durable, size follows the rate, 4 threads", following_ns, "ns")
            .compared_with("the same in memory", memory_ns)
            .goal(Goal::RatioAtMost(2.0)),
    ])
}

fn mean_ns(times: &[Duration]) -> f64 {
    let total: Duration = times.iter().sum();
    total.as_secs_f64() * 1e9 / as_float(times.len() as u64)
}
