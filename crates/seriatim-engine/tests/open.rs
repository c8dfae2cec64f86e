//! Opening: a definition is accepted durably only when nothing about the applications can fail any more.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use seriatim_engine::definition::{Application, KindDefinition, shop};
use seriatim_engine::{App, CommandError, Context, Engine, OpenError, Options};
use seriatim_env::{Env, simulate};
use seriatim_storage::Log;
use seriatim_storage::Store;
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_types::{ErrorKind, Partition, PartitionOffset};

fn application(name: &str, partitions: u16) -> Application {
    Application::builder(name).partitions(partitions).kind(KindDefinition::new("k")).build().unwrap()
}

fn nothing(_: &mut Context<'_, '_>) -> Result<serde_json::Value, CommandError> {
    Ok(serde_json::Value::Null)
}

struct World {
    env: Env,
    log: MemoryLog,
    store: MemoryStore,
}

impl World {
    async fn open(&self, apps: Vec<App>) -> Result<Engine, OpenError> {
        let (log, store) = (Log::new(self.log.reopen()), Store::new(self.store.reopen()));
        Engine::open(self.env.clone(), log, store, apps, Options::default()).await
    }

    /// Where the registry's log ends.
    async fn tail(&self) -> PartitionOffset {
        Log::new(self.log.reopen()).tail(Partition::new(1, 0)).await.unwrap()
    }
}

#[test]
fn all_partitions_are_those_of_the_registry_and_of_every_application() {
    simulate(1, |env| async move {
        let (log, store) = (Log::new(MemoryLog::new()), Store::new(MemoryStore::new()));
        let apps = [("b", 3), ("a", 2)].map(|(name, partitions)| App::new(application(name, partitions)));
        let engine = Engine::open(env, log, store, apps, Options::default()).await.unwrap();
        let all = engine.all_partitions();
        let names: Vec<&str> = all.iter().map(|(name, _)| &**name).collect();
        let expected = [("sys", 1), ("series", 8), ("b", 3), ("a", 2)];
        let expected: Vec<&str> =
            expected.iter().flat_map(|(name, count)| std::iter::repeat_n(*name, *count)).collect();
        assert_eq!(names, expected);
        for name in ["sys", "series", "b", "a"] {
            let of_one: Vec<_> =
                engine.partitions(name).unwrap().iter().map(|state| state.partition).collect();
            let found = all.iter().filter(|(found, _)| found == name).map(|(_, state)| state.partition);
            assert_eq!(found.collect::<Vec<_>>(), of_one);
        }
        engine.close().await;
    });
}

#[test]
fn an_open_that_fails_has_accepted_nothing() {
    simulate(1, |env| async move {
        let world = World { log: MemoryLog::new(), store: MemoryStore::new(), env };
        let unknown = || vec![App::new(application("a", 1)), App::new(shop()).command("Nothing", nothing)];
        let twice = || vec![App::new(application("a", 1)), App::new(shop()), App::new(application("a", 1))];
        let own = || vec![App::new(application("a", 1)), App::new(application("sys", 1))];
        for apps in [unknown(), twice(), own()] {
            let error = world.open(apps).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
            assert_eq!(world.tail().await, PartitionOffset::FIRST, "{error}");
        }
        let engine = world.open(vec![App::new(application("b", 2))]).await.unwrap();
        engine.close().await;
        let before = world.tail().await;
        // Another number of partitions contradicts what is stored.
        let changed = vec![App::new(application("a", 1)), App::new(application("b", 3))];
        let error = world.open(changed).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        for apps in [unknown(), twice(), own()] {
            world.open(apps).await.unwrap_err();
        }
        assert_eq!(world.tail().await, before, "nothing was accepted");
        let (log, store) = (Log::new(world.log.reopen()), Store::new(world.store.reopen()));
        let known = Engine::stored_applications(world.env.clone(), log, store).await.unwrap();
        assert_eq!(known, [application("b", 2)]);
        let engine = world.open(vec![App::new(shop()), App::new(application("b", 2))]).await.unwrap();
        engine.close().await;
    });
}
