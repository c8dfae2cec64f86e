//! Durable runs of one activity each on the embedded host, beside duroxide on SQLite.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::ensure;
use seriatim_engine::{Engine, Options};
use seriatim_env::Env;
use seriatim_storage_file::{FileOptions, FileStorage};
use seriatim_workflow::{Context, Exit, Registry};
use seriatim_workflow_host::{Activities, ActivityContext, HostOptions, StartRequest, WorkflowHost};
use tokio::runtime::Runtime;

use crate::measure::{Goal, Measure};
use crate::sample::medians;
use crate::suite::Run;
use crate::writers::{Durable, drive, settle};

const IN_FLIGHT: usize = 64;
const PEER: &str = "duroxide 0.1.32 on a SQLite file, not synced at each commit";

/// Storage, the engine on it, and the host on the engine.
struct Ours {
    storage: FileStorage,
    engine: Engine,
    host: WorkflowHost,
    started: AtomicU64,
}

async fn hello(ctx: Context, name: String) -> Result<String, Exit> {
    Ok(ctx.activity("hello", name).await?)
}

impl Ours {
    async fn open(directory: &Path) -> anyhow::Result<Self> {
        let env = Env::real();
        let storage = FileStorage::open(&env, directory, FileOptions::default()).await?;
        let (log, store) = (storage.log().clone(), storage.store().clone());
        let engine = Engine::open(env.clone(), log, store, [], Options::default()).await?;
        ensure!(engine.wait_ready(Duration::from_secs(60)).await, "the engine does not become ready");
        let workflows = Registry::new().workflow("hello", hello);
        let activities = Activities::new().register("hello", |_: ActivityContext, name: String| async move {
            Ok(format!("Hello, {name}!"))
        });
        let host = WorkflowHost::open(env, engine.clone(), workflows, activities, HostOptions::default());
        Ok(Self { storage, engine, host, started: AtomicU64::new(0) })
    }

    async fn close(&self) -> anyhow::Result<()> {
        self.host.close().await;
        self.engine.close().await;
        self.storage.store().close().await?;
        Ok(self.storage.log().close().await?)
    }
}

impl Durable for Ours {
    async fn write(&self, _: usize) -> anyhow::Result<()> {
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let id = format!("hello-{number}");
        self.host.start(StartRequest::new("hello").id(id.as_str()).input("Ada")?).await?;
        let said: String = self.host.result(&id).await?;
        ensure!(said == "Hello, Ada!", "the run said {said:?}");
        Ok(())
    }
}

pub(super) fn measure(run: &Run) -> anyhow::Result<Vec<Measure>> {
    run.progress("durable runs");
    let runtime = run.runtime()?;
    let directory = run.directory("runs-")?;
    let ours = Arc::new(runtime.block_on(Ours::open(&directory.path().join("ours")))?);
    let duration = Duration::from_millis(run.pick(700, 3_000));
    let sync_us = crate::machine::fdatasync_us(directory.path())?;
    let rounds = run.pick(3, 7);
    let [single] = medians(rounds, [&mut || rate(&runtime, &ours, 1, duration)])?;
    let [many] = medians(rounds, [&mut || rate(&runtime, &ours, IN_FLIGHT, duration)])?;
    let name = format!("durable runs, one activity each, {IN_FLIGHT} in flight");
    let many = Measure::new(name, many, "1/s").without(PEER, "not compared yet");
    runtime.block_on(ours.close())?;
    // Its id is registered, it is started, it ends: three events, one after the other.
    let limit = 1e6 / (3.0 * sync_us);
    let single = Measure::new("durable runs, one activity each, one at a time", single, "1/s")
        .beside("three synced writes for each, and nothing else", limit)
        .goal(Goal::RatioAtLeast(0.8));
    Ok(vec![many.goal(Goal::RatioAtLeast(20.0)), single])
}

fn rate<D: Durable>(
    runtime: &Runtime,
    runs: &Arc<D>,
    in_flight: usize,
    duration: Duration,
) -> anyhow::Result<f64> {
    settle();
    Ok(drive(runtime, runs, in_flight, duration)?.per_second)
}
