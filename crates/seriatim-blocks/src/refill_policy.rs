//! Decides how large the next block is and how early it is reserved. Without a clock: durations are passed in.

use std::time::Duration;

use crate::BlockSize;

/// A store may pause for this long, as disks sometimes do, and callers still have numbers.
const STORE_PAUSE: Duration = Duration::from_millis(50);
/// The next block is due at the latest when one block divided by this number is left.
const LOOKAHEAD_MIN_PARTS: u64 = 2;
/// At most this many blocks are reserved in advance. This bounds what a crash wastes.
const LOOKAHEAD_MAX_BLOCKS: u64 = 64;
/// A block size that follows the rate changes at most by this factor at once, so that one burst or pause does not determine
/// it.
const CHANGE_MAX: u64 = 8;

/// Measurements of one refill.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Refill {
    /// From the time at which it was due until its block could be used.
    pub(crate) took: Duration,
    /// The time since the previous refill's block could be used.
    pub(crate) since_last: Duration,
    /// Numbers given out since then.
    pub(crate) used: u64,
}

/// Follows the rate at which numbers are used.
#[derive(Debug)]
pub(crate) struct RefillPolicy {
    config: BlockSize,
    size: u64,
    lookahead: u64,
    /// Numbers that were used since the rate was last computed, and the time since then.
    used: u64,
    elapsed: Duration,
    /// The longest refill in that time.
    slowest: Duration,
}

impl RefillPolicy {
    pub(crate) fn new(config: BlockSize) -> Self {
        let (size, zero) = (config.smallest(), Duration::ZERO);
        Self { config, size, lookahead: size / LOOKAHEAD_MIN_PARTS, used: 0, elapsed: zero, slowest: zero }
    }

    /// How many numbers the next block should have.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// The next block is due when this many numbers are left.
    pub(crate) fn lookahead(&self) -> u64 {
        self.lookahead
    }

    /// Adapts to the measurements of a refill.
    pub(crate) fn observe(&mut self, refill: Refill) {
        self.used = self.used.saturating_add(refill.used);
        self.elapsed = self.elapsed.saturating_add(refill.since_last);
        self.slowest = self.slowest.max(refill.took);
        let interval = match self.config {
            BlockSize::Fixed(_) => STORE_PAUSE,
            BlockSize::Follow { writes_per_second, .. } => Duration::from_secs(1) / writes_per_second,
        };
        // Blocks that are reserved directly one after the other say nothing about the rate.
        if self.used < self.size / 2 && self.elapsed < interval {
            return;
        }
        if let BlockSize::Follow { min, max, .. } = self.config {
            self.set_size(interval, min, max);
        }
        self.set_lookahead();
        (self.used, self.elapsed, self.slowest) = (0, Duration::ZERO, Duration::ZERO);
    }

    /// Sets the size so that a block lasts for the interval.
    fn set_size(&mut self, interval: Duration, min: u64, max: u64) {
        let needed = used_in(interval, self.used, self.elapsed);
        let headroom = needed.saturating_add(needed / 4);
        let bounded = headroom.clamp(self.size / CHANGE_MAX, self.size.saturating_mul(CHANGE_MAX));
        self.size = bounded.clamp(min, max);
    }

    /// Sets the lookahead to the count of numbers that are used while the store pauses, or in twice the time of the slowest
    /// refill, whichever is longer. It changes gradually, so that one burst or pause does not determine it.
    fn set_lookahead(&mut self) {
        let needed = used_in(STORE_PAUSE.max(self.slowest * 2), self.used, self.elapsed);
        let kept = self.lookahead - self.lookahead / 4;
        let (least, most) = (self.size / LOOKAHEAD_MIN_PARTS, self.size.saturating_mul(LOOKAHEAD_MAX_BLOCKS));
        let bounded = needed.min(self.lookahead.saturating_mul(2).max(self.size)).max(kept);
        self.lookahead = bounded.clamp(least, most);
    }
}

