//! A worker in a process of its own, killed with `kill -9` three times in the middle of one run: the run continues where it
//! was, and so does everything else that was under way.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{assert_replays, events, options};
use serde_json::{Value, json};
use seriatim_activity::{Activities, ActivityContext};
use seriatim_env::{Env, Shutdown};
use seriatim_temporal::devserver::{Data, DevServer, Ended};
use seriatim_temporal::{ConnectOptions, Connection, Worker};
use seriatim_temporal_history::EventKind;
use seriatim_workflow::{Context, Exit, Failure, Registry};
use seriatim_workflow_host::demo;

const ADDRESS: &str = "SERIATIM_TEMPORAL_KILL_ADDRESS";
const TEST: &str = "kill_9_in_the_middle_of_a_run_loses_and_repeats_nothing";
const QUEUE: &str = "killed";
const KILLS: u32 = 3;
const ORDERS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(50);

/// Works at a stage, waits to be sent on, and works at the next.
async fn journey(ctx: Context, stages: u32) -> Result<Vec<String>, Exit> {
    let mut signals = ctx.signals::<u32>("continue");
    let mut seen = Vec::new();
    for stage in 0..=stages {
        seen.push(ctx.activity("visit", stage).timeout(Duration::from_secs(10)).await?);
        if stage < stages {
            let told = signals.next().await?;
            assert_eq!(told, stage, "signals come in order, each once");
        }
    }
    Ok(seen)
}

fn workflows() -> Registry {
    demo::workflows().workflow("journey", journey)
}

fn activities() -> Activities {
    demo::activities().register("visit", |_: ActivityContext, stage: u32| async move {
        Ok::<_, Failure>(format!("stage {stage}"))
    })
}

/// The worker's process: works until it is killed.
async fn work(address: &str) {
    let env = Env::real();
    let connection = Connection::connect(&env, &ConnectOptions::new(address)).await.unwrap();
    let worker = Worker::new(env, connection, workflows(), activities(), options(QUEUE)).unwrap();
    worker.run(Shutdown::new()).await.unwrap();
}

/// Killed when it is dropped, too.
struct Process(Child);

impl Process {
    fn start(address: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", TEST, "--nocapture"]).env(ADDRESS, address);
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
    }

    fn kill(mut self) {
        assert!(self.0.try_wait().unwrap().is_none(), "the worker has ended by itself");
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Waits until so many activities of a run have ended.
async fn until_ended(env: &Env, server: &DevServer, id: &str, activities: usize) {
    let is_end = |kind: &EventKind| matches!(kind, EventKind::ActivityCompleted { .. });
    while events(&server.history(id).await, is_end) < activities {
        env.sleep(PAUSE).await;
    }
}

fn order(number: u32) -> Value {
    json!({ "item": format!("item {number}"), "amount": 100 + number, "patience_ms": 600_000 })
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_9_in_the_middle_of_a_run_loses_and_repeats_nothing() {
    if let Ok(address) = std::env::var(ADDRESS) {
        return work(&address).await;
    }
    let env = Env::real();
    let untested = "no worker was killed";
    let Some(server) = DevServer::start_or_skip(&env, Data::Synced, untested).await else { return };
    server.begin(QUEUE, "journey", "journey", &[json!(KILLS)]).await;
    for number in 0..ORDERS {
        server.begin(QUEUE, "order", &format!("order-{number}"), &[order(number)]).await;
    }
    for kill in 0..KILLS {
        let process = Process::start(server.address());
        until_ended(&env, &server, "journey", kill as usize + 1).await;
        // While no worker is there to receive them.
        process.kill();
        server.signal("journey", "continue", &[json!(kill)]).await;
        for number in (0..ORDERS).filter(|number| number % KILLS == kill) {
            server.signal(&format!("order-{number}"), "approve", &[]).await;
        }
    }
    let process = Process::start(server.address());
    let stages: Vec<String> = (0..=KILLS).map(|stage| format!("stage {stage}")).collect();
    assert_eq!(server.ended("journey").await, Ended::Completed(json!(stages)));
    for number in 0..ORDERS {
        let id = format!("order-{number}");
        let shipped = json!({
            "item": format!("item {number}"), "charge": format!("{} cents for item {number}", 100 + number),
            "approved_by": "signal", "parcel": format!("a parcel of item {number}"),
        });
        assert_eq!(server.ended(&id).await, Ended::Completed(shipped), "{id}");
        for id in [id.clone(), format!("{id}.ship")] {
            let history = server.history(&id).await;
            assert_eq!(
                events(&history, |kind| matches!(kind, EventKind::ActivityScheduled { .. })),
                1,
                "{id}"
            );
            assert_replays(&workflows(), &history);
        }
    }
    let history = server.history("journey").await;
    let asked = events(&history, |kind| matches!(kind, EventKind::ActivityScheduled { .. }));
    assert_eq!(asked, KILLS as usize + 1, "nothing was asked for again");
    assert_replays(&workflows(), &history);
    process.kill();
}
