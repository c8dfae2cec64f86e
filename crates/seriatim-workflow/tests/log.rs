//! What workflow code logs.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::*;
use seriatim_workflow::*;

const SECOND: Duration = Duration::from_secs(1);

async fn talks(ctx: Context, name: String) -> Result<(), Exit> {
    ctx.log(LogLevel::Info, format_args!("hello, {name}"));
    let branch = ctx.spawn(|ctx| async move {
        ctx.timer(SECOND).await?;
        ctx.log(LogLevel::Warn, "late");
        ctx.timer(SECOND).await
    });
    Ok(branch.await?)
}

#[test]
fn a_line_is_logged_once_and_not_on_replay() {
    let registry = Arc::new(Registry::new().workflow("talks", talks));
    let lines = Arc::new(Mutex::new(Vec::new()));
    let instance = |recorded: Recorded| {
        let options = InstanceOptions { numbering: Numbering::ByLineage(recorded), policy: Policy::Fail };
        let lines = Arc::clone(&lines);
        Instance::new(Arc::clone(&registry), options)
            .log_to(move |line| lines.lock().unwrap().push(line.clone()))
    };
    let first = Activation::new("run-1", Time::default(), vec![start("talks", "ada")]);
    let fired = |seq| Activation::new("run-1", Time::default(), vec![Job::FireTimer { seq: n(seq) }]);

    let mut live = instance(Recorded::none());
    let mut recorded = Recorded::none();
    recorded.push(&live.activate(first.clone()).outcome.unwrap());
    let hello = LogLine {
        level: LogLevel::Info,
        workflow_type: "talks".to_owned(),
        workflow_id: "the-id".to_owned(),
        run_id: "run-1".to_owned(),
        branch: "/".to_owned(),
        message: "hello, ada".to_owned(),
    };
    assert_eq!(std::mem::take(&mut *lines.lock().unwrap()), std::slice::from_ref(&hello));
    drop(live);

    // Built anew from its history it says nothing, and then continues to log.
    let mut anew = instance(recorded);
    anew.activate(first.replaying(true)).outcome.unwrap();
    assert_eq!(*lines.lock().unwrap(), []);
    anew.activate(fired(1)).outcome.unwrap();
    let late =
        LogLine { level: LogLevel::Warn, branch: "/1".to_owned(), message: "late".to_owned(), ..hello };
    assert_eq!(*lines.lock().unwrap(), [late]);
}

#[test]
fn without_a_sink_nothing_is_put_together() {
    struct Never;
    impl std::fmt::Display for Never {
        fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            panic!("no one reads this")
        }
    }
    let (_, commands) = Run::of((), |ctx, (): ()| async move {
        ctx.log(LogLevel::Debug, Never);
        Ok(())
    });
    assert_eq!(kinds(&commands), ["complete"]);
}
