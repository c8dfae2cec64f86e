//! Instructions of a warm transaction: a figure that a busy machine does not change, and so a guard.

use std::process::Command;

use anyhow::Context;
use seriatim_engine::alone::Options;
use seriatim_storage::Store;
use seriatim_types::WorkspaceId;

use super::desk::{Desk, KIND, commit, event, number_event};
use super::nothing::NoStore;
use super::warm::hash_chain;
use crate::measure::{Goal, Measure};
use crate::suite::{self, Run};

/// Above this somebody has made a warm transaction dearer: it took 1,691 when this was set.
const GUARD: f64 = 1_750.0;
const COUNT: u32 = 2_000;

pub(super) fn measure(run: &Run) -> anyhow::Result<Vec<Measure>> {
    let name = "instructions of a warm transaction, hashing left out";
    if Command::new("valgrind").arg("--version").output().is_err() {
        return Ok(vec![
            Measure::new(name, f64::NAN, "instructions").without("callgrind", "valgrind is not here"),
        ]);
    }
    run.progress("instructions");
    // The processor that callgrind plays has no SHA instructions, so hashing is counted apart and taken off.
    let functions = ["*sequencer::desk::number_event*", "*sequencer::desk::commit*"];
    let whole = instructions(run, "warm", &functions)?;
    let hash = instructions(run, "hash", &["*sequencer::warm::hash_chain*"])?;
    Ok(vec![Measure::new(name, whole - hash, "instructions").goal(Goal::AtMost(GUARD))])
}

/// Instructions per transaction that callgrind counts inside these functions.
fn instructions(run: &Run, child: &str, functions: &[&str]) -> anyhow::Result<f64> {
    let program = run.child(&[child, &COUNT.to_string()])?;
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    valgrind.args(functions.iter().map(|function| format!("--toggle-collect={function}")));
    let output = valgrind.arg(program.get_program()).args(program.get_args()).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let line = said.lines().find(|line| line.contains("Collected :")).context("callgrind counted nothing")?;
    let count: f64 = line.rsplit(' ').next().context("callgrind names no count")?.parse()?;
    Ok(count / f64::from(COUNT))
}

fn count(words: &[String]) -> anyhow::Result<u32> {
    Ok(words.first().context("how many?")?.parse()?)
}

pub(super) fn child_warm(words: &[String]) -> anyhow::Result<()> {
    let count = count(words)?;
    suite::runtime()?.block_on(async {
        let mut desk = Desk::open(Store::new(NoStore), Options::default()).await?;
        let pin = desk.sequencer.load(KIND, WorkspaceId::FIRST).await?;
        let body = desk.body();
        let event = event(&body);
        for _ in 0..count {
            let sealed = number_event(&mut desk.sequencer, &pin, &event)?;
            let receipt = desk.log.append(sealed.owner(), sealed.at(), sealed.entries()).await?;
            commit(&mut desk.sequencer, sealed, receipt)?;
        }
        Ok(())
    })
}

pub(super) fn child_hash(words: &[String]) -> anyhow::Result<()> {
    hash_chain(count(words)?);
    Ok(())
}
