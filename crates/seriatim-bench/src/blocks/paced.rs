//! Callers that are slower than the refill: they should never wait for storage.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use seriatim_blocks::{BlockSize, BlockStore, DEFAULT_BLOCK_SIZE, Demand};
use tokio::runtime::Handle;

use super::contestants::{FetchAdd, Numbers, Ours};
use super::place;
use super::threads::as_float;
use crate::latency::Latencies;
use crate::measure::{Goal, Measure};
use crate::suite::Run;

const CALLERS: u32 = 2;
/// Numbers that a caller takes between two pauses.
const BURST: u32 = 64;
/// Of the rate at which a store that does nothing else can refill.
const PART_OF_THE_REFILL_RATE: f64 = 0.25;

/// Every call is timed; the same calls to a bare `fetch_add` show what the machine alone does to them.
pub(super) fn measure(run: &Run) -> anyhow::Result<Vec<Measure>> {
    run.progress("paced callers on files");
    let duration = Duration::from_secs(run.pick(3, 20));
    let runtime = run.runtime()?;
    let directory = run.directory("paced-")?;
    let store = runtime.block_on(async { place::on_files(directory.path()) })?;
    let write = runtime.block_on(write_time(&place::blocks(&store, "writes")))?;
    let per_second = as_float(DEFAULT_BLOCK_SIZE) / write.as_secs_f64() * PART_OF_THE_REFILL_RATE;
    let pause = Duration::from_secs_f64(f64::from(BURST * CALLERS) / per_second);

    let allocator = runtime.block_on(place::allocator(&store, "paced", BlockSize::default()))?;
    let ours = Arc::new(Ours(allocator.clone()));
    let warm_up = duration / 10;
    timed(runtime.handle(), &ours, pause, warm_up)?;
    let before = allocator.counts();
    let our = timed(runtime.handle(), &ours, pause, duration)?;
    let after = allocator.counts();
    let bare = timed(runtime.handle(), &Arc::new(FetchAdd::default()), pause, duration)?;
    runtime.block_on(async {
        allocator.close().await?;
        store.close().await?;
        anyhow::Ok(())
    })?;

    let what = format!("2 callers at {:.1} M/s", our.count() / duration.as_secs_f64() / 1e6);
    let waits = as_float(after.waits - before.waits);
    let micros = |latencies: &Latencies, quantile| latencies.quantile_ms(quantile) * 1e3;
    let quantile = |name: &str, quantile| {
        Measure::new(format!("{name} of a call, {what}"), micros(&our, quantile), "µs")
            .beside("fetch_add", micros(&bare, quantile))
    };
    Ok(vec![
        Measure::new(format!("calls that waited for storage, {what}"), waits, "").goal(Goal::AtMost(0.0)),
        Measure::new(format!("blocks meanwhile, {what}"), as_float(after.blocks - before.blocks), ""),
        quantile("p99.99", 0.999_9),
        quantile("maximum", 1.0),
    ])
}

/// How long a durable write takes, in the middle of many.
async fn write_time(blocks: &impl BlockStore) -> anyhow::Result<Duration> {
    let mut times = Vec::new();
    for _ in 0..200 {
        let started = Instant::now();
        blocks.reserve(Demand { min: 1, want: DEFAULT_BLOCK_SIZE, unused: 0 }).await?;
        times.push(started.elapsed());
    }
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

/// Each caller takes a burst, then pauses, for this long; all calls are timed.
fn timed<N: Numbers>(
    runtime: &Handle,
    numbers: &Arc<N>,
    pause: Duration,
    duration: Duration,
) -> anyhow::Result<Latencies> {
    let mut all = Latencies::new()?;
    let times = thread::scope(|scope| {
        let caller = || runtime.block_on(call(&**numbers, pause, duration));
        let callers: Vec<_> = (0..CALLERS).map(|_| scope.spawn(caller)).collect();
        let joined =
            callers.into_iter().map(|caller| caller.join().map_err(|_| anyhow!("a thread panicked"))?);
        joined.collect::<anyhow::Result<Vec<Latencies>>>()
    })?;
    times.into_iter().try_for_each(|times| all.add(&times))?;
    Ok(all)
}

async fn call<N: Numbers>(numbers: &N, pause: Duration, duration: Duration) -> anyhow::Result<Latencies> {
    let mut times = Latencies::new()?;
    let started = Instant::now();
    let mut next = started;
    while started.elapsed() < duration {
        for _ in 0..BURST {
            let before = Instant::now();
            numbers.next().await?;
            times.record(before.elapsed());
        }
        next += pause;
        // Sleeping is coarser than most pauses; a caller that is behind goes on at once.
        while Instant::now() < next {
            thread::yield_now();
        }
    }
    Ok(times)
}
