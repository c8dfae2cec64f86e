//! The real binary, in its own folder.
#![allow(dead_code, reason = "each test uses some of it")]

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};

/// A new folder in which the commands are run.
pub(crate) struct Folder {
    folder: tempfile::TempDir,
}

/// The output of a command, and its exit code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finished {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Finished {
    fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code().unwrap(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// Its data; panics if it failed.
    #[track_caller]
    pub(crate) fn fine(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.stdout
    }

    /// Its data as lines of JSON; panics if it failed.
    #[track_caller]
    pub(crate) fn json(self) -> Vec<serde_json::Value> {
        self.fine().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Its error output; panics unless it failed with this code and printed no data.
    #[track_caller]
    pub(crate) fn fails(self, code: i32) -> String {
        assert_eq!((self.code, &*self.stdout), (code, ""), "{self:?}");
        self.stderr
    }
}

impl Folder {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.join(name), text).unwrap();
    }

    /// A command in this folder, without settings from the environment.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_seriatim"));
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("SERIATIM_") {
                command.env_remove(name);
            }
        }
        command.current_dir(self.path()).args(arguments).stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Finished {
        Finished::of(self.command(arguments).output().unwrap())
    }

    pub(crate) fn run_with(&self, variables: &[(&str, &str)], arguments: &[&str]) -> Finished {
        Finished::of(self.command(arguments).envs(variables.iter().copied()).output().unwrap())
    }

    /// A server on a free port, ready to answer.
    pub(crate) fn serve(&self, arguments: &[&str]) -> Server {
        let mut all = vec!["serve", "--listen", "127.0.0.1:0"];
        all.extend(arguments);
        Server::start(self.command(&all))
    }
}

/// A server in its own process; killed when it is dropped.
pub(crate) struct Server {
    child: Child,
    stderr: BufReader<ChildStderr>,
    pub(crate) url: String,
    /// The line that it printed when it was ready.
    pub(crate) ready: String,
}

impl Server {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let mut server = Self { child, stderr, url: String::new(), ready: String::new() };
        let mut printed = String::new();
        while server.url.is_empty() {
            server.ready.clear();
            assert!(
                server.stderr.read_line(&mut server.ready).unwrap() > 0,
                "the server did not start: {printed}"
            );
            printed += &server.ready;
            if let Some((_, rest)) = server.ready.split_once("listens on ") {
                server.url = rest.split(',').next().unwrap().to_owned();
            }
        }
        server
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill").args([name, &self.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// Ends it with SIGTERM; returns its exit code, and what it printed after it was ready.
    pub(crate) fn terminate(mut self) -> (i32, String) {
        self.signal("-TERM");
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut self.stderr, &mut rest).unwrap();
        (self.child.wait().unwrap().code().unwrap(), rest)
    }

    /// Kills it with SIGKILL.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
