//! The sequencer: a warm transaction beside the floor of an LRU, many workspaces, instructions and memory.

mod desk;
mod instructions;
mod many;
mod memory;
mod nothing;
mod warm;

use crate::measure::Measure;
use crate::suite::{Run, Suite};

pub(crate) use desk::{KIND, definition};

pub(crate) const SUITE: Suite = Suite {
    name: "sequencer",
    about: "a warm transaction beside three get-and-put pairs on an LRU, many workspaces, instructions, memory",
    run,
    child: Some(child),
};

fn run(run: &Run) -> anyhow::Result<Vec<Measure>> {
    let sections = [warm::measure, many::measure, instructions::measure, memory::measure];
    let mut measures = Vec::new();
    for section in sections {
        measures.extend(section(run)?);
    }
    Ok(measures)
}

fn child(words: &[String]) -> anyhow::Result<()> {
    match words.first().map(String::as_str) {
        Some("memory") => memory::child(&words[1..]),
        Some("warm") => instructions::child_warm(&words[1..]),
        Some("hash") => instructions::child_hash(&words[1..]),
        _ => anyhow::bail!("the sequencer's other process is memory, warm or hash"),
    }
}
