//! The metrics. Every metric has the label `blocks` with the allocator's name.

use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

use crate::{Block, Counts};

/// The metrics of one allocator.
pub(crate) struct Metrics {
    blocks: Counter,
    reserved: Counter,
    failed: Counter,
    waited: Counter,
    wasted: Gauge,
    given_back: Gauge,
    skipped: Gauge,
    unused: Gauge,
    size: Gauge,
    seconds: Histogram,
}

impl Metrics {
    pub(crate) fn new(name: &str) -> Self {
        let counter = |metric: &'static str| counter!(metric, "blocks" => name.to_owned());
        let gauge = |metric: &'static str| gauge!(metric, "blocks" => name.to_owned());
        Self {
            blocks: counter("seriatim_blocks_reserved_total"),
            reserved: counter("seriatim_blocks_numbers_reserved_total"),
            failed: counter("seriatim_blocks_failed_total"),
            waited: counter("seriatim_blocks_waits_total"),
            wasted: gauge("seriatim_blocks_numbers_wasted"),
            given_back: gauge("seriatim_blocks_numbers_given_back"),
            skipped: gauge("seriatim_blocks_numbers_skipped_max"),
            unused: gauge("seriatim_blocks_numbers_unused"),
            size: gauge("seriatim_blocks_size"),
            seconds: histogram!("seriatim_blocks_reserve_seconds", "blocks" => name.to_owned()),
        }
    }

    /// Counts a block that was reserved.
    pub(crate) fn reserved(&self, block: Block, took: Duration) {
        self.blocks.increment(1);
        self.reserved.increment(block.size());
        self.size.set(approximately(block.size()));
        self.seconds.record(took);
    }

    /// Counts a failed reservation.
    pub(crate) fn failed(&self) {
        self.failed.increment(1);
    }

    /// Counts a caller that had to wait for the store.
    pub(crate) fn waited(&self) {
        self.waited.increment(1);
    }

    pub(crate) fn counts(&self, counts: Counts) {
        self.wasted.set(approximately(counts.wasted));
        self.given_back.set(approximately(counts.given_back));
        self.skipped.set(approximately(counts.skipped_max));
        self.unused.set(approximately(counts.unused));
    }
}

#[expect(clippy::cast_precision_loss, reason = "a gauge of more than 2^53 numbers may be off by one")]
fn approximately(numbers: u64) -> f64 {
    numbers as f64
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}
