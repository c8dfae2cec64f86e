//! Runs that ended long ago leave the index, and nothing else does.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::time::Duration;

use common::{World, payload};
use seriatim_engine::doctor::Treatment;
use seriatim_engine::{Engine, Options};
use seriatim_env::simulate;
use seriatim_storage::Store;
use seriatim_storage::memory::MemoryStore;
use seriatim_types::WorkspaceOffset;
use seriatim_workflow::{Context, ContinueAsNew, Exit, Payload, Registry};
use seriatim_workflow_host::{Activities, HostError, HostOptions, RunStatus, StartRequest, Workflows};

/// A short day: an engine has things to do twice a second.
const DAY: u64 = 20_000;

fn workflows() -> Registry {
    Registry::new()
        .workflow("now", |_: Context, number: u32| async move { Ok::<_, Exit>(number) })
        .workflow("wait", |ctx: Context, (): ()| async move {
            ctx.signals::<()>("end").next().await?;
            Ok::<_, Exit>(())
        })
        .workflow("parent", |ctx: Context, (): ()| async move {
            let number: u32 = ctx.child("now", 7_u32).id("child").await?;
            ctx.signals::<()>("end").next().await?;
            Ok::<_, Exit>(number)
        })
        .workflow("chain", |ctx: Context, left: u32| async move {
            if left == 0 {
                ctx.signals::<()>("end").next().await?;
                return Ok::<_, Exit>(());
            }
            let input = vec![Payload::json(&(left - 1)).unwrap()];
            Err(Exit::ContinueAsNew(Box::new(ContinueAsNew { input, ..ContinueAsNew::default() })))
        })
}

fn options() -> HostOptions {
    HostOptions { retention: Some(Duration::from_millis(7 * DAY)), ..HostOptions::default() }
}

async fn world(env: &seriatim_env::Env) -> World {
    World::with(env, workflows(), Activities::new(), options()).await
}

/// What the index says: of each workflow its newest run, and all of its runs.
async fn index(engine: &Engine) -> Vec<String> {
    assert!(engine.wait_ready(Duration::from_secs(60)).await);
    let workflows = Workflows::new(engine);
    let mut found = Vec::new();
    for (workspace, row) in workflows.list(&RunStatus::ALL, None, 10_000).await.unwrap() {
        found.push(format!("{workspace} {row:?}"));
        for run in workflows.runs(workspace, None, 10_000).await.unwrap() {
            found.push(format!("{workspace} has {run:?}"));
        }
    }
    found
}

#[test]
fn ended_runs_leave_the_index_and_their_ids_can_be_used_again() {
    simulate(1, |env| async move {
        let mut world = world(&env).await;
        world.start("wait", "open", &()).await;
        let keyed = StartRequest::new("now").id("old").input(&1).unwrap().idempotency_key("k");
        let first = world.host.start(keyed.clone()).await.unwrap();
        assert_eq!(world.result::<u32>("old").await, 1);
        world.sleep_ms(5 * DAY).await;
        world.start("now", "young", &2).await;
        assert_eq!(world.result::<u32>("young").await, 2);
        assert_eq!(world.host.list(None, None, 10).await.unwrap().len(), 3);
        world.sleep_ms(3 * DAY).await;
        let ids = async |world: &World| -> Vec<String> {
            let listed = world.host.list(None, None, 10).await.unwrap();
            listed.into_iter().map(|listed| listed.row.id).collect()
        };
        assert_eq!(ids(&world).await, ["open", "young"]);
        let unknown = HostError::UnknownWorkflow("old".to_owned());
        assert_eq!(world.host.describe("old", None).await.unwrap_err(), unknown);
        assert_eq!(world.host.result::<u32>("old").await.unwrap_err(), unknown);
        assert_eq!(world.host.history("old", None).await.unwrap_err(), unknown);
        assert_eq!(world.host.runs("old", None, 10).await.unwrap_err(), unknown);
        assert_eq!(world.host.signal("old", "s", payload(&1), None).await.unwrap_err(), unknown);
        assert_eq!(world.host.query("old", "q", Vec::new()).await.unwrap_err(), unknown);
        assert_eq!(world.host.terminate("old", "t", None).await.unwrap_err(), unknown);
        // Its events are still in the log.
        let workspace = Workflows::new(&world.engine).find("old").await.unwrap().unwrap();
        let events = world.engine.events("workflows", workspace, WorkspaceOffset::FIRST, 10).await.unwrap();
        assert_eq!(events.len(), 2, "the run, and that it is forgotten");

        // The same after a restart, and when everything derived is built anew.
        let before = index(&world.engine).await;
        world = world.again_with(workflows(), Activities::new(), options()).await;
        assert_eq!(index(&world.engine).await, before);
        let scratch = Store::new(MemoryStore::new());
        let report = world.engine.doctor(&scratch, Treatment::Rebuild, &mut |_| {}).await.unwrap();
        assert!(report.is_clean(), "{report:?}");
        assert_eq!(index(&world.engine).await, before);
        world.host.close().await;
        world.engine.close().await;
        let store = Store::new(MemoryStore::new());
        let log = world.log.clone();
        world = World::on(&env, log, store, workflows(), Activities::new(), options()).await;
        assert_eq!(index(&world.engine).await, before);

        // The key of the start leads to the run that it has started; without it the id is free, and numbers continue.
        let again = world.host.start(keyed).await.unwrap();
        assert_eq!((again.run_id, again.repeated), (first.run_id.clone(), true));
        let second = world.start("now", "old", &3).await;
        assert_eq!(second, first.run_id.replace("-1", "-2"));
        assert_eq!(world.result::<u32>("old").await, 3);
        world.signal("open", "end", &()).await;
        world.result::<()>("open").await;
        world.close().await;
    });
}

