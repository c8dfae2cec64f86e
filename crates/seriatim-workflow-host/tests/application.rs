//! The application `workflows`: what a host writes, and what is kept of it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::json;
use seriatim_engine::doctor::Treatment;
use seriatim_engine::{Engine, Options, Request, SubmitError};
use seriatim_env::{Env, simulate};
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{Log, Store};
use seriatim_types::{ErrorKind, WorkspaceId, WorkspaceOffset};
use seriatim_workflow_host::{Advance, RunRow, RunStatus, Wait, Waiting, Workflows};

async fn open(env: &Env, log: &Log, store: &Store) -> Engine {
    Engine::open(
        env.clone(),
        log.clone(),
        store.clone(),
        [seriatim_workflow_host::app().unwrap()],
        Options::default(),
    )
    .await
    .unwrap()
}

fn storage() -> (Log, Store) {
    (Log::new(MemoryLog::new()), Store::new(MemoryStore::new()))
}

fn row(run: u64, status: RunStatus) -> RunRow {
    let ended = (status != RunStatus::Running).then_some(2);
    let to = ended.map(|_| 0);
    RunRow {
        run,
        id: "w".to_owned(),
        workflow_type: "greet".to_owned(),
        status,
        started: 1,
        ended,
        from: 0,
        to,
        next: None,
        has_undelivered: false,
    }
}

async fn begin(workflows: &Workflows<'_>, workspace: WorkspaceId, run: u64, was: Option<RunStatus>) {
    let rows = vec![row(run, RunStatus::Running)];
    let advance = Advance { rows, was, draw: vec![run], body: json!({"begins": run}), ..Advance::default() };
    workflows.advance(workspace, advance).await.unwrap();
}

async fn end(workflows: &Workflows<'_>, workspace: WorkspaceId, run: u64, from: u64) {
    let rows = vec![RunRow { from, ..row(run, RunStatus::Completed) }];
    let was = Some(RunStatus::Running);
    workflows.advance(workspace, Advance { rows, was, ..Advance::default() }).await.unwrap();
}

async fn listed(workflows: &Workflows<'_>, status: RunStatus) -> Vec<(WorkspaceId, u64)> {
    let found = workflows.list(&[status], None, 100).await.unwrap();
    found.into_iter().map(|(workspace, row)| (workspace, row.run)).collect()
}

#[test]
fn a_workflow_is_listed_where_its_newest_run_stands() {
    simulate(1, |env| async move {
        let (log, store) = storage();
        let engine = open(&env, &log, &store).await;
        let workflows = Workflows::new(&engine);
        let (workspace, created) = workflows.register("w").await.unwrap();
        assert!(created);
        assert_eq!(workflows.register("w").await.unwrap(), (workspace, false));
        begin(&workflows, workspace, 1, None).await;
        assert_eq!(listed(&workflows, RunStatus::Running).await, [(workspace, 1)]);
        end(&workflows, workspace, 1, 1).await;
        assert_eq!(listed(&workflows, RunStatus::Running).await, []);
        assert_eq!(listed(&workflows, RunStatus::Completed).await, [(workspace, 1)]);
        begin(&workflows, workspace, 2, Some(RunStatus::Completed)).await;
        assert_eq!(listed(&workflows, RunStatus::Completed).await, []);
        let runs = workflows.runs(workspace, None, 10).await.unwrap();
        assert_eq!(
            runs.iter().map(|row| (row.run, row.from, row.to)).collect::<Vec<_>>(),
            [(2, 3, None), (1, 1, Some(2))]
        );
        assert_eq!(workflows.runs(workspace, Some(2), 10).await.unwrap(), runs[1..]);
        let events = workflows.events(workspace, WorkspaceOffset::FIRST).next().await.unwrap();
        assert_eq!(Workflows::body(&events[2]), Some(json!({"begins": 2})));
        engine.close().await;

        // A row that was removed is gone from the store, not only hidden; and everything can be derived again.
        let again = open(&env, &log, &store).await;
        assert!(again.wait_ready(std::time::Duration::from_secs(5)).await);
        assert_eq!(listed(&Workflows::new(&again), RunStatus::Completed).await, []);
        assert_eq!(listed(&Workflows::new(&again), RunStatus::Running).await, [(workspace, 2)]);
        for treatment in [Treatment::Check, Treatment::Rebuild] {
            let scratch = Store::new(MemoryStore::new());
            let report = again.doctor(&scratch, treatment, &mut |_| {}).await.unwrap();
            assert!(report.is_clean(), "{report:?}");
        }
        again.close().await;
        let anew = open(&env, &log, &Store::new(MemoryStore::new())).await;
        assert!(anew.wait_ready(std::time::Duration::from_secs(5)).await);
        assert_eq!(listed(&Workflows::new(&anew), RunStatus::Completed).await, []);
        assert_eq!(listed(&Workflows::new(&anew), RunStatus::Running).await, [(workspace, 2)]);
        anew.close().await;
    });
}

