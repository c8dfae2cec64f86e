//! Durable runs without comparisons, for a profiler: `perf record seriatim-bench workflow --child DIR IN_FLIGHT RUNS`.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::bail;
use tokio::task::JoinSet;

use super::runs::Ours;
use crate::suite;
use crate::writers::Durable as _;

/// Does `runs` runs in an empty directory, `in_flight` of them concurrently.
#[expect(clippy::print_stdout, reason = "the user of the profiler reads it")]
pub(super) fn child(words: &[String]) -> anyhow::Result<()> {
    let [directory, in_flight, runs] = words else {
        bail!("the process takes three arguments, not {}", words.len());
    };
    let (in_flight, runs): (u32, u32) = (in_flight.parse()?, runs.parse()?);
    let runtime = suite::runtime()?;
    let ours = Arc::new(runtime.block_on(Ours::open(Path::new(directory)))?);
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for task in 0..in_flight {
        let ours = ours.clone();
        let code = async move {
            for _ in (task..runs).step_by(in_flight as usize) {
                ours.write(0).await?;
            }
            anyhow::Ok(())
        };
        tasks.spawn_on(code, runtime.handle());
    }
    for ended in runtime.block_on(tasks.join_all()) {
        ended?;
    }
    println!("{:.0} runs/s", f64::from(runs) / started.elapsed().as_secs_f64());
    runtime.block_on(ours.close())
}
