//! All metrics of the sequencer. Handles are created once, because looking one up takes longer than drawing a number.

use metrics::{Counter, Gauge, Label};
use seriatim_types::Partition;

use crate::Busy;

/// Describes each metric for the installed recorder.
pub fn describe() {
    metrics::describe_counter!("seriatim_sequencer_draws_total", "numbers drawn and committed");
    metrics::describe_counter!("seriatim_sequencer_events_total", "events numbered and committed");
    metrics::describe_counter!("seriatim_sequencer_groups_refused_total", "groups refused, by reason");
    metrics::describe_counter!("seriatim_sequencer_cache_hits_total", "loads answered from memory");
    metrics::describe_counter!(
        "seriatim_sequencer_cache_misses_total",
        "loads that read the overlay or the store"
    );
    metrics::describe_gauge!("seriatim_sequencer_cache_numbers", "numbers in the cache");
}

/// The metrics of a sequencer.
#[derive(Debug)]
pub(crate) struct OwnerMetrics {
    labels: [Label; 2],
    pub(crate) draws: Counter,
    pub(crate) events: Counter,
    pub(crate) hits: Counter,
    pub(crate) misses: Counter,
    pub(crate) cache: Gauge,
}

fn labels(partition: Partition) -> [Label; 2] {
    [
        Label::new("application", partition.application.to_string()),
        Label::new("partition", partition.id.to_string()),
    ]
}

impl OwnerMetrics {
    pub(crate) fn new(partition: Partition) -> Self {
        let labels = labels(partition);
        Self {
            draws: metrics::counter!("seriatim_sequencer_draws_total", labels.iter()),
            events: metrics::counter!("seriatim_sequencer_events_total", labels.iter()),
            hits: metrics::counter!("seriatim_sequencer_cache_hits_total", labels.iter()),
            misses: metrics::counter!("seriatim_sequencer_cache_misses_total", labels.iter()),
            cache: metrics::gauge!("seriatim_sequencer_cache_numbers", labels.iter()),
            labels,
        }
    }

    pub(crate) fn refused(&self, busy: &Busy) {
        let [application, partition] = &self.labels;
        let labels = [application.clone(), partition.clone(), Label::new("reason", busy.reason())];
        metrics::counter!("seriatim_sequencer_groups_refused_total", labels.iter()).increment(1);
    }
}

/// A count as the value of a gauge. Exact up to 2^53, which is never reached here.
#[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
pub(crate) fn gauge(count: u64) -> f64 {
    count as f64
}
