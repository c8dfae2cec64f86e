//! What workflow code logs gets into the log of the process, once.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::World;
use seriatim_env::simulate;
use seriatim_workflow::{Context, Exit, LogLevel, Registry};
use seriatim_workflow_host::Activities;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Keeps the events that have a branch: those are of workflow code.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<String>>>);

#[derive(Default)]
struct Fields {
    text: String,
    is_of_workflow: bool,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.is_of_workflow |= field.name() == "branch";
        write!(self.text, " {}={value:?}", field.name()).unwrap();
    }
}

impl Subscriber for Kept {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        if fields.is_of_workflow {
            self.0.lock().unwrap().push(format!("{}{}", event.metadata().level(), fields.text));
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

fn workflows() -> Registry {
    Registry::new().workflow("talks", |ctx: Context, (): ()| async move {
        ctx.log(LogLevel::Info, "begun");
        ctx.timer(Duration::from_secs(60)).await?;
        ctx.log(LogLevel::Error, "ended");
        Ok::<_, Exit>(())
    })
}

#[test]
fn a_line_is_logged_once_whatever_is_replayed() {
    let kept = Kept::default();
    let lines = kept.0.clone();
    let run_id = tracing::subscriber::with_default(kept, || {
        simulate(1, |env| async move {
            let world = World::new(&env, workflows(), Activities::new()).await;
            let run_id = world.start("talks", "t", &()).await;
            let world = world.again(workflows(), Activities::new()).await;
            world.result::<()>("t").await;
            world.close().await;
            run_id
        })
    });
    let line = |level: &str, message: &str| {
        format!(
            "{level} message={message} workflow_type=\"talks\" workflow_id=\"t\" run_id={run_id:?} branch=\"/\""
        )
    };
    assert_eq!(*lines.lock().unwrap(), [line("INFO", "begun"), line("ERROR", "ended")]);
}
