//! A restored copy whose partitions are owned by different engines is unfenced through any of them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod several;
mod support;

use std::time::Duration;

use seriatim_engine::{Engine, NextRequest, Options, SubmitError, Unfence};
use seriatim_env::{Env, simulate};
use seriatim_storage::Log;
use seriatim_types::{ErrorKind, Partition, WorkspaceId};
use several::{SYS, World, memory};
use support::{invoice, till};

const SERIES: [&str; 4] = ["one", "two", "three", "four"];

/// Two engines on a fenced log. Each owns every second partition, and does nothing with the others. The first one owns the registry.
struct Two {
    world: World,
    engines: [Engine; 2],
    corner: WorkspaceId,
}

async fn next(engine: &Engine, series: &str) -> Result<u64, SubmitError> {
    engine.series().next(series, &NextRequest::default()).await.map(|taken| taken.number)
}

async fn bill(engine: &Engine, shop: WorkspaceId) -> Result<i64, SubmitError> {
    let answer = engine.submit("till", shop, &invoice("1.00")).await?;
    Ok(answer.number(1, "number").unwrap())
}

impl Two {
    /// Every series has given out 1 and 2, the shop one invoice, and the blocks 1 to 3. Then everything is fenced.
    async fn new(env: &Env) -> Self {
        let world = World::new(env, Options::default());
        let before = world.join("before", memory(), vec![till()]).await;
        several::own_everything(&before).await;
        for series in SERIES {
            next(&before, series).await.unwrap();
            next(&before, series).await.unwrap();
        }
        let corner = support::workspace(&before, "corner").await;
        assert_eq!(bill(&before, corner).await.unwrap(), 1);
        before.blocks().put("b", 1, 10).await.unwrap();
        assert_eq!(before.blocks().allocate("b", 3).await.unwrap().first, 1);
        before.close().await;
        world.neighbours.remove(before.holder());
        Engine::fence(env.clone(), Log::new(world.log.reopen()), memory()).await.unwrap();
        let first = world.join("first", memory(), vec![till()]).await;
        let second = world.join("second", memory(), vec![till()]).await;
        let engines = [first, second];
        for (number, partition) in engines[0].every_partition().into_iter().enumerate() {
            if partition != SYS {
                engines[number % 2].own(partition).await.unwrap();
            }
        }
        assert!(engines.iter().all(|engine| engine.fenced().is_some()));
        Self { world, engines, corner }
    }

    /// The engine that owns a workspace.
    fn owner(&self, application: &str, workspace: WorkspaceId) -> &Engine {
        let id = self.engines[0].partition_of(application, workspace).unwrap();
        let states = self.engines[0].partitions(application).unwrap();
        let partition: Partition =
            states.into_iter().map(|state| state.partition).find(|one| one.id == id).unwrap();
        self.engines.iter().find(|engine| engine.owns(partition)).unwrap()
    }

    async fn next(&self, series: &str) -> Result<u64, SubmitError> {
        let workspace = self.engines[0].workspace_named("series", series).await.unwrap().unwrap();
        next(self.owner("series", workspace), series).await
    }

    async fn bill(&self) -> Result<i64, SubmitError> {
        bill(self.owner("till", self.corner), self.corner).await
    }

    /// Unfences through one engine, and waits until the other has applied it.
    async fn unfence(&self, through: usize, how: &Unfence) {
        self.engines[through].unfence(how).await.unwrap();
        for engine in &self.engines {
            let reached = Log::new(self.world.log.reopen()).tail(SYS).await.unwrap();
            engine.wait_applied(SYS, reached).await.unwrap();
        }
    }
}

fn in_simulation<F: Future<Output = ()>>(scenario: impl Fn(Env, usize) -> F) {
    for through in 0..2 {
        simulate(1, |env| async { scenario(env, through).await });
    }
}

fn assert_fenced<T: std::fmt::Debug>(result: Result<T, SubmitError>) {
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Fenced);
}

#[test]
fn a_complete_log_continues_in_every_engine() {
    in_simulation(|env, through| async move {
        let two = Two::new(&env).await;
        for series in SERIES {
            assert_fenced(two.next(series).await);
        }
        two.unfence(through, &Unfence::Complete).await;
        assert!(two.engines.iter().all(|engine| engine.fenced().is_none()));
        for series in SERIES {
            assert_eq!(two.next(series).await.unwrap(), 3);
        }
        assert_eq!(two.bill().await.unwrap(), 2);
        two.world.close().await;
    });
}

#[test]
fn names_are_raised_by_the_engines_that_own_them() {
    in_simulation(|env, through| async move {
        let two = Two::new(&env).await;
        let mut named: Vec<(String, u64)> =
            SERIES.iter().map(|series| (format!("series/{series}"), 40)).collect();
        named.push(("till/corner/InvoiceNumber".to_owned(), 70));
        named.push(("series/new".to_owned(), 9));
        named.push(("blocks/b".to_owned(), 50));
        two.unfence(through, &Unfence::Highest(named)).await;
        for series in SERIES {
            assert_eq!(two.next(series).await.unwrap(), 41, "{series}");
        }
        assert_eq!(two.next("new").await.unwrap(), 10);
        for engine in &two.engines {
            assert!(engine.fenced().is_some(), "what is not named remains fenced");
            assert_fenced(engine.create_workspace("till", "store", None).await);
        }
        let first = two.engines[1].blocks().allocate("b", 1).await.unwrap().first;
        assert_eq!(first, 51);
        // The other sequence of the shop, its record ids, is fenced.
        assert_fenced(two.bill().await);
        // A block that is in use is given up by the engine that has reserved it, also if another engine raises it.
        two.unfence(through, &Unfence::Highest(vec![("blocks/b".to_owned(), 90)])).await;
        for (engine, expected) in two.engines.iter().zip([91, 92]) {
            assert_eq!(engine.blocks().allocate("b", 1).await.unwrap().first, expected);
        }
        two.world.close().await;
    });
}

#[test]
fn everything_skips_in_every_engine() {
    in_simulation(|env, through| async move {
        let two = Two::new(&env).await;
        // One sequence has moved after the fence, so that it does not skip by itself.
        two.unfence(through, &Unfence::Highest(vec![("till/corner/InvoiceNumber".to_owned(), 5)])).await;
        two.unfence(1 - through, &Unfence::HighestAndSkip(vec![("series/one".to_owned(), 7)], 100)).await;
        assert!(two.engines.iter().all(|engine| engine.fenced().is_none()));
        assert_eq!(two.next("one").await.unwrap(), 8);
        for series in &SERIES[1..] {
            assert_eq!(two.next(series).await.unwrap(), 103, "{series}");
        }
        assert_eq!(two.bill().await.unwrap(), 6);
        let first = two.engines[1].blocks().allocate("b", 1).await.unwrap().first;
        assert!(first > 103, "{first}");
        for engine in &two.engines {
            assert!(engine.wait_ready(Duration::from_secs(60)).await);
        }
        two.world.close().await;
    });
}
