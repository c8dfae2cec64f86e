//! The sequencer: a warm transaction compared with an LRU, many workspaces, instructions and memory.

mod instructions;
mod many;
mod memory;
mod no_storage;
mod subject;
mod warm;

use crate::measure::Measure;
use crate::suite::{Run, Suite};

pub(crate) use subject::{KIND, definition};

pub(crate) const SUITE: Suite = Suite {
    name: "sequencer",
    about: "a warm transaction compared with three get-and-put pairs on an LRU, many workspaces, instructions, memory",
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
        _ => anyhow::bail!("the child process of this suite is memory, warm or hash"),
    }
}