#[test]
fn runs_before_an_open_one_are_forgotten_unless_it_continues_where_they_ended() {
    simulate(2, |env| async move {
        let world = world(&env).await;
        for number in 0..3 {
            world.start("now", "again", &number).await;
            world.result::<u32>("again").await;
        }
        world.start("wait", "again", &()).await;
        world.start("chain", "chain", &2).await;
        world.sleep_ms(9 * DAY).await;
        let runs = async |id: &str| -> Vec<u64> {
            let runs = world.host.runs(id, None, 10).await.unwrap();
            runs.into_iter().map(|listed| listed.row.run).collect()
        };
        assert_eq!(runs("again").await, [4], "the open one");
        assert_eq!(runs("chain").await, [3, 2, 1], "who started the first one waits for the last");
        world.signal("again", "end", &()).await;
        world.signal("chain", "end", &()).await;
        world.sleep_ms(9 * DAY).await;
        assert_eq!(index(&world.engine).await, Vec::<String>::new());
        world.close().await;
    });
}

#[test]
fn a_child_is_kept_while_its_parent_is_open() {
    simulate(3, |env| async move {
        let world = world(&env).await;
        world.start("parent", "parent", &()).await;
        world.sleep_ms(30 * DAY).await;
        assert_eq!(world.host.describe("child", None).await.unwrap().row.status, RunStatus::Completed);
        world.signal("parent", "end", &()).await;
        assert_eq!(world.result::<u32>("parent").await, 7);
        world.sleep_ms(DAY).await;
        assert!(matches!(world.host.describe("child", None).await, Err(HostError::UnknownWorkflow(_))));
        assert!(world.host.describe("parent", None).await.is_ok());
        world.sleep_ms(8 * DAY).await;
        assert!(matches!(world.host.describe("parent", None).await, Err(HostError::UnknownWorkflow(_))));
        world.close().await;
    });
}

#[test]
fn many_runs_and_many_workflows_are_forgotten_in_parts() {
    simulate(4, |env| async move {
        let mut world = world(&env).await;
        world.start("chain", "long", &1_100).await;
        for number in 0..600 {
            world.start("now", &format!("w-{number}"), &number).await;
        }
        world.sleep_ms(60_000).await;
        world.signal("long", "end", &()).await;
        world.result::<()>("long").await;
        assert_eq!(world.host.runs("long", None, 5_000).await.unwrap().len(), 1_101);
        // A restart while it is being done.
        world.sleep_ms(7 * DAY - 60_000).await;
        for _ in 0..10 {
            world.sleep_ms(2_000).await;
            world = world.again_with(workflows(), Activities::new(), options()).await;
        }
        world.sleep_ms(10 * DAY).await;
        assert_eq!(index(&world.engine).await, Vec::<String>::new());
        let workspace = Workflows::new(&world.engine).find("long").await.unwrap().unwrap();
        assert!(Workflows::new(&world.engine).runs(workspace, None, 10).await.unwrap().is_empty());
        let store = Store::new(MemoryStore::new());
        world.host.close().await;
        world.engine.close().await;
        let engine = Engine::open(
            env.clone(),
            world.log,
            store,
            [seriatim_workflow_host::app().unwrap()],
            Options::default(),
        )
        .await
        .unwrap();
        assert_eq!(index(&engine).await, Vec::<String>::new());
        assert!(Workflows::new(&engine).runs(workspace, None, 10).await.unwrap().is_empty());
        engine.close().await;
    });
}

#[test]
fn a_run_that_is_kept_is_found_again_when_newer_ones_are_old() {
    simulate(5, |env| async move {
        let world = world(&env).await;
        // The first run of the id is a child, and its parent is open; the second one has no parent.
        world.start("parent", "parent", &()).await;
        world.sleep_ms(1_000).await;
        world.start("now", "child", &8).await;
        assert_eq!(world.result::<u32>("child").await, 8);
        world.sleep_ms(30 * DAY).await;
        assert_eq!(world.result::<u32>("child").await, 8, "the newest run is still the newest");
        world.signal("parent", "end", &()).await;
        world.sleep_ms(30 * DAY).await;
        assert_eq!(index(&world.engine).await, Vec::<String>::new());
        let workspace = Workflows::new(&world.engine).find("child").await.unwrap().unwrap();
        assert!(Workflows::new(&world.engine).runs(workspace, None, 10).await.unwrap().is_empty());
        world.close().await;
    });
}
