//! The number of partitions of the built-in applications is chosen when a storage is created, and then fixed.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use seriatim_engine::definition::{Application, KindDefinition};
use seriatim_engine::doctor::{Doctor, Treatment};
use seriatim_engine::{App, BuiltIn, Engine, NextRequest, OpenError, Options};
use seriatim_env::{Env, simulate};
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{Log, Store};
use seriatim_types::{ApplicationId, ErrorKind};

struct World {
    env: Env,
    log: MemoryLog,
    store: MemoryStore,
}

impl World {
    fn new(env: Env) -> Self {
        Self { env, log: MemoryLog::new(), store: MemoryStore::new() }
    }

    async fn open(&self, apps: Vec<App>, count: u16) -> Result<Engine, OpenError> {
        let (log, store) = (Log::new(self.log.reopen()), Store::new(self.store.reopen()));
        let options = Options { built_in_partitions: count, ..Options::default() };
        Engine::open(self.env.clone(), log, store, apps, options).await
    }
}

fn mail(partitions_by_option: bool) -> App {
    let definition = Application::builder("mail").partitions(3).kind(KindDefinition::new("mailbox"));
    App::new(definition.build().unwrap()).built_in(BuiltIn {
        id: ApplicationId::new(3),
        keeps_keys: false,
        refuses_workspaces: "a mailbox is made by its host",
        refuses_commands: None,
        partitions_by_option,
    })
}

fn count(engine: &Engine, application: &str) -> usize {
    engine.partitions(application).unwrap().len()
}

async fn next(engine: &Engine, series: &str) -> u64 {
    engine.series().next(series, &NextRequest::default()).await.unwrap().number
}

#[test]
fn a_new_storage_has_the_number_of_the_option_and_keeps_it() {
    for created_with in [1, 3, 256] {
        simulate(1, |env| async move {
            let world = World::new(env.clone());
            let engine = world.open(vec![], created_with).await.unwrap();
            assert_eq!(count(&engine, "series"), usize::from(created_with));
            for series in ["a", "b", "c"] {
                assert_eq!(next(&engine, series).await, 1);
            }
            engine.close().await;
            for later in [8, 1, 256] {
                let engine = world.open(vec![], later).await.unwrap();
                assert_eq!(count(&engine, "series"), usize::from(created_with));
                assert!(next(&engine, "a").await > 1);
                engine.close().await;
            }
            let (log, store) = (Log::new(world.log.reopen()), Store::new(world.store.reopen()));
            let doctor = Doctor::new(env, log, store, []);
            let scratch = Store::new(MemoryStore::new());
            let report = doctor.run(&scratch, Treatment::Check, &mut |_| {}).await.unwrap();
            assert_eq!(report.checked.partitions, u64::from(created_with) + 1);
            assert!(report.is_clean() && report.unchecked.is_empty(), "{report:?}");
        });
    }
}

#[test]
fn the_default_is_8() {
    simulate(1, |env| async move {
        let engine = World::new(env).open(vec![], Options::default().built_in_partitions).await.unwrap();
        assert_eq!(count(&engine, "series"), 8);
        engine.close().await;
    });
}

#[test]
fn a_built_in_application_that_is_added_later_has_the_number_of_its_storage() {
    simulate(1, |env| async move {
        let world = World::new(env);
        world.open(vec![], 5).await.unwrap().close().await;
        let engine = world.open(vec![mail(true)], 9).await.unwrap();
        assert_eq!((count(&engine, "series"), count(&engine, "mail")), (5, 5));
        engine.close().await;
    });
}

#[test]
fn an_application_that_says_so_has_the_number_of_its_definition() {
    simulate(1, |env| async move {
        let engine = World::new(env).open(vec![mail(false)], 9).await.unwrap();
        assert_eq!((count(&engine, "series"), count(&engine, "mail")), (9, 3));
        engine.close().await;
    });
}

#[test]
fn a_number_outside_1_to_256_is_refused_before_anything_is_written() {
    for wrong in [0, 257, u16::MAX] {
        simulate(1, |env| async move {
            let world = World::new(env);
            let error = world.open(vec![], wrong).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(matches!(error, OpenError::BuiltInPartitions(found) if found == wrong), "{error}");
            assert!(error.to_string().contains("1 to 256"), "{error}");
            assert!(Log::new(world.log.reopen()).partitions().await.unwrap().is_empty());
        });
    }
}
