//! Every metric of the sequencer. Handles are made once, because looking one up costs more than drawing a number.

use metrics::{Counter, Gauge, Histogram, Label, Unit};
use seriatim_types::Partition;

use crate::Busy;

/// Says what each metric means, to whoever collects them.
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
    metrics::describe_gauge!("seriatim_sequencer_unflushed", "workspaces whose numbers are not in the store");
    metrics::describe_gauge!("seriatim_sequencer_uncheckpointed_events", "events ahead of the checkpoint");
    metrics::describe_gauge!(
        "seriatim_sequencer_uncheckpointed_bytes",
        Unit::Bytes,
        "bytes of the log ahead of the checkpoint"
    );
    metrics::describe_histogram!(
        "seriatim_sequencer_flush_seconds",
        Unit::Seconds,
        "how long a flush took, failed ones included"
    );
    metrics::describe_counter!("seriatim_sequencer_flush_failures_total", "flushes that failed");
    metrics::describe_gauge!("seriatim_sequencer_recovery_offset", "the event that recovery applies next");
    metrics::describe_gauge!("seriatim_sequencer_recovery_tail", "where recovery will end");
    metrics::describe_counter!("seriatim_sequencer_recovered_events_total", "events applied by recovery");
    metrics::describe_counter!(
        "seriatim_sequencer_recovery_retries_total",
        "times that recovery had to try again"
    );
    metrics::describe_counter!(
        "seriatim_sequencer_ignored_numbers_total",
        "numbers in the log outside every range of their sequence"
    );
}

/// The owner's metrics.
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

/// The metrics of the flusher and of recovery.
#[derive(Debug)]
pub(crate) struct TaskMetrics {
    pub(crate) unflushed: Gauge,
    pub(crate) events: Gauge,
    pub(crate) bytes: Gauge,
    pub(crate) flush_seconds: Histogram,
    pub(crate) flush_failures: Counter,
    pub(crate) recovery_offset: Gauge,
    pub(crate) recovery_tail: Gauge,
    pub(crate) recovered: Counter,
    pub(crate) recovery_retries: Counter,
    pub(crate) ignored: Counter,
}

impl TaskMetrics {
    pub(crate) fn new(partition: Partition) -> Self {
        let labels = labels(partition);
        Self {
            unflushed: metrics::gauge!("seriatim_sequencer_unflushed", labels.iter()),
            events: metrics::gauge!("seriatim_sequencer_uncheckpointed_events", labels.iter()),
            bytes: metrics::gauge!("seriatim_sequencer_uncheckpointed_bytes", labels.iter()),
            flush_seconds: metrics::histogram!("seriatim_sequencer_flush_seconds", labels.iter()),
            flush_failures: metrics::counter!("seriatim_sequencer_flush_failures_total", labels.iter()),
            recovery_offset: metrics::gauge!("seriatim_sequencer_recovery_offset", labels.iter()),
            recovery_tail: metrics::gauge!("seriatim_sequencer_recovery_tail", labels.iter()),
            recovered: metrics::counter!("seriatim_sequencer_recovered_events_total", labels.iter()),
            recovery_retries: metrics::counter!("seriatim_sequencer_recovery_retries_total", labels.iter()),
            ignored: metrics::counter!("seriatim_sequencer_ignored_numbers_total", labels.iter()),
        }
    }
}

/// A count as a gauge takes it. Exact up to 2^53, which nothing here reaches.
#[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
pub(crate) fn gauge(count: u64) -> f64 {
    count as f64
}
