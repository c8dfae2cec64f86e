//! Histories that ship with Temporal's core, replayed by the core itself on workflows of ours. The runtime's own replay of
//! them is tested where it lives.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use prost::Message as _;
use seriatim_env::Env;
use seriatim_temporal::replay_on_core;
use seriatim_temporal_history::TemporalHistory;
use seriatim_workflow::{Context, Exit, Registry};
use temporalio_common::protos::temporal::api::history::v1::history_event::Attributes;
use temporalio_common::protos::temporal::api::history::v1::{History, HistoryEvent};

/// Where cargo keeps the source of the core that the lock file names.
fn folder() -> Option<PathBuf> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--offline", "--locked", "--format-version", "1"]);
    let output = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).output().ok()?;
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
    let core = metadata["packages"].as_array()?.iter().find(|one| one["name"] == "temporalio-sdk-core")?;
    let folder = PathBuf::from(core["manifest_path"].as_str()?).with_file_name("tests").join("histories");
    folder.is_dir().then_some(folder)
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Timer(u64),
    Local(&'static str),
    Patch(&'static str),
}

fn registry(name: &str, steps: &'static [Step]) -> Arc<Registry> {
    Arc::new(Registry::new().workflow(name, move |ctx: Context, _: serde_json::Value| async move {
        ctx.on_update("update", &ctx.state(()), |(), (): &()| Ok(()), |(), ()| Ok(()));
        for step in steps {
            match step {
                Step::Timer(millis) => ctx.timer(Duration::from_millis(*millis)).await?,
                Step::Local(name) => ctx.local_activity::<_, ()>(*name, ()).await?,
                Step::Patch(id) => assert!(ctx.patched(id)),
            }
        }
        // Once nothing else can continue: updates that came with the last answer are done before the run ends.
        ctx.wait_until(|| true).await?;
        Ok::<(), Exit>(())
    }))
}

/// The core finds timers by their ids, which are numbers, and ours begin at 1: older histories begin at 0.
fn numbered_from_1(bytes: &[u8]) -> Vec<u8> {
    let mut history = History::decode(bytes).unwrap();
    let mut ids: Vec<&mut String> = history.events.iter_mut().filter_map(timer_id).collect();
    if ids.iter().any(|id| *id == "0") {
        ids.iter_mut().for_each(|id| **id = (id.parse::<u32>().unwrap() + 1).to_string());
    }
    history.encode_to_vec()
}

fn timer_id(event: &mut HistoryEvent) -> Option<&mut String> {
    match event.attributes.as_mut()? {
        Attributes::TimerStartedEventAttributes(started) => Some(&mut started.timer_id),
        Attributes::TimerFiredEventAttributes(fired) => Some(&mut fired.timer_id),
        Attributes::TimerCanceledEventAttributes(cancelled) => Some(&mut cancelled.timer_id),
        _ => None,
    }
}

#[tokio::test]
async fn the_core_replays_its_own_histories_on_our_workflows() {
    let Some(folder) = folder() else {
        let why = "no source of temporalio-sdk-core among the fetched crates: run `cargo fetch`";
        assert!(std::env::var_os("SERIATIM_REQUIRE_REAL").is_none(), "{why}");
        // Not by a macro: what those print is hidden while a test passes.
        writeln!(std::io::stderr(), "SKIPPED, no history of the core was replayed: {why}").unwrap();
        return;
    };
    let cases: [(&str, &'static [Step]); 5] = [
        ("timer_workflow_history.bin", &[Step::Timer(1000)]),
        ("fail_wf_task.bin", &[Step::Timer(200)]),
        (
            "old_change_marker_format.bin",
            &[Step::Patch("integ_test_change_name"), Step::Timer(100), Step::Timer(200), Step::Timer(100)],
        ),
        ("long_local_activity_with_update-0_history.bin", &[Step::Local("delay")]),
        ("long_local_activity_with_update-2_history.bin", &[Step::Local("delay")]),
    ];
    let env = Env::real();
    for (file, steps) in cases {
        let bytes = numbered_from_1(&std::fs::read(folder.join(file)).unwrap());
        let name = TemporalHistory::read(bytes.clone()).unwrap().start().workflow_type;
        let report = replay_on_core(&env, &registry(&name, steps), file, &bytes).await.unwrap();
        assert!(report.is_same() && report.activations > 0, "{file}: {report:?}");
        let other: &'static [Step] = &[Step::Local("something else"), Step::Local("and more")];
        let report = replay_on_core(&env, &registry(&name, other), file, &bytes).await.unwrap();
        assert!(!report.is_same(), "{file}: other code passes");
    }
}
