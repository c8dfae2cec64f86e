//! Workflows through the client, on a real server.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::result_large_err, reason = "handlers of workflows fail with a whole failure")]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;
use seriatim_client::api::{IdReusePolicy, RetryPolicy, StartSignal, StartWorkflow};
use seriatim_client::{ClientError, ClientOptions};
use seriatim_types::ErrorKind;
use seriatim_workflow::{Context, Exit, Failure, Registry};
use seriatim_workflow_host::demo;
use support::{Server, World};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Added {
    by: String,
    number: u32,
}

/// `counter` adds the input of each update until the signal `stop`; `fragile` cannot continue while `is_broken` is set.
fn workflows(is_broken: &Arc<AtomicBool>) -> Registry {
    let broken = is_broken.clone();
    demo::workflows()
        .workflow("counter", |ctx: Context, first: u32| async move {
            let count = ctx.state(first);
            ctx.on_query("count", &count, |count, (): ()| Ok(*count));
            ctx.on_update(
                "add",
                &count,
                |_, added: &Added| {
                    if added.number == 0 { Err(Failure::application("Zero", "not 0")) } else { Ok(()) }
                },
                |count, added: Added| {
                    *count += added.number;
                    Ok(Added { by: added.by, number: *count })
                },
            );
            ctx.signals::<serde_json::Value>("stop").next().await?;
            Ok::<_, Exit>(count.get())
        })
        .workflow("fragile", move |_: Context, (): ()| {
            assert!(!broken.load(Ordering::Relaxed), "it is broken");
            async move { Ok::<_, Exit>("whole") }
        })
        .workflow("fails", |_: Context, (): ()| async move {
            Err::<(), _>(Exit::from(Failure::non_retryable("Declined", "no money")))
        })
}

async fn start(world: &World) -> (Server, Arc<AtomicBool>) {
    let is_broken = Arc::new(AtomicBool::new(true));
    (world.start_with_workflows(workflows(&is_broken)).await, is_broken)
}

fn counter(first: u32) -> StartWorkflow {
    StartWorkflow::new("counter", &first).unwrap()
}

#[tokio::test]
async fn a_workflow_is_started_updated_queried_and_ends_with_a_result() {
    let world = World::new();
    let (server, _) = start(&world).await;
    let client = server.client(&world.env);
    let counted = client.workflow("one");
    let started = counted.start(&counter(1)).await.unwrap();
    assert_eq!((&*started.id, started.started, started.repeated), ("one", true, false));
    let running = counted.start(&counter(1)).await.unwrap_err();
    assert_eq!(running.kind(), ErrorKind::Conflict);
    let add = |number| Added { by: "Ada".to_owned(), number };
    assert_eq!(counted.update::<Added>("add", &add(4)).await.unwrap(), add(5));
    let refused = counted.update::<Added>("add", &add(0)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert!(refused.to_string().contains("not 0"), "{refused}");
    assert_eq!(counted.query::<u32>("count", &()).await.unwrap(), 5);
    let wrong = counted.query::<String>("count", &()).await.unwrap_err();
    assert!(matches!(&wrong, ClientError::Unexpected { .. }), "{wrong}");
    assert!(
        wrong.to_string().starts_with("the query count of workflow one does not have the expected type"),
        "{wrong}"
    );
    let state = counted.describe().await.unwrap();
    assert_eq!((&*state.summary.status, &state.input), ("running", &json!(1)));
    let waiting = {
        let counted = counted.clone();
        world.env.spawn(async move { counted.result::<u32>().await })
    };
    counted.signal("stop", &()).await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), 5);
    assert_eq!(counted.signal("stop", &()).await.unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(client.workflow("none").describe().await.unwrap_err().kind(), ErrorKind::NotFound);
    server.stop().await;
}

#[tokio::test]
async fn with_the_same_key_each_request_is_carried_out_once() {
    let world = World::new();
    let (server, _) = start(&world).await;
    let client = server.client(&world.env);
    let first = client.workflows().with_key("k").start(&counter(1)).await.unwrap();
    let again = client.workflows().with_key("k").start(&counter(1)).await.unwrap();
    assert_eq!((&first.id, false, true), (&again.id, first.repeated, again.repeated));
    let other = client.workflows().with_key("k").start(&counter(2)).await.unwrap_err();
    assert_eq!(other.kind(), ErrorKind::Conflict);
    let counted = client.workflow(&first.id);
    let add = Added { by: String::new(), number: 3 };
    for _ in 0..2 {
        assert_eq!(counted.clone().with_key("add").update::<Added>("add", &add).await.unwrap().number, 4);
    }
    for repeated in [false, true] {
        assert_eq!(counted.clone().with_key("s").signal("stop", &1).await.unwrap().repeated, repeated);
    }
    assert_eq!(counted.result::<u32>().await.unwrap(), 4);
    server.stop().await;
}

