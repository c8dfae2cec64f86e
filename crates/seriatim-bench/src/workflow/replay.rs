//! Replay of a long history, in Temporal's own binary form, beside the core of the official Rust SDK.

use std::sync::Arc;
use std::time::Instant;

use anyhow::ensure;
use seriatim_workflow::{Policy, Registry, TemporalHistory, replay_temporal};

use super::core::registry;
use super::history;
use crate::measure::{Goal, Measure};
use crate::sample::medians;
use crate::suite::Run;

/// Activities in the history.
const OPERATIONS: u64 = 10_000;
const PEER: &str = "temporalio-sdk-core 0.10.1";

/// Reads and replays a history; how many milliseconds that took.
fn ours(registry: &Arc<Registry>, bytes: &[u8]) -> anyhow::Result<f64> {
    let started = Instant::now();
    let history = TemporalHistory::from_binary(bytes.to_vec())?;
    let report = replay_temporal(registry, &history, Policy::Fail);
    let spent = started.elapsed();
    ensure!(report.is_same(), "the history is not replayed: {report}");
    let commands = u64::try_from(report.commands)?;
    ensure!(commands > OPERATIONS, "{commands} commands were compared, not {OPERATIONS} and the last");
    Ok(spent.as_secs_f64() * 1e3)
}

pub(super) fn measure(run: &Run) -> anyhow::Result<Vec<Measure>> {
    run.progress("replay");
    let (registry, bytes) = (registry(), history::one_by_one(OPERATIONS)?);
    let rounds = run.pick(3, 7);
    let name = format!(
        "replay of a history of {OPERATIONS} activities, {} kB, decoded and compared",
        bytes.len() / 1_000
    );
    // Ours is so much shorter that goals are said as rates.
    let rate = |milliseconds: f64| 1e3 / milliseconds;
    let [ours] = medians(rounds, [&mut || ours(&registry, &bytes)])?;
    let measure = Measure::new(name, rate(ours), "1/s").without(PEER, "not compared yet");
    Ok(vec![measure.goal(Goal::RatioAtLeast(3.0))])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_history_is_one_that_the_code_has_made() {
        let bytes = history::one_by_one(OPERATIONS).unwrap();
        assert!(ours(&registry(), &bytes).unwrap() > 0.0);
    }
}
