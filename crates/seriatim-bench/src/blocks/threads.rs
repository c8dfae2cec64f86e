//! Threads that take numbers as fast as possible.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use tokio::runtime::Handle;

use super::contestants::Numbers;

/// How many times four numbers are taken between two checks of the stop flag.
const BATCH: u64 = 256;

/// Lets threads take numbers for this long. Returns nanoseconds per number: the elapsed time divided by the count of all
/// threads.
pub(super) fn nanoseconds_each<N: Numbers>(
    runtime: &Handle,
    numbers: &Arc<N>,
    threads: usize,
    duration: Duration,
) -> anyhow::Result<f64> {
    let (ready, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let taken = thread::scope(|scope| {
        let taker = || {
            // All threads begin together: a single thread would be faster.
            ready.fetch_add(1, Ordering::Relaxed);
            while ready.load(Ordering::Relaxed) < threads as u64 {
                thread::yield_now();
            }
            runtime.block_on(take(&**numbers, &stop))
        };
        let takers: Vec<_> = (0..threads).map(|_| scope.spawn(taker)).collect();
        thread::sleep(duration);
        stop.store(true, Ordering::Relaxed);
        let joined =
            takers.into_iter().map(|taker| taker.join().map_err(|_| anyhow!("a thread panicked"))?);
        joined.collect::<anyhow::Result<Vec<ThreadRun>>>()
    })?;
    let started = taken.iter().map(|taken| taken.started).min().context("no threads")?;
    let ended = taken.iter().map(|taken| taken.ended).max().context("no threads")?;
    let count: u64 = taken.iter().map(|taken| taken.count).sum();
    Ok((ended - started).as_secs_f64() * 1e9 / as_float(count))
}

/// What one thread did.
struct ThreadRun {
    started: Instant,
    ended: Instant,
    count: u64,
}

async fn take<N: Numbers>(numbers: &N, stop: &AtomicBool) -> anyhow::Result<ThreadRun> {
    let (started, mut count) = (Instant::now(), 0);
    while !stop.load(Ordering::Relaxed) {
        numbers.take_fours(BATCH).await?;
        count += BATCH * 4;
    }
    Ok(ThreadRun { started, ended: Instant::now(), count })
}

/// How many come in a second, if one takes so long.
pub(super) fn per_second(nanoseconds: f64) -> f64 {
    1e9 / nanoseconds
}

#[expect(clippy::cast_precision_loss, reason = "no run takes 2^52 numbers")]
pub(super) fn as_float(count: u64) -> f64 {
    count as f64
}
