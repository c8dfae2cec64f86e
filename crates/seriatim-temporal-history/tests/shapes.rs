//! Shapes of Temporal's histories that correct code has on other SDKs: each is read, and none is a false alarm.
//!
//! Hand-made, after histories in the repositories of Temporal's SDKs.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::result_large_err, reason = "failures are rare")]

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use seriatim_temporal_history::{AnyHistory, TemporalHistory, replay_temporal};
use seriatim_workflow::*;

const MINUTE: Duration = Duration::from_secs(60);

/// Events by type and attributes, numbered from 1. The first is the start; each `task` is scheduled, started, completed.
fn history(events: &[(&str, Value)]) -> Value {
    let mut all = Vec::new();
    let mut add = |name: &str, attributes: &Value| {
        let id = all.len() + 1;
        let (camel, mut upper) = (name.to_owned(), String::from("EVENT_TYPE"));
        let mut key = String::new();
        for (at, letter) in camel.chars().enumerate() {
            if letter.is_uppercase() {
                upper.push('_');
            }
            upper.extend(letter.to_uppercase());
            key.extend(if at == 0 { letter.to_lowercase().collect::<Vec<_>>() } else { vec![letter] });
        }
        all.push(json!({"eventId": id.to_string(), "eventTime": "2026-11-16T05:00:00Z", "eventType": upper,
            format!("{key}EventAttributes"): attributes}));
    };
    let start = json!({"workflowType": {"name": "test"}, "taskQueue": {"name": "q"}, "workflowId": "w",
        "originalExecutionRunId": "r", "firstExecutionRunId": "r", "attempt": 1});
    add("WorkflowExecutionStarted", &start);
    for (name, attributes) in events {
        if *name == "task" {
            add("WorkflowTaskScheduled", &json!({}));
            add("WorkflowTaskStarted", &json!({}));
            add("WorkflowTaskCompleted", &json!({}));
        } else {
            add(name, attributes);
        }
    }
    json!({"events": all})
}

