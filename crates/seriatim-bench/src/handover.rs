//! How long a partition is not served when it moves to another engine: promotion of a standby, opening after a kill, a copy of the
//! derived state, and a rebuild from the log alone, by the length of the log.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use async_trait::async_trait;
use seriatim_engine::{Among, Call, Engine, Others, Reply, SubmitError, local};
use seriatim_env::Env;
use seriatim_storage::{Holder, Store};
use seriatim_storage_file::{StoreOptions, TreeStore};
use seriatim_types::{Partition, PartitionOffset, WorkspaceId};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::latency::Latencies;
use crate::measure::{Goal, Measure};
use crate::restart::{self, Ending};
use crate::sample::median;
use crate::shop::{Invoices, Shop};
use crate::suite::{Run, Suite};
use crate::writers::drive;

pub(crate) const SUITE: Suite = Suite {
    name: "handover",
    about: "promotion of a standby, compared with a rebuild; a copy of derived state, compared with a file copy",
    run,
    child: Some(restart::child),
};

/// Writers while the lag of a standby is measured.
const WRITERS: usize = 64;

/// The default of the engine: after this time at the latest a value is flushed.
const FLUSH_INTERVAL_MS: f64 = 500.0;

/// An engine that calls no other: the suite creates no names on it.
#[derive(Debug)]
struct NoCalls;

#[async_trait]
impl Others for NoCalls {
    async fn call(&self, partition: Partition, _: Call) -> Result<Reply, SubmitError> {
        Err(SubmitError::NotHere { partition: partition.to_string(), holder: None })
    }

    async fn applied(&self, _: Partition, _: PartitionOffset) -> Result<(), SubmitError> {
        Ok(())
    }
}

/// A second engine on the log of a shop, with a store of its own.
struct Second {
    engine: Engine,
    store: Store,
    _directory: TempDir,
}

impl Second {
    async fn join(run: &Run, shop: &Shop) -> anyhow::Result<Self> {
        let (env, directory) = (Env::real(), run.directory("second-")?);
        let store = Store::new(TreeStore::open(env.clone(), directory.path(), StoreOptions::default())?);
        let holder = Holder::new(&format!("second-{:016x}", env.random()));
        let among = Among { holder, others: Arc::new(NoCalls), owns_registry: false };
        let log = shop.storage.log().clone();
        let apps = [crate::shop::app()?];
        let engine =
            Engine::join(env, log, store.clone(), apps, seriatim_engine::Options::default(), among).await?;
        Ok(Self { engine, store, _directory: directory })
    }

    async fn close(self) -> anyhow::Result<()> {
        self.engine.close().await;
        Ok(self.store.close().await?)
    }
}

fn partition_of(shop: &Shop, workspace: WorkspaceId) -> anyhow::Result<Partition> {
    let application = shop.engine.schema("shop").context("the shop is not open")?.id();
    Ok(Partition { application, id: shop.engine.partition_of("shop", workspace)? })
}

fn run(run: &Run) -> anyhow::Result<Vec<Measure>> {
    let sizes: &[u64] = run.pick(&[100_000, 300_000], &[100_000, 1_000_000, 10_000_000]);
    let runtime = run.runtime()?;
    let mut measures = Vec::new();
    let mut warm_short = 0.0;
    for &events in sizes {
        run.progress(&format!("a log of {events} events is written"));
        let directory = run.directory("handover-")?;
        restart::visit(run, &directory, events, Ending::Close)?;
        let found = Found::measure(run, &runtime, directory.path())?;
        run.progress("opening after a kill");
        let killed = opening_after_kill(run, &directory)?;
        let warm = Measure::new(format!("promotion of a warm standby, {events} events"), found.warm_ms, "ms");
        // Faster is smaller: the rebuild takes at least 20 times as long.
        measures
            .push(warm.compared_with("rebuild from the log", found.rebuild_ms).goal(Goal::RatioAtMost(0.05)));
        if events == sizes[0] {
            warm_short = found.warm_ms;
        } else {
            let name = format!("promotion of a warm standby, {events} events, by length");
            let short = format!("the same with {} events", sizes[0]);
            let by_length = Measure::new(name, found.warm_ms, "ms").compared_with(short, warm_short);
            measures.push(by_length.goal(Goal::RatioAtMost(1.2)));
        }
        measures.push(Measure::new(format!("opening after kill -9, {events} events"), killed, "ms"));
        let stream = Measure::new(
            format!("copy of a partition's derived state, {events} events"),
            found.stream_mb_s,
            "MB/s",
        );
        measures.push(stream.compared_with("plain file copy", found.copy_mb_s).goal(Goal::RatioAtLeast(0.5)));
        let lag = Measure::new(
            format!("lag of a standby under load, p99, {events} events"),
            found.lag_p99_ms,
            "ms",
        );
        measures.push(lag.goal(Goal::AtMost(FLUSH_INTERVAL_MS)));
    }
    Ok(measures)
}

fn opening_after_kill(run: &Run, directory: &TempDir) -> anyhow::Result<f64> {
    let mut times = Vec::new();
    for _ in 0..run.pick(1, 3) {
        restart::visit(run, directory, 20_000, Ending::Kill)?;
        times.push(restart::visit(run, directory, 1, Ending::Close)?.ms);
    }
    Ok(median(&times))
}

/// What was measured with one log.
struct Found {
    warm_ms: f64,
    rebuild_ms: f64,
    stream_mb_s: f64,
    copy_mb_s: f64,
    lag_p99_ms: f64,
}