#[test]
fn the_index_knows_which_runs_wait_and_forgets_those_that_it_is_told_to() {
    simulate(5, |env| async move {
        let (log, store) = storage();
        let engine = open(&env, &log, &store).await;
        let workflows = Workflows::new(&engine);
        let (workspace, _) = workflows.register("w").await.unwrap();
        let partition = engine.partition_of("workflows", workspace).unwrap();
        let waiting = async |workflows: &Workflows<'_>| {
            let open = workflows.open_runs(partition, None, 10).await.unwrap();
            open.into_iter().map(|(_, row, waiting)| (row.run, waiting)).collect::<Vec<_>>()
        };
        let told = async |wait| {
            workflows.advance(workspace, Advance { wait: Some(wait), ..Advance::default() }).await.unwrap();
        };
        begin(&workflows, workspace, 1, None).await;
        assert_eq!(waiting(&workflows).await, [(1, None)], "as in events of older versions");
        let until = Waiting { run: 1, until: Some(9) };
        told(Wait::Begins(until)).await;
        assert_eq!(waiting(&workflows).await, [(1, Some(until))]);
        told(Wait::Begins(Waiting { run: 7, until: None })).await;
        assert_eq!(waiting(&workflows).await, [(1, None)], "of another run");
        told(Wait::Over).await;
        assert_eq!(waiting(&workflows).await, [(1, None)]);
        end(&workflows, workspace, 1, 1).await;
        begin(&workflows, workspace, 2, Some(RunStatus::Completed)).await;
        let message = Waiting { run: 2, until: None };
        told(Wait::Begins(message)).await;
        assert_eq!(workflows.last_offset(workspace).await.unwrap(), 7);
        workflows.advance(workspace, Advance { forgets: vec![1], ..Advance::default() }).await.unwrap();
        let runs = async |workflows: &Workflows<'_>| {
            let runs = workflows.runs(workspace, None, 10).await.unwrap();
            runs.into_iter().map(|row| row.run).collect::<Vec<_>>()
        };
        assert_eq!(runs(&workflows).await, [2]);
        engine.close().await;

        let again = open(&env, &log, &store).await;
        assert!(again.wait_ready(std::time::Duration::from_secs(5)).await);
        assert_eq!(waiting(&Workflows::new(&again)).await, [(2, Some(message))]);
        end(&Workflows::new(&again), workspace, 2, 6).await;
        let was = Some(RunStatus::Completed);
        let forget = Advance { forgets: vec![2], was, ..Advance::default() };
        Workflows::new(&again).advance(workspace, forget).await.unwrap();
        assert_eq!(runs(&Workflows::new(&again)).await, Vec::<u64>::new());
        assert_eq!(listed(&Workflows::new(&again), RunStatus::Completed).await, []);
        assert_eq!(
            Workflows::new(&again).next_run(workspace).await.unwrap(),
            3,
            "numbers are not used again"
        );
        let scratch = Store::new(MemoryStore::new());
        let report = again.doctor(&scratch, Treatment::Rebuild, &mut |_| {}).await.unwrap();
        assert!(report.is_clean(), "{report:?}");
        again.close().await;
    });
}

