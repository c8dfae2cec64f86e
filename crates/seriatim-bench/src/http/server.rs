//! The servers, each a process of its own: this program once more.

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

/// A server that listens on loopback. Dropping it lets it end in good order.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    stdin: Option<ChildStdin>,
    /// Kept open for as long as the server may say something.
    _stdout: BufReader<ChildStdout>,
    pub(super) address: SocketAddr,
}

impl Server {
    /// Starts ours, or another's by its name, on a directory.
    pub(super) fn start(run: &Run, name: &str, directory: &Path) -> anyhow::Result<Self> {
        let place = directory.to_str().context("a path that is no text")?;
        let mut command = run.child(&[name, place])?;
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let stdin = child.stdin.take();
        let mut stdout = BufReader::new(child.stdout.take().context("no output")?);
        // Others have more to say before they listen.
        let address = loop {
            let mut line = String::new();
            ensure!(stdout.read_line(&mut line)? > 0, "the server {name} did not start");
            if let Ok(address) = line.trim().parse() {
                break address;
            }
        };
        Ok(Self { child, stdin, _stdout: stdout, address })
    }

    /// Bytes of memory that it has.
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

/// Runs a server until its standard input ends; says first where it listens.
pub(super) fn child(words: &[String]) -> anyhow::Result<()> {
    let [name, place] = words else { bail!("it takes two words, not {}", words.len()) };
    let runtime = suite::runtime()?;
    let stop = Shutdown::new();
    let told = stop.clone();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        told.cancel();
    });
    match name.as_str() {
        "ours" => runtime.block_on(ours(place.as_ref(), stop)),
        #[cfg(feature = "umadb")]
        "umadb" => runtime.block_on(crate::peer::serve_umadb(place.as_ref(), stop)),
        _ => bail!("there is no server {name} here"),
    }
}

async fn ours(directory: &Path, stop: Shutdown) -> anyhow::Result<()> {
    let shop = Shop::open(directory).await?;
    shop.ready().await?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    say(listener.local_addr()?)?;
    serve(listener, shop.engine.clone(), None, ServerOptions::default(), stop).await?;
    shop.close().await
}

/// Tells the process that started this one where it listens.
pub(crate) fn say(address: SocketAddr) -> anyhow::Result<()> {
    ensure!(address.ip().is_loopback(), "{address} is not on loopback");
    writeln!(std::io::stdout().lock(), "{address}")?;
    Ok(())
}
