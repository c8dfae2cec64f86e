//! What a host counts.

use metrics::{Counter, Gauge};

#[derive(Debug)]
pub(crate) struct HostMetrics {
    pub(crate) started: Counter,
    pub(crate) ended: Counter,
    /// Runs that have left the index.
    pub(crate) forgotten: Counter,
    pub(crate) activations: Counter,
    pub(crate) replays: Counter,
    /// Runs whose code cannot continue.
    pub(crate) stuck: Gauge,
    /// Events that were read to know what an open run waits for.
    pub(crate) loaded_events: Counter,
    pub(crate) open: Gauge,
    pub(crate) activities: Counter,
    /// Signals of the wrong type, and whatever else is wrong with runs and does not stop them.
    pub(crate) warnings: Counter,
}

impl HostMetrics {
    pub(crate) fn new() -> Self {
        Self {
            started: metrics::counter!("seriatim_workflow_runs_started_total"),
            ended: metrics::counter!("seriatim_workflow_runs_ended_total"),
            forgotten: metrics::counter!("seriatim_workflow_runs_forgotten_total"),
            activations: metrics::counter!("seriatim_workflow_activations_total"),
            replays: metrics::counter!("seriatim_workflow_replays_total"),
            loaded_events: metrics::counter!("seriatim_workflow_loaded_events_total"),
            stuck: metrics::gauge!("seriatim_workflow_runs_stuck"),
            open: metrics::gauge!("seriatim_workflow_runs_open"),
            activities: metrics::counter!("seriatim_workflow_activities_total"),
            warnings: metrics::counter!("seriatim_workflow_warnings_total"),
        }
    }
}