/// How many numbers are used in `duration`, if `used` are used in `elapsed`.
fn used_in(duration: Duration, used: u64, elapsed: Duration) -> u64 {
    let numbers = u128::from(used) * duration.as_nanos();
    match numbers.checked_div(elapsed.as_nanos()) {
        Some(numbers) => u64::try_from(numbers).unwrap_or(u64::MAX),
        None if numbers == 0 => 0,
        None => u64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refill(took_micros: u64, since_last_micros: u64, used: u64) -> Refill {
        Refill {
            took: Duration::from_micros(took_micros),
            since_last: Duration::from_micros(since_last_micros),
            used,
        }
    }

    fn follow(min: u64, max: u64) -> RefillPolicy {
        RefillPolicy::new(BlockSize::Follow { writes_per_second: 10, min, max })
    }

    #[test]
    fn a_fixed_size_does_not_change() {
        let mut policy = RefillPolicy::new(BlockSize::Fixed(4_096));
        policy.observe(refill(100, 100, 4_096));
        assert_eq!(policy.size(), 4_096);
    }

    #[test]
    fn lookahead_is_what_50_ms_or_two_refills_use_between_half_a_block_and_64() {
        for (took_ms, since_last_ms, used, expected) in [
            (0, 1_000, 4_096, 2_048),
            (0, 50, 4_096, 4_096),
            (25, 50, 4_096, 4_096),
            (50, 50, 4_096, 8_192),
            (0, 1, 4_096, 204_800),
            (0, 0, 4_096, 262_144),
            (1_000, 1, 4_096, 262_144),
        ] {
            let mut policy = RefillPolicy::new(BlockSize::Fixed(4_096));
            (0..20).for_each(|_| policy.observe(refill(took_ms * 1_000, since_last_ms * 1_000, used)));
            assert_eq!(policy.lookahead(), expected, "{took_ms} {since_last_ms} {used}");
        }
    }

    #[test]
    fn lookahead_doubles_at_most_and_falls_slowly() {
        let mut policy = RefillPolicy::new(BlockSize::Fixed(4_096));
        for expected in [4_096, 8_192, 16_384, 32_768, 40_960] {
            policy.observe(refill(0, 5_000, 4_096));
            assert_eq!(policy.lookahead(), expected);
        }
        policy.observe(refill(0, 1_000_000, 4_096));
        assert_eq!(policy.lookahead(), 30_720);
        (0..20).for_each(|_| policy.observe(refill(0, 1, 1)));
        assert_eq!(policy.lookahead(), 30_720, "blocks that are reserved at once say nothing about the rate");
    }

    #[test]
    fn a_size_that_follows_settles_below_the_writes_it_may_make() {
        for rate_per_second in [1_000_u64, 50_000, 1_000_000, 30_000_000] {
            let mut policy = follow(64, 1 << 30);
            for _ in 0..30 {
                let micros = policy.size() * 1_000_000 / rate_per_second;
                policy.observe(refill(100, micros.max(1), policy.size()));
            }
            let writes = rate_per_second as f64 / policy.size() as f64;
            assert!((5.0..10.0).contains(&writes), "{rate_per_second}/s gives {writes} writes/s");
        }
    }

    #[test]
    fn a_size_that_follows_keeps_its_bounds_and_falls_again() {
        let mut policy = follow(64, 1_000);
        (0..9).for_each(|_| policy.observe(refill(1, 1, 1_000_000)));
        assert_eq!(policy.size(), 1_000);
        policy.observe(refill(1, 10_000_000, 1));
        assert_eq!(policy.size(), 125);
        (0..9).for_each(|_| policy.observe(refill(1, 10_000_000, 1)));
        assert_eq!(policy.size(), 64);
    }

    #[test]
    fn blocks_that_are_reserved_at_once_do_not_raise_the_size() {
        let mut policy = follow(16, 1 << 30);
        policy.observe(refill(0, 0, 10));
        assert_eq!(policy.size(), 128);
        (0..9).for_each(|_| policy.observe(refill(0, 0, 1)));
        assert_eq!(policy.size(), 128);
        policy.observe(refill(0, 100_000, 100));
        assert_eq!(policy.size(), 136);
    }

    #[test]
    fn one_burst_grows_a_block_eight_times_at_most() {
        let mut policy = follow(64, 1 << 30);
        policy.observe(refill(0, 0, u64::MAX));
        assert_eq!(policy.size(), 512);
    }
}
