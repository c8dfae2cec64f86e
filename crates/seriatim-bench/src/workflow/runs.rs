//! Durable runs of one activity each on the embedded host, compared with duroxide on SQLite.

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

use super::syncs::{self, AwaitedAppends, Syncs};
use crate::measure::{Goal, Measure};
use crate::peer::BareFile;
use crate::sample::medians;
use crate::suite::Run;
use crate::writers::{Durable, drive, settle};

#[cfg(feature = "duroxide")]
mod duroxide;

const IN_FLIGHT: usize = 64;
const PEER: &str = "duroxide 0.1.32 on a SQLite file, not synced at each commit";

/// Storage, the engine on it, and the host on the engine.
pub(crate) struct Ours {
    storage: FileStorage,
    engine: Engine,
    host: WorkflowHost,
    started: AtomicU64,
}

async fn hello(ctx: Context, name: String) -> Result<String, Exit> {
    Ok(ctx.activity("hello", name).await?)
}

/// The workflow `hello`: one activity.
pub(crate) fn workflows() -> Registry {
    Registry::new().workflow("hello", hello)
}

/// Its activity.
pub(crate) fn activities() -> Activities {
    Activities::new()
        .register("hello", |_: ActivityContext, name: String| async move { Ok(format!("Hello, {name}!")) })
}

impl Ours {
    pub(crate) async fn open(directory: &Path) -> anyhow::Result<Self> {
        let env = Env::real();
        let storage = FileStorage::open(&env, directory, FileOptions::default()).await?;
        let (log, store) = (storage.log().clone(), storage.store().clone());
        let apps = [seriatim_workflow_host::app()?];
        let engine = Engine::open(env.clone(), log, store, apps, Options::default()).await?;
        ensure!(engine.wait_ready(Duration::from_secs(60)).await, "the engine does not become ready");
        let host = WorkflowHost::open(env, engine.clone(), workflows(), activities(), HostOptions::default());
        Ok(Self { storage, engine, host, started: AtomicU64::new(0) })
    }

    pub(crate) async fn close(&self) -> anyhow::Result<()> {
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
        let result: String = self.host.result(&id).await?;
        ensure!(result == "Hello, Ada!", "the run returned {result:?}");
        Ok(())
    }
}

pub(super) fn measure(run: &Run) -> anyhow::Result<Vec<Measure>> {
    run.progress("durable runs");
    let runtime = run.runtime()?;
    let directory = run.directory("runs-")?;
    let ours = Arc::new(runtime.block_on(Ours::open(&directory.path().join("ours")))?);
    let single = one_at_a_time(run, &runtime, &ours, directory.path())?;
    let many = compare(run, &runtime, &ours, directory.path())?;
    runtime.block_on(ours.close())?;
    Ok([many.goal(Goal::RatioAtLeast(20.0))].into_iter().chain(single).collect())
}

fn one_at_a_time(
    run: &Run,
    runtime: &Runtime,
    ours: &Arc<Ours>,
    directory: &Path,
) -> anyhow::Result<[Measure; 2]> {
    let mut syncs = Syncs::open(directory)?;
    let awaited = Arc::new(AwaitedAppends(BareFile::create(&directory.join("bare"))?));
    let [ours, limit, awaited] = medians(
        run.pick(3, 7),
        [
            &mut || rate(run, runtime, ours, 1),
            &mut || Ok(syncs.rate(turn(run))? / f64::from(syncs::PER_RUN)),
            &mut || rate(run, runtime, &awaited, 1),
        ],
    )?;
    let measure = || Measure::new("durable runs, one activity each, one at a time", ours, "1/s");
    Ok([
        measure()
            .compared_with("three synced writes for each, and nothing else", limit)
            .goal(Goal::RatioAtLeast(0.8)),
        measure().compared_with("three appends for each to a bare file with one committer", awaited),
    ])
}

/// How long a contestant measures in a round.
fn turn(run: &Run) -> Duration {
    Duration::from_millis(run.pick(700, 3_000))
}

fn rate<D: Durable>(run: &Run, runtime: &Runtime, runs: &Arc<D>, in_flight: usize) -> anyhow::Result<f64> {
    settle();
    Ok(drive(runtime, runs, in_flight, turn(run))?.per_second)
}

fn name() -> String {
    format!("durable runs, one activity each, {IN_FLIGHT} in flight")
}

#[cfg(feature = "duroxide")]
fn compare(run: &Run, runtime: &Runtime, ours: &Arc<Ours>, directory: &Path) -> anyhow::Result<Measure> {
    run.progress("durable runs compared with duroxide");
    let theirs = runtime.block_on(duroxide::Duroxide::open(directory))?;
    let [ours, peer] = medians(
        run.pick(3, 7),
        [&mut || rate(run, runtime, ours, IN_FLIGHT), &mut || rate(run, runtime, &theirs, IN_FLIGHT)],
    )?;
    runtime.block_on(theirs.close());
    Ok(Measure::new(name(), ours, "1/s").compared_with(PEER, peer))
}

#[cfg(not(feature = "duroxide"))]
fn compare(run: &Run, runtime: &Runtime, ours: &Arc<Ours>, _: &Path) -> anyhow::Result<Measure> {
    let [ours] = medians(run.pick(3, 7), [&mut || rate(run, runtime, ours, IN_FLIGHT)])?;
    Ok(Measure::new(name(), ours, "1/s").without(PEER, "built without the feature duroxide"))
}
