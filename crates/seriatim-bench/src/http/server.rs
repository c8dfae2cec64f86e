//! The servers. Each is another process of this program.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use anyhow::{Context, bail, ensure};
use seriatim_env::Shutdown;
use seriatim_server::{ServerOptions, serve};

use crate::memory::resident;
use crate::shop::Shop;
use crate::suite::{self, Run};

/// A server that listens on loopback. Dropping it stops it cleanly.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    stdin: Option<ChildStdin>,
    /// Kept open, because the server may print to it.
    _stdout: BufReader<ChildStdout>,
    pub(super) address: SocketAddr,
}

impl Server {
    /// Starts our server or a peer's, by its name, in a directory.
    pub(super) fn start(run: &Run, name: &str, directory: &Path) -> anyhow::Result<Self> {
        let place = directory.to_str().context("the path is not valid Unicode")?;
        let mut command = run.child(&[name, place])?;
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let stdin = child.stdin.take();
        let mut stdout = BufReader::new(child.stdout.take().context("no output")?);
        // Other servers may print more lines before the address.
        let address = loop {
            let mut line = String::new();
            ensure!(stdout.read_line(&mut line)? > 0, "the server {name} did not start");
            if let Ok(address) = line.trim().parse() {
                break address;
            }
        };
        Ok(Self { child, stdin, _stdout: stdout, address })
    }

    /// The resident memory of the server in bytes.
    pub(super) fn resident(&self) -> anyhow::Result<u64> {
        resident(&self.child.id().to_string())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}

/// Prints the address of a server, and runs the server until its standard input ends.
pub(super) fn child(words: &[String]) -> anyhow::Result<()> {
    let [name, place] = words else { bail!("the process takes two arguments, not {}", words.len()) };
    let runtime = suite::runtime()?;
    let stop = Shutdown::new();
    let stopping = stop.clone();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        stopping.cancel();
    });
    match name.as_str() {
        "ours" => runtime.block_on(ours(place.as_ref(), stop)),
        #[cfg(feature = "umadb")]
        "umadb" => runtime.block_on(crate::peer::serve_umadb(place.as_ref(), stop)),
        _ => bail!("there is no server {name}"),
    }
}

async fn ours(directory: &Path, stop: Shutdown) -> anyhow::Result<()> {
    let shop = Shop::open(directory).await?;
    shop.ready().await?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    print_address(listener.local_addr()?)?;
    serve(listener, shop.engine.clone(), None, ServerOptions::default(), stop).await?;
    shop.close().await
}

/// Prints the address for the process that started this one.
pub(crate) fn print_address(address: SocketAddr) -> anyhow::Result<()> {
    ensure!(address.ip().is_loopback(), "{address} is not on loopback");
    writeln!(std::io::stdout().lock(), "{address}")?;
    Ok(())
}
