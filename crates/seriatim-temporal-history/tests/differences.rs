//! What is told of a difference between code and a history of Temporal's: both values, the place, and the event.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::result_large_err, reason = "failures are rare")]

use std::sync::Arc;

use serde::Serialize;
use serde_json::json;
use seriatim_temporal_history::{TemporalHistory, replay_temporal};
use seriatim_workflow::*;

#[derive(Serialize)]
struct Item {
    name: &'static str,
    price: f64,
}

#[derive(Serialize)]
struct Order {
    customer: &'static str,
    items: Vec<Item>,
}

/// The same as [`Order`], with sorted fields and prices as whole numbers.
#[derive(Serialize)]
struct SortedOrder {
    items: Vec<SortedItem>,
    customer: &'static str,
}

#[derive(Serialize)]
struct SortedItem {
    price: u64,
    name: &'static str,
}

fn order(price: f64) -> Order {
    Order { customer: "ada", items: vec![Item { name: "tea", price: 3.0 }, Item { name: "cup", price }] }
}

fn sorted(price: u64) -> SortedOrder {
    let items = vec![SortedItem { price: 3, name: "tea" }, SortedItem { price, name: "cup" }];
    SortedOrder { items, customer: "ada" }
}

/// A workflow that charges for an order and returns it.
fn registry<T: Serialize + Send + Sync + 'static>(order: fn() -> T) -> Arc<Registry> {
    Arc::new(Registry::new().workflow("order", move |ctx: Context, (): ()| async move {
        ctx.activity::<_, ()>("charge", &order()).await?;
        Ok(order())
    }))
}

/// Events of a Temporal history: a start, a task, an activity with this input.
fn temporal(input: &str) -> TemporalHistory {
    use std::fmt::Write as _;
    let bits = |chunk: &[u8]| {
        chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()))
    };
    let mut data = String::new();
    for chunk in input.as_bytes().chunks(3) {
        for at in 0..4 {
            let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
            let letter = letters[(bits(chunk) >> (18 - 6 * at)) as usize & 63];
            data.write_char(if at > chunk.len() { '=' } else { char::from(letter) }).unwrap();
        }
    }
    let input = json!({"payloads": [{"metadata": {"encoding": "anNvbi9wbGFpbg=="}, "data": data}]});
    let events = [
        (
            "WORKFLOW_EXECUTION_STARTED",
            "workflowExecutionStarted",
            json!({"workflowType": {"name": "order"}}),
        ),
        ("WORKFLOW_TASK_SCHEDULED", "workflowTaskScheduled", json!({})),
        ("WORKFLOW_TASK_STARTED", "workflowTaskStarted", json!({})),
        ("WORKFLOW_TASK_COMPLETED", "workflowTaskCompleted", json!({})),
        (
            "ACTIVITY_TASK_SCHEDULED",
            "activityTaskScheduled",
            json!({"activityType": {"name": "charge"}, "input": input}),
        ),
    ];
    let events = events.into_iter().zip(1..).map(|((name, key, attributes), id)| {
        json!({"eventId": id.to_string(), "eventType": format!("EVENT_TYPE_{name}"),
            format!("{key}EventAttributes"): attributes})
    });
    let events: Vec<_> = events.collect();
    TemporalHistory::read(json!({"events": events}).to_string()).unwrap()
}

#[test]
fn a_temporal_history_is_compared_by_meaning_and_told_with_its_event() {
    let history = temporal(&serde_json::to_string_pretty(&sorted(10)).unwrap());
    assert!(replay_temporal(&registry(|| order(10.0)), &history, Policy::Fail).is_same());
    let altered = replay_temporal(&registry(|| order(12.0)), &history, Policy::Fail).to_string();
    assert!(altered.contains("\nactivation 1, event 5: another input\n"), "{altered}");
    assert!(altered.contains("\n  input .items[1].price: 10 ≠ 12.0\n"), "{altered}");
    // What the code does not ask for, and what it asks for besides.
    let none = Arc::new(
        Registry::new()
            .workflow("order", |ctx: Context, (): ()| async move { Ok(ctx.wait_until(|| false).await?) }),
    );
    let missing = replay_temporal(&none, &history, Policy::Fail).to_string();
    assert!(missing.contains("activation 1, event 5: a command of the history is not issued"), "{missing}");
    let two = Arc::new(Registry::new().workflow("order", |ctx: Context, (): ()| async move {
        let _charged = ctx.activity::<_, ()>("charge", &order(10.0)).start();
        Ok(ctx.activity::<_, ()>("thank", ()).await?)
    }));
    let inserted = replay_temporal(&two, &history, Policy::Fail).to_string();
    assert!(inserted.contains("activation 1, after event 5: a command that the history"), "{inserted}");
}
