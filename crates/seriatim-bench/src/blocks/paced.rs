//! Callers that are slower than the refill of blocks: they should never wait for the storage.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use seriatim_blocks::{BlockSize, BlockStore, DEFAULT_BLOCK_SIZE, Demand};
use seriatim_storage::Cells;
use tokio::runtime::{Handle, Runtime};

use super::contestants::{FetchAdd, Ours, TakeOne};
use super::place;
use super::threads::as_float;
use super::timed::TimedBlocks;
use crate::latency::Latencies;
use crate::measure::{Goal, Measure};
use crate::suite::Run;

const CALLERS: u32 = 2;
/// The pause between two bursts of a caller. The caller sleeps, so that the refill can use a processor.
const PAUSE: Duration = Duration::from_micros(200);
/// The callers' rate, as a part of the highest refill rate of the store. Disks are sometimes slow: then they reach only a
/// fraction of their highest rate.
const PART_OF_THE_REFILL_RATE: f64 = 0.1;
/// So few writes that half a block lasts longer than the longest stall of a disk.
const FOLLOW: BlockSize = BlockSize::Follow { writes_per_second: 4, min: DEFAULT_BLOCK_SIZE, max: 1 << 24 };

/// Every call is timed; the same calls to a bare `fetch_add` show the influence of the machine alone.
pub(super) fn measure(run: &Run) -> anyhow::Result<Vec<Measure>> {
    run.progress("paced callers on files");
    let runtime = run.runtime()?;
    let directory = run.directory("paced-")?;
    let cells = place::on_files(directory.path());
    let writes = runtime.block_on(writes_per_second(&place::blocks(&cells, "writes")))?;
    let rate = as_float(DEFAULT_BLOCK_SIZE) * writes * PART_OF_THE_REFILL_RATE;
    let mut measures = compare(run, &runtime, &cells, "blocks of 4096", BlockSize::default(), rate)?;
    measures.extend(compare(run, &runtime, &cells, "size follows the rate", FOLLOW, rate)?);
    runtime.block_on(cells.close())?;
    Ok(measures)
}

fn compare(
    run: &Run,
    runtime: &Runtime,
    cells: &Cells,
    size_name: &str,
    size: BlockSize,
    rate: f64,
) -> anyhow::Result<Vec<Measure>> {
    let duration = Duration::from_secs(run.pick(3, 10));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few hundred")]
    let burst = (rate * PAUSE.as_secs_f64() / f64::from(CALLERS)).ceil() as u64;
    let blocks = Arc::new(TimedBlocks::new(place::blocks(cells, size_name)));
    let allocator = runtime.block_on(place::open(blocks.clone(), size))?;
    let ours = Arc::new(Ours(allocator.clone()));
    timed(runtime.handle(), &ours, burst, duration / 2)?;
    blocks.times();
    let before = allocator.counts();
    let our = timed(runtime.handle(), &ours, burst, duration)?;
    let after = allocator.counts();
    let writes = blocks.times();
    let bare = timed(runtime.handle(), &Arc::new(FetchAdd::default()), burst, duration)?;
    runtime.block_on(allocator.close())?;

    let what = format!("{size_name}, 2 callers at {:.2} M/s", our.count() / duration.as_secs_f64() / 1e6);
    let waits = as_float(after.waits - before.waits);
    let slowest_ms = writes.iter().max().map_or(0.0, |slowest| slowest.as_secs_f64()) * 1e3;
    let micros = |latencies: &Latencies, quantile| latencies.quantile_ms(quantile) * 1e3;
    let quantile = |name: &str, quantile| {
        Measure::new(format!("{name}, {what}"), micros(&our, quantile), "µs")
            .compared_with("fetch_add", micros(&bare, quantile))
    };
    let waited = format!("calls that waited for one of {} blocks, {what}", writes.len());
    Ok(vec![
        Measure::new(waited, waits, "").goal(Goal::AtMost(0.0)),
        Measure::new(format!("slowest write of a block, {what}"), slowest_ms, "ms"),
        quantile("p99.99", 0.999_9),
        quantile("maximum", 1.0),
    ])
}

/// How many blocks per second can be reserved one after another.
async fn writes_per_second(blocks: &impl BlockStore) -> anyhow::Result<f64> {
    let (started, mut count) = (Instant::now(), 0);
    while started.elapsed() < Duration::from_secs(1) {
        blocks.reserve(Demand { min: 1, want: DEFAULT_BLOCK_SIZE, unused: 0 }).await?;
        count += 1;
    }
    Ok(as_float(count) / started.elapsed().as_secs_f64())
}

/// Each caller takes bursts with pauses between them, for this long; all calls are timed.
fn timed<N: TakeOne>(
    runtime: &Handle,
    numbers: &Arc<N>,
    burst: u64,
    duration: Duration,
) -> anyhow::Result<Latencies> {
    let mut all = Latencies::new()?;
    let times = thread::scope(|scope| {
        let caller = || runtime.block_on(call(&**numbers, burst, duration));
        let callers: Vec<_> = (0..CALLERS).map(|_| scope.spawn(caller)).collect();
        let joined =
            callers.into_iter().map(|caller| caller.join().map_err(|_| anyhow!("a thread panicked"))?);
        joined.collect::<anyhow::Result<Vec<Latencies>>>()
    })?;
    times.into_iter().try_for_each(|times| all.add(&times))?;
    Ok(all)
}

async fn call<N: TakeOne>(numbers: &N, burst: u64, duration: Duration) -> anyhow::Result<Latencies> {
    let mut times = Latencies::new()?;
    let started = Instant::now();
    let mut next = started;
    while started.elapsed() < duration {
        for _ in 0..burst {
            let before = Instant::now();
            numbers.take_one().await?;
            times.record(before.elapsed());
        }
        next += PAUSE;
        // A caller that is late continues immediately.
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    Ok(times)
}
