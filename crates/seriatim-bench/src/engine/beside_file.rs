//! Commands beside the bare file: one hot workspace, a thousand and very many, with 1, 64 and 1,024 in flight.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;

use super::Contestants;
use super::behind::FileThenFjall;
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
    // Long enough to see the flusher, and what it makes the store do.
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
    run.progress("commands, beside a file with fjall behind it");
    let [hot, after] = rounds(
        count,
        [&mut || drive_settled(runtime, &contestants.hot, 64, duration), &mut || {
            drive_settled(runtime, &behind, 64, duration)
        }],
    )?;
    let name = "one hot workspace, 64 in flight";
    let rates = Measure::new(format!("commands, {name}"), rate(&hot), "1/s").beside(BEHIND, rate(&after));
    let slowest = Measure::new(format!("p99.9 of a command, {name}"), quantile(&hot, 0.999)?, "ms");
    measures.extend([rates, slowest.beside(BEHIND, quantile(&after, 0.999)?)]);
    Ok(measures)
}

/// Lets writers write once nothing is left of those before them.
fn drive_settled<D: Durable>(
    runtime: &Runtime,
    target: &Arc<D>,
    in_flight: usize,
    duration: Duration,
) -> anyhow::Result<Driven> {
    settle();
    drive(runtime, target, in_flight, duration)
}

/// What was reached with so many in flight.
struct Rates {
    in_flight: usize,
    many_count: u64,
    hot: Vec<Driven>,
    thousand: Vec<Driven>,
    many: Vec<Driven>,
    bare: Vec<Driven>,
}

impl Rates {
    fn measures(&self) -> Vec<Measure> {
        let Self { in_flight, many_count, hot, thousand, many, bare } = self;
        let name = |what: &str| format!("commands, {what}, {in_flight} in flight");
        let beside_bare = |what: &str, ours: &[Driven]| {
            Measure::new(name(what), rate(ours), "1/s").beside(PEER, rate(bare))
        };
        let many_name = format!("{many_count} workspaces");
        let mut measures = vec![
            beside_bare(HOT, hot),
            beside_bare("1000 workspaces", thousand),
            beside_bare(&many_name, many),
        ];
        if *in_flight == 1 {
            return measures;
        }
        if *in_flight == 64 {
            measures[0] = beside_bare(HOT, hot).goal(Goal::RatioAtLeast(0.7));
        }
        let by_number = Measure::new(name(&format!("{many_name}, by their number")), rate(many), "1/s");
        measures.push(by_number.beside(HOT, rate(hot)).goal(Goal::RatioAtLeast(0.8)));
        let processor = format!("processor time of a command, {HOT}, {in_flight} in flight");
        measures.push(Measure::new(processor, cpu(hot), "µs").beside(PEER, cpu(bare)));
        measures
    }
}

fn rate(rounds: &[Driven]) -> f64 {
    median(&rounds.iter().map(|driven| driven.per_second).collect::<Vec<_>>())
}

fn cpu(rounds: &[Driven]) -> f64 {
    median(&rounds.iter().map(|driven| driven.cpu_us).collect::<Vec<_>>())
}

/// Over all rounds together: what is rare does not show in each.
fn quantile(rounds: &[Driven], quantile: f64) -> anyhow::Result<f64> {
    let mut all = Latencies::new()?;
    for driven in rounds {
        all.add(&driven.latencies)?;
    }
    Ok(all.quantile_ms(quantile))
}

/// The same bytes to the end of one file.
struct SameBytes {
    file: BareFile,
    bytes: Vec<u8>,
}

impl Durable for SameBytes {
    async fn write(&self, _writer: usize) -> anyhow::Result<()> {
        self.file.append(&self.bytes).await
    }
}
