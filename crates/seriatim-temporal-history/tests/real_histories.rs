//! Histories that real servers have written, as Temporal's own core brings them along for its tests.
//!
//! They are in that crate's source, which cargo fetches for `seriatim-temporal` and tells the place of. Where it has not,
//! the test says so and passes, unless `SERIATIM_REQUIRE_REAL` is set.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::result_large_err, reason = "failures are rare")]

use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use seriatim_temporal_history::{AnyHistory, TemporalHistory, replay_temporal};
use seriatim_workflow::*;

/// Where cargo keeps the source of the core that the lock file names.
fn histories() -> Option<PathBuf> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--offline", "--locked", "--format-version", "1"]);
    let output = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).output().ok()?;
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
    let core = metadata["packages"].as_array()?.iter().find(|one| one["name"] == "temporalio-sdk-core")?;
    let folder = PathBuf::from(core["manifest_path"].as_str()?).with_file_name("tests").join("histories");
    folder.is_dir().then_some(folder)
}

fn registry(name: &str, steps: &'static [&'static str]) -> Arc<Registry> {
    Arc::new(Registry::new().workflow(name, move |ctx: Context, _: serde_json::Value| async move {
        let pause = Duration::from_millis(if steps.first() == Some(&"updates 2000") { 2000 } else { 0 });
        ctx.on_update_async(
            "update",
            &ctx.state(()),
            |(), (): &()| Ok(()),
            move |ctx, _, ()| async move { Ok(ctx.timer(pause).await?) },
        );
        for step in steps {
            match step.split_once(' ').unwrap() {
                ("timer", millis) => ctx.timer(Duration::from_millis(millis.parse().unwrap())).await?,
                ("local", name) => ctx.local_activity::<_, ()>(name, ()).await?,
                ("updates", _) => {}
                ("wait", signal) => ctx.signals::<()>(signal).next().await?,
                ("patch", id) => assert!(ctx.patched(id)),
                ("activity", call) => {
                    let (name, input) = call.split_once(' ').unwrap();
                    drop(ctx.activity::<_, serde_json::Value>(name, input).await?);
                }
                (other, _) => panic!("no step {other}"),
            }
        }
        Ok(())
    }))
}

const UPDATED: &[&str] = &["local delay"];
const UPDATED_SLOWLY: &[&str] = &["updates 2000", "local delay"];
const EVICTED: &[&str] = &["local delay", "activity delay hi!"];

/// The folder of histories, or a word on why there is none.
#[allow(clippy::explicit_write, reason = "what a macro prints is hidden while a test passes")]
fn histories_or_skip() -> Option<PathBuf> {
    let folder = histories();
    if folder.is_none() {
        let why = "no source of temporalio-sdk-core among the fetched crates: run `cargo fetch`";
        assert!(std::env::var_os("SERIATIM_REQUIRE_REAL").is_none(), "{why}");
        writeln!(std::io::stderr(), "SKIPPED, no history of a real server was replayed: {why}").unwrap();
    }
    folder
}

#[test]
fn every_history_of_the_core_is_read() {
    let Some(folder) = histories_or_skip() else { return };
    let mut histories = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match AnyHistory::read_all(std::fs::read(&path).unwrap()) {
            Ok(all) => histories += all.iter().map(AnyHistory::inspect).count(),
            // What a test of the core expects of the file beside it.
            Err(error) => {
                assert!(path.ends_with("la_replay_without_activation_index.json"), "{path:?}: {error}");
            }
        }
    }
    assert!(histories > 13, "{histories}");
}

#[test]
fn histories_of_real_servers_replay() {
    let Some(folder) = histories_or_skip() else { return };
    let cases: [(&str, &[&str]); 11] = [
        ("timer_workflow_history.bin", &["timer 1000"]),
        ("fail_wf_task.bin", &["timer 200"]),
        (
            "old_change_marker_format.bin",
            &["patch integ_test_change_name", "timer 100", "timer 200", "timer 100"],
        ),
        ("ends_empty_wft_complete.bin", &["activity say_hello Temporal", "wait finish"]),
        ("long_local_activity_with_update-0_history.bin", UPDATED),
        ("long_local_activity_with_update-1_history.bin", UPDATED_SLOWLY),
        ("long_local_activity_with_update-2_history.bin", UPDATED),
        ("long_local_activity_with_update-3_history.bin", UPDATED_SLOWLY),
        ("evict_while_la_running_no_interference-16_history.bin", EVICTED),
        ("evict_while_la_running_no_interference-85_history.bin", EVICTED),
        ("opentelemetry_replay_history.json", &[]),
    ];
    for (file, steps) in cases {
        let history = TemporalHistory::read(std::fs::read(folder.join(file)).unwrap()).unwrap();
        let name = history.start().workflow_type;
        let report = replay_temporal(&registry(&name, steps), &history, Policy::Fail);
        println!("{file}: {report}\n{}", history.inspect());
        assert!(report.is_same(), "{file}");
        // Other code is told apart, unless the history is over before it matters.
        let other = replay_temporal(&registry(&name, &["timer 77"]), &history, Policy::Fail);
        assert!(!other.is_same(), "{file}");
    }
}
