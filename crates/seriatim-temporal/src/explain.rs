//! Explains why a run's code and its history differ.
//!
//! The core compares less than our runtime does, and reports a difference by the numbers of events. So when it drops a run
//! because of a difference, the history is fetched and replayed here, and the first difference is logged with the line of
//! code that makes it.

use std::sync::Arc;

use seriatim_env::Env;
use seriatim_temporal_history::{TemporalHistory, replay_temporal};
use seriatim_workflow::{Policy, Registry, Report};
use tokio::sync::Semaphore;

use crate::{Connection, fetch_history};

/// Explains differences, one at a time: after a bad deployment all runs have the same one.
pub(crate) struct Explainer {
    pub(crate) env: Env,
    pub(crate) connection: Connection,
    pub(crate) namespace: String,
    pub(crate) registry: Arc<Registry>,
    turn: Arc<Semaphore>,
}

impl Explainer {
    pub(crate) fn new(env: Env, connection: Connection, namespace: String, registry: Arc<Registry>) -> Self {
        Self { env, connection, namespace, registry, turn: Arc::new(Semaphore::new(1)) }
    }

    /// Finds the difference and logs it; does nothing while another one is being found.
    pub(crate) fn explain(&self, workflow_id: String, run_id: String) {
        let Ok(turn) = Arc::clone(&self.turn).try_acquire_owned() else { return };
        let (connection, namespace) = (self.connection.clone(), self.namespace.clone());
        let registry = Arc::clone(&self.registry);
        self.env.spawn(async move {
            let fetched = fetch_history(&connection, &namespace, &workflow_id, Some(&run_id)).await;
            let read = fetched
                .map_err(|error| error.to_string())
                .and_then(|history| TemporalHistory::read(history).map_err(|error| error.to_string()));
            match read.map(|history| replay_temporal(&registry, &history, Policy::Fail)) {
                Ok(report) => log_report(&workflow_id, &report),
                Err(error) => tracing::warn!(workflow_id, run_id, error, "a difference cannot be explained"),
            }
            drop(turn);
        });
    }
}

fn log_report(workflow_id: &str, report: &Report) {
    if report.is_same() {
        // The code depends on something that is not in the history.
        tracing::warn!(
            workflow_id,
            "a run's code did not do what its history says, and does it when asked again"
        );
    } else {
        tracing::warn!(workflow_id, "a run's code does not do what its history says: {report}");
    }
}
