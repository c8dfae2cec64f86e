//! A real Temporal server for tests and comparisons: on loopback, for one caller, ended when it is dropped.
//!
//! Compiled with the cargo feature `devserver` only: for tests and comparisons.

mod calls;
mod program;

use std::fs::File;
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use seriatim_env::Env;
use tempfile::TempDir;
use temporalio_client::tonic::IntoRequest as _;
use temporalio_common::protos::temporal::api::workflowservice::v1::DescribeNamespaceRequest;
use thiserror::Error;

pub use calls::Ended;

use crate::{ConnectOptions, Connection};

/// The namespace that a new server has.
pub const NAMESPACE: &str = "default";

/// Attempts at a free port: another process may take it before the server does.
const ATTEMPTS_MAX: u32 = 3;
/// No server takes longer to start, even where every core is busy.
const START_MAX: Duration = Duration::from_secs(60);
/// The interval at which a starting server is polled.
const PAUSE: Duration = Duration::from_millis(50);

/// Where a server keeps its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Data {
    /// In memory: gone with the server.
    Memory,
    /// In an SQLite file of a temporary folder, synced at each commit.
    Synced,
}

/// Why there is no server.
#[derive(Debug, Error)]
pub enum NoServer {
    /// Its program is not on this machine and cannot be built here.
    #[error("no Temporal server on this machine: {0}")]
    Program(String),
    /// It did not start.
    #[error("the Temporal server did not start: {0}")]
    Start(String),
}

/// A running server, ended by its process id when this is dropped.
#[derive(Debug)]
pub struct DevServer {
    process: Child,
    address: String,
    connection: Connection,
    /// Its data and its log; removed after the process has ended.
    _folder: TempDir,
}

impl DevServer {
    /// Starts a server and waits until it answers. Its program is built first if this machine has not got it yet, which
    /// takes minutes.
    ///
    /// # Errors
    ///
    /// [`NoServer`] if there is no program, or it does not start.
    pub async fn start(env: &Env, data: Data) -> Result<Self, NoServer> {
        let program = env.blocking(program::find).await.map_err(NoServer::Program)?;
        let mut last = String::new();
        for _ in 0..ATTEMPTS_MAX {
            let started = Self::start_once(env, &program, data).await;
            match started.map_err(|error| NoServer::Start(error.to_string()))? {
                Ok(server) => return Ok(server),
                Err(log) => last = log,
            }
        }
        Err(NoServer::Start(last))
    }

    /// A server for a test; `None` with a loud word about what is not tested where there can be none.
    ///
    /// # Panics
    ///
    /// If there can be none and `SERIATIM_REQUIRE_REAL` is set; and if there is a program and it does not start.
    pub async fn start_or_skip(env: &Env, data: Data, untested: &str) -> Option<Self> {
        match Self::start(env, data).await {
            Ok(server) => Some(server),
            Err(NoServer::Program(reason)) if std::env::var_os("SERIATIM_REQUIRE_REAL").is_none() => {
                // Not by a macro: what those print is hidden while a test passes.
                drop(writeln!(io::stderr(), "SKIPPED, {untested}: {reason}"));
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// `HOST:PORT`.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// A connection to it.
    #[must_use]
    pub const fn connection(&self) -> &Connection {
        &self.connection
    }

    /// A server that answers, or what one wrote that has ended.
    async fn start_once(
        env: &Env,
        program: &std::path::Path,
        data: Data,
    ) -> io::Result<Result<Self, String>> {
        let folder = tempfile::tempdir()?;
        let log = folder.path().join("log");
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let output = File::create(&log)?;
        let mut command = Command::new(program);
        command.args(arguments(port)).stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        if data == Data::Synced {
            command.arg("--db-filename").arg(folder.path().join("temporal.db"));
            command.args(["--sqlite-pragma", "journal_mode=wal", "--sqlite-pragma", "synchronous=full"]);
        }
        let mut starting = Starting(Some(command.spawn()?));
        let address = format!("127.0.0.1:{port}");
        let options = ConnectOptions { timeout: PAUSE, ..ConnectOptions::new(&address) };
        let start = env.instant();
        loop {
            if starting.has_ended()? {
                return Ok(Err(std::fs::read_to_string(log)?));
            }
            if env.instant() - start > START_MAX {
                let log = std::fs::read_to_string(log)?;
                return Ok(Err(format!("no answer within {} s: {log}", START_MAX.as_secs())));
            }
            if let Ok(connection) = Connection::connect(env, &options).await
                && has_namespace(&connection).await
                && let Some(process) = starting.0.take()
            {
                return Ok(Ok(Self { process, address, connection, _folder: folder }));
            }
            env.sleep(PAUSE).await;
        }
    }
}

impl Drop for DevServer {
    fn drop(&mut self) {
        end(&mut self.process);
    }
}

/// A process that is ended unless it is taken out.
struct Starting(Option<Child>);

impl Starting {
    fn has_ended(&mut self) -> io::Result<bool> {
        self.0.as_mut().map_or(Ok(true), |process| Ok(process.try_wait()?.is_some()))
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        if let Some(process) = &mut self.0 {
            end(process);
        }
    }
}

/// Nothing of it is worth keeping, so it is not asked to stop, which takes it seconds.
fn end(process: &mut Child) {
    drop(process.kill());
    drop(process.wait());
}

/// One partition of each task queue: with more, a single poller waits for the wrong one.
fn arguments(port: u16) -> Vec<String> {
    let fixed = "server start-dev --headless --ip 127.0.0.1 --log-level error \
                 --dynamic-config-value matching.numTaskqueueReadPartitions=1 \
                 --dynamic-config-value matching.numTaskqueueWritePartitions=1 --port";
    fixed.split_whitespace().map(str::to_owned).chain([port.to_string()]).collect()
}

/// A server answers a little before it has its namespace.
async fn has_namespace(connection: &Connection) -> bool {
    let request = DescribeNamespaceRequest { namespace: NAMESPACE.to_owned(), ..Default::default() };
    connection.client().workflow_service().describe_namespace(request.into_request()).await.is_ok()
}
