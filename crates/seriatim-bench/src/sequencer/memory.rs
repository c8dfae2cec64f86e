//! The memory of a process that has touched very many workspaces.

use anyhow::Context;
use seriatim_engine::alone::Options;
use seriatim_storage::Store;
use seriatim_types::WorkspaceId;

use super::no_storage::NoStore;
use super::subject::{Subject, event};
use crate::measure::{Goal, Measure};
use crate::suite::{self, Run};

pub(super) fn measure(run: &Run) -> anyhow::Result<Vec<Measure>> {
    let (few, many) = (run.pick(100_000, 250_000), run.pick(200_000, 1_000_000));
    run.progress(&format!("memory with {many} workspaces"));
    let with_few = resident(run, few)?;
    let with_many = resident(run, many)?;
    let megabytes = |bytes: f64| bytes / 1e6;
    let name = format!("resident memory, {many} workspaces touched, default cache");
    Ok(vec![
        Measure::new(name.clone(), megabytes(with_many), "MB").goal(Goal::AtMost(200.0)),
        Measure::new(format!("{name}: flat"), megabytes(with_many), "MB")
            .compared_with(format!("the same with {few}"), megabytes(with_few))
            .goal(Goal::RatioAtMost(1.1)),
    ])
}

fn resident(run: &Run, workspaces: u64) -> anyhow::Result<f64> {
    let output = run.child(&["memory", &workspaces.to_string()])?.output()?;
    anyhow::ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

/// Uses each workspace once, on a store that keeps nothing, and prints the memory of the process.
#[expect(clippy::print_stdout, reason = "the parent process reads it")]
pub(super) fn child(words: &[String]) -> anyhow::Result<()> {
    let workspaces: u64 = words.first().context("how many workspaces?")?.parse()?;
    suite::runtime()?.block_on(async {
        let mut subject = Subject::open(Store::new(NoStore), Options::default()).await?;
        let body = subject.body();
        let event = event(&body);
        for number in 0..workspaces {
            subject.number(WorkspaceId::new(WorkspaceId::FIRST.get() + number), &event).await?;
        }
        let status = std::fs::read_to_string("/proc/self/status")?;
        let line = status
            .lines()
            .find(|line| line.starts_with("VmRSS:"))
            .context("the status of the process has no VmRSS")?;
        let kilobytes: u64 = line.split_whitespace().nth(1).context("no figure")?.parse()?;
        println!("{}", kilobytes * 1_024);
        Ok(())
    })
}
