//! Comparisons: the source of every claim about speed or memory of Seriatim.
//!
//! ```text
//! cargo run --release -p seriatim-bench -- SUITE [--quick] [--json] [--dir DIR]
//! cargo run --release -p seriatim-bench -- --list
//! ```
//!
//! A suite measures ours and the peer alternately in one run. It prints a table, and as its last line one JSON object:
//! `docs/measuring.md` says how to read it.
//!
//! # How to add a suite
//!
//! 1. Write `src/NAME.rs` with a function and a constant:
//!
//!    ```ignore
//!    pub(crate) const SUITE: Suite = Suite {
//!        name: "blocks",
//!        about: "allocate_one compared with fetch_add and with a mutex",
//!        run,
//!        child: None,
//!    };
//!
//!    fn run(run: &Run) -> anyhow::Result<Vec<Measure>> {
//!        let rounds = run.pick(5, 15);
//!        let [ours, peer] = medians(rounds, [&mut || allocate_one(), &mut || fetch_add()])?;
//!        let measure = Measure::new("allocate_one", ours, "ns");
//!        Ok(vec![measure.compared_with("fetch_add", peer).goal(Goal::RatioAtMost(1.3))])
//!    }
//!    ```
//!
//! 2. Add `mod NAME;` and one line to [`SUITES`].
//!
//! [`Run`] has what a suite needs: a directory that is removed afterwards, `pick` to choose a size for `--quick`, a
//! runtime with two workers, progress lines on stderr, and `child` to start this program again as another process (to measure
//! its memory, or to kill it): that process calls the suite's `child` function instead of `run`. [`medians`] lets the
//! contestants take turns. [`writers::drive`] lets many tasks wait for durable writes, and [`peer`] has the peers that more than
//! one suite uses. A peer that is not available is reported with [`Measure::without`], never left out.
//!
//! [`medians`]: sample::medians
//! [`Measure::without`]: measure::Measure::without
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "measures the real machine")]

mod blocks;
mod engine;
mod handover;
mod http;
mod latency;
mod log;
mod machine;
mod measure;
mod memory;
mod peer;
mod recovery;
mod report;
mod restart;
mod sample;
mod sequencer;
mod shop;
mod suite;
mod table;
#[cfg(feature = "temporal")]
mod temporal;
mod workflow;
mod writers;

use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use clap::Parser;

use machine::Machine;
use report::Report;
use suite::{Run, Suite};

/// The same allocator as in the binary `seriatim`, so that the figures are those of the real program.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Every suite, one line each.
const SUITES: &[Suite] = &[
    log::SUITE,
    sequencer::SUITE,
    recovery::SUITE,
    blocks::SUITE,
    engine::SUITE,
    restart::SUITE,
    handover::SUITE,
    memory::SUITE,
    http::SUITE,
    workflow::SUITE,
    #[cfg(feature = "temporal")]
    temporal::SUITE,
];

/// Measures Seriatim and its peers; the last line is one JSON object.
#[derive(Debug, Parser)]
struct Arguments {
    /// The suite to run.
    #[arg(required_unless_present = "list")]
    suite: Option<String>,
    /// Smaller sizes: ends within 45 seconds on two cores.
    #[arg(long)]
    quick: bool,
    /// Prints the JSON object alone, without the table.
    #[arg(long)]
    json: bool,
    /// The directory for data while the suite runs [default: `target` if it exists, else the system's temporary directory].
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Lists the suites.
    #[arg(long)]
    list: bool,
    /// Runs the suite's child process; used by the suite itself.
    #[arg(long, hide = true, num_args = 1.., allow_hyphen_values = true)]
    child: Option<Vec<String>>,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    // Not locked: a peer that logs to stdout would wait until the end of the run.
    let mut out = std::io::stdout();
    let Some(name) = arguments.suite.filter(|_| !arguments.list) else {
        for suite in SUITES {
            writeln!(out, "{:<10}  {}", suite.name, suite.about)?;
        }
        return Ok(());
    };
    let suite = SUITES.iter().find(|suite| suite.name == name);
    let suite = suite.with_context(|| format!("there is no suite {name}: --list names them"))?;
    if let Some(words) = arguments.child {
        let child = suite.child.context("this suite has no child process")?;
        return child(&words);
    }

    let directory = scratch(arguments.dir)?;
    let run = Run::new(suite.name, arguments.quick, directory.path());
    let started = Instant::now();
    let machine = Machine::inspect(directory.path())?;
    let measures = (suite.run)(&run)?;
    let report = Report::new(suite.name, arguments.quick, machine, measures);
    if !arguments.json {
        report.write_table(&mut out)?;
        writeln!(out, "{:.0} s\n", started.elapsed().as_secs_f64())?;
    }
    report.write_json(&mut out)?;
    Ok(())
}

/// A directory for this run, removed when it is dropped.
fn scratch(parent: Option<PathBuf>) -> anyhow::Result<tempfile::TempDir> {
    let here = PathBuf::from("target");
    let parent = parent.unwrap_or_else(|| if here.is_dir() { here } else { std::env::temp_dir() });
    let directory = std::fs::create_dir_all(&parent)
        .and_then(|()| tempfile::Builder::new().prefix("seriatim-bench-").tempdir_in(&parent));
    directory.with_context(|| format!("no directory can be made in {}", parent.display()))
}
