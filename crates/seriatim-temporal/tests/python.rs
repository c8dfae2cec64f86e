//! A client in another language: the official Python SDK starts, queries, updates and signals the demo's workflows.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{World, options};
use serde_json::{Value, json};
use seriatim_env::Env;
use seriatim_workflow_host::demo;

const VERSION: &str = "1.35.0";

/// A Python with the SDK, installed once per machine beside what the gate installs; else why there is none.
fn python() -> Result<PathBuf, String> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    let cache = cache.ok_or("there is no home folder: set XDG_CACHE_HOME")?.join("seriatim-ci");
    let folder = cache.join(format!("temporalio-{VERSION}"));
    fs::create_dir_all(&cache).map_err(|error| error.to_string())?;
    let lock =
        File::create(cache.join(format!("temporalio-{VERSION}.lock"))).map_err(|error| error.to_string())?;
    lock.lock().map_err(|error| error.to_string())?;
    let (python, whole) = (folder.join("bin/python"), folder.join("whole"));
    if !whole.exists() {
        run(Path::new("python3"), &["-m", "venv", "--clear", &folder.display().to_string()])?;
        run(&python, &["-m", "pip", "install", "--quiet", &format!("temporalio=={VERSION}")])?;
        File::create(whole).map_err(|error| error.to_string())?;
    }
    Ok(python)
}

fn run(program: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).output();
    let output = output.map_err(|error| format!("{}: {error}", program.display()))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(format!("{program:?} {arguments:?}: {}: {said}", output.status))
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_in_python_starts_asks_changes_and_signals_our_workflows() {
    let env = Env::real();
    let python = match env.blocking(python).await {
        Ok(python) => python,
        Err(reason) => {
            let reason = format!("Python's temporalio is not available: {reason}");
            assert!(std::env::var_os("SERIATIM_REQUIRE_REAL").is_none(), "{reason}");
            // Not by a macro: what those print is hidden while a test passes.
            writeln!(std::io::stderr(), "SKIPPED, no other language was tried: {reason}").unwrap();
            return;
        }
    };
    let Some(world) = World::start(demo::workflows(), demo::activities(), options("python")).await else {
        return;
    };
    let address = world.server.address().to_owned();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/client.py");
    let said = env.blocking(move || run(&python, &[&script.display().to_string(), &address, "python"])).await;
    let said: Value = serde_json::from_str(&said.unwrap()).unwrap();
    let expected = json!({
        "greeting": "Hello, Ada!",
        "status": "awaiting_approval",
        "before": "tea",
        "refused": said["refused"],
        "shipped": {
            "item": "cake", "charge": "1200 cents for tea", "approved_by": "signal", "parcel": "a parcel of cake",
        },
        "failure": { "kind": "ApplicationError", "type": "Amount", "retryable": false },
    });
    assert_eq!(said, expected);
    assert!(said["refused"].as_str().unwrap().contains("an order has to be of something"), "{said}");
    world.stop().await;
}
