//! One by one, in memory: what sharing costs.

use std::sync::Arc;
use std::time::Duration;

use seriatim_blocks::BlockSize;

use super::contestants::{FetchAdd, Ours, StdMutex, TokioMutex, storage};
use super::threads::nanoseconds_each;
use super::{OPENDATA, place};
use crate::measure::{Goal, Measure};
use crate::sample::medians;
use crate::suite::Run;

/// The peers and we, with 1, 2 and 4 threads.
pub(super) fn measure(run: &Run) -> anyhow::Result<Vec<Measure>> {
    let runtime = run.runtime()?;
    let ours = runtime.block_on(place::allocator(&place::in_memory(), "memory", BlockSize::default()))?;
    let ours = Arc::new(Ours(ours));
    let fetch_add = Arc::new(FetchAdd::default());
    let peers = runtime.block_on(async {
        let (one, other) = (storage(None).await?, storage(None).await?);
        anyhow::Ok((Arc::new(StdMutex::new(&one).await?), Arc::new(TokioMutex::new(&other, false).await?)))
    });
    let (std_mutex, tokio_mutex) = peers?;

    let (rounds, duration) = (run.pick(7, 15), Duration::from_millis(run.pick(60, 200)));
    let mut measures = Vec::new();
    for threads in [1, 2, 4] {
        run.progress(&format!("allocate_one in memory, {threads} threads"));
        let handle = runtime.handle();
        let [our, bare, std, tokio] = medians(
            rounds,
            [
                &mut || nanoseconds_each(handle, &ours, threads, duration),
                &mut || nanoseconds_each(handle, &fetch_add, threads, duration),
                &mut || nanoseconds_each(handle, &std_mutex, threads, duration),
                &mut || nanoseconds_each(handle, &tokio_mutex, threads, duration),
            ],
        )?;
        let s = if threads == 1 { "" } else { "s" };
        let measure = |what: &str| Measure::new(format!("{what}, {threads} thread{s}"), our, "ns");
        measures.push(measure("allocate_one").beside("fetch_add", bare).goal(Goal::RatioAtMost(1.3)));
        let mutexes = [("std", std, 3.0), ("tokio", tokio, 10.0)];
        measures.extend(mutexes.map(|(mutex, peer, times)| {
            let measure = measure("allocate_one").beside(format!("{OPENDATA}, {mutex} mutex"), peer);
            if threads == 4 { measure.goal(Goal::RatioAtMost(1.0 / times)) } else { measure }
        }));
    }
    Ok(measures)
}
