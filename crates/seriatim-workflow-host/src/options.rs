//! Settings of a host, each with its reason.

use std::time::Duration;

use seriatim_workflow::{Policy, RetryPolicy};

/// How a host behaves.
#[derive(Debug, Clone, PartialEq)]
pub struct HostOptions {
    /// Runs that may be open at once; a start beyond is refused as busy. Bounds memory: an open run takes some hundred
    /// bytes, and each of its pending operations as many more.
    pub open_runs_max: usize,
    /// Runs whose code is kept in memory between activations. The others are rebuilt by replay when something happens to
    /// them.
    pub cached_instances: usize,
    /// Bytes of payloads that these runs may hold, by estimate.
    pub cached_bytes: usize,
    /// Bytes of inputs above 1 KiB that are kept for activities that are pending. Beyond it they are read from the log when an
    /// attempt begins.
    pub pending_bytes: usize,
    /// Runs that are being activated or written at once.
    pub active_max: usize,
    /// Attempts of activities that run at once; the others wait for their turn.
    pub activities_max: usize,
    /// Signals, updates, queries and the like that may wait for one workflow; more are refused as busy.
    pub inbox_max: usize,
    /// Jobs that one activation takes. Bounds one event.
    pub jobs_max: usize,
    /// Bytes of jobs that one activation takes; a larger one comes alone. Bounds one event, with room for what the code
    /// asks for in return. So many bytes of signals are kept for a run's first activation; more are refused as busy.
    pub jobs_bytes_max: usize,
    /// Bytes of one answer, input or signal. A larger answer becomes a failure of its operation that is not retried; a
    /// larger request is refused. An event has 8 MiB: answer, and what the code makes of it, have to fit.
    pub answer_bytes_max: usize,
    /// How long the result of a local activity is waited for, so that it is written together with its schedule.
    pub local_activity_hold: Duration,
    /// How activities are tried again that say nothing about it.
    pub retry_policy: RetryPolicy,
    /// What happens when code and history differ.
    pub policy: Policy,
    /// How long to wait after the engine has refused something, give or take a quarter.
    pub retry: Duration,
    /// Activations after which a run gets the suggestion to continue as new: each replay reads all of them.
    pub suggest_activations: u32,
    /// Bytes of history after which it gets the suggestion, by estimate.
    pub suggest_bytes: usize,
    /// Activations that a run may have; the host ends one that has more.
    pub activations_max: u32,
    /// Bytes of history that a run may have, by estimate; the host ends one that has more.
    pub history_bytes_max: usize,
    /// Threads that run workflow code, apart from those of the rest of the process and with a lower priority. One that is at
    /// an activation for more than 20 ms is not counted: another one takes what waits.
    pub workflow_threads: usize,
    /// An activation that has not returned for so long is given up: its run is stuck, with the place in its code.
    pub activation_timeout: Duration,
    /// Threads that do not return are replaced by others, up to this many; beyond it `/readyz` says so, and runs wait.
    pub abandoned_threads_max: usize,
    /// How long closing waits for attempts of activities that are running: none begins meanwhile. What has not ended by
    /// then is cut off, and counts as an attempt where the policy limits their number.
    pub close_grace: Duration,
    /// How often the last heartbeat of a running attempt is written, if it has changed.
    pub heartbeat_interval: Duration,
    /// How long closing waits for what is being written.
    pub close_timeout: Duration,
    /// How long an update waits for the first activation of a run that has a delay, or waits for its next attempt. One that
    /// begins later refuses it. Below the time that a server has to answer.
    pub update_wait: Duration,
    /// Runs that ended longer ago leave the index and the lists, some time after; none: they stay. Their events stay in the
    /// log either way. An open run stays, and so does a run that another one continues or that a parent waits for,
    /// with the newer ones of its workflow.
    pub retention: Option<Duration>,
}

impl Default for HostOptions {
    fn default() -> Self {
        Self {
            open_runs_max: 1_000_000,
            cached_instances: 4_096,
            cached_bytes: 64 << 20,
            pending_bytes: 64 << 20,
            active_max: 1_024,
            activities_max: 1_024,
            inbox_max: 1_000,
            jobs_max: 1_000,
            jobs_bytes_max: 2 << 20,
            answer_bytes_max: 3 << 20,
            local_activity_hold: Duration::from_secs(1),
            retry_policy: RetryPolicy::default(),
            policy: Policy::Fail,
            retry: Duration::from_millis(200),
            suggest_activations: 10_000,
            suggest_bytes: 16 << 20,
            activations_max: 1_000_000,
            history_bytes_max: 1 << 30,
            workflow_threads: std::thread::available_parallelism()
                .map_or(2, |cores| cores.get().clamp(2, 16)),
            activation_timeout: Duration::from_secs(2),
            abandoned_threads_max: 64,
            close_grace: Duration::from_secs(5),
            heartbeat_interval: Duration::from_secs(10),
            close_timeout: Duration::from_secs(10),
            update_wait: Duration::from_secs(20),
            retention: None,
        }
    }
}
