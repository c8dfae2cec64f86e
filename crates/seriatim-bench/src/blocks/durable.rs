//! On durable storage: what a block's write leaves of the speed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use seriatim_blocks::{BlockSize, BlockStore, DEFAULT_BLOCK_SIZE, Demand};
use tokio::runtime::Handle;

use super::contestants::{Ours, TokioMutex, storage};
use super::threads::{as_float, nanoseconds_each};
use super::{OPENDATA, place};
use crate::measure::{Goal, Measure};
use crate::sample::medians;
use crate::suite::Run;

const THREADS: usize = 4;

/// A fixed size beside the store's own durable writes and beside the peer; a size that follows the rate beside memory.
pub(super) fn measure(run: &Run) -> anyhow::Result<Vec<Measure>> {
    run.progress("allocate_one on files, 4 threads");
    let (rounds, duration) = (run.pick(7, 15), Duration::from_millis(run.pick(250, 1_000)));
    let runtime = run.runtime()?;
    let directory = run.directory("blocks-")?;
    let (ours, theirs) = (directory.path().join("ours"), directory.path().join("theirs"));
    std::fs::create_dir(&theirs)?;
    let store = runtime.block_on(async { place::on_files(&ours) })?;
    let follow = BlockSize::Follow { writes_per_second: 50, min: DEFAULT_BLOCK_SIZE, max: 1 << 26 };
    let contestants = runtime.block_on(async {
        let fixed = place::allocator(&store, "fixed", BlockSize::default()).await?;
        let following = place::allocator(&store, "following", follow).await?;
        let memory = place::allocator(&place::in_memory(), "memory", BlockSize::default()).await?;
        let peer = TokioMutex::new(&storage(Some(&theirs)).await?, true).await?;
        anyhow::Ok((Ours(fixed), Ours(following), Ours(memory), peer))
    });
    let (fixed, following, memory, peer) = contestants?;
    let (fixed, following, memory, peer) =
        (Arc::new(fixed), Arc::new(following), Arc::new(memory), Arc::new(peer));
    let writes = place::blocks(&store, "writes");
    let handle = runtime.handle();
    let [fixed_ns, write_ns, peer_ns, following_ns, memory_ns] = medians(
        rounds,
        [
            &mut || nanoseconds_each(handle, &fixed, THREADS, duration),
            &mut || nanoseconds_per_write(handle, &writes, duration),
            &mut || nanoseconds_each(handle, &peer, THREADS, duration),
            &mut || nanoseconds_each(handle, &following, THREADS, duration),
            &mut || nanoseconds_each(handle, &memory, THREADS, duration),
        ],
    )?;
    runtime.block_on(async {
        for allocator in [&fixed.0, &following.0] {
            allocator.close().await?;
        }
        store.close().await?;
        anyhow::Ok(())
    })?;

    let rate = |name: &str| Measure::new(format!("{name}, 4 threads"), 1e9 / fixed_ns, "1/s");
    let all_of_every_write = 1e9 / write_ns * as_float(DEFAULT_BLOCK_SIZE);
    Ok(vec![
        rate("durable numbers, blocks of 4096")
            .beside("4096 × the store's durable writes", all_of_every_write)
            .goal(Goal::RatioAtLeast(0.9)),
        rate("durable numbers, blocks of 4096")
            .beside(format!("{OPENDATA}, tokio mutex, SlateDB without fsync"), 1e9 / peer_ns),
        Measure::new("durable, size follows the rate, 4 threads", following_ns, "ns")
            .beside("ours in memory", memory_ns)
            .goal(Goal::RatioAtMost(2.0)),
    ])
}

/// Reserves blocks one after another for this long; how long one took.
fn nanoseconds_per_write(
    runtime: &Handle,
    blocks: &impl BlockStore,
    duration: Duration,
) -> anyhow::Result<f64> {
    runtime.block_on(async {
        let (started, mut count) = (Instant::now(), 0_u64);
        while started.elapsed() < duration {
            let demand = Demand { min: 1, want: DEFAULT_BLOCK_SIZE, unused: 0 };
            blocks.reserve(demand).await?;
            count += 1;
        }
        Ok(started.elapsed().as_secs_f64() * 1e9 / as_float(count))
    })
}
