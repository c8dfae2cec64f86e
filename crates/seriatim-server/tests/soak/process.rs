//! The server's process, as the soak starts and ends it.

use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

pub(crate) const DIRECTORY: &str = "SERIATIM_SOAK_DIRECTORY";

/// A running server.
pub(crate) struct Process {
    child: Child,
    /// Kept open: a test process that cannot print would end.
    _output: BufReader<ChildStdout>,
    pub(crate) address: SocketAddr,
}

impl Process {
    /// Starts a server on the data in this directory, and waits until it listens.
    pub(crate) fn start(directory: &Path, test: &str) -> Self {
        let log = OpenOptions::new().create(true).append(true).open(directory.join("log")).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(DIRECTORY, directory)
            // A backtrace of each panic would take longer than the time limit of an activation.
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut lines = output.by_ref().lines().map_while(Result::ok);
        let address = lines.find_map(|line| line.split_once("listens on ").map(|(_, text)| text.parse()));
        let address = address.expect("the server starts").unwrap();
        Self { child, _output: output, address }
    }

    /// Kills it. Returns whether it was still running.
    pub(crate) fn kill(mut self) -> bool {
        self.child.kill().unwrap();
        self.child.wait().unwrap().code().is_none()
    }

    /// Stops it cleanly, and waits until it has ended. Returns whether it ended without an error.
    pub(crate) fn stop(mut self) -> bool {
        let sent = self.child.stdin.take().unwrap().write_all(b"stop\n");
        sent.is_ok() && self.child.wait().unwrap().success()
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }
}

/// The resident memory of a process in bytes; none if the system does not provide it.
pub(crate) fn resident(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kilobytes << 10)
}
