//! The memory of an engine in which very many workspaces are written once each.

use std::io::Write;
use std::sync::Arc;

use anyhow::Context;
use tokio::task::JoinSet;

use crate::measure::{Goal, Measure};
use crate::shop::{Shop, invoice};
use crate::suite::{self, Run, Suite};

pub(crate) const SUITE: Suite = Suite {
    name: "memory",
    about: "resident memory while very many workspaces are written once each",
    run,
    child: Some(child),
};

/// How many times the process reads its memory.
const SAMPLES: u64 = 20;
const IN_FLIGHT: u64 = 256;

fn run(run: &Run) -> anyhow::Result<Vec<Measure>> {
    let workspaces: u64 = run.pick(200_000, 1_000_000);
    run.progress(&format!("{workspaces} workspaces are made and written once each"));
    let directory = run.directory("memory-")?;
    let place = directory.path().to_str().context("the path is not valid Unicode")?;
    let output = run.child(&[place, &workspaces.to_string()])?.output()?;
    anyhow::ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = String::from_utf8(output.stdout)?;
    let samples: Result<Vec<f64>, _> = output.lines().map(str::parse).collect();
    let samples = samples?;
    let half = samples.len() / 2;
    let most = |samples: &[f64]| samples.iter().copied().fold(f64::NAN, f64::max) / 1e6;
    let name = format!("resident memory, {workspaces} workspaces written, default settings");
    Ok(vec![
        Measure::new(format!("{name}, most"), most(&samples), "MB").goal(Goal::AtMost(200.0)),
        Measure::new(format!("{name}: flat"), most(&samples[half..]), "MB")
            .compared_with("the first half of them", most(&samples[..half]))
            .goal(Goal::RatioAtMost(1.1)),
    ])
}

/// Makes workspaces and writes each once; prints the memory of the process regularly.
fn child(words: &[String]) -> anyhow::Result<()> {
    let [place, workspaces] = words else {
        anyhow::bail!("the process takes two arguments, not {}", words.len())
    };
    let workspaces: u64 = workspaces.parse()?;
    suite::runtime()?.block_on(async {
        let shop = Arc::new(Shop::open(place.as_ref()).await?);
        shop.ready().await?;
        for _ in 0..SAMPLES {
            write(&shop, workspaces / SAMPLES).await?;
            writeln!(std::io::stdout().lock(), "{}", resident("self")?)?;
        }
        shop.close().await
    })
}

async fn write(shop: &Arc<Shop>, workspaces: u64) -> anyhow::Result<()> {
    let made = Arc::new(shop.workspaces(workspaces).await?);
    let mut tasks = JoinSet::new();
    for writer in 0..IN_FLIGHT {
        let (shop, made) = (shop.clone(), made.clone());
        tasks.spawn(async move {
            let request = invoice();
            let own = made.iter().skip(usize::try_from(writer)?).step_by(usize::try_from(IN_FLIGHT)?);
            for workspace in own {
                shop.invoice(*workspace, &request).await?;
            }
            anyhow::Ok(())
        });
    }
    tasks.join_all().await.into_iter().collect()
}

/// The resident memory of a process in bytes; `process` is its id or `self`.
pub(crate) fn resident(process: &str) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .context("the status of the process has no VmRSS")?;
    let kilobytes: u64 = line.split_whitespace().nth(1).context("no figure")?.parse()?;
    Ok(kilobytes * 1_024)
}