impl Found {
    fn measure(run: &Run, runtime: &Runtime, directory: &Path) -> anyhow::Result<Self> {
        let shop = Arc::new(runtime.block_on(Shop::open(directory))?);
        runtime.block_on(shop.ready())?;
        let workspace = WorkspaceId::FIRST;
        let partition = partition_of(&shop, workspace)?;
        run.progress("a standby is rebuilt from the log");
        let second = runtime.block_on(Second::join(run, &shop))?;
        let rebuild_ms = runtime.block_on(stand_by(&second.engine, &shop, partition))?;
        run.progress("promotions, back and forth");
        let mut warm = Vec::new();
        for _ in 0..run.pick(5, 25) {
            warm.push(runtime.block_on(promote(&shop.engine, &second.engine, partition, workspace))?);
            warm.push(runtime.block_on(promote(&second.engine, &shop.engine, partition, workspace))?);
        }
        run.progress("the lag of a standby under load");
        let lag_p99_ms = lag(run, runtime, &shop, &second.engine, partition)?;
        runtime.block_on(second.close())?;
        run.progress("derived state is copied");
        let mut copied = (Vec::new(), Vec::new());
        for _ in 0..run.pick(1, 3) {
            let second = runtime.block_on(Second::join(run, &shop))?;
            let (bytes, seconds) = runtime.block_on(copy(&shop.engine, &second, partition))?;
            runtime.block_on(second.close())?;
            let plain = copy_file(run, bytes)?;
            copied.0.push(megabytes(bytes) / seconds);
            copied.1.push(megabytes(bytes) / plain);
        }
        runtime.block_on(shop.close())?;
        let (stream_mb_s, copy_mb_s) = (median(&copied.0), median(&copied.1));
        Ok(Self { warm_ms: median(&warm), rebuild_ms, stream_mb_s, copy_mb_s, lag_p99_ms })
    }
}

#[allow(clippy::cast_precision_loss, reason = "a figure for people")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// Follows a partition from nothing, until everything that is in its log is applied.
async fn stand_by(engine: &Engine, shop: &Shop, partition: Partition) -> anyhow::Result<f64> {
    let started = Instant::now();
    let tail = shop.storage.log().tail(partition).await?;
    engine.stand_by(partition).await?;
    engine.wait_applied(partition, tail).await?;
    Ok(started.elapsed().as_secs_f64() * 1e3)
}

/// Moves a partition. Returns the time from the call of the next owner to its first answer.
async fn promote(
    from: &Engine,
    to: &Engine,
    partition: Partition,
    workspace: WorkspaceId,
) -> anyhow::Result<f64> {
    let request = crate::shop::invoice();
    from.release(partition).await?;
    let started = Instant::now();
    to.own(partition).await?;
    let answer = to.submit("shop", workspace, &request).await?;
    let elapsed = started.elapsed().as_secs_f64() * 1e3;
    ensure!(answer.number(1, "number").is_some(), "an invoice without a number");
    Ok(elapsed)
}

/// How long after an append was acknowledged the standby has applied it, while the owner is under full load.
fn lag(
    run: &Run,
    runtime: &Runtime,
    shop: &Arc<Shop>,
    standby: &Engine,
    partition: Partition,
) -> anyhow::Result<f64> {
    let duration = Duration::from_secs(run.pick(3, 15));
    let workspaces: Vec<_> = (0..8).map(|i| WorkspaceId::new(WorkspaceId::FIRST.get() + i)).collect();
    let invoices = Arc::new(Invoices::new(shop, &workspaces));
    let (log, standby) = (shop.storage.log().clone(), standby.clone());
    let sampling = runtime.spawn(async move {
        let mut latencies = Latencies::new()?;
        let until = Instant::now() + duration;
        while Instant::now() < until {
            let tail = log.tail(partition).await?;
            let started = Instant::now();
            standby.wait_applied(partition, tail).await?;
            latencies.record(started.elapsed());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        anyhow::Ok(latencies)
    });
    drive(runtime, &invoices, WRITERS, duration)?;
    let latencies = runtime.block_on(sampling)??;
    Ok(latencies.quantile_ms(0.99))
}

/// Copies the derived state of a partition into the store of another engine. Returns its bytes and how many seconds it took.
async fn copy(from: &Engine, to: &Second, partition: Partition) -> anyhow::Result<(u64, f64)> {
    let expected = to.engine.expected_local(partition).await?;
    let started = Instant::now();
    let mut export = from.export_local(partition).await?;
    let mut loader = local::Loader::new(to.store.clone(), expected);
    let mut bytes = 0;
    while let Some(part) = export.next().await? {
        bytes += part.len() as u64;
        loader.feed(&part).await?;
    }
    loader.finish().await?;
    Ok((bytes, started.elapsed().as_secs_f64()))
}

/// Writes as many bytes to a file and syncs it. Returns how many seconds that took, reading included.
fn copy_file(run: &Run, bytes: u64) -> anyhow::Result<f64> {
    let directory = run.directory("copy-")?;
    let (source, target) = (directory.path().join("source"), directory.path().join("target"));
    let chunk = vec![7; 1 << 20];
    let mut file = std::fs::File::create(&source)?;
    let mut left = bytes;
    while left > 0 {
        let part = usize::try_from(left.min(1 << 20))?;
        file.write_all(&chunk[..part])?;
        left -= part as u64;
    }
    file.sync_all()?;
    let started = Instant::now();
    std::fs::copy(&source, &target)?;
    std::fs::File::open(&target)?.sync_all()?;
    Ok(started.elapsed().as_secs_f64())
}
