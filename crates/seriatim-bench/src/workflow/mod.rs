//! Workflows: the pure core, replay beside the official SDK's core, and durable runs beside duroxide.

mod core;
mod history;
mod profile;
mod replay;
pub(crate) mod runs;
mod syncs;

use crate::measure::Measure;
use crate::suite::{Run, Suite};

pub(crate) const SUITE: Suite = Suite {
    name: "workflow",
    about: "the workflow core, replay beside the official SDK's core, durable runs beside duroxide",
    run,
    child: Some(profile::child),
};

fn run(run: &Run) -> anyhow::Result<Vec<Measure>> {
    let mut measures = core::measure(run)?;
    measures.extend(replay::measure(run)?);
    measures.extend(runs::measure(run)?);
    Ok(measures)
}
