//! A suite, and what it uses.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::Context;
use tokio::runtime::Runtime;

use crate::measure::Measure;

/// Worker threads of the runtime on which ours and the peer's tasks run.
const WORKERS: usize = 2;

/// The function of a suite's child process, with the arguments of the process.
pub(crate) type Child = fn(&[String]) -> anyhow::Result<()>;

/// A set of comparisons that are measured in one run.
#[derive(Debug)]
pub(crate) struct Suite {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    /// What it measures, for `--list`.
    pub(crate) about: &'static str,
    /// Measures.
    pub(crate) run: fn(&Run) -> anyhow::Result<Vec<Measure>>,
    /// The function of a process that [`Run::child`] started.
    pub(crate) child: Option<Child>,
}

/// One run of a suite.
#[derive(Debug)]
pub(crate) struct Run {
    suite: &'static str,
    quick: bool,
    directory: PathBuf,
    started: Instant,
}

impl Run {
    /// A run of the named suite that may write into `directory`.
    pub(crate) fn new(suite: &'static str, quick: bool, directory: &Path) -> Self {
        let directory = directory.to_owned();
        Self { suite, quick, directory, started: Instant::now() }
    }

    /// Chooses one of two sizes.
    pub(crate) fn pick<T>(&self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }

    /// A new empty directory inside the directory of this run.
    pub(crate) fn directory(&self, name: &str) -> anyhow::Result<tempfile::TempDir> {
        let made = tempfile::Builder::new().prefix(name).tempdir_in(&self.directory);
        made.with_context(|| format!("no directory can be made in {}", self.directory.display()))
    }

    /// Prints the progress to stderr.
    pub(crate) fn progress(&self, what: &str) {
        let seconds = self.started.elapsed().as_secs();
        // It is not an error if stderr is closed.
        let _ = writeln!(std::io::stderr(), "{seconds:>4} s  {}: {what}", self.suite);
    }

    /// The runtime on which both sides of a comparison run.
    pub(crate) fn runtime(&self) -> anyhow::Result<Runtime> {
        runtime()
    }

    /// Another process of this program: it calls the suite's `child` function with these arguments.
    pub(crate) fn child(&self, words: &[&str]) -> anyhow::Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(self.suite).arg("--child").args(words);
        Ok(command)
    }
}

/// The runtime of [`Run::runtime`], for a child process.
pub(crate) fn runtime() -> anyhow::Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    Ok(builder.worker_threads(WORKERS).enable_all().build()?)
}
