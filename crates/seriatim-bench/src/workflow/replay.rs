//! Replay of a long history, in Temporal's binary form, compared with the core of the official Rust SDK.

use std::sync::Arc;
use std::time::Instant;

use anyhow::ensure;
use seriatim_temporal_history::{TemporalHistory, replay_temporal};
use seriatim_workflow::{Policy, Registry};

use super::core::registry;
use super::history;
use crate::measure::{Goal, Measure};
use crate::sample::{Contestant, medians};
use crate::suite::Run;

#[cfg(feature = "sdk-core")]
mod sdk_core;

/// Activities in a history that both sides replay in every run, and in a longer one. The longer one takes the peer minutes: at
/// each workflow task it moves all remaining events to the front.
const SHORT: u64 = 1_000;
const LONG: u64 = 10_000;
const ROUNDS_ALONE: usize = 5;
const PEER: &str = "temporalio-sdk-core 0.10.1";

/// Reads and replays a history, and returns replays per second.
fn ours(registry: &Arc<Registry>, bytes: &[u8], operations: u64) -> anyhow::Result<f64> {
    let started = Instant::now();
    let history = TemporalHistory::from_binary(bytes.to_vec())?;
    let report = replay_temporal(registry, &history, Policy::Fail);
    let spent = started.elapsed();
    ensure!(report.is_same(), "the history is not replayed: {report}");
    let commands = u64::try_from(report.commands)?;
    ensure!(commands > operations, "{commands} commands were compared, not {operations} and the last");
    Ok(1.0 / spent.as_secs_f64())
}

pub(super) fn measure(run: &Run) -> anyhow::Result<Vec<Measure>> {
    let short = replay(run, SHORT, run.pick(3, 7))?;
    let long = replay(run, LONG, run.pick(0, 1))?;
    Ok([short, long].map(|measure| measure.goal(Goal::RatioAtLeast(3.0))).into())
}

/// Replays a history of this many activities with both sides in each round; with no rounds, with ours alone.
fn replay(run: &Run, operations: u64, rounds: usize) -> anyhow::Result<Measure> {
    run.progress(&format!("replay of {operations} activities"));
    let (registry, bytes) = (registry(), history::one_by_one(operations)?);
    let kilobytes = bytes.len() / 1_000;
    let name =
        format!("replay of a history of {operations} activities, {kilobytes} kB, decoded and compared");
    let mut ours = || ours(&registry, &bytes, operations);
    if rounds == 0 {
        let [ours] = medians(ROUNDS_ALONE, [&mut ours])?;
        return Ok(Measure::new(name, ours, "1/s").without(PEER, "it takes minutes: not with --quick"));
    }
    compare(run, name, &bytes, operations, rounds, &mut ours)
}

#[cfg(feature = "sdk-core")]
fn compare(
    run: &Run,
    name: String,
    bytes: &[u8],
    operations: u64,
    rounds: usize,
    ours: Contestant<'_, f64>,
) -> anyhow::Result<Measure> {
    let runtime = run.runtime()?;
    let mut theirs = || sdk_core::replay(&runtime, bytes, operations);
    let [ours, peer] = medians(rounds, [ours, &mut theirs])?;
    Ok(Measure::new(name, ours, "1/s").compared_with(PEER, peer))
}

#[cfg(not(feature = "sdk-core"))]
fn compare(
    _: &Run,
    name: String,
    _: &[u8],
    _: u64,
    rounds: usize,
    ours: Contestant<'_, f64>,
) -> anyhow::Result<Measure> {
    let [ours] = medians(rounds, [ours])?;
    Ok(Measure::new(name, ours, "1/s").without(PEER, "built without the feature sdk-core"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_history_matches_the_code() {
        let bytes = history::one_by_one(SHORT).unwrap();
        assert!(ours(&registry(), &bytes, SHORT).unwrap() > 0.0);
    }
}
