//! A real server with a worker on it.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::sync::Arc;
use std::time::Duration;

use prost::Message as _;
use seriatim_activity::Activities;
use seriatim_env::{Env, Shutdown, Task};
use seriatim_temporal::devserver::{Data, DevServer};
use seriatim_temporal::{TemporalError, Worker, WorkerOptions};
use seriatim_temporal_history::{EventKind, TemporalHistory, replay_temporal};
use seriatim_workflow::{Policy, Registry, Report, RetryPolicy};
use temporalio_common::protos::temporal::api::history::v1::History;
use temporalio_common::protos::temporal::api::history::v1::history_event::Attributes;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(50);

/// A server in memory, and a worker.
pub(crate) struct World {
    pub(crate) env: Env,
    pub(crate) server: DevServer,
    stop: Shutdown,
    worker: Task<Result<(), TemporalError>>,
}

/// A worker that another one does not wait for long.
pub(crate) fn options(task_queue: &str) -> WorkerOptions {
    WorkerOptions { sticky_timeout: Duration::from_millis(500), ..WorkerOptions::new(task_queue) }
}

impl World {
    /// `None`, and loudly, where there can be no server.
    pub(crate) async fn start(
        workflows: Registry,
        activities: Activities,
        options: WorkerOptions,
    ) -> Option<Self> {
        let env = Env::real();
        let server = DevServer::start_or_skip(&env, Data::Memory, "no workflow ran on Temporal").await?;
        Some(Self::on(env, server, workflows, activities, options))
    }

    /// A worker on this server.
    pub(crate) fn on(
        env: Env,
        server: DevServer,
        workflows: Registry,
        activities: Activities,
        options: WorkerOptions,
    ) -> Self {
        let connection = server.connection().clone();
        let worker = Worker::new(env.clone(), connection, workflows, activities, options).unwrap();
        let stop = Shutdown::new();
        let worker = env.spawn(worker.run(stop.clone()));
        Self { env, server, stop, worker }
    }

    /// Stops the worker, which has to end without an error; the server keeps running.
    pub(crate) async fn stop(self) -> DevServer {
        self.stop.cancel();
        self.worker.await.unwrap().unwrap();
        self.server
    }
}

impl World {
    /// Waits for a thing to be so.
    pub(crate) async fn until(&self, mut is_so: impl FnMut() -> bool) {
        while !is_so() {
            self.env.sleep(PAUSE).await;
        }
    }

    /// Waits for an event of a run.
    pub(crate) async fn until_event(&self, id: &str, is_it: impl Fn(&EventKind) -> bool) {
        while events(&self.server.history(id).await, &is_it) == 0 {
            self.env.sleep(PAUSE).await;
        }
    }

    /// Waits for a workflow task of a run that fails. Returns why it did.
    pub(crate) async fn task_failure(&self, id: &str) -> String {
        loop {
            let history = History::decode(&*self.server.history(id).await).unwrap();
            let failed = history.events.into_iter().find_map(|event| match event.attributes {
                Some(Attributes::WorkflowTaskFailedEventAttributes(failed)) => failed.failure,
                _ => None,
            });
            match failed {
                Some(failure) => return failure.message,
                None => self.env.sleep(PAUSE).await,
            }
        }
    }
}

/// Quickly, and no more often than this.
pub(crate) fn quick_retries(attempts: u32) -> RetryPolicy {
    RetryPolicy { initial_interval: Duration::from_millis(50), ..RetryPolicy::attempts(attempts) }
}

/// How many events are such.
pub(crate) fn events(history: &[u8], is_it: impl Fn(&EventKind) -> bool) -> usize {
    let history = TemporalHistory::read(history.to_vec()).unwrap();
    history.events().iter().filter(|event| is_it(&event.kind)).count()
}

pub(crate) fn replay(workflows: &Registry, history: &[u8]) -> Report {
    let history = TemporalHistory::read(history.to_vec()).unwrap();
    replay_temporal(&Arc::new(workflows.clone()), &history, Policy::Fail)
}

/// The same code does what the history says, by our own runtime's word.
pub(crate) fn assert_replays(workflows: &Registry, history: &[u8]) {
    let report = replay(workflows, history);
    assert!(report.is_same(), "{report}");
}
