//! Recovery of numbers: from a log in memory, and from files compared with a bare scan of the same log.

mod events;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::ensure;
use seriatim_engine::alone::{Options, Sequencer};
use seriatim_env::Env;
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{Log, ReadLimit, Store};
use seriatim_storage_file::{FileOptions, FileStorage};
use seriatim_types::{Partition, PartitionOffset};

use crate::measure::{Goal, Measure};
use crate::sample::medians;
use crate::sequencer;
use crate::suite::{Run, Suite};

pub(crate) const SUITE: Suite = Suite {
    name: "recovery",
    about: "recovery of numbers from a log in memory, and from files compared with a bare scan",
    run,
    child: None,
};

const PARTITION: Partition = Partition::new(1, 0);
const WORKSPACES: u64 = 10_000;

fn run(run: &Run) -> anyhow::Result<Vec<Measure>> {
    let events = run.pick(200_000, 1_000_000);
    let rounds = run.pick(3, 7);
    let runtime = run.runtime()?;
    let roomy = Options { unflushed_max: 10_000, flush_at: 5_000, ..Options::default() };

    run.progress("from a log in memory");
    let log = Log::new(MemoryLog::new());
    runtime.block_on(events::fill(&log, PARTITION, events, WORKSPACES))?;
    let [default, more] = medians(
        rounds,
        [&mut || runtime.block_on(recover(&log, Options::default(), events)), &mut || {
            runtime.block_on(recover(&log, roomy, events))
        }],
    )?;

    run.progress("from files");
    let directory = run.directory("recovery-")?;
    let storage =
        runtime.block_on(FileStorage::open(&Env::real(), directory.path(), FileOptions::default()))?;
    runtime.block_on(events::fill(storage.log(), PARTITION, events, WORKSPACES))?;
    let [from_files, bare] = medians(
        rounds,
        [&mut || runtime.block_on(recover(storage.log(), roomy, events)), &mut || {
            runtime.block_on(scan(storage.log(), events))
        }],
    )?;
    runtime.block_on(storage.close())?;
    let name = |place: &str| format!("recovery {place}, {WORKSPACES} workspaces");
    Ok(vec![
        Measure::new(name("from memory, 500 may wait"), default, "events/s").goal(Goal::AtLeast(1e6)),
        Measure::new(name("from memory, 10,000 may wait"), more, "events/s").goal(Goal::AtLeast(1e6)),
        Measure::new(name("from files, 10,000 may wait"), from_files, "events/s")
            .compared_with("a bare scan of the same log", bare)
            .goal(Goal::RatioAtLeast(0.5)),
        Measure::new("the same beside the goal of all", from_files, "events/s").goal(Goal::AtLeast(5e5)),
    ])
}

#[expect(clippy::cast_precision_loss, reason = "counts are small")]
fn per_second(events: u64, started: Instant) -> f64 {
    events as f64 / started.elapsed().as_secs_f64()
}

/// From opening an empty store to the moment at which a number can be drawn.
async fn recover(log: &Log, options: Options, events: u64) -> anyhow::Result<f64> {
    let env = Env::real();
    let store = Store::new(MemoryStore::new());
    let owner = log.take(PARTITION).await?;
    let definition = Arc::new(sequencer::definition()?);
    let started = Instant::now();
    let mut sequencer = Sequencer::open(env, log.clone(), store, owner, definition, options);
    sequencer.status_handle().wait(Duration::from_secs(600)).await;
    let rate = per_second(events, started);
    sequencer.wait(Duration::from_secs(60)).await?;
    ensure!(sequencer.next_offset() == PartitionOffset::FIRST.advance(events), "all events are recovered");
    sequencer.finish(Duration::from_secs(60)).await?;
    Ok(rate)
}

/// Reads every entry of the log and does nothing else.
async fn scan(log: &Log, events: u64) -> anyhow::Result<f64> {
    let started = Instant::now();
    let (mut at, mut count) = (PartitionOffset::FIRST, 0);
    loop {
        let page = log.read(PARTITION, at, ReadLimit::entries(4_096)).await?;
        if page.is_empty() {
            break;
        }
        for (_, entry) in page.iter() {
            std::hint::black_box(entry.draws().last());
            count += 1;
        }
        at = page.next();
    }
    ensure!(count == events, "{count} events were read of {events}");
    Ok(per_second(events, started))
}
