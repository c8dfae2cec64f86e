//! Commands compared with the bare file: one hot workspace, a thousand and very many, with 1, 64 and 1,024 in flight.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::runtime::Runtime;

use super::Contestants;
use super::file_then_fjall::FileThenFjall;
use crate::latency::Latencies;
use crate::measure::{Goal, Measure};
use crate::peer::BareFile;
use crate::sample::{median, rounds};
use crate::suite::Run;
use crate::writers::{Driven, Durable, drive, settle};

const PEER: &str = "bare file";
const BEHIND: &str = "bare file with plain fjall behind it";
const HOT: &str = "one hot workspace";

pub(super) fn measure(
    run: &Run,
    runtime: &Runtime,
    contestants: &Contestants,
    directory: &Path,
) -> anyhow::Result<Vec<Measure>> {
    let file = BareFile::create(&directory.join("bare"))?;
    let file = Arc::new(SameBytes { file, bytes: contestants.event.clone() });
    let behind = directory.join("behind");
    std::fs::create_dir(&behind)?;
    let behind = Arc::new(Arc::new(FileThenFjall::create(&behind, contestants.event.clone())?));
    // Long enough to include the flusher and the work of the store that it causes.
    let (count, duration) = (run.pick(3, 9), Duration::from_millis(run.pick(250, 1_500)));
    let mut measures = Vec::new();
    for in_flight in [1, 64, 1_024] {
        run.progress(&format!("commands, {in_flight} in flight"));
        let [hot, thousand, many, bare] = rounds(
            count,
            [
                &mut || drive_settled(runtime, &contestants.hot, in_flight, duration),
                &mut || drive_settled(runtime, &contestants.thousand, in_flight, duration),
                &mut || drive_settled(runtime, &contestants.many, in_flight, duration),
                &mut || drive_settled(runtime, &file, in_flight, duration),
            ],
        )?;
        let rates = Rates { in_flight, many_count: contestants.many_count, hot, thousand, many, bare };
        measures.extend(rates.measures());
    }
    run.progress("commands, compared with a file and fjall");
    let [hot, after] = rounds(
        count,
        [&mut || drive_settled(runtime, &contestants.hot, 64, duration), &mut || {
            drive_settled(runtime, &behind, 64, duration)
        }],
    )?;
    let name = "one hot workspace, 64 in flight";
    let rates =
        Measure::new(format!("commands, {name}"), rate(&hot), "1/s").compared_with(BEHIND, rate(&after));
    let slowest = Measure::new(format!("p99.9 of a command, {name}"), quantile(&hot, 0.999)?, "ms");
    let slowest = slowest.compared_with(BEHIND, quantile(&after, 0.999)?).goal(Goal::RatioAtMost(1.0));
    measures.extend([rates, slowest]);
    Ok(measures)
}

/// The result of one round, and how many bytes were written to disk for it.
struct Round {
    driven: Driven,
    disk_bytes: f64,
}

/// Lets writers write after the work of earlier writers has ended, and waits until their own work has ended.
fn drive_settled<D: Durable>(
    runtime: &Runtime,
    target: &Arc<D>,
    in_flight: usize,
    duration: Duration,
) -> anyhow::Result<Round> {
    settle();
    let before = disk_bytes()?;
    let driven = drive(runtime, target, in_flight, duration)?;
    settle();
    Ok(Round { driven, disk_bytes: disk_bytes()? - before })
}

/// Bytes that this process has written to disks so far.
fn disk_bytes() -> anyhow::Result<f64> {
    let text = std::fs::read_to_string("/proc/self/io")?;
    let bytes = text.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    Ok(bytes.context("the system does not report written bytes")?.parse()?)
}

/// The results with this many commands in flight.
struct Rates {
    in_flight: usize,
    many_count: u64,
    hot: Vec<Round>,
    thousand: Vec<Round>,
    many: Vec<Round>,
    bare: Vec<Round>,
}

impl Rates {
    fn measures(&self) -> Vec<Measure> {
        let Self { in_flight, many_count, hot, thousand, many, bare } = self;
        let name = |what: &str| format!("commands, {what}, {in_flight} in flight");
        let with_bare = |what: &str, ours: &[Round]| {
            Measure::new(name(what), rate(ours), "1/s").compared_with(PEER, rate(bare))
        };
        let many_name = format!("{many_count} workspaces");
        let mut measures =
            vec![with_bare(HOT, hot), with_bare("1000 workspaces", thousand), with_bare(&many_name, many)];
        if *in_flight == 1 {
            return measures;
        }
        let (ratio_least, cpu_most_us) = if *in_flight == 64 { (0.7, 10.0) } else { (0.25, 8.0) };
        measures[0] = with_bare(HOT, hot).goal(Goal::RatioAtLeast(ratio_least));
        let by_number = Measure::new(name(&format!("{many_name}, by their number")), rate(many), "1/s");
        measures.push(by_number.compared_with(HOT, rate(hot)).goal(Goal::RatioAtLeast(0.8)));
        let processor = format!("processor time of a command, {HOT}, {in_flight} in flight");
        let processor = Measure::new(processor, cpu(hot), "µs").compared_with(PEER, cpu(bare));
        measures.push(processor.goal(Goal::AtMost(cpu_most_us)));
        for (what, ours) in [(HOT, hot), (&*many_name, many)] {
            let written = format!("bytes to disk for a command, {what}, {in_flight} in flight");
            let written = Measure::new(written, disk_bytes_each(ours), "B");
            measures.push(written.compared_with(PEER, disk_bytes_each(bare)));
        }
        measures
    }
}

fn rate(rounds: &[Round]) -> f64 {
    median(&rounds.iter().map(|round| round.driven.per_second).collect::<Vec<_>>())
}

fn cpu(rounds: &[Round]) -> f64 {
    median(&rounds.iter().map(|round| round.driven.cpu_us).collect::<Vec<_>>())
}

/// Over all rounds together: a store merges its tables only in some rounds.
fn disk_bytes_each(rounds: &[Round]) -> f64 {
    let written: f64 = rounds.iter().map(|round| round.disk_bytes).sum();
    written / rounds.iter().map(|round| round.driven.latencies.count()).sum::<f64>()
}

/// Over all rounds together: rare events do not happen in each round.
fn quantile(rounds: &[Round], quantile: f64) -> anyhow::Result<f64> {
    let mut all = Latencies::new()?;
    for round in rounds {
        all.add(&round.driven.latencies)?;
    }
    Ok(all.quantile_ms(quantile))
}

/// Appends the same bytes to one file.
struct SameBytes {
    file: BareFile,
    bytes: Vec<u8>,
}

impl Durable for SameBytes {
    async fn write(&self, _writer: usize) -> anyhow::Result<()> {
        self.file.append(&self.bytes).await
    }
}
