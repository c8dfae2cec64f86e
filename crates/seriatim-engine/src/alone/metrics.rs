//! What the metrics of a sequencer that is used alone mean.

use metrics::Unit;

/// Says what each metric means, to a recorder: those of the sequencer, and those of its flusher and its recovery.
pub fn describe_metrics() {
    seriatim_sequencer::metrics::describe();
    metrics::describe_gauge!("seriatim_sequencer_unflushed", "workspaces whose numbers are not in the store");
    metrics::describe_gauge!(
        "seriatim_sequencer_unflushed_bytes",
        Unit::Bytes,
        "bytes of numbers that are not in the store"
    );
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
    metrics::describe_gauge!("seriatim_sequencer_recovery_tail", "the offset at which recovery ends");
    metrics::describe_counter!("seriatim_sequencer_recovered_events_total", "events applied by recovery");
    metrics::describe_counter!(
        "seriatim_sequencer_recovery_retries_total",
        "how many times recovery was retried"
    );
    metrics::describe_counter!(
        "seriatim_sequencer_ignored_numbers_total",
        "numbers in the log outside every range of their sequence"
    );
}