#[tokio::test]
async fn a_start_carries_its_options() {
    let world = World::new();
    let (server, _) = start(&world).await;
    let client = server.client(&world.env);
    let memo = BTreeMap::from([("customer".to_owned(), json!("Ada"))]);
    let start = StartWorkflow {
        execution_timeout: Some(Duration::from_secs(86_400)),
        run_timeout: Some(Duration::from_millis(1_500)),
        retry_policy: Some(RetryPolicy { maximum_attempts: 2, ..RetryPolicy::default() }),
        memo: memo.clone(),
        start_delay: Some(Duration::from_millis(1)),
        id_reuse_policy: Some(IdReusePolicy::RejectDuplicate),
        ..counter(7)
    };
    let counted = client.workflow("one");
    counted.start(&start).await.unwrap();
    assert_eq!(counted.describe().await.unwrap().memo, memo);
    let ended = counted.result::<u32>().await.unwrap_err();
    assert!(matches!(&ended, ClientError::Ended { status, .. } if status == "timed_out"), "{ended}");
    assert!(ended.to_string().starts_with("workflow one has ended without a result, timed out: "), "{ended}");
    assert_eq!(counted.start(&start).await.unwrap_err().kind(), ErrorKind::Conflict, "its id is used");
    let signal = Some(StartSignal { name: "stop".to_owned(), input: json!(1) });
    let with_signal = StartWorkflow { signal, ..counter(3) };
    assert!(client.workflow("two").start(&with_signal).await.unwrap().started);
    assert_eq!(client.workflow("two").result::<u32>().await.unwrap(), 3);
    client.workflow("three").start(&counter(4)).await.unwrap();
    assert!(!client.workflow("three").start(&with_signal).await.unwrap().started);
    assert_eq!(client.workflow("three").result::<u32>().await.unwrap(), 4);
    server.stop().await;
}

#[tokio::test]
async fn runs_are_stopped_and_the_error_says_how_they_ended() {
    let world = World::new();
    let (server, _) = start(&world).await;
    let client = server.client(&world.env);
    for (id, expected) in [
        ("cancelled", "workflow cancelled has ended without a result, cancelled: "),
        ("terminated", "workflow terminated has ended without a result, terminated: enough"),
    ] {
        let counted = client.workflow(id);
        counted.start(&counter(0)).await.unwrap();
        let stopped = match id {
            "cancelled" => counted.cancel("enough").await,
            _ => counted.terminate("enough").await,
        };
        assert!(!stopped.unwrap().repeated);
        let ended = counted.result::<u32>().await.unwrap_err();
        assert!(ended.to_string().starts_with(expected), "{ended}");
    }
    let failed = client.workflow("f");
    failed.start(&StartWorkflow::new("fails", &()).unwrap()).await.unwrap();
    let error = failed.result::<()>().await.unwrap_err();
    assert_eq!(error.to_string(), "workflow f has ended without a result, failed: no money");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    server.stop().await;
}

#[tokio::test]
async fn a_stuck_run_is_an_error_at_once_is_listed_and_can_be_retried() {
    let world = World::new();
    let (server, is_broken) = start(&world).await;
    let client = server.client_with(
        &world.env,
        // With retries the test would not end.
        ClientOptions { retry_timeout: Duration::from_secs(3_600), ..ClientOptions::default() },
    );
    let fragile = client.workflow("f");
    fragile.start(&StartWorkflow::new("fragile", &()).unwrap()).await.unwrap();
    let stuck = fragile.signal("a", &()).await.unwrap_err();
    assert_eq!(stuck.kind(), ErrorKind::Unavailable);
    assert!(stuck.to_string().contains("it is broken"), "{stuck}");
    let listed = client.workflows().list(Some("stuck"), None, 10).await.unwrap();
    assert_eq!(listed.workflows[0].id, "f");
    is_broken.store(false, Ordering::Relaxed);
    assert!(!fragile.retry().await.unwrap().repeated);
    assert_eq!(fragile.result::<String>().await.unwrap(), "whole");
    server.stop().await;
}

#[tokio::test]
async fn lists_and_histories_come_in_pages() {
    let world = World::new();
    let (server, _) = start(&world).await;
    let client = server.client(&world.env);
    for number in 0..5 {
        client.workflow(&format!("w{number}")).start(&counter(number)).await.unwrap();
    }
    let (mut after, mut ids) = (None, Vec::new());
    loop {
        let page = client.workflows().list(Some("running"), after, 2).await.unwrap();
        ids.extend(page.workflows.into_iter().map(|one| one.id));
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    assert_eq!(ids, ["w0", "w1", "w2", "w3", "w4"]);
    let counted = client.workflow("w0");
    counted.signal("other", &1).await.unwrap();
    counted.signal("stop", &1).await.unwrap();
    counted.result::<u32>().await.unwrap();
    let whole = counted.history(Some(1), None, 1_000).await.unwrap();
    let (mut after, mut entries) = (None, Vec::new());
    loop {
        let part = counted.history(None, after, 1).await.unwrap();
        entries.extend(part.entries);
        match part.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    assert_eq!(entries, whole.entries);
    assert_eq!(counted.runs(None, 10).await.unwrap().runs.len(), 1);
    server.stop().await;
}
