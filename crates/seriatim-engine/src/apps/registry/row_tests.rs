//! A stored row that lacks a field, or has a wrong one, is an error: it is never read as 0 or as absent.

use serde_json::json;
use seriatim_env::{Env, simulate};
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{Batch, Durability, Log, Store};
use seriatim_types::{ErrorKind, Partition, WorkspaceId};

use super::*;
use crate::apps::series;
use crate::command::view;
use crate::command::view::ViewKeys;
use crate::definition::shop;
use crate::derive::keys::{StoreKey, WorkspaceKeys};
use crate::operate::doctor::{Doctor, Treatment};
use crate::{Engine, NextRequest, OpenError, Options, Unfence};

struct World {
    env: Env,
    log: Log,
    store: Store,
}

impl World {
    fn new(env: Env) -> Self {
        let (log, store) = (Log::new(MemoryLog::new()), Store::new(MemoryStore::new()));
        Self { env, log, store }
    }

    async fn try_open(&self) -> Result<Engine, OpenError> {
        let (env, log, store) = (self.env.clone(), self.log.clone(), self.store.clone());
        Engine::open(env, log, store, [App::new(shop())], Options::default()).await
    }

    async fn open(&self) -> Engine {
        self.try_open().await.unwrap()
    }

    /// Changes a stored row; returns what it was.
    async fn change(&self, key: &StoreKey, change: impl FnOnce(&mut Json)) -> Json {
        let bytes = self.store.get(key.as_key()).await.unwrap().expect("the row is stored");
        let (folded, row) = view::decode_row(&bytes).unwrap();
        let was = row.unwrap();
        let mut row = was.clone();
        change(&mut row);
        let mut batch = Batch::new();
        batch.put(key.as_key(), &view::encode_row(folded, Some(&row)));
        self.store.write(batch, Durability::Synced).await.unwrap();
        was
    }

    async fn without(&self, key: &StoreKey, field: &str) -> Json {
        self.change(key, |row| drop(row.as_object_mut().unwrap().remove(field).expect("it has the field")))
            .await
    }
}

fn row_key(partition: Partition, workspace: WorkspaceId, view: &str, key: &[KeyPart]) -> StoreKey {
    ViewKeys::new(WorkspaceKeys::new(partition, workspace), view).row(key)
}

fn sys_key(view: &str, key: &[KeyPart]) -> StoreKey {
    row_key(PARTITION, WORKSPACE, view, key)
}

/// Waits until the registry has nothing unflushed, so that its rows are read from the store.
async fn flushed(env: &Env, engine: &Engine) {
    while engine.partitions(NAME).unwrap().iter().any(|state| state.unflushed > 0) {
        env.sleep(std::time::Duration::from_millis(10)).await;
    }
}

#[test]
fn a_block_sequence_whose_row_lacks_a_field_gives_out_nothing() {
    simulate(1, |env| async move {
        let world = World::new(env);
        let engine = world.open().await;
        engine.blocks().put("b", 1_000, 10).await.unwrap();
        assert_eq!(engine.blocks().allocate("b", 3).await.unwrap().first, 1_000);
        engine.close().await;
        let key = sys_key("blocks", &["b".into()]);
        for field in ["first", "block_size", "next", "base", "size", "unused"] {
            let was = world.without(&key, field).await;
            let engine = world.open().await;
            let blocks = engine.blocks();
            let found = [
                blocks.allocate("b", 1).await.map(drop),
                blocks.allocate_once("b", 1, "key").await.map(drop),
                blocks.state("b").await.map(drop),
                blocks.list(None, 10).await.map(drop),
            ];
            for (place, found) in found.into_iter().enumerate() {
                let error = found.expect_err(field);
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{field}, {place}: {error}");
            }
            engine.close().await;
            world.change(&key, |row| *row = was).await;
        }
        let engine = world.open().await;
        assert_eq!(engine.blocks().allocate("b", 1).await.unwrap().first, 1_003);
        engine.close().await;
    });
}

#[test]
fn workspace_ids_whose_row_lacks_a_field_are_not_given_out_from_the_first_again() {
    for field in ["first", "block_size", "next", "base", "size", "unused"] {
        simulate(1, |env| async move {
            let world = World::new(env);
            world.open().await.close().await;
            world.without(&sys_key("blocks", &[WORKSPACE_IDS.into()]), field).await;
            let error = world.try_open().await.map(drop).expect_err(field);
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{field}: {error}");
        });
    }
}