#[test]
fn many_that_have_ended_do_not_hide_one_that_runs() {
    simulate(2, |env| async move {
        let (log, store) = storage();
        let engine = open(&env, &log, &store).await;
        let workflows = Workflows::new(&engine);
        let mut running = Vec::new();
        for number in 0..40 {
            let (workspace, _) = workflows.register(&format!("w{number}")).await.unwrap();
            begin(&workflows, workspace, 1, None).await;
            if number % 16 == 15 {
                // So that the store has rows that the overlay has removed.
                env.sleep(std::time::Duration::from_secs(1)).await;
            }
            if number < 35 {
                end(&workflows, workspace, 1, 1).await;
            } else {
                running.push((workspace, 1));
            }
        }
        assert_eq!(listed(&workflows, RunStatus::Running).await, running);
        let mut paged = Vec::new();
        while let Some((workspace, _)) =
            workflows.list(&[RunStatus::Running], paged.last().copied(), 1).await.unwrap().first()
        {
            paged.push(*workspace);
        }
        assert_eq!(paged, running.iter().map(|(workspace, _)| *workspace).collect::<Vec<_>>());
        engine.close().await;
    });
}

#[test]
fn runs_have_no_gap_and_a_key_belongs_to_what_was_meant() {
    simulate(3, |env| async move {
        let (log, store) = storage();
        let engine = open(&env, &log, &store).await;
        let workflows = Workflows::new(&engine);
        let (workspace, _) = workflows.register("w").await.unwrap();
        let wrong = Advance { draw: vec![2], ..Advance::default() };
        assert_eq!(workflows.advance(workspace, wrong).await.unwrap_err().kind(), ErrorKind::Conflict);
        begin(&workflows, workspace, 1, None).await;
        assert_eq!(workflows.next_run(workspace).await.unwrap(), 2);
        let keyed = |identity: &str, body: u64| Advance {
            idempotency_key: Some("k".to_owned()),
            identity: identity.to_owned(),
            body: json!(body),
            ..Advance::default()
        };
        assert!(!workflows.advance(workspace, keyed("signal a", 1)).await.unwrap().repeated);
        assert!(workflows.advance(workspace, keyed("signal a", 2)).await.unwrap().repeated);
        let reused = workflows.advance(workspace, keyed("signal b", 1)).await;
        assert!(matches!(reused, Err(SubmitError::KeyReused(_))), "{reused:?}");
        let sent = workflows.sent_with(workspace, "k").await.unwrap().unwrap();
        assert_eq!((Workflows::body(&sent), sent.place.workspace_offset.get()), (Some(json!(1)), 2));
        assert!(workflows.sent_with(workspace, "other").await.unwrap().is_none());
        engine.close().await;
    });
}

#[test]
fn only_a_host_writes_to_a_workflow() {
    simulate(4, |env| async move {
        let (log, store) = storage();
        let engine = open(&env, &log, &store).await;
        let (workspace, _) = Workflows::new(&engine).register("w").await.unwrap();
        let request = Request::new("Advance").args(json!({"body": null}));
        let refused = engine.submit("workflows", workspace, &request).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid);
        assert!(engine.create_workspace("workflows", "workflow", Some("x")).await.is_err());
        assert!(engine.applications().is_empty(), "built-in ones are not listed");
        engine.close().await;
    });
}

#[test]
fn a_run_with_undelivered_messages_is_listed_until_they_are_delivered() {
    simulate(5, |env| async move {
        let (log, store) = storage();
        let engine = open(&env, &log, &store).await;
        let workflows = Workflows::new(&engine);
        let (workspace, _) = workflows.register("w").await.unwrap();
        begin(&workflows, workspace, 1, None).await;
        let rows = vec![RunRow { has_undelivered: true, from: 1, ..row(1, RunStatus::Completed) }];
        let was = Some(RunStatus::Running);
        workflows.advance(workspace, Advance { rows, was, ..Advance::default() }).await.unwrap();
        begin(&workflows, workspace, 2, Some(RunStatus::Completed)).await;
        let partition = engine.partition_of("workflows", workspace).unwrap();
        let undelivered = workflows.undelivered(partition, None, 10).await.unwrap();
        assert_eq!(undelivered.iter().map(|(_, row)| row.run).collect::<Vec<_>>(), [1]);
        assert!(workflows.undelivered(partition, Some((workspace, 1)), 10).await.unwrap().is_empty());
        let delivered = Advance { delivered: Some(1), ..Advance::default() };
        workflows.advance(workspace, delivered).await.unwrap();
        assert!(workflows.undelivered(partition, None, 10).await.unwrap().is_empty());
        assert_eq!(listed(&workflows, RunStatus::Running).await, [(workspace, 2)]);
        engine.close().await;
    });
}
