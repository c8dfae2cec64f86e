//! The server's process, as the one who ends it sees it.

use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

pub(crate) const DIRECTORY: &str = "SERIATIM_SOAK_DIRECTORY";

/// A server that runs.
pub(crate) struct Process {
    child: Child,
    /// Held open: a test that cannot print ends its process.
    _output: BufReader<ChildStdout>,
    pub(crate) address: SocketAddr,
}

impl Process {
    /// Starts one on what is in this directory, and waits until it listens.
    pub(crate) fn start(directory: &Path, test: &str) -> Self {
        let log = OpenOptions::new().create(true).append(true).open(directory.join("log")).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(DIRECTORY, directory)
            // A backtrace of each panic takes longer than an activation may.
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

    /// Ends it as a power cut would. Says whether it still ran.
    pub(crate) fn kill(mut self) -> bool {
        self.child.kill().unwrap();
        self.child.wait().unwrap().code().is_none()
    }

    /// Asks it to end, and waits for that. Says whether it ended as it should.
    pub(crate) fn stop(mut self) -> bool {
        let told = self.child.stdin.take().unwrap().write_all(b"stop\n");
        told.is_ok() && self.child.wait().unwrap().success()
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }
}

/// The resident memory of a process, in bytes; none where the system does not say.
pub(crate) fn resident(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kilobytes << 10)
}
