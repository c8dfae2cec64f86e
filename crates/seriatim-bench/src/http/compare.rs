//! Commands over HTTP compared with other servers, each with the same number of clients.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{anyhow, ensure};
use tokio::runtime::Runtime;

use super::load::Clients;
use super::server::Server;
use crate::measure::{Goal, Measure};
use crate::peer::{Insert, Postgres, Redis, UmaDb};
use crate::sample::{median, rounds};
use crate::suite::Run;
use crate::writers::{Driven, drive, settle};

const CLIENTS: usize = 64;
const NAME: &str = "commands over HTTP, one hot workspace, 64 connections";
/// How often memory is read.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(200);

/// What one round of a contestant found.
struct Round {
    per_second: f64,
    p50_ms: f64,
    p99_ms: f64,
}

impl From<Driven> for Round {
    fn from(driven: Driven) -> Self {
        let quantile = |quantile| driven.latencies.quantile_ms(quantile);
        Self { per_second: driven.per_second, p50_ms: quantile(0.5), p99_ms: quantile(0.99) }
    }
}

/// The round of a peer that reports only its rate.
fn only_rate(per_second: f64) -> Round {
    Round { per_second, p50_ms: f64::NAN, p99_ms: f64::NAN }
}

fn median_of(rounds: &[Round], of: impl Fn(&Round) -> f64) -> f64 {
    median(&rounds.iter().map(of).collect::<Vec<_>>())
}

/// Servers of others; an error says why one is not available.
struct Peers {
    postgres: anyhow::Result<Postgres>,
    umadb: anyhow::Result<(Arc<UmaDb>, Server)>,
    redis: anyhow::Result<Redis>,
}

impl Peers {
    fn start(run: &Run, runtime: &Runtime, directory: &Path) -> anyhow::Result<Self> {
        let postgres = Postgres::start(&new_directory(directory, "postgres")?, 1);
        let umadb_directory = new_directory(directory, "umadb")?;
        let umadb = UmaDb::check_available().and_then(|()| Server::start(run, "umadb", &umadb_directory));
        let umadb = umadb.and_then(|server| Ok((UmaDb::open(runtime, server.address, CLIENTS)?, server)));
        Ok(Self { postgres, umadb, redis: Redis::start(&new_directory(directory, "redis")?) })
    }
}

fn new_directory(parent: &Path, name: &str) -> std::io::Result<PathBuf> {
    let directory = parent.join(name);
    std::fs::create_dir(&directory).map(|()| directory)
}

/// What the rounds of each contestant found.
struct Found {
    ours: Vec<Round>,
    gappy: Vec<Round>,
    appends: Vec<Round>,
    counter: Vec<Round>,
}

/// Lets the contestants take turns. A peer that is not available has no figures.
fn take_turns(run: &Run, runtime: &Runtime, clients: &Arc<Clients>, peers: &Peers) -> anyhow::Result<Found> {
    let duration = Duration::from_millis(run.pick(700, 3_000));
    let seconds = run.pick(1, 3);
    let absent = || Ok(only_rate(f64::NAN));
    let [ours, gappy, appends, counter] = rounds(
        run.pick(4, 7),
        [
            &mut || {
                settle();
                Ok(drive(runtime, clients, CLIENTS, duration)?.into())
            },
            &mut || {
                let Ok(postgres) = &peers.postgres else { return absent() };
                settle();
                Ok(only_rate(postgres.drive(Insert::Gappy, CLIENTS, seconds)?))
            },
            &mut || {
                let Ok((umadb, _)) = &peers.umadb else { return absent() };
                settle();
                Ok(drive(runtime, umadb, CLIENTS, duration)?.into())
            },
            &mut || {
                let Ok(redis) = &peers.redis else { return absent() };
                settle();
                Ok(only_rate(redis.drive(CLIENTS, duration)?))
            },
        ],
    )?;
    Ok(Found { ours, gappy, appends, counter })
}

/// A quantile of the latencies of a round, in ms.
type Quantile = fn(&Round) -> f64;

