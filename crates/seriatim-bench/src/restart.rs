//! From opening to the first answered command, with logs of very different lengths: after a clean stop and after a kill.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context, bail, ensure};
use seriatim_types::WorkspaceId;
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::measure::{Goal, Measure};
use crate::sample::median;
use crate::shop::{Invoices, Shop, invoice};
use crate::suite::{self, Run, Suite};
use crate::writers::Durable;

pub(crate) const SUITE: Suite = Suite {
    name: "restart",
    about: "from opening to the first answered command, by the length of the log",
    run,
    child: Some(child),
};

/// Few, so that filling does not take too long.
const WORKSPACES: u64 = 8;
/// Commands in flight while a directory is filled, and while it is killed.
const IN_FLIGHT: usize = 1_024;

/// How a process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Ending {
    Close,
    Kill,
}

impl Ending {
    fn after(self) -> &'static str {
        match self {
            Self::Close => "after a clean stop",
            Self::Kill => "after kill -9",
        }
    }

    fn most_ms(self) -> f64 {
        match self {
            Self::Close => 300.0,
            Self::Kill => 300.0,
        }
    }

    /// After a kill: what the default settings allow.
    fn most_events(self) -> f64 {
        match self {
            Self::Close => 0.0,
            Self::Kill => 200_000.0,
        }
    }
}

/// What an opening took.
pub(crate) struct Opened {
    pub(crate) ms: f64,
    /// Events that were replayed, over all partitions.
    replayed: f64,
}

fn run(run: &Run) -> anyhow::Result<Vec<Measure>> {
    let sizes: &[u64] = run.pick(&[100_000, 1_000_000], &[100_000, 1_000_000, 10_000_000]);
    let mut directories = Vec::new();
    for &events in sizes {
        run.progress(&format!("a log of {events} events is written"));
        let directory = run.directory("restart-")?;
        visit(run, &directory, events, Ending::Close)?;
        directories.push((events, directory));
    }
    run.progress("opening, repeatedly");
    let added = 20_000;
    let mut times: HashMap<_, Vec<f64>> = HashMap::new();
    let mut replayed: HashMap<_, Vec<f64>> = HashMap::new();
    for _ in 0..run.pick(3, 9) {
        // A visit finds what the previous visit left.
        for (ending, left) in [(Ending::Kill, Ending::Close), (Ending::Close, Ending::Kill)] {
            for (events, directory) in &directories {
                let opened = visit(run, directory, added, ending)?;
                times.entry((*events, left)).or_default().push(opened.ms);
                replayed.entry((*events, left)).or_default().push(opened.replayed);
            }
        }
    }
    let found = |events, left| median(times.get(&(events, left)).map_or(&[], Vec::as_slice));
    let most =
        |events, left| replayed.get(&(events, left)).into_iter().flatten().copied().fold(0.0, f64::max);
    let mut measures = Vec::new();
    for left in [Ending::Close, Ending::Kill] {
        for &events in sizes {
            let name = format!("first answer {}, {events} events", left.after());
            let ours = found(events, left);
            measures.push(Measure::new(name.clone(), ours, "ms").goal(Goal::AtMost(left.most_ms())));
            let name_of_replay = format!("most events replayed {}, {events} events", left.after());
            measures.push(
                Measure::new(name_of_replay, most(events, left), "events")
                    .goal(Goal::AtMost(left.most_events())),
            );
            if events > sizes[0] {
                let by_length = Measure::new(format!("{name}, by length"), ours, "ms");
                let short = format!("the same with {} events", sizes[0]);
                measures
                    .push(by_length.compared_with(short, found(sizes[0], left)).goal(Goal::RatioAtMost(1.2)));
            }
        }
    }
    Ok(measures)
}

/// Starts a process that opens the directory, does a command, and then `events` more. Returns what it took until the first one was done.
pub(crate) fn visit(run: &Run, directory: &TempDir, events: u64, ending: Ending) -> anyhow::Result<Opened> {
    let place = directory.path().to_str().context("the path is not valid Unicode")?;
    let ends = if ending == Ending::Close { "close" } else { "keep-running" };
    let mut child = run.child(&[place, &events.to_string(), ends])?.stdout(Stdio::piped()).spawn()?;
    let lines = child.stdout.take().context("a process without output")?;
    let mut lines = BufReader::new(lines).lines();
    let answered = lines.next().context("the process ended before it had answered")?;
    let written = lines.next().context("the process ended before it had written")?;
    if ending == Ending::Kill {
        child.kill()?;
    }
    let status = child.wait()?;
    ensure!(status.success() == (ending == Ending::Close), "the process ended with {status}");
    ensure!(written? == "written", "the process printed something else");
    // Without this, the next opening would share the disk with the writes of this visit.
    rustix::fs::syncfs(File::open(directory.path())?)?;
    let answered = answered?;
    let (ms, replayed) = answered.split_once(' ').context("two figures were expected")?;
    Ok(Opened { ms: ms.parse()?, replayed: replayed.parse()? })
}

/// The process: it opens, does a command, prints how long that took and how many events were replayed, does more, prints that, and then closes or continues
/// until it is killed.
pub(crate) fn child(words: &[String]) -> anyhow::Result<()> {
    let [place, events, ending] = words else {
        bail!("the process takes three arguments, not {}", words.len());
    };
    let (place, events, close) = (Path::new(place), events.parse()?, ending == "close");
    suite::runtime()?.block_on(async {
        let fresh = std::fs::read_dir(place)?.next().is_none();
        let started = Instant::now();
        let shop = Arc::new(Shop::open(place).await?);
        if fresh {
            shop.ready().await?;
            shop.workspaces(WORKSPACES).await?;
        }
        let replayed = first_answer(&shop).await?;
        print_line(&format!("{} {replayed}", started.elapsed().as_secs_f64() * 1e3))?;
        let workspaces: Vec<_> =
            (0..WORKSPACES).map(|i| WorkspaceId::new(WorkspaceId::FIRST.get() + i)).collect();
        let invoices = Arc::new(Invoices::new(&shop, &workspaces));
        write(&invoices, events).await?;
        print_line("written")?;
        if close {
            return shop.close().await;
        }
        loop {
            write(&invoices, events).await?;
        }
    })
}

/// Does a command as soon as its partition is ready. Returns how many events were replayed before.
async fn first_answer(shop: &Shop) -> anyhow::Result<u64> {
    let request = invoice();
    shop.ready().await?;
    let partitions = shop.engine.all_partitions();
    let replayed = partitions.iter().map(|(_, state)| state.uncheckpointed_events).sum();
    shop.invoice(WorkspaceId::FIRST, &request).await?;
    Ok(replayed)
}

/// Does this many commands.
async fn write(invoices: &Arc<Invoices>, events: u64) -> anyhow::Result<()> {
    let left = Arc::new(AtomicU64::new(events));
    let mut tasks = JoinSet::new();
    for writer in 0..IN_FLIGHT {
        let (invoices, left) = (invoices.clone(), left.clone());
        tasks.spawn(async move {
            let take = |left: u64| left.checked_sub(1);
            while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
                invoices.write(writer).await?;
            }
            anyhow::Ok(())
        });
    }
    tasks.join_all().await.into_iter().collect()
}

fn print_line(line: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}
