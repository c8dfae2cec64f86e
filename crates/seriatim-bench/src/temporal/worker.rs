//! Workers. Each is another process of this program.

use std::io::Read;
use std::process::{Child, ChildStdin, Stdio};

use anyhow::bail;
use seriatim_env::{Env, Shutdown};
use seriatim_temporal::{ConnectOptions, Connection, WorkerOptions};

use super::official;
use crate::suite::{self, Run};
use crate::workflow::runs::{activities, workflows};

/// A worker; its task queue has the same name. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) name: &'static str,
    child: Child,
    stdin: Option<ChildStdin>,
}

impl Worker {
    pub(super) fn start(run: &Run, name: &'static str, address: &str) -> anyhow::Result<Self> {
        let mut child = run.child(&[name, address])?.stdin(Stdio::piped()).spawn()?;
        let stdin = child.stdin.take();
        Ok(Self { name, child, stdin })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}

/// Works until its standard input ends.
pub(super) fn child(words: &[String]) -> anyhow::Result<()> {
    let [name, address] = words else { bail!("the process takes two arguments, not {}", words.len()) };
    let runtime = suite::runtime()?;
    match name.as_str() {
        "ours" => {
            let stop = Shutdown::new();
            let stopping = stop.clone();
            std::thread::spawn(move || {
                wait_for_the_end();
                stopping.cancel();
            });
            runtime.block_on(ours(address, stop))
        }
        "official" => {
            std::thread::spawn(|| {
                wait_for_the_end();
                std::process::exit(0);
            });
            runtime.block_on(official::work(address))
        }
        _ => bail!("there is no worker {name}"),
    }
}

fn wait_for_the_end() {
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

async fn ours(address: &str, stop: Shutdown) -> anyhow::Result<()> {
    let env = Env::real();
    let connection = Connection::connect(&env, &ConnectOptions::new(address)).await?;
    let options = WorkerOptions::new("ours");
    let worker = seriatim_temporal::Worker::new(env, connection, workflows(), activities(), options)?;
    Ok(worker.run(stop).await?)
}
