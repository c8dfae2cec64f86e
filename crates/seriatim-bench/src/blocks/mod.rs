//! Block allocation compared with a bare `fetch_add`, and with OpenData's published allocator in the mutexes with which its users
//! share it.

mod contestants;
mod durable;
mod memory;
mod paced;
mod place;
mod threads;
mod timed;

use crate::measure::Measure;
use crate::suite::{Run, Suite};

pub(crate) const SUITE: Suite = Suite {
    name: "blocks",
    about: "allocate_one compared with fetch_add and opendata-common; durable blocks; paced callers",
    run,
    child: None,
};

/// The peer.
const OPENDATA: &str = "opendata-common 0.1.18";

fn run(run: &Run) -> anyhow::Result<Vec<Measure>> {
    let sections = [memory::measure, durable::measure, paced::measure];
    let mut measures = Vec::new();
    for section in sections {
        measures.extend(section(run)?);
    }
    Ok(measures)
}
