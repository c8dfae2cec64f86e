//! Allocation one by one, in memory: the cost of sharing.

use std::sync::Arc;
use std::time::Duration;

use seriatim_blocks::{BlockSize, DEFAULT_BLOCK_SIZE};

use super::contestants::{FetchAdd, Ours, StdMutex, TokioMutex, storage};
use super::threads::{nanoseconds_each, per_second};
use super::{OPENDATA, place};
use crate::measure::{Goal, Measure};
use crate::sample::medians;
use crate::suite::Run;

/// A size that follows the rate: threads that do nothing else use 4,096 numbers in the time of one wake-up.
pub(super) const FOLLOW: BlockSize =
    BlockSize::Follow { writes_per_second: 20, min: DEFAULT_BLOCK_SIZE, max: 1 << 26 };

/// All contestants, with 1, 2 and 4 threads.
pub(super) fn measure(run: &Run) -> anyhow::Result<Vec<Measure>> {
    let runtime = run.runtime()?;
    let contestants = runtime.block_on(async {
        let cells = place::in_memory();
        let following = Ours(place::allocator(&cells, "following", FOLLOW).await?);
        let fixed = Ours(place::allocator(&cells, "fixed", BlockSize::default()).await?);
        let std_mutex = StdMutex::new(&storage(None).await?).await?;
        let tokio_mutex = TokioMutex::new(&storage(None).await?, false).await?;
        anyhow::Ok((Arc::new(following), Arc::new(fixed), Arc::new(std_mutex), Arc::new(tokio_mutex)))
    });
    let (following, fixed, std_mutex, tokio_mutex) = contestants?;
    let fetch_add = Arc::new(FetchAdd::default());

    let (rounds, duration) = (run.pick(15, 31), Duration::from_millis(run.pick(40, 100)));
    let mut measures = Vec::new();
    for threads in [1, 2, 4] {
        let s = if threads == 1 { "" } else { "s" };
        run.progress(&format!("allocate_one in memory, {threads} thread{s}"));
        let handle = runtime.handle();
        let [following, fixed, bare, std, tokio] = medians(
            rounds,
            [
                &mut || nanoseconds_each(handle, &following, threads, duration),
                &mut || nanoseconds_each(handle, &fixed, threads, duration),
                &mut || nanoseconds_each(handle, &fetch_add, threads, duration),
                &mut || nanoseconds_each(handle, &std_mutex, threads, duration),
                &mut || nanoseconds_each(handle, &tokio_mutex, threads, duration),
            ],
        )?;
        for (size, ours) in [("blocks of 4096", fixed), ("size follows the rate", following)] {
            let name = format!("allocate_one, {size}, {threads} thread{s}");
            let one = Measure::new(&name, ours, "ns");
            measures.push(one.compared_with("fetch_add", bare).goal(Goal::RatioAtMost(1.3)));
            for (mutex, peer, times) in [("std", std, 3.0), ("tokio", tokio, 10.0)] {
                let rate = Measure::new(&name, per_second(ours), "1/s");
                let rate = rate.compared_with(format!("{OPENDATA}, {mutex} mutex"), per_second(peer));
                measures.push(if threads == 4 { rate.goal(Goal::RatioAtLeast(times)) } else { rate });
            }
        }
    }
    Ok(measures)
}
