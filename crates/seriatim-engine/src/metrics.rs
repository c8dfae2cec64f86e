//! What the engine counts and measures, all in one place.

use metrics::{Counter, Gauge, Histogram, Label, counter, gauge, histogram};
use seriatim_types::Partition;

use crate::derive::{Overlay, Stretch};

/// Metrics of one partition.
#[derive(Debug)]
pub(crate) struct PartitionMetrics {
    pub(crate) commands: Counter,
    pub(crate) repeated: Counter,
    pub(crate) refused: Counter,
    /// The time from queue to answer. All partitions share this histogram, because quantiles of several cannot be combined.
    pub(crate) command_seconds: Histogram,
    pub(crate) group_commands: Histogram,
    pub(crate) append_seconds: Histogram,
}

impl PartitionMetrics {
    pub(crate) fn new(partition: Partition) -> Self {
        let labels = labels(partition);
        Self {
            commands: counter!("seriatim_engine_commands_total", labels.clone()),
            repeated: counter!("seriatim_engine_commands_repeated_total", labels.clone()),
            refused: counter!("seriatim_engine_commands_refused_total", labels.clone()),
            command_seconds: histogram!("seriatim_engine_command_seconds"),
            group_commands: histogram!("seriatim_engine_group_commands", labels.clone()),
            append_seconds: histogram!("seriatim_engine_append_seconds", labels),
        }
    }
}

fn labels(partition: Partition) -> Vec<Label> {
    vec![
        Label::new("application", partition.application.to_string()),
        Label::new("partition", partition.id.to_string()),
    ]
}

/// Metrics of what is derived in one partition: of its flusher and of its recovery.
#[derive(Debug)]
pub(crate) struct DerivedMetrics {
    pub(crate) flush_seconds: Histogram,
    pub(crate) flush_failures: Counter,
    pub(crate) ignored_numbers: Counter,
    pub(crate) recovery_offset: Gauge,
    pub(crate) recovery_tail: Gauge,
    pub(crate) recovered: Counter,
    pub(crate) recovery_retries: Counter,
    unflushed: Gauge,
    unflushed_bytes: Gauge,
    uncheckpointed_events: Gauge,
    uncheckpointed_bytes: Gauge,
}

impl DerivedMetrics {
    /// Their names begin with `seriatim_engine` in an engine, and with `seriatim_sequencer` where a sequencer is used alone.
    pub(crate) fn new(prefix: &str, partition: Partition) -> Self {
        let gauge = |name: &str| gauge!(format!("{prefix}_{name}"), labels(partition));
        let counter = |name: &str| counter!(format!("{prefix}_{name}"), labels(partition));
        Self {
            flush_seconds: histogram!(format!("{prefix}_flush_seconds"), labels(partition)),
            flush_failures: counter("flush_failures_total"),
            // The same name everywhere, because it describes the log and not its reader.
            ignored_numbers: counter!("seriatim_sequencer_ignored_numbers_total", labels(partition)),
            recovery_offset: gauge("recovery_offset"),
            recovery_tail: gauge("recovery_tail"),
            recovered: counter("recovered_events_total"),
            recovery_retries: counter("recovery_retries_total"),
            unflushed: gauge("unflushed"),
            unflushed_bytes: gauge("unflushed_bytes"),
            uncheckpointed_events: gauge("uncheckpointed_events"),
            uncheckpointed_bytes: gauge("uncheckpointed_bytes"),
        }
    }

    pub(crate) fn set_unflushed(&self, overlay: &Overlay) {
        self.unflushed.set(float(overlay.keys() as u64));
        self.unflushed_bytes.set(float(overlay.bytes() as u64));
        let Stretch { events, bytes } = overlay.ahead();
        self.uncheckpointed_events.set(float(events));
        self.uncheckpointed_bytes.set(float(bytes));
    }
}

#[expect(clippy::cast_precision_loss, reason = "a gauge is read by people")]
pub(crate) fn float(value: u64) -> f64 {
    value as f64
}
