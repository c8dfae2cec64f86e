//! The demo's workflows on a real cluster.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use metrics_util::debugging::DebuggingRecorder;
use serde_json::json;
use seriatim_temporal::devserver::Ended;
use seriatim_temporal_history::EventKind;
use seriatim_workflow_host::demo;

use common::{World, assert_replays, options};

#[tokio::test(flavor = "multi_thread")]
async fn greet_greets_and_the_cores_metrics_are_in_the_registry() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    recorder.install().unwrap();
    let Some(world) = World::start(demo::workflows(), demo::activities(), options("q")).await else { return };
    world.server.begin("q", "greet", "greet-1", &[json!("Ada")]).await;
    assert_eq!(world.server.ended("greet-1").await, Ended::Completed(json!("Hello, Ada!")));
    world.stop().await;
    let metrics = snapshotter.snapshot().into_vec();
    let is_there = |name: &str| metrics.iter().any(|(key, ..)| key.key().name() == name);
    for name in
        ["temporal_workflow_completed", "temporal_workflow_task_execution_latency", "temporal_num_pollers"]
    {
        let known: Vec<_> = metrics.iter().map(|(key, ..)| key.key().name()).collect();
        assert!(is_there(name), "{name} is not among {known:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_is_approved_and_shipped_by_its_child() {
    let Some(world) = World::start(demo::workflows(), demo::activities(), options("q")).await else { return };
    let order = json!({ "item": "tea", "amount": 995, "patience_ms": 600_000 });
    world.server.begin("q", "order", "order-1", &[order]).await;
    let waits = |kind: &EventKind| matches!(kind, EventKind::TimerStarted { .. });
    world.until_event("order-1", waits).await;
    assert_eq!(world.server.query("order-1", "status", &[]).await, Ok(json!("awaiting_approval")));
    let refused = world.server.update("order-1", "change_item", &[json!("")]).await.unwrap_err();
    assert!(refused.contains("has to be of something"), "{refused}");
    assert_eq!(world.server.update("order-1", "change_item", &[json!("cake")]).await, Ok(json!("tea")));
    world.server.signal("order-1", "approve", &[]).await;
    let shipped = json!({
        "item": "cake", "charge": "995 cents for tea", "approved_by": "signal", "parcel": "a parcel of cake",
    });
    assert_eq!(world.server.ended("order-1").await, Ended::Completed(shipped));
    assert_eq!(world.server.query("order-1", "status", &[]).await, Ok(json!("shipping")));
    for id in ["order-1", "order-1.ship"] {
        assert_replays(&demo::workflows(), &world.server.history(id).await);
    }
    world.stop().await;
}
