//! The storage ports beside a bare file and beside plain fjall.

mod appends;
mod events;
mod storage;

use crate::measure::Measure;
use crate::suite::{Run, Suite};

pub(crate) const SUITE: Suite = Suite {
    name: "log",
    about: "durable appends beside a bare file, reads, the store beside fjall, opening",
    run,
    child: None,
};

fn run(run: &Run) -> anyhow::Result<Vec<Measure>> {
    appends::measure(run)
}
