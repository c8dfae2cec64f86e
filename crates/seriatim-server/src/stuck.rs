//! Detects stuck partitions: a partition is stuck if work waits and there is no progress. A partition without work is idle.

use std::collections::HashMap;
use std::time::Duration;

use seriatim_engine::{PartitionState, PartitionStatus};
use seriatim_env::Instant;
use seriatim_types::Partition;
use seriatim_types::sync::{Mutex, MutexGuard};

use crate::server::Api;

/// How many checks there are within the time after which a partition is stuck.
const CHECKS: u32 = 8;

/// Values that change while a partition works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Progress {
    next_offset: u64,
    checkpoint: u64,
    recovered: u64,
}

#[derive(Debug, Clone, Copy)]
struct LastProgress {
    progress: Progress,
    /// When it last made progress, or last had nothing to do.
    since: Instant,
    stuck: bool,
}

/// Compares the progress of each partition with its previous one.
#[derive(Debug, Default)]
pub(crate) struct StuckDetector {
    partitions: Mutex<HashMap<Partition, LastProgress>>,
}

impl StuckDetector {
    fn lock(&self) -> MutexGuard<'_, HashMap<Partition, LastProgress>> {
        self.partitions.lock()
    }

    pub(crate) fn is_stuck(&self, partition: Partition) -> bool {
        self.lock().get(&partition).is_some_and(|last| last.stuck)
    }

    /// Records the state of a partition, and returns whether the partition is stuck.
    fn check(&self, state: &PartitionState, now: Instant, after: Duration) -> bool {
        let (recovered, works) = match &state.status {
            PartitionStatus::Recovering { at, .. } => (*at, true),
            PartitionStatus::Ready => (0, state.waiting > 0 || state.unflushed > 0),
            PartitionStatus::Standby => (0, state.unflushed > 0),
            PartitionStatus::Stopped(_) | PartitionStatus::Elsewhere { .. } => (0, false),
        };
        let progress = Progress { next_offset: state.next_offset, checkpoint: state.checkpoint, recovered };
        let mut partitions = self.lock();
        let last =
            partitions.entry(state.partition).or_insert(LastProgress { progress, since: now, stuck: false });
        if !works || last.progress != progress {
            *last = LastProgress { progress, since: now, stuck: false };
        }
        last.stuck = now.duration_since(last.since) >= after;
        last.stuck
    }
}

/// Checks all partitions regularly, until the server stops.
pub(crate) async fn check_periodically(api: Api, after: Duration) {
    let pause = after / CHECKS;
    while api.stop.run_until_cancelled(api.env.sleep(pause)).await.is_some() {
        let now = api.env.instant();
        let mut stuck = 0;
        for (name, state) in api.engine.all_partitions() {
            let before = api.stuck.is_stuck(state.partition);
            if api.stuck.check(&state, now, after) {
                stuck += 1;
                if !before {
                    let partition = state.partition.id.get();
                    tracing::warn!(
                        app = name,
                        partition,
                        "a partition is stuck: work waits, and there is no progress"
                    );
                }
            }
        }
        api.http.stuck.set(f64::from(stuck));
    }
}

#[cfg(test)]
mod tests {
    use seriatim_env::simulate;
    use seriatim_types::{ApplicationId, PartitionId};

    use super::*;

    #[test]
    fn a_partition_without_work_is_idle_and_one_without_progress_is_stuck() {
        simulate(1, |env| async move {
            let (detector, after) = (StuckDetector::default(), Duration::from_secs(10));
            let mut state = PartitionState {
                partition: Partition { application: ApplicationId::new(16), id: PartitionId::new(0) },
                status: PartitionStatus::Ready,
                next_offset: 5,
                checkpoint: 5,
                unflushed: 0,
                uncheckpointed_events: 0,
                uncheckpointed_bytes: 0,
                waiting: 0,
                store_failure: None,
            };
            for (seconds, waiting, next_offset, expected) in [
                (0, 0, 5, false),
                (100, 0, 5, false),
                (5, 3, 5, false),
                (4, 3, 5, false),
                (1, 3, 5, true),
                (1, 3, 6, false),
                (10, 3, 6, true),
                (1, 0, 6, false),
            ] {
                env.sleep(Duration::from_secs(seconds)).await;
                (state.waiting, state.next_offset) = (waiting, next_offset);
                assert_eq!(detector.check(&state, env.instant(), after), expected, "{waiting} {next_offset}");
                assert_eq!(detector.is_stuck(state.partition), expected);
            }
            state.status = PartitionStatus::Recovering { from: 1, at: 3, tail: 9 };
            assert!(!detector.check(&state, env.instant(), after));
            env.sleep(after).await;
            assert!(detector.check(&state, env.instant(), after), "a recovery without progress is stuck too");
        });
    }
}
