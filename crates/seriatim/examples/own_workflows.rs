//! Your own workflow and activity, served over HTTP. See docs/workflows-embedded.md.
//!
//! ```text
//! cargo run --example own_workflows
//! curl -s localhost:7400/v1/workflows -H 'content-type: application/json' \
//!      -d '{"type": "remind", "id": "tea", "input": {"text": "tea is ready", "after_s": 180}}'
//! curl -s 'localhost:7400/v1/workflows/tea?wait=20'
//! ```
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use seriatim::StorageUrl;
use seriatim::engine::{Engine, Options};
use seriatim::env::{Env, Shutdown};
use seriatim::server::Server;
use seriatim::storage_file::FileOptions;
use seriatim::workflow::{Activity, Context, Exit, Failure, Registry, Workflow};
use seriatim::workflow_host::{Activities, ActivityContext, HostOptions, WorkflowHost};

#[derive(serde::Deserialize)]
struct Reminder {
    text: String,
    after_s: u64,
}

const REMIND: Workflow<Reminder, usize> = Workflow::new("remind");
const SAY: Activity<String, usize> = Activity::new("say");

/// A workflow is an ordinary async function. Its progress is durable: it continues after a restart of the process.
async fn remind(ctx: Context, reminder: Reminder) -> Result<usize, Exit> {
    ctx.timer(Duration::from_secs(reminder.after_s)).await?;
    Ok(ctx.activity(SAY, reminder.text).timeout(Duration::from_secs(5)).await?)
}

/// An activity may do what a workflow may not, such as I/O. It may be run again after a crash.
async fn say(_: ActivityContext, text: String) -> Result<usize, Failure> {
    println!("{text}");
    Ok(text.len())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let env = Env::real();
    let url: StorageUrl = "file:./own-workflows-data".parse()?;
    let storage = url.open(&env, FileOptions::default()).await?;
    let (log, store) = (storage.log().clone(), storage.store().clone());
    let apps = [seriatim_workflow_host::app()?];
    let engine = Engine::open(env.clone(), log, store, apps, Options::default()).await?;
    let workflows = Registry::new().workflow(REMIND, remind);
    let activities = Activities::new().register(SAY, say);
    let host = WorkflowHost::open(env.clone(), engine.clone(), workflows, activities, HostOptions::default());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:7400").await?;
    let stop = Shutdown::new();
    let server = env.spawn(Server::new(engine.clone()).workflows(host.clone()).serve(listener, stop.clone()));
    tokio::signal::ctrl_c().await?;
    stop.cancel();
    server.await??;
    host.close().await;
    engine.close().await;
    Ok(storage.close().await?)
}
