//! What a history says without its code.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::result_large_err, reason = "failures are rare")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use seriatim_workflow::*;

fn greet(name: &'static str, seconds: u64) -> Arc<Registry> {
    Arc::new(Registry::new().workflow("greet", move |ctx: Context, who: String| async move {
        let greeting = ctx.activity::<_, String>(name, who).start();
        let _timer = ctx.timer(Duration::from_secs(seconds));
        Ok(greeting.await?)
    }))
}

#[test]
fn each_operation_has_its_command_and_its_response() {
    let (mut run, _) = (Instance::new(greet("hello", 5), InstanceOptions::default()), ());
    let mut history = History::default();
    for jobs in [
        vec![common::start("greet", "world")],
        vec![Job::ResolveActivity { seq: CommandSeq::new(1), resolution: common::completed("hi") }],
    ] {
        let activation = Activation::new("r-1", Time::default(), jobs);
        history.push(activation.clone(), run.activate(activation).outcome.unwrap());
    }
    let says = "greet the-id r-1: complete\n\
        activity 1 hello: schedule_activity at 1, resolve_activity at 2\n\
        timer 1 : start_timer at 1, NO ANSWER\n\
        2 operations, 1 without an answer";
    assert_eq!(history.inspect().to_string(), says);
    let json = serde_json::to_string(&history).unwrap();
    assert_eq!(serde_json::from_str::<History>(&json).unwrap(), history);
}
