//! The options of a worker.

use std::time::Duration;

use temporalio_common::worker::WorkerTaskTypes;
use temporalio_sdk_core::{PollerBehavior, WorkerConfig, WorkerVersioningStrategy};

use crate::TemporalError;

/// The options of a worker. Everything in it is a bound: memory and load follow from these, not from the number of runs.
///
/// ```
/// use seriatim_temporal::WorkerOptions;
///
/// let options = WorkerOptions { max_cached_workflows: 5_000, ..WorkerOptions::new("orders") };
/// assert_eq!(options.namespace, "default");
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct WorkerOptions {
    /// The namespace of the runs.
    pub namespace: String,
    /// The task queue that it polls, for workflows and activities.
    pub task_queue: String,
    /// Runs that are kept in memory between their tasks. The others are rebuilt from their histories when they continue; 0
    /// rebuilds every run for every task.
    pub max_cached_workflows: usize,
    /// Workflow tasks under way at a time. At least 2 where runs are cached.
    pub max_outstanding_workflow_tasks: usize,
    /// Activities under way at a time.
    pub max_outstanding_activities: usize,
    /// Local activities under way at a time.
    pub max_outstanding_local_activities: usize,
    /// Requests for workflow tasks that wait at the server at a time. At least 2 where runs are cached.
    pub workflow_pollers: usize,
    /// Requests for activities that wait at the server at a time.
    pub activity_pollers: usize,
    /// How long the server keeps a cached run's task for this worker before it gives it to another. After a worker
    /// was killed, each of its runs waits so long.
    pub sticky_timeout: Duration,
    /// Names the version of the workflows' code in histories.
    pub build_id: String,
    /// The worker's name: shown in histories and in the list of workers. `None` is what the connection says.
    pub identity: Option<String>,
    /// How long an attempt of an activity may take if neither it nor all its attempts have a time-out. Without one, an
    /// attempt that is lost with its worker would never be noticed.
    pub activity_timeout: Duration,
    /// Heartbeats are sent at most this often for activities without a heartbeat time-out; for others, after 0.8 of it.
    pub heartbeat_throttle: Duration,
    /// Heartbeats are sent at least this often, if there are any, whatever the time-out.
    pub heartbeat_throttle_max: Duration,
    /// Activities that this worker begins per second. `None` is no limit.
    pub max_activities_per_second: Option<f64>,
    /// Activities that all workers of the queue together begin per second. `None` is no limit.
    pub max_queue_activities_per_second: Option<f64>,
    /// How long activities may continue after the worker was asked to stop. Then they are asked to stop too, and what has
    /// not ended shortly after is handed back, to be tried again by another worker.
    pub grace: Duration,
}

impl WorkerOptions {
    /// A worker for this queue of the namespace `default`, with bounds for one small machine.
    #[must_use]
    pub fn new(task_queue: impl Into<String>) -> Self {
        Self {
            namespace: "default".to_owned(),
            task_queue: task_queue.into(),
            max_cached_workflows: 1_000,
            max_outstanding_workflow_tasks: 100,
            max_outstanding_activities: 100,
            max_outstanding_local_activities: 100,
            workflow_pollers: 5,
            activity_pollers: 5,
            sticky_timeout: Duration::from_secs(10),
            build_id: concat!("seriatim-", env!("CARGO_PKG_VERSION")).to_owned(),
            identity: None,
            activity_timeout: Duration::from_secs(60),
            heartbeat_throttle: Duration::from_secs(30),
            heartbeat_throttle_max: Duration::from_secs(60),
            max_activities_per_second: None,
            max_queue_activities_per_second: None,
            grace: Duration::from_secs(10),
        }
    }

    pub(crate) fn to_core(&self) -> Result<WorkerConfig, TemporalError> {
        for (name, value) in [("namespace", &self.namespace), ("task_queue", &self.task_queue)] {
            if value.is_empty() {
                return Err(TemporalError::Options(format!("{name} is empty")));
            }
        }
        if self.activity_timeout.is_zero() {
            return Err(TemporalError::Options("activity_timeout is zero".to_owned()));
        }
        WorkerConfig::builder()
            .namespace(self.namespace.clone())
            .task_queue(self.task_queue.clone())
            .task_types(WorkerTaskTypes {
                enable_workflows: true,
                enable_local_activities: true,
                enable_remote_activities: true,
                enable_nexus: false,
            })
            .versioning_strategy(WorkerVersioningStrategy::None { build_id: self.build_id.clone() })
            .maybe_client_identity_override(self.identity.clone())
            .max_cached_workflows(self.max_cached_workflows)
            .max_outstanding_workflow_tasks(self.max_outstanding_workflow_tasks)
            .max_outstanding_activities(self.max_outstanding_activities)
            .max_outstanding_local_activities(self.max_outstanding_local_activities)
            .workflow_task_poller_behavior(PollerBehavior::SimpleMaximum(self.workflow_pollers))
            .activity_task_poller_behavior(PollerBehavior::SimpleMaximum(self.activity_pollers))
            .sticky_queue_schedule_to_start_timeout(self.sticky_timeout)
            .default_heartbeat_throttle_interval(self.heartbeat_throttle)
            .max_heartbeat_throttle_interval(self.heartbeat_throttle_max)
            .maybe_max_worker_activities_per_second(self.max_activities_per_second)
            .maybe_max_task_queue_activities_per_second(self.max_queue_activities_per_second)
            .graceful_shutdown_period(self.grace)
            .build()
            .map_err(TemporalError::Options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_core_would_not_take_is_said_before() {
        let good = || WorkerOptions::new("q");
        good().to_core().unwrap();
        WorkerOptions { max_cached_workflows: 0, workflow_pollers: 1, ..good() }.to_core().unwrap();
        for (name, wrong) in [
            ("task_queue", WorkerOptions::new("")),
            ("namespace", WorkerOptions { namespace: String::new(), ..good() }),
            ("activity_timeout", WorkerOptions { activity_timeout: Duration::ZERO, ..good() }),
            ("workflow_task_poller", WorkerOptions { workflow_pollers: 1, ..good() }),
            ("outstanding_workflow_tasks", WorkerOptions { max_outstanding_workflow_tasks: 1, ..good() }),
            ("outstanding_activities", WorkerOptions { max_outstanding_activities: 0, ..good() }),
            ("activities_per_second", WorkerOptions { max_activities_per_second: Some(-1.0), ..good() }),
        ] {
            let Err(error) = wrong.to_core() else { panic!("{name} was taken") };
            assert!(error.to_string().contains(name), "{error}");
        }
    }
}
