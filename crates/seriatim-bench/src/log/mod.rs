//! The storage ports compared with a bare file and with plain fjall.

mod appends;
mod events;
mod opening;
mod pairs;
mod reads;
mod storage;
mod store;
mod visit;

use crate::measure::Measure;
use crate::suite::{Run, Suite};

pub(crate) const SUITE: Suite = Suite {
    name: "log",
    about: "durable appends compared with a bare file, reads, the store compared with fjall, opening",
    run,
    child: Some(visit::child),
};

fn run(run: &Run) -> anyhow::Result<Vec<Measure>> {
    let sections = [appends::measure, reads::measure, store::measure, opening::measure];
    let mut measures = Vec::new();
    for section in sections {
        measures.extend(section(run)?);
    }
    Ok(measures)
}
