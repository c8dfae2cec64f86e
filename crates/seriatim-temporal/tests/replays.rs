//! Histories of a real server, replayed by our runtime and by Temporal's core: both agree on the same code, and both
//! tell other code from it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{World, assert_replays, options, replay};
use serde_json::json;
use seriatim_env::Env;
use seriatim_temporal::devserver::Ended;
use seriatim_temporal::replay_on_core;
use seriatim_workflow::{Context, Exit, Registry};
use seriatim_workflow_host::demo;

/// What greets otherwise than the demo does.
fn changed(step: &'static str) -> Registry {
    Registry::new().workflow("greet", move |ctx: Context, name: String| async move {
        let timeout = Duration::from_secs(10);
        let greeting = match step {
            "a timer before it" => {
                ctx.timer(Duration::from_secs(1)).await?;
                ctx.activity("greeting", name).timeout(timeout).await?
            }
            "another activity" => ctx.activity("salutation", name).timeout(timeout).await?,
            "another input" => ctx.activity("greeting", name.to_uppercase()).timeout(timeout).await?,
            "no activity" => format!("Hello, {name}!"),
            other => panic!("nothing is called {other}"),
        };
        Ok::<String, Exit>(greeting)
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn both_replays_agree_on_the_demo_and_tell_other_code_from_it() {
    let Some(world) = World::start(demo::workflows(), demo::activities(), options("q")).await else { return };
    let env = Env::real();
    world.server.begin("q", "greet", "greeting", &[json!("Ada")]).await;
    let quick = json!({ "item": "tea", "amount": 995, "patience_ms": 50 });
    world.server.begin("q", "order", "order", &[quick]).await;
    let shipped = world.server.ended("order").await;
    assert!(
        matches!(&shipped, Ended::Completed(shipped) if shipped["approved_by"] == "timer"),
        "{shipped:?}"
    );
    assert_eq!(world.server.ended("greeting").await, Ended::Completed(json!("Hello, Ada!")));
    for id in ["greeting", "order", "order.ship"] {
        let history = world.server.history(id).await;
        assert_replays(&demo::workflows(), &history);
        let report = replay_on_core(&env, &Arc::new(demo::workflows()), id, &history).await.unwrap();
        assert!(report.is_same() && report.activations >= 2, "{id}: {report:?}");
    }

    let history = world.server.history("greeting").await;
    // What the core does not look at, our replay does.
    for (step, of_core) in [
        ("a timer before it", true),
        ("another activity", true),
        ("no activity", true),
        ("another input", false),
    ] {
        let report = replay(&changed(step), &history);
        assert!(!report.is_same(), "{step}: {report}");
        let told = report.to_string();
        assert!(told.contains("DIFFERENT: greet") && told.contains("expected:"), "{step}: {told}");
        let report = replay_on_core(&env, &Arc::new(changed(step)), "greeting", &history).await.unwrap();
        assert_eq!(!report.is_same(), of_core, "{step}: {report:?}");
    }
    world.stop().await;
}

#[tokio::test]
async fn what_is_no_history_is_refused() {
    let registry = Arc::new(demo::workflows());
    for bytes in [&b"\xff\xff"[..], b""] {
        let error = replay_on_core(&Env::real(), &registry, "w", bytes).await.unwrap_err();
        assert!(error.to_string().contains("history"), "{error}");
    }
}