fn measures(found: &Found, peers: &Peers) -> anyhow::Result<Vec<Measure>> {
    let Found { ours, gappy, appends, counter } = found;
    let Peers { postgres, umadb, redis } = peers;
    let per_second = |rounds: &[Round]| median_of(rounds, |round| round.per_second);
    let compare = |peer: String, value: Result<f64, String>| {
        let measure = Measure::new(NAME, per_second(ours), "1/s");
        match value {
            Ok(found) => measure.compared_with(peer, found),
            Err(reason) => measure.without(peer, reason),
        }
    };
    let text = |error: &anyhow::Error| format!("{error:#}");
    let version = postgres.as_ref().map_or_else(|_| Ok("PostgreSQL".to_owned()), Postgres::version)?;
    let mut measures = vec![
        compare(
            format!("{version}, a gappy sequence"),
            postgres.as_ref().map(|_| per_second(gappy)).map_err(text),
        )
        .goal(Goal::RatioAtLeast(2.0)),
        compare(
            "UmaDB 0.7.8, conditional append".to_owned(),
            umadb.as_ref().map(|_| per_second(appends)).map_err(text),
        )
        .goal(Goal::RatioAtLeast(3.0)),
        compare(
            "Redis INCR, appendfsync always".to_owned(),
            redis.as_ref().map(|_| per_second(counter)).map_err(text),
        ),
    ];
    let quantiles: [(&str, Quantile); 2] = [("p50", |round| round.p50_ms), ("p99", |round| round.p99_ms)];
    for (name, of) in quantiles {
        let measure = Measure::new(format!("{NAME}, {name}"), median_of(ours, of), "ms");
        measures.push(match umadb {
            Ok(_) => measure.compared_with("UmaDB", median_of(appends, of)),
            Err(error) => measure.without("UmaDB", text(error)),
        });
    }
    Ok(measures)
}

pub(super) fn measure(run: &Run) -> anyhow::Result<Vec<Measure>> {
    let runtime = run.runtime()?;
    let directory = run.directory("http-")?;
    run.progress("servers start");
    let server = Server::start(run, "ours", &new_directory(directory.path(), "ours")?)?;
    let clients = Arc::new(Clients::open(&runtime, server.address, CLIENTS)?);
    let peers = Peers::start(run, &runtime, directory.path())?;
    run.progress("in turns");
    let found = take_turns(run, &runtime, &clients, &peers)?;
    ensure!(runtime.block_on(clients.check())? > 0, "no invoice was made");
    let mut measures = measures(&found, &peers)?;
    drop(peers);
    measures.extend(memory(run, &runtime, &server, &clients)?);
    runtime.block_on(clients.check())?;
    Ok(measures)
}

/// The server's memory under continuous load: the median of the second half compared with that of the first, and the maximum,
/// which is what a machine needs. At first the caches fill up to their configured size. The last third compared with the
/// second shows whether memory still grows after that, as it would with a leak.
fn memory(
    run: &Run,
    runtime: &Runtime,
    server: &Server,
    clients: &Arc<Clients>,
) -> anyhow::Result<[Measure; 3]> {
    let whole = Duration::from_secs(run.pick(10, 300));
    run.progress(&format!("memory over {} s", whole.as_secs()));
    let samples = std::thread::scope(|scope| {
        let load = scope.spawn(|| drive(runtime, clients, CLIENTS, whole));
        let mut samples = Vec::new();
        while !load.is_finished() {
            std::thread::sleep(SAMPLE_INTERVAL);
            samples.push(server.resident()?);
        }
        load.join().map_err(|_| anyhow!("the load panicked"))??;
        anyhow::Ok(samples)
    })?;
    #[expect(clippy::cast_precision_loss, reason = "megabytes")]
    let samples: Vec<f64> = samples.into_iter().map(|bytes| bytes as f64 / 1e6).collect();
    let (first, second) = samples.split_at(samples.len() / 2);
    let third = samples.len() / 3;
    let (middle_third, last_third) = samples[third..].split_at(third);
    let most = |samples: &[f64]| samples.iter().copied().fold(0.0, f64::max);
    let name = format!("server's memory under load for {} s", whole.as_secs());
    let first_half = "the first half of it";
    Ok([
        Measure::new(format!("{name}: flat"), median(second), "MB")
            .compared_with(first_half, median(first))
            .goal(Goal::RatioAtMost(1.1)),
        Measure::new(format!("{name}, last third"), median(last_third), "MB")
            .compared_with("the second third of it", median(middle_third)),
        Measure::new(format!("{name}, at most"), most(second), "MB").compared_with(first_half, most(first)),
    ])
}
