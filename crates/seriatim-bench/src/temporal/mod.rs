//! The same workflow on a Temporal server with our worker and with the official Rust SDK's, and on the embedded host.
//!
//! The server, each worker and the client are separate processes; a worker that has no turn only waits for work.

mod official;
mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::ensure;
use serde_json::json;
use seriatim_env::Env;
use seriatim_temporal::devserver::{Data, DevServer, Ended};
use tokio::runtime::Runtime;

use self::worker::Worker;
use crate::measure::{Goal, Measure};
use crate::sample::medians;
use crate::suite::{Run, Suite};
use crate::workflow::runs::Ours;
use crate::writers::{Durable, drive, settle};

const IN_FLIGHT: usize = 64;

pub(crate) const SUITE: Suite = Suite {
    name: "temporal",
    about: "runs on a Temporal server compared with the official Rust SDK's worker, and on the embedded host compared with both",
    run,
    child: Some(worker::child),
};

/// A worker, and a client that starts workflows for it.
struct WorkerRuns {
    server: Arc<DevServer>,
    worker: Worker,
    started: AtomicU64,
}

impl WorkerRuns {
    fn start(run: &Run, server: &Arc<DevServer>, name: &'static str) -> anyhow::Result<Arc<Self>> {
        let worker = Worker::start(run, name, server.address())?;
        Ok(Arc::new(Self { server: server.clone(), worker, started: AtomicU64::new(0) }))
    }
}

impl Durable for WorkerRuns {
    async fn write(&self, _: usize) -> anyhow::Result<()> {
        let (queue, number) = (self.worker.name, self.started.fetch_add(1, Ordering::Relaxed));
        let id = format!("{queue}-{number}");
        self.server.begin(queue, "hello", &id, &[json!("Ada")]).await;
        let ended = self.server.ended(&id).await;
        ensure!(
            ended == Ended::Completed(json!("Hello, Ada!")),
            "{id} did not complete as expected: {ended:?}"
        );
        Ok(())
    }
}

fn run(run: &Run) -> anyhow::Result<Vec<Measure>> {
    let runtime = run.runtime()?;
    let directory = run.directory("temporal-")?;
    let embedded = Arc::new(runtime.block_on(Ours::open(directory.path()))?);
    let mut measures = Vec::new();
    for (data, place) in
        [(Data::Memory, "in memory"), (Data::Synced, "on SQLite, WAL, synced at each commit")]
    {
        let server = runtime.block_on(DevServer::start(&Env::real(), data))?;
        let server = Arc::new(server);
        let ours = WorkerRuns::start(run, &server, "ours")?;
        let official = WorkerRuns::start(run, &server, "official")?;
        run.progress(&format!("runs on a Temporal server {place}"));
        // The first runs wait until the workers have connected.
        rate(run, &runtime, &ours)?;
        rate(run, &runtime, &official)?;
        let [ours, official, embedded] = medians(
            run.pick(3, 7),
            [&mut || rate(run, &runtime, &ours), &mut || rate(run, &runtime, &official), &mut || {
                rate(run, &runtime, &embedded)
            }],
        )?;
        let name = format!("runs on a Temporal server {place}, one activity each, {IN_FLIGHT} in flight");
        measures.push(
            Measure::new(name, ours, "1/s")
                .compared_with("the official Rust SDK 1.1.1", official)
                .goal(Goal::RatioAtLeast(1.0)),
        );
        let name = format!("durable runs of the same workflow on the embedded host, {IN_FLIGHT} in flight");
        let measure =
            Measure::new(name, embedded, "1/s").compared_with(format!("our worker, server {place}"), ours);
        measures.push(if data == Data::Synced { measure.goal(Goal::RatioAtLeast(20.0)) } else { measure });
    }
    runtime.block_on(embedded.close())?;
    Ok(measures)
}

fn rate<D: Durable>(run: &Run, runtime: &Runtime, runs: &Arc<D>) -> anyhow::Result<f64> {
    settle();
    Ok(drive(runtime, runs, IN_FLIGHT, Duration::from_secs(run.pick(3, 8)))?.per_second)
}
