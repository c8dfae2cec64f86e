//! Instructions of a warm transaction: a figure that the load of the machine does not change, so a good guard.

use std::process::Command;

use anyhow::Context;
use seriatim_engine::alone::Options;
use seriatim_storage::Store;
use seriatim_types::WorkspaceId;

use super::no_storage::NoStore;
use super::subject::{KIND, Subject, commit, event, number_event};
use super::warm::hash_chain;
use crate::measure::{Goal, Measure};
use crate::suite::{self, Run};

/// Above this a change has made a warm transaction more expensive: it took 1,691 when this was set.
const GUARD: f64 = 1_750.0;
const COUNT: u32 = 2_000;

pub(super) fn measure(run: &Run) -> anyhow::Result<Vec<Measure>> {
    let name = "instructions of a warm transaction, hashing left out";
    if Command::new("valgrind").arg("--version").output().is_err() {
        return Ok(vec![
            Measure::new(name, f64::NAN, "instructions").without("callgrind", "valgrind is not installed"),
        ]);
    }
    run.progress("instructions");
    // The processor that callgrind simulates has no SHA instructions, so hashing is counted separately and subtracted.
    let functions = ["*sequencer::subject::number_event*", "*sequencer::subject::commit*"];
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
    let output = String::from_utf8_lossy(&output.stderr);
    let line =
        output.lines().find(|line| line.contains("Collected :")).context("callgrind counted nothing")?;
    let count: f64 = line.rsplit(' ').next().context("callgrind names no count")?.parse()?;
    Ok(count / f64::from(COUNT))
}

fn count(words: &[String]) -> anyhow::Result<u32> {
    Ok(words.first().context("how many?")?.parse()?)
}

pub(super) fn child_warm(words: &[String]) -> anyhow::Result<()> {
    let count = count(words)?;
    suite::runtime()?.block_on(async {
        let mut subject = Subject::open(Store::new(NoStore), Options::default()).await?;
        let pin = subject.sequencer.load(KIND, WorkspaceId::FIRST).await?;
        let body = subject.body();
        let event = event(&body);
        for _ in 0..count {
            let sealed = number_event(&mut subject.sequencer, &pin, &event)?;
            let receipt = subject.log.append(sealed.owner(), sealed.at(), sealed.entries()).await?;
            commit(&mut subject.sequencer, sealed, receipt)?;
        }
        Ok(())
    })
}

pub(super) fn child_hash(words: &[String]) -> anyhow::Result<()> {
    hash_chain(count(words)?);
    Ok(())
}
