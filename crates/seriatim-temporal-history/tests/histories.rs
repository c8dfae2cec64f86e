//! Temporal's histories: read in each of their forms, inspected, and replayed.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::result_large_err, reason = "failures are rare")]

#[path = "../../seriatim-workflow/tests/common/mod.rs"]
mod common;
mod server;

use std::sync::Arc;
use std::time::Duration;

use common::program::{Chance, program, registry};
use seriatim_temporal_history::{EventKind, TemporalHistory, replay_temporal};
use seriatim_workflow::*;
use server::{Style, serve};

#[test]
fn histories_of_random_programs_replay_in_every_form() {
    let (mut commands, mut tasks) = (0, 0);
    for seed in 0..300 {
        let registry = registry(&program(&mut Chance(seed), 2));
        let server = serve(&registry, seed, 30);
        let binary = TemporalHistory::read(server.binary()).unwrap();
        for style in [Style::Canonical, Style::Snake] {
            assert_eq!(TemporalHistory::read(server.json(style)).unwrap(), binary, "seed {seed}, {style:?}");
        }
        let report = replay_temporal(&registry, &binary, Policy::Fail);
        assert!(report.is_same(), "seed {seed}: {report}\n{}", binary.inspect());
        commands += report.commands;
        tasks += report.activations;
    }
    println!("300 programs, {tasks} activations, {commands} commands");
    assert!(commands > 1000);
}

/// Another version of the code shows at the first command that differs.
#[test]
fn other_code_is_found() {
    let mut found = 0;
    for seed in 0..100 {
        let one = registry(&program(&mut Chance(seed), 2));
        let other = registry(&program(&mut Chance(seed + 1000), 2));
        let history = TemporalHistory::read(serve(&one, seed, 30).binary()).unwrap();
        found += usize::from(!replay_temporal(&other, &history, Policy::Fail).is_same());
    }
    assert!(found > 95, "{found}");
}

const FROM_THE_UI: &str = r#"{ "events": [
  { "eventId": "1", "eventTime": "2026-11-16T05:00:00.000000001Z", "eventType": "EVENT_TYPE_WORKFLOW_EXECUTION_STARTED",
    "taskId": "1048587", "links": [],
    "workflowExecutionStartedEventAttributes": {
      "workflowType": { "name": "greet" }, "taskQueue": { "name": "q", "kind": "TASK_QUEUE_KIND_NORMAL" },
      "input": { "payloads": [ { "metadata": { "encoding": "anNvbi9wbGFpbg==" }, "data": "IndvcmxkIg==" } ] },
      "workflowTaskTimeout": "10s", "originalExecutionRunId": "r-1", "firstExecutionRunId": "r-1", "attempt": 1,
      "workflowId": "greet-1", "fieldOfTheFuture": { "any": ["thing"] } } },
  { "eventId": "2", "eventTime": "2026-11-16T05:00:00Z", "eventType": "EVENT_TYPE_WORKFLOW_TASK_SCHEDULED",
    "workflowTaskScheduledEventAttributes": { "attempt": 1 } },
  { "eventId": "3", "eventTime": "2026-11-16T05:00:01Z", "eventType": "EVENT_TYPE_WORKFLOW_TASK_STARTED",
    "workflowTaskStartedEventAttributes": { "scheduledEventId": "2" } },
  { "eventId": "4", "eventTime": "2026-11-16T05:00:01Z", "eventType": "EVENT_TYPE_WORKFLOW_TASK_COMPLETED",
    "workflowTaskCompletedEventAttributes": { "scheduledEventId": "2", "startedEventId": "3" } },
  { "eventId": "5", "eventTime": "2026-11-16T05:00:01Z", "eventType": "EVENT_TYPE_ACTIVITY_TASK_SCHEDULED",
    "activityTaskScheduledEventAttributes": { "activityId": "1", "activityType": { "name": "hello" },
      "taskQueue": { "name": "q" }, "workflowTaskCompletedEventId": "4", "startToCloseTimeout": "5s",
      "input": { "payloads": [ { "metadata": { "encoding": "anNvbi9wbGFpbg==" }, "data": "IndvcmxkIg==" } ] } } },
  { "eventId": "6", "eventTime": "2026-11-16T05:00:01Z", "eventType": "EVENT_TYPE_TIMER_STARTED",
    "timerStartedEventAttributes": { "timerId": "1", "startToFireTimeout": "60s", "workflowTaskCompletedEventId": "4" } }
] }"#;

