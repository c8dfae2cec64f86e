//! The demo's workflows, end to end.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::World;
use serde_json::json;
use seriatim_env::simulate;
use seriatim_workflow::Payload;
use seriatim_workflow_host::demo::{self, Order, Shipped, Stage};
use seriatim_workflow_host::{HostError, RunStatus, StartRequest};

#[test]
fn greet_says_hello() {
    simulate(1, |env| async move {
        let world = World::new(&env, demo::workflows(), demo::activities()).await;
        let run_id = world.start("greet", "g", &"Ada").await;
        assert_eq!(world.result::<String>("g").await, "Hello, Ada!");
        let description = world.host.describe("g", None).await.unwrap();
        assert_eq!((description.row.status, description.run_id), (RunStatus::Completed, run_id));
        assert_eq!(description.input, [Payload::json("Ada").unwrap()]);
        assert_eq!(description.result, Some(Payload::json("Hello, Ada!").unwrap()));
        // The activity's schedule and its result: two events.
        assert_eq!(world.host.history("g", None).await.unwrap().events.len(), 2);
        world.close().await;
    });
}

#[test]
fn an_order_is_shipped_when_it_is_approved_or_its_time_is_over() {
    simulate(2, |env| async move {
        let effects = Arc::new(AtomicUsize::new(0));
        let seen = effects.clone();
        let activities = demo::activities_with(move |_| {
            seen.fetch_add(1, Ordering::Relaxed);
        });
        let world = World::new(&env, demo::workflows(), activities).await;
        world.start("order", "a", &Order { approval_timeout_ms: 3_600_000, ..Order::default() }).await;
        world.start("order", "b", &json!(null)).await;
        world.signal("a", "approve", &json!({"by": "me"})).await;
        let shipped: Shipped = world.result("a").await;
        assert_eq!((&*shipped.approved_by, &*shipped.parcel), ("signal", "a parcel of tea"));
        let shipped: Shipped = world.result("b").await;
        assert_eq!((&*shipped.approved_by, &*shipped.charge), ("timer", "995 cents for tea"));
        assert_eq!(effects.load(Ordering::Relaxed), 4);
        let child = world.host.describe("a.ship", None).await.unwrap();
        assert_eq!(child.row.status, RunStatus::Completed);
        world.close().await;
    });
}

#[test]
fn an_order_can_be_asked_and_changed_until_it_is_shipped() {
    simulate(4, |env| async move {
        let world = World::new(&env, demo::workflows(), demo::activities()).await;
        world.start("order", "a", &Order { approval_timeout_ms: 3_600_000, ..Order::default() }).await;
        let item = |item: &str| vec![Payload::json(item).unwrap()];
        let refused = world.host.update("a", "change_item", item(""), None).await.unwrap_err();
        assert!(refused.to_string().contains("has to be of something"), "{refused}");
        let before = world.host.update("a", "change_item", item("cake"), None).await.unwrap();
        assert_eq!(before.decode::<String>().unwrap(), "tea");
        world.signal("a", "approve", &json!(null)).await;
        let shipped: Shipped = world.result("a").await;
        assert_eq!((&*shipped.item, &*shipped.parcel), ("cake", "a parcel of cake"));
        let status = world.host.query("a", "status", Vec::new()).await.unwrap();
        assert_eq!(status.decode::<Stage>().unwrap(), Stage::Shipping);
        world.close().await;
    });
}

#[test]
fn an_id_runs_once_at_a_time_and_again_when_it_has_ended() {
    simulate(3, |env| async move {
        let world = World::new(&env, demo::workflows(), demo::activities()).await;
        let first = world.start("order", "a", &json!(null)).await;
        let again = world.host.start(StartRequest::new("greet").id("a").input("x").unwrap()).await;
        assert_eq!(again, Err(HostError::Running { id: "a".to_owned(), run_id: first.clone() }));
        world.result::<Shipped>("a").await;
        let second = world.start("greet", "a", &"Bob").await;
        assert_ne!(first, second);
        assert!(second.ends_with("-2"), "{second}");
        assert_eq!(world.result::<String>("a").await, "Hello, Bob!");
        assert_eq!(world.host.describe("a", None).await.unwrap().row.run, 2);
        let unknown = world.host.start(StartRequest::new("nothing")).await.unwrap_err();
        assert!(unknown.to_string().contains("known: greet, order, ship"), "{unknown}");
        world.close().await;
    });
}
