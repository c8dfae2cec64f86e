//! A directory that processes open and write to, one after the other. Each process closes it, or is killed.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::ops::Range;
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context, bail, ensure};
use seriatim_types::Partition;
use tempfile::TempDir;

use super::pairs::Pairs;
use super::{events, pairs, storage};
use crate::peer::PlainFjall;
use crate::suite::{self, Run};

/// The bytes that a pair adds to the store, and that are appended to the log for it.
pub(super) const PAIR_BYTES: u64 = 1_024;
const VALUE_BYTES: usize = 1_000;
const PARTITIONS: u16 = 16;
/// Entries of one append: many, so that writing takes few syncs.
const APPEND_ENTRIES: usize = 2_000;

/// Whose directory it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Side {
    Ours,
    Fjall,
}

/// How a process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Ending {
    Close,
    Kill,
}

impl Ending {
    /// For the name of a measure.
    pub(super) fn after(self) -> &'static str {
        match self {
            Self::Close => "after a clean stop",
            Self::Kill => "after kill -9",
        }
    }
}

/// The directory, and how many pairs were written to it.
#[derive(Debug)]
pub(super) struct Directory<'a> {
    run: &'a Run,
    side: Side,
    place: TempDir,
    pairs: u64,
}

impl<'a> Directory<'a> {
    /// A new, empty one.
    pub(super) fn new(run: &'a Run, side: Side) -> anyhow::Result<Self> {
        let place = run.directory("opening-")?;
        Ok(Self { run, side, place, pairs: 0 })
    }

    /// Starts a process that opens it and writes this many pairs, and as many bytes to the log. Returns how long opening took, in ms.
    pub(super) fn visit(&mut self, pairs: u64, ending: Ending) -> anyhow::Result<f64> {
        let place = self.place.path().to_str().context("the path is not valid Unicode")?;
        let (first, end) = (self.pairs.to_string(), (self.pairs + pairs).to_string());
        let side = if self.side == Side::Ours { "ours" } else { "fjall" };
        let ends = if ending == Ending::Close { "close" } else { "keep-running" };
        let mut command = self.run.child(&[side, place, &first, &end, ends])?;
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        self.pairs += pairs;

        let lines = child.stdout.take().context("a process without output")?;
        let mut lines = BufReader::new(lines).lines();
        let opened = lines.next().context("the process ended before it had opened the directory")?;
        let written = lines.next().context("the process ended before it had written")?;
        if ending == Ending::Kill {
            child.kill()?;
        }
        let status = child.wait()?;
        ensure!(status.success() == (ending == Ending::Close), "the process ended with {status}");
        ensure!(written? == "written", "the process printed something else");
        // Without this, the next opening would share the disk with the writes of this visit.
        rustix::fs::syncfs(File::open(self.place.path())?)?;
        Ok(opened?.parse()?)
    }
}

/// The process: it opens, prints how long that took, writes, prints that, and then closes or continues until it is killed.
pub(super) fn child(words: &[String]) -> anyhow::Result<()> {
    let [side, place, first, end, ending] = words else {
        bail!("the process takes five arguments, not {}", words.len());
    };
    let (place, pairs) = (Path::new(place), first.parse()?..end.parse()?);
    let runtime = suite::runtime()?;
    match side.as_str() {
        "ours" => runtime.block_on(visit_ours(place, pairs, ending == "close")),
        "fjall" => runtime.block_on(visit_fjall(place, pairs, ending == "close")),
        _ => bail!("there is no side {side}"),
    }
}

async fn visit_ours(place: &Path, pairs: Range<u64>, close: bool) -> anyhow::Result<()> {
    let started = Instant::now();
    let storage = storage::open(place).await?;
    let partitions: Vec<_> = (0..PARTITIONS).map(|id| Partition::new(1, id)).collect();
    let owners = storage.log().take_all(&partitions).await?;
    check_first(storage.store(), &pairs).await?;
    print_line(&opened_ms(started))?;

    // The log first, so that a kill happens during writes of the store.
    let bytes = (pairs.end - pairs.start) * PAIR_BYTES;
    events::fill(storage.log(), &owners[0], bytes, APPEND_ENTRIES).await?;
    pairs::fill(storage.store(), pairs.clone(), VALUE_BYTES).await?;
    // Data that is only in memory would be lost with the process.
    storage.store().sync().await?;
    print_line("written")?;
    if close {
        return Ok(storage.close().await?);
    }
    write_on(storage.store(), pairs.end).await
}

async fn visit_fjall(place: &Path, pairs: Range<u64>, close: bool) -> anyhow::Result<()> {
    let started = Instant::now();
    let fjall = PlainFjall::open(place)?;
    check_first(&fjall, &pairs).await?;
    print_line(&opened_ms(started))?;

    pairs::fill(&fjall, pairs.clone(), VALUE_BYTES).await?;
    print_line("written")?;
    if close {
        return fjall.close();
    }
    write_on(&fjall, pairs.end).await
}

/// The storage counts as open when it answers a read.
async fn check_first(store: &impl Pairs, pairs: &Range<u64>) -> anyhow::Result<()> {
    ensure!(store.has(0).await? == (pairs.start > 0), "the first pair is not as expected");
    Ok(())
}

/// Overwrites one batch repeatedly, until the process is killed.
async fn write_on(store: &impl Pairs, first: u64) -> anyhow::Result<()> {
    loop {
        store.write(first..first + pairs::BATCH_PAIRS as u64, VALUE_BYTES).await?;
    }
}

fn opened_ms(started: Instant) -> String {
    (started.elapsed().as_secs_f64() * 1e3).to_string()
}

fn print_line(line: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}
