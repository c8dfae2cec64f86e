//! Commands over HTTP beside the servers of others, each with as many clients.

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
/// How often memory is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// What one turn of a contestant has found.
struct Turn {
    per_second: f64,
    p50_ms: f64,
    p99_ms: f64,
}

impl From<Driven> for Turn {
    fn from(driven: Driven) -> Self {
        let quantile = |quantile| driven.latencies.quantile_ms(quantile);
        Self { per_second: driven.per_second, p50_ms: quantile(0.5), p99_ms: quantile(0.99) }
    }
}

/// A peer that only knows its rate.
fn rate(per_second: f64) -> Turn {
    Turn { per_second, p50_ms: f64::NAN, p99_ms: f64::NAN }
}

fn middle(turns: &[Turn], of: impl Fn(&Turn) -> f64) -> f64 {
    median(&turns.iter().map(of).collect::<Vec<_>>())
}

pub(super) fn measure(run: &Run) -> anyhow::Result<Vec<Measure>> {
    let runtime = run.runtime()?;
    let directory = run.directory("http-")?;
    let place = |name: &str| {
        let place = directory.path().join(name);
        std::fs::create_dir(&place).map(|()| place)
    };
    run.progress("servers start");
    let server = Server::start(run, "ours", &place("ours")?)?;
    let clients = Arc::new(Clients::open(&runtime, server.address, CLIENTS)?);
    let postgres = Postgres::start(&place("postgres")?, 1);
    let umadb_place = place("umadb")?;
    let umadb = UmaDb::is_here().and_then(|()| Server::start(run, "umadb", &umadb_place));
    let umadb = umadb.and_then(|server| Ok((UmaDb::open(&runtime, server.address, CLIENTS)?, server)));
    let redis = Redis::start(&place("redis")?);

    let duration = Duration::from_millis(run.pick(700, 3_000));
    let seconds = run.pick(1, 3);
    run.progress("in turns");
    let absent = || Ok(rate(f64::NAN));
    let [ours, gappy, appends, counter] = rounds(
        run.pick(4, 7),
        [
            &mut || {
                settle();
                Ok(drive(&runtime, &clients, CLIENTS, duration)?.into())
            },
            &mut || {
                postgres.as_ref().map_or_else(
                    |_| absent(),
                    |postgres| {
                        settle();
                        Ok(rate(postgres.drive(Insert::Gappy, CLIENTS, seconds)?))
                    },
                )
            },
            &mut || {
                umadb.as_ref().map_or_else(
                    |_| absent(),
                    |(umadb, _)| {
                        settle();
                        Ok(drive(&runtime, umadb, CLIENTS, duration)?.into())
                    },
                )
            },
            &mut || {
                redis.as_ref().map_or_else(
                    |_| absent(),
                    |redis| {
                        settle();
                        Ok(rate(redis.drive(CLIENTS, duration)?))
                    },
                )
            },
        ],
    )?;
    ensure!(runtime.block_on(clients.check())? > 0, "no invoice was made");

    let per_second = |turns: &[Turn]| middle(turns, |turn| turn.per_second);
    let beside = |what: String, peer: Result<f64, String>| {
        let measure = Measure::new(NAME, per_second(&ours), "1/s");
        match peer {
            Ok(found) => measure.beside(what, found),
            Err(reason) => measure.without(what, reason),
        }
    };
    let said = |error: &anyhow::Error| format!("{error:#}");
    let version = postgres.as_ref().map_or_else(|_| Ok("PostgreSQL".to_owned()), Postgres::version)?;
    let mut measures = vec![
        beside(
            format!("{version}, a gappy sequence"),
            postgres.as_ref().map(|_| per_second(&gappy)).map_err(said),
        )
        .goal(Goal::RatioAtLeast(2.0)),
        beside(
            "UmaDB 0.7.8, conditional append".to_owned(),
            umadb.as_ref().map(|_| per_second(&appends)).map_err(said),
        )
        .goal(Goal::RatioAtLeast(3.0)),
        beside(
            "Redis INCR, appendfsync always".to_owned(),
            redis.as_ref().map(|_| per_second(&counter)).map_err(said),
        ),
    ];
    for (name, of) in [("p50", (|turn: &Turn| turn.p50_ms) as fn(&Turn) -> f64), ("p99", |turn| turn.p99_ms)]
    {
        let measure = Measure::new(format!("{NAME}, {name}"), middle(&ours, of), "ms");
        measures.push(match &umadb {
            Ok(_) => measure.beside("UmaDB", middle(&appends, of)),
            Err(error) => measure.without("UmaDB", said(error)),
        });
    }
    drop((umadb, redis, postgres));
    measures.extend(memory(run, &runtime, &server, &clients)?);
    runtime.block_on(clients.check())?;
    Ok(measures)
}

/// The server's memory under load that goes on: the middle of what was seen in its second half beside the first, and the most,
/// which is what a machine has to have. Early on its caches fill up to the size that is set for them, so the last third beside
/// the second tells a leak from that.
fn memory(
    run: &Run,
    runtime: &Runtime,
    server: &Server,
    clients: &Arc<Clients>,
) -> anyhow::Result<[Measure; 3]> {
    let whole = Duration::from_secs(run.pick(10, 300));
    run.progress(&format!("memory over {} s", whole.as_secs()));
    let looks = std::thread::scope(|scope| {
        let load = scope.spawn(|| drive(runtime, clients, CLIENTS, whole));
        let mut looks = Vec::new();
        while !load.is_finished() {
            std::thread::sleep(LOOK_INTERVAL);
            looks.push(server.resident()?);
        }
        load.join().map_err(|_| anyhow!("the load has panicked"))??;
        anyhow::Ok(looks)
    })?;
    #[expect(clippy::cast_precision_loss, reason = "megabytes")]
    let looks: Vec<f64> = looks.into_iter().map(|bytes| bytes as f64 / 1e6).collect();
    let (first, second) = looks.split_at(looks.len() / 2);
    let third = looks.len() / 3;
    let (middle_third, last_third) = looks[third..].split_at(third);
    let most = |looks: &[f64]| looks.iter().copied().fold(0.0, f64::max);
    let name = format!("server's memory under load for {} s", whole.as_secs());
    let beside = "the first half of it";
    Ok([
        Measure::new(format!("{name}: flat"), median(second), "MB")
            .beside(beside, median(first))
            .goal(Goal::RatioAtMost(1.1)),
        Measure::new(format!("{name}, last third"), median(last_third), "MB")
            .beside("the second third of it", median(middle_third)),
        Measure::new(format!("{name}, at most"), most(second), "MB").beside(beside, most(first)),
    ])
}