#[test]
fn unfencing_moves_no_workspace_ids_if_their_row_lacks_the_next_one() {
    simulate(1, |env| async move {
        let world = World::new(env.clone());
        world.open().await.close().await;
        Engine::fence(env.clone(), world.log.clone(), world.store.clone()).await.unwrap();
        let engine = world.open().await;
        flushed(&env, &engine).await;
        world.without(&sys_key("blocks", &[WORKSPACE_IDS.into()]), "next").await;
        let error = engine.unfence(&Unfence::Skip(5)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(engine.fenced().is_some());
        engine.close().await;
    });
}

#[test]
fn a_name_whose_row_lacks_the_id_does_not_lead_to_a_second_series() {
    simulate(1, |env| async move {
        let world = World::new(env);
        let engine = world.open().await;
        engine.series().next("s", &NextRequest::default()).await.unwrap();
        engine.close().await;
        world.without(&sys_key("names", &[series::NAME.into(), "s".into()]), "id").await;
        let engine = world.open().await;
        let error = engine.series().next("s", &NextRequest::default()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        let error = engine.series().list(None, 10).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        engine.close().await;
    });
}

#[test]
fn a_workspace_whose_row_lacks_the_kind_is_damaged_and_not_unknown() {
    simulate(1, |env| async move {
        let world = World::new(env);
        let engine = world.open().await;
        let (made, _) = engine.create_workspace("shop", "store", None).await.unwrap();
        let application = engine.schema("shop").unwrap().id();
        engine.close().await;
        let key = workspace_key(u64::from(application.get()), made.id.get()).unwrap();
        world.without(&sys_key("workspaces", &key), "kind").await;
        let engine = world.open().await;
        for error in [
            engine.workspace("shop", made.id).await.unwrap_err(),
            engine.workspaces("shop", None, 10).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        }
        engine.close().await;
    });
}

#[test]
fn an_application_whose_row_lacks_the_definition_does_not_get_a_new_number() {
    simulate(1, |env| async move {
        let world = World::new(env);
        world.open().await.close().await;
        world.without(&sys_key("applications", &["shop".into()]), "accepted").await;
        let error = world.try_open().await.map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.to_string().contains("doctor --repair"), "{error}");
        // The repair that the message names: the log has everything.
        let doctor =
            Doctor::new(world.env.clone(), world.log.clone(), world.store.clone(), []).with_accepted();
        let scratch = Store::new(MemoryStore::new());
        let report = doctor.run(&scratch, Treatment::Repair, &mut |_| {}).await.unwrap();
        assert_eq!(report.written, 1, "{report:?}");
        world.open().await.close().await;
    });
}

#[test]
fn a_token_whose_row_lacks_a_field_does_not_leave_a_server_without_tokens() {
    for field in ["scopes", "digest", "at"] {
        simulate(1, |env| async move {
            let world = World::new(env);
            let engine = world.open().await;
            let created = engine.tokens().create(&["*:admin".parse().unwrap()], None).await.unwrap();
            engine.close().await;
            world.without(&sys_key("tokens", &[created.token.id.as_str().into()]), field).await;
            let error = world.try_open().await.map(drop).expect_err(field);
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{field}: {error}");
        });
    }
}

#[test]
fn rows_of_a_series_that_lack_a_field_are_damaged_and_not_the_defaults() {
    simulate(1, |env| async move {
        let world = World::new(env);
        let engine = world.open().await;
        let series = engine.series();
        series.put("s", 100, "INV-{number:06}").await.unwrap();
        series.next("s", &NextRequest::default()).await.unwrap();
        series.void("s", 100, "torn", None).await.unwrap();
        let workspace = series.state("s").await.unwrap().workspace;
        engine.close().await;
        let partition = engine.schema(series::NAME).unwrap().partition_of(workspace);
        let key = |view: &str, part: KeyPart| row_key(partition, workspace, view, &[part]);
        for (key, field) in [
            (key("settings", "settings".into()), "first"),
            (key("settings", "settings".into()), "format"),
            (key("counts", "counts".into()), "voided"),
            (key("counts", "counts".into()), "raised"),
        ] {
            let was = world.without(&key, field).await;
            let engine = world.open().await;
            let error = engine.series().state("s").await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{field}: {error}");
            if ["first", "format"].contains(&field) {
                let error = engine.series().next("s", &NextRequest::default()).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{field}: {error}");
            }
            engine.close().await;
            world.change(&key, |row| *row = was).await;
        }
        let settings = key("settings", "settings".into());
        let was = world.change(&settings, |row| row["format"] = json!("no place for a number")).await;
        let engine = world.open().await;
        let error = engine.series().next("s", &NextRequest::default()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        engine.close().await;
        world.change(&settings, |row| *row = was).await;
        world.without(&key("voids", KeyPart::Integer(100)), "reason").await;
        let engine = world.open().await;
        for error in [
            engine.series().voids("s", None, 10).await.unwrap_err(),
            engine.series().who("s", 100).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        }
        engine.close().await;
    });
}