fn greet(name: &'static str, seconds: u64) -> Arc<Registry> {
    Arc::new(Registry::new().workflow("greet", move |ctx: Context, who: String| async move {
        let greeting = ctx.activity::<_, String>(name, who).start();
        let _timer = ctx.timer(Duration::from_secs(seconds));
        Ok(greeting.await?)
    }))
}

#[test]
fn a_history_from_the_ui_is_read_inspected_and_replayed() {
    let history = TemporalHistory::read(FROM_THE_UI).unwrap();
    assert_eq!(history.events().len(), 6);
    assert_eq!(history.start().task_timeout, Some(Duration::from_secs(10)));
    let EventKind::TimerStarted { timer_id, duration } = &history.events()[5].kind else { panic!() };
    assert_eq!((timer_id.as_str(), *duration), ("1", Duration::from_secs(60)));
    let says = "greet greet-1 r-1: open\n\
        activity 1 hello: activity_task_scheduled at 5, NO ANSWER\n\
        timer 1 : timer_started at 6, NO ANSWER\n\
        2 operations, 2 without an answer";
    assert_eq!(history.inspect().to_string(), says);
    let report = replay_temporal(&greet("hello", 60), &history, Policy::Fail);
    assert!(report.is_same(), "{report}");

    let report = replay_temporal(&greet("goodbye", 61), &history, Policy::Warn);
    let kinds: Vec<_> = report.differences.iter().map(|difference| difference.kind.clone()).collect();
    let altered = |field| DifferenceKind::Altered { fields: vec![field] };
    assert_eq!(kinds, [altered(Field::Name), altered(Field::Duration)], "{report}");
    assert!(report.to_string().contains("expected: start_timer for 60s"), "{report}");
    assert!(report.to_string().contains("histories.rs:"), "{report}");
}

#[test]
fn what_is_no_history_says_why() {
    let says = |bytes: &[u8]| TemporalHistory::read(bytes.to_vec()).unwrap_err().to_string();
    assert!(says(b"hello").starts_with("neither Temporal's JSON nor its binary form"));
    assert!(says(b"{\"a\": 1}").contains("without a list of events"));
    assert!(says(b"{\"events\": []}").contains("does not begin with the start of a run"));
    let gap = FROM_THE_UI.replace("\"eventId\": \"5\"", "\"eventId\": \"7\"");
    assert!(says(gap.as_bytes()).contains("event 4 is followed by event 7"));
    let wrong = FROM_THE_UI.replace("\"60s\"", "\"soon\"");
    assert!(says(wrong.as_bytes()).contains("start_to_fire_timeout is not a duration: \"soon\""));
    let registry = registry(&program(&mut Chance(1), 2));
    let binary = serve(&registry, 1, 5).binary();
    assert!(TemporalHistory::read(binary[..binary.len() - 1].to_vec()).is_err());
}

/// Workers of ours note the rules of a run in its first task; histories without the note are older.
#[test]
fn a_history_of_an_older_worker_of_ours_keeps_its_order() {
    let history = |sdk: &str| {
        let text = format!(
            r#"{{"events": [
            {{"eventId": "1", "eventType": "EVENT_TYPE_WORKFLOW_EXECUTION_STARTED",
              "workflowExecutionStartedEventAttributes": {{"workflowType": {{"name": "greet"}}}}}},
            {{"eventId": "2", "eventType": "EVENT_TYPE_WORKFLOW_TASK_SCHEDULED"}},
            {{"eventId": "3", "eventType": "EVENT_TYPE_WORKFLOW_TASK_STARTED"}},
            {{"eventId": "4", "eventType": "EVENT_TYPE_WORKFLOW_TASK_COMPLETED",
              "workflowTaskCompletedEventAttributes": {{"sdkMetadata": {sdk}}}}}]}}"#
        );
        TemporalHistory::from_json(text.as_bytes()).unwrap().start().rules
    };
    assert_eq!(history(r#"{"sdkName": "temporal-core"}"#), 0);
    assert_eq!(history(r#"{"sdkName": "temporal-core", "langUsedFlags": [7301]}"#), 1);
    assert_eq!(history(r#"{"sdkName": "temporal-go", "langUsedFlags": [3]}"#), 1);
}
