//! Latencies.

use std::time::Duration;

use hdrhistogram::Histogram;

/// An hour: longer durations count as an hour.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// A histogram of durations, exact to three digits.
#[derive(Debug)]
pub(crate) struct Latencies {
    nanoseconds: Histogram<u64>,
}

impl Latencies {
    /// An empty histogram.
    pub(crate) fn new() -> anyhow::Result<Self> {
        let nanoseconds = Histogram::new_with_bounds(1, LONGEST_NS, 3)?;
        Ok(Self { nanoseconds })
    }

    /// Adds a duration.
    pub(crate) fn record(&mut self, duration: Duration) {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.saturating_record(nanoseconds);
    }

    /// Adds all durations of another histogram.
    pub(crate) fn add(&mut self, other: &Self) -> anyhow::Result<()> {
        Ok(self.nanoseconds.add(&other.nanoseconds)?)
    }

    /// How many durations there are.
    #[expect(clippy::cast_precision_loss, reason = "no run has 2^52 of them")]
    pub(crate) fn count(&self) -> f64 {
        self.nanoseconds.len() as f64
    }

    /// The quantile in milliseconds: this part of all durations is shorter.
    pub(crate) fn quantile_ms(&self, quantile: f64) -> f64 {
        Duration::from_nanos(self.nanoseconds.value_at_quantile(quantile)).as_secs_f64() * 1e3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_in_milliseconds() {
        let mut latencies = Latencies::new().unwrap();
        (1..=1_000).for_each(|i| latencies.record(Duration::from_micros(i)));
        for (quantile, expected) in [(0.5, 0.5), (0.99, 0.99)] {
            let found = latencies.quantile_ms(quantile);
            assert!((found - expected).abs() < 0.005, "{quantile}: {found}");
        }
    }
}
