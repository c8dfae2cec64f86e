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
use crate::writers::{Driven, Durable, drive};

const PEER: &str = "bare file";

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
    let mut measures = Vec::new();
    for in_flight in [1, 64, 1_024] {
        run.progress(&format!("commands, {in_flight} in flight"));
        // Long enough to see the flusher, and what it makes the store do.
        let duration = Duration::from_millis(run.pick(300, 1_500));
        let [hot, thousand, many, bare, after] = rounds(
            run.pick(3, 9),
            [
                &mut || drive(runtime, &contestants.hot, in_flight, duration),
                &mut || drive(runtime, &contestants.thousand, in_flight, duration),
                &mut || drive(runtime, &contestants.many, in_flight, duration),
                &mut || drive(runtime, &file, in_flight, duration),
                &mut || drive(runtime, &behind, in_flight, duration),
            ],
        )?;
        let rates = Rates { in_flight, many_count: contestants.many_count, hot, thousand, many, bare, after };
        measures.extend(rates.measures()?);
    }
    Ok(measures)
}

/// What was reached with so many in flight.
struct Rates {
    in_flight: usize,
    many_count: u64,
    hot: Vec<Driven>,
    thousand: Vec<Driven>,
    many: Vec<Driven>,
    bare: Vec<Driven>,
    after: Vec<Driven>,
}

impl Rates {
    fn measures(&self) -> anyhow::Result<Vec<Measure>> {
        let Self { in_flight, many_count, hot, thousand, many, bare, after } = self;
        let name = |what: &str| format!("commands, {what}, {in_flight} in flight");
        let beside_bare = |what: &str, ours: &[Driven]| {
            Measure::new(name(what), rate(ours), "1/s").beside(PEER, rate(bare))
        };
        let (hot_name, many_name) = ("one hot workspace", format!("{many_count} workspaces"));
        let mut measures = vec![
            beside_bare(hot_name, hot),
            beside_bare("1000 workspaces", thousand),
            beside_bare(&many_name, many),
        ];
        if *in_flight == 1 {
            return Ok(measures);
        }
        let by_count = Measure::new(name(&format!("{many_name}, by their number")), rate(many), "1/s");
        measures.push(by_count.beside(hot_name, rate(hot)).goal(Goal::RatioAtLeast(0.8)));
        measures.push(
            Measure::new(format!("p99.9, {hot_name}, {in_flight} in flight"), quantile(hot, 0.999)?, "ms")
                .beside("bare file with plain fjall behind it", quantile(after, 0.999)?),
        );
        measures.push(
            Measure::new(name(&format!("{hot_name}, by the file and fjall")), rate(hot), "1/s")
                .beside("bare file with plain fjall behind it", rate(after)),
        );
        measures.push(
            Measure::new(
                format!("processor time of a command, {hot_name}, {in_flight} in flight"),
                cpu(hot),
                "µs",
            )
            .beside(PEER, cpu(bare)),
        );
        if *in_flight == 64 {
            measures[0] = beside_bare(hot_name, hot).goal(Goal::RatioAtLeast(0.7));
        }
        Ok(measures)
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
