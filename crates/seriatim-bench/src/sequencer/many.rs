//! Transactions over many workspaces, loads and flushes included.

use std::sync::Arc;
use std::time::Instant;

use anyhow::ensure;
use seriatim_engine::alone::Options;
use seriatim_env::Env;
use seriatim_storage::{Store, memory::MemoryStore};
use seriatim_storage_testing::faulty::{Faults, FaultyStore, Operations};
use seriatim_types::WorkspaceId;

use super::no_storage::HashStore;
use super::subject::{Subject, event};
use crate::measure::{Goal, Measure};
use crate::suite::Run;

/// The Go package of the designs on a machine of this kind, in nanoseconds: over 1,000 workspaces, and beyond its cache.
const SEEDS_NANOS: [(u64, f64); 3] = [(1_000, 2_200.0), (100_000, 6_600.0), (1_000_000, 6_600.0)];
const SEEDS: &str = "the seeds' Go package";

pub(super) fn measure(run: &Run) -> anyhow::Result<Vec<Measure>> {
    let runtime = run.runtime()?;
    let mut measures = Vec::new();
    for &(workspaces, seeds) in run.pick(&SEEDS_NANOS[..2], &SEEDS_NANOS[..]) {
        run.progress(&format!("{workspaces} workspaces"));
        let (nanos, waited) = runtime.block_on(over(workspaces, run.pick(100_000, 1_000_000)))?;
        let name = format!("transaction over {workspaces} workspaces, loads, flushes and hashing included");
        // A figure of an earlier run is not a peer: it gives only the goal, and there is no ratio.
        let reason =
            format!("not run here; it took {seeds} ns on a machine of this kind, and the goal is a tenth");
        measures
            .push(Measure::new(name, nanos, "ns").without(SEEDS, reason).goal(Goal::AtMost(seeds / 10.0)));
        let name = format!("groups over {workspaces} workspaces that waited for the flusher");
        measures.push(Measure::new(name, waited, "%"));
    }
    run.progress("cold workspaces");
    let reads = runtime.block_on(cold_reads(1_000))?;
    measures.push(Measure::new("storage reads of a cold workspace", reads, "reads").goal(Goal::AtMost(1.0)));
    Ok(measures)
}

/// The workspace of a step: all of them in turn; consecutive steps have distant workspaces.
fn workspace(step: u64, workspaces: u64) -> WorkspaceId {
    const STRIDE: u64 = 7_919;
    WorkspaceId::new(WorkspaceId::FIRST.get() + step.wrapping_mul(STRIDE) % workspaces)
}

/// Nanoseconds of a transaction, each in another workspace than the previous one and in its own group: load, numbering, commit,
/// on a log and a store that do almost nothing, with the flusher in the background. Also returns how many percent of the groups
/// had to wait for the flusher.
#[expect(clippy::cast_precision_loss, reason = "counts are small")]
async fn over(workspaces: u64, transactions: u64) -> anyhow::Result<(f64, f64)> {
    let store = Store::new(HashStore::default());
    let mut subject = Subject::open(store, Options::default()).await?;
    let body = subject.body();
    let event = event(&body);
    for step in 0..workspaces.min(transactions) {
        subject.number(workspace(step, workspaces), &event).await?;
    }
    let (started, waited) = (Instant::now(), subject.waited);
    for step in 0..transactions {
        subject.number(workspace(step, workspaces), &event).await?;
    }
    let (nanos, waited) = (started.elapsed().as_nanos() as f64, (subject.waited - waited) as f64);
    Ok((nanos / transactions as f64, 100.0 * waited / transactions as f64))
}

#[expect(clippy::cast_precision_loss, reason = "counts are small")]
async fn cold_reads(workspaces: u64) -> anyhow::Result<f64> {
    let env = Env::real();
    let faults = Faults::new(&env);
    let store = Store::new(FaultyStore::new(Arc::new(MemoryStore::new()), &faults));
    let mut subject = Subject::open(store, Options::default()).await?;
    let body = subject.body();
    let event = event(&body);
    faults.reset_counts();
    for step in 0..workspaces {
        subject.number(workspace(step, workspaces), &event).await?;
    }
    let reads = faults.count(Operations::READS);
    ensure!(reads > 0, "a cold workspace has to be read");
    Ok(reads as f64 / workspaces as f64)
}
