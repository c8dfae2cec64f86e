//! What the engine counts and measures, all in one place.

use metrics::{Counter, Gauge, Histogram, Label, counter, gauge, histogram};
use seriatim_types::Partition;

use crate::derive::Overlay;

/// Metrics of one partition.
#[derive(Debug)]
pub(crate) struct PartitionMetrics {
    pub(crate) commands: Counter,
    pub(crate) repeated: Counter,
    pub(crate) refused: Counter,
    /// From being queued to being answered. All partitions share it: quantiles of several cannot be put together.
    pub(crate) command_seconds: Histogram,
    pub(crate) group_commands: Histogram,
    pub(crate) append_seconds: Histogram,
    pub(crate) flush_seconds: Histogram,
    pub(crate) flush_failures: Counter,
    /// Under the name that a sequencer has for it when it is used alone.
    pub(crate) ignored_numbers: Counter,
    unflushed: Gauge,
    unflushed_bytes: Gauge,
    uncheckpointed: Gauge,
}

impl PartitionMetrics {
    pub(crate) fn new(partition: Partition) -> Self {
        let labels = vec![
            Label::new("application", partition.application.to_string()),
            Label::new("partition", partition.id.to_string()),
        ];
        Self {
            commands: counter!("seriatim_engine_commands_total", labels.clone()),
            repeated: counter!("seriatim_engine_commands_repeated_total", labels.clone()),
            refused: counter!("seriatim_engine_commands_refused_total", labels.clone()),
            command_seconds: histogram!("seriatim_engine_command_seconds"),
            group_commands: histogram!("seriatim_engine_group_commands", labels.clone()),
            append_seconds: histogram!("seriatim_engine_append_seconds", labels.clone()),
            flush_seconds: histogram!("seriatim_engine_flush_seconds", labels.clone()),
            flush_failures: counter!("seriatim_engine_flush_failures_total", labels.clone()),
            ignored_numbers: counter!("seriatim_sequencer_ignored_numbers_total", labels.clone()),
            unflushed: gauge!("seriatim_engine_unflushed", labels.clone()),
            unflushed_bytes: gauge!("seriatim_engine_unflushed_bytes", labels.clone()),
            uncheckpointed: gauge!("seriatim_engine_uncheckpointed_events", labels),
        }
    }

    pub(crate) fn set_unflushed(&self, overlay: &Overlay) {
        self.unflushed.set(float(overlay.keys() as u64));
        self.unflushed_bytes.set(float(overlay.bytes() as u64));
        self.uncheckpointed.set(float(overlay.events()));
    }
}

#[expect(clippy::cast_precision_loss, reason = "a gauge is read by people")]
fn float(value: u64) -> f64 {
    value as f64
}