fn check<Fut>(history: &Value, code: impl Fn(Context, ()) -> Fut + Send + Sync + 'static) -> Report
where
    Fut: Future<Output = Result<(), Exit>> + Send + 'static,
{
    let registry = Arc::new(Registry::new().workflow("test", code));
    let history = TemporalHistory::read(history.to_string()).unwrap();
    replay_temporal(&registry, &history, Policy::Fail)
}

fn same<Fut>(history: &Value, code: impl Fn(Context, ()) -> Fut + Send + Sync + 'static)
where
    Fut: Future<Output = Result<(), Exit>> + Send + 'static,
{
    let report = check(history, code);
    assert!(report.is_same(), "{report}");
}

fn task() -> (&'static str, Value) {
    ("task", json!({}))
}

fn scheduled(name: &str) -> (&'static str, Value) {
    (
        "ActivityTaskScheduled",
        json!({"activityId": "1", "activityType": {"name": name}, "taskQueue": {"name": "q"}}),
    )
}

#[test]
fn a_cancel_and_its_targets_end_in_one_task() {
    // 5: scheduled; 6: the run is asked to stop; 8: the activity has ended before the code could cancel it.
    let history = history(&[
        task(),
        scheduled("slow"),
        ("WorkflowExecutionCancelRequested", json!({"cause": "enough"})),
        ("ActivityTaskStarted", json!({"scheduledEventId": "5"})),
        ("ActivityTaskCompleted", json!({"scheduledEventId": "5", "startedEventId": "7"})),
        task(),
        ("WorkflowExecutionCanceled", json!({})),
    ]);
    same(&history, |ctx, ()| async move { Ok(ctx.activity::<_, ()>("slow", ()).await?) });
    // The same for a timer.
    let history = self::history(&[
        task(),
        ("TimerStarted", json!({"timerId": "1", "startToFireTimeout": "60s"})),
        ("WorkflowExecutionCancelRequested", json!({"cause": "enough"})),
        ("TimerFired", json!({"timerId": "1", "startedEventId": "5"})),
        task(),
        ("WorkflowExecutionCanceled", json!({})),
    ]);
    same(&history, |ctx, ()| async move { Ok(ctx.timer(MINUTE).await?) });
}

/// What the history has is still expected of the code.
#[test]
fn a_cancel_that_the_history_has_is_asked_for() {
    let history = history(&[
        task(),
        scheduled("slow"),
        ("WorkflowExecutionCancelRequested", json!({"cause": "enough"})),
        task(),
        ("ActivityTaskCancelRequested", json!({"scheduledEventId": "5"})),
        ("WorkflowExecutionCanceled", json!({})),
    ]);
    same(&history, |ctx, ()| async move { Ok(ctx.activity::<_, ()>("slow", ()).await?) });
    let report = check(&history, |ctx, ()| async move {
        let (ctx, _) = ctx.shielded();
        Ok(ctx.activity::<_, ()>("slow", ()).await?)
    });
    assert!(!report.is_same(), "{report}");
}

fn request() -> Value {
    json!({"meta": {"updateId": "u-1"}, "input": {"name": "change", "args": {"payloads": []}}})
}

fn changes(ctx: &Context) {
    ctx.on_update("change", &ctx.state(()), |(), (): &()| Ok(()), |(), ()| Ok(()));
}

#[test]
fn an_update_is_completed_by_its_own_id() {
    let history = history(&[
        task(),
        (
            "WorkflowExecutionUpdateAccepted",
            json!({"protocolInstanceId": "p-1", "acceptedRequest": request()}),
        ),
        (
            "WorkflowExecutionUpdateCompleted",
            json!({"meta": {"updateId": "u-1"}, "outcome": {"success": {}}}),
        ),
        ("TimerStarted", json!({"timerId": "1", "startToFireTimeout": "60s"})),
    ]);
    same(&history, |ctx, ()| async move {
        changes(&ctx);
        // The update has its turn when no branch is ready: the timer comes after it.
        ctx.wait_until(|| true).await?;
        Ok(ctx.timer(MINUTE).await?)
    });
}

#[test]
fn an_update_that_was_admitted_again_after_a_reset_has_its_request_there() {
    let history = history(&[
        (
            "WorkflowExecutionUpdateAdmitted",
            json!({"request": request(), "origin": "UPDATE_ADMITTED_EVENT_ORIGIN_REAPPLY"}),
        ),
        task(),
        (
            "WorkflowExecutionUpdateAccepted",
            json!({"protocolInstanceId": "u-1", "acceptedRequestSequencingEventId": "2"}),
        ),
        (
            "WorkflowExecutionUpdateCompleted",
            json!({"meta": {"updateId": "u-1"}, "acceptedEventId": "6", "outcome": {"success": {}}}),
        ),
    ]);
    same(&history, |ctx, ()| async move {
        changes(&ctx);
        ctx.wait_until(|| false).await?;
        Ok(())
    });
}

fn mark(seq: u32, name: &str) -> (&'static str, Value) {
    use std::fmt::Write as _;
    // The mark's data is JSON in a payload.
    let data = json!({"seq": seq, "attempt": 1, "activity_type": name}).to_string();
    let mut encoded = String::new();
    for chunk in data.as_bytes().chunks(3) {
        let bits =
            chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for at in 0..4 {
            let letter = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
                [(bits >> (18 - 6 * at)) as usize & 63];
            encoded.write_char(if at > chunk.len() { '=' } else { char::from(letter) }).unwrap();
        }
    }
    let data = json!({"payloads": [{"metadata": {"encoding": "anNvbi9wbGFpbg=="}, "data": encoded}]});
    ("MarkerRecorded", json!({"markerName": "core_local_activity", "details": {"data": data}}))
}

#[test]
fn a_run_may_end_while_a_local_activity_ends() {
    let history =
        history(&[task(), mark(1, "quick"), mark(2, "slow"), ("WorkflowExecutionCompleted", json!({}))]);
    same(&history, |ctx, ()| async move {
        let race = ctx.race().losers(Losers::Leave);
        let race = race.branch(|ctx| async move { ctx.local_activity::<_, ()>("quick", ()).await });
        let race = race.branch(|ctx| async move { ctx.local_activity::<_, ()>("slow", ()).await });
        Ok(race.await.1?)
    });
}

#[test]
fn a_payload_without_data_is_empty() {
    let text = r#"{"metadata": {"encoding": "YmluYXJ5L251bGw="}, "data": null}"#;
    let payload: Payload = serde_json::from_str(text).unwrap();
    assert!(payload.is_null());
    assert_eq!(
        serde_json::from_str::<Payload>(r#"{"metadata": null, "data": null}"#).unwrap(),
        Payload::default()
    );
}

#[test]
fn an_unknown_event_that_may_be_ignored_is() {
    let mut history = history(&[task()]);
    let mut event = json!({"eventId": "5", "eventType": "EVENT_TYPE_OF_THE_FUTURE", "workerMayIgnore": true});
    history["events"].as_array_mut().unwrap().push(event.clone());
    same(&history, |ctx, ()| async move { Ok(ctx.wait_until(|| false).await?) });
    event["workerMayIgnore"] = json!(false);
    history["events"][4] = event;
    let error = TemporalHistory::read(history.to_string()).unwrap_err().to_string();
    assert!(error.contains("event 5 is of a type that is not known here"), "{error}");
}

#[test]
fn a_nexus_operation_is_told_and_not_passed_over() {
    let history = history(&[task(), ("NexusOperationScheduled", json!({"operation": "pay"}))]);
    let report = check(&history, |ctx, ()| async move { Ok(ctx.wait_until(|| false).await?) });
    let failure = report.failure.expect("it is refused").to_string();
    assert_eq!(failure, "event 5 is NexusOperationScheduled: Nexus operations are not supported here");
}

#[test]
fn a_list_of_histories_is_read() {
    let one = history(&[task()]);
    for list in [json!([one, one]), json!({"histories": [one, one]})] {
        assert_eq!(AnyHistory::read_all(list.to_string()).unwrap().len(), 2);
    }
    // A list of events is one history.
    assert_eq!(AnyHistory::read_all(one["events"].to_string()).unwrap().len(), 1);
    assert_eq!(AnyHistory::read_all(one.to_string()).unwrap().len(), 1);
}

/// A field of protobuf's that holds bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut field = vec![number << 3 | 2, u8::try_from(bytes.len()).unwrap()];
    field.extend(bytes);
    field
}

#[test]
fn a_binary_list_of_histories_is_read() {
    // The first event, of the first type, with the workflow's type: a history in protobuf's binary form.
    let start = field(6, &field(1, &field(1, b"test")));
    let event = [&[1 << 3, 1, 3 << 3, 1][..], &start].concat();
    let one = field(1, &event);
    assert_eq!(AnyHistory::read_all(one.clone()).unwrap().len(), 1);
    let mut several = Vec::new();
    for _ in 0..3 {
        several.push(u8::try_from(one.len()).unwrap());
        several.extend(&one);
    }
    let histories = AnyHistory::read_all(several.clone()).unwrap();
    assert_eq!(histories.len(), 3);
    assert_eq!(histories[2].workflow_type(), "test");
    // Cut off, empty, or with one that is no history, it is refused.
    several.pop();
    assert!(AnyHistory::read_all(several.clone()).is_err());
    assert!(AnyHistory::read_all(vec![0]).is_err());
    assert!(AnyHistory::read_all(Vec::new()).is_err());
}

#[test]
fn a_list_of_something_else_is_told() {
    let error = AnyHistory::read_all(&br#"[{"name": "fan-out", "activations": []}]"#[..]).unwrap_err();
    assert!(error.to_string().contains("a list of something else than events"), "{error}");
}

/// Newer servers skip time in tests, and say so in the history.
#[test]
fn time_that_was_skipped_is_passed_over() {
    let skipped = json!({"targetTime": "2026-11-17T05:00:00Z", "wallClockTime": "2026-11-16T05:00:01Z"});
    let history = history(&[
        task(),
        ("TimerStarted", json!({"timerId": "1", "startToFireTimeout": "60s"})),
        ("WorkflowExecutionTimeSkippingTransitioned", skipped),
        ("TimerFired", json!({"timerId": "1", "startedEventId": "5"})),
        task(),
        ("WorkflowExecutionCompleted", json!({})),
    ]);
    same(&history, |ctx, ()| async move { Ok(ctx.timer(MINUTE).await?) });
}
