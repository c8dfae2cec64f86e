//! Workflows: the pure core, replay compared with the official SDK's core, and durable runs compared with duroxide.

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
    about: "the workflow core, replay compared with the official SDK's core, durable runs compared with duroxide",
    run,
    child: Some(profile::child),
};

fn run(run: &Run) -> anyhow::Result<Vec<Measure>> {
    let mut measures = core::measure(run)?;
    measures.extend(replay::measure(run)?);
    measures.extend(runs::measure(run)?);
    Ok(measures)
}
