//! Many tasks that wait for durable writes, as the clients of a log do.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::latency::Latencies;

/// Something that writers can write to.
pub(crate) trait Durable: Send + Sync + 'static {
    /// Writes once for a writer; the write is durable when this returns.
    fn write(&self, writer: usize) -> impl Future<Output = anyhow::Result<()>> + Send;
}

/// The result of all writers together.
#[derive(Debug)]
pub(crate) struct Driven {
    pub(crate) per_second: f64,
    /// Processor time of one write on all cores together, in microseconds, without waiting.
    pub(crate) cpu_us: f64,
    pub(crate) latencies: Latencies,
}

/// Lets `writers` tasks write for this long; each waits for its answer before it writes again.
pub(crate) fn drive<D: Durable>(
    runtime: &Runtime,
    target: &Arc<D>,
    writers: usize,
    duration: Duration,
) -> anyhow::Result<Driven> {
    let stop = Arc::new(AtomicBool::new(false));
    let (started, cpu_started) = (Instant::now(), cpu_us());
    let mut tasks = JoinSet::new();
    for writer in 0..writers {
        tasks.spawn_on(write_on(target.clone(), writer, stop.clone()), runtime.handle());
    }
    // This thread sleeps outside the runtime: the runtime's timers are late when all its workers are busy.
    std::thread::sleep(duration);
    stop.store(true, Ordering::Relaxed);
    let times = runtime.block_on(tasks.join_all());
    // Up to the last answer: writes in progress at the end count, and so does their time.
    let (elapsed, cpu) = (started.elapsed(), cpu_us() - cpu_started);
    let mut latencies = Latencies::new()?;
    for written in times {
        written?.into_iter().for_each(|time| latencies.record(time));
    }
    Ok(Driven {
        per_second: latencies.count() / elapsed.as_secs_f64(),
        cpu_us: cpu / latencies.count(),
        latencies,
    })
}

/// How long the process has to be idle to count as settled, and the longest wait for that.
const SETTLED: Duration = Duration::from_millis(40);
const SETTLE_MAX: Duration = Duration::from_secs(2);

/// Waits until this process is idle, so that the background work of one contestant does not slow the next.
pub(crate) fn settle() {
    let started = Instant::now();
    while started.elapsed() < SETTLE_MAX {
        let before = cpu_us();
        std::thread::sleep(SETTLED);
        if cpu_us() - before < SETTLED.as_secs_f64() * 1e6 / 20.0 {
            return;
        }
    }
}

/// The processor time of this process so far, on all cores.
#[expect(clippy::cast_precision_loss, reason = "of interest are differences of seconds")]
fn cpu_us() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

/// Runs one writer, and returns how long each of its writes took.
async fn write_on<D: Durable>(
    target: Arc<D>,
    writer: usize,
    stop: Arc<AtomicBool>,
) -> anyhow::Result<Vec<Duration>> {
    let mut times = Vec::new();
    let mut before = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        target.write(writer).await?;
        let after = Instant::now();
        times.push(after - before);
        before = after;
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Default)]
    struct Counted(Mutex<[u32; 4]>);

    impl Durable for Counted {
        async fn write(&self, writer: usize) -> anyhow::Result<()> {
            self.0.lock().unwrap()[writer] += 1;
            tokio::task::yield_now().await;
            Ok(())
        }
    }

    #[test]
    fn every_writer_writes_and_every_write_counts() {
        let runtime = crate::suite::runtime().unwrap();
        let target = Arc::new(Counted::default());
        let driven = drive(&runtime, &target, 4, Duration::from_millis(20)).unwrap();
        let counts = *target.0.lock().unwrap();
        assert!(counts.iter().all(|&count| count > 0), "{counts:?}");
        assert!(driven.per_second > 0.0 && driven.latencies.quantile_ms(0.5) >= 0.0);
    }
}
