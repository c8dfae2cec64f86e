//! The time of events.
//!
//! Events have the time of the wall clock. The wall clock can be wrong for a while: after a boot, when a virtual machine is
//! moved, or when a time server is wrong. An event's time cannot be changed, and no later event of its partition may have an
//! earlier time. So if the wall clock is a year ahead when one event is written, all events of the next year would have that
//! time. Therefore a wall clock that jumps ahead is used only after it has stayed ahead for a minute. Until then the time
//! advances with the monotonic clock.

use std::time::Duration;

use seriatim_env::{Env, Instant};
use seriatim_types::Timestamp;
use seriatim_types::sync::Mutex;

/// How far the wall clock may be ahead of the expected time before it is doubted. Much more than the drift between two reads
/// of the clocks.
const LEAD_MAX: Duration = Duration::from_secs(60);

/// How long a doubted wall clock must stay ahead before it is used.
const HOLD: Duration = Duration::from_secs(60);

/// The clock of an engine's events.
#[derive(Debug)]
pub(crate) struct EventClock {
    env: Env,
    started: Instant,
    steps: Mutex<Steps>,
}

impl EventClock {
    pub(crate) fn new(env: Env) -> Self {
        let started = env.instant();
        Self { env, started, steps: Mutex::default() }
    }

    /// The time for an event. It may go back, as the wall clock may.
    pub(crate) fn now(&self) -> Timestamp {
        let (wall, monotonic) = (self.env.now(), self.env.instant().saturating_duration_since(self.started));
        let (time, notice) = self.steps.lock().step(wall, monotonic);
        match notice {
            None => {}
            Some(Notice::Ahead(by)) => tracing::warn!(
                seconds = by.as_secs(),
                "the wall clock has jumped ahead and is not used until it has stayed ahead for a minute: check the clock"
            ),
            Some(Notice::Held(by)) => tracing::warn!(
                seconds = by.as_secs(),
                "the wall clock has stayed ahead for a minute: events have its time again"
            ),
            Some(Notice::Back) => {
                tracing::info!("the wall clock is no longer ahead: events have its time again");
            }
        }
        time
    }
}

/// A change of the wall clock that is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Notice {
    /// It is ahead by this much, and is doubted.
    Ahead(Duration),
    /// It has stayed ahead by this much, and is used.
    Held(Duration),
    /// It is no longer ahead. It was not used while it was.
    Back,
}

/// The earlier readings of the two clocks that decide which time is used. Pure.
#[derive(Debug, Default)]
struct Steps {
    /// The last time of the wall clock that was used, with that of the monotonic clock.
    believed: Option<(Timestamp, Duration)>,
    /// Since when the wall clock is doubted, and how far ahead it was then.
    doubted: Option<(Duration, Duration)>,
}

impl Steps {
    /// The time for an event, from the readings of both clocks. `monotonic` must not go back.
    fn step(&mut self, wall: Timestamp, monotonic: Duration) -> (Timestamp, Option<Notice>) {
        let expected = match self.believed {
            None => wall,
            Some((believed, at)) => believed.after(monotonic.saturating_sub(at)),
        };
        let lead = Duration::from_millis(wall.as_millis().saturating_sub(expected.as_millis()));
        if lead <= LEAD_MAX {
            self.believed = Some((wall, monotonic));
            return (wall, self.doubted.take().map(|_| Notice::Back));
        }
        match self.doubted {
            Some((since, first)) if lead.abs_diff(first) <= LEAD_MAX => {
                if monotonic.saturating_sub(since) < HOLD {
                    return (expected, None);
                }
                self.doubted = None;
                self.believed = Some((wall, monotonic));
                (wall, Some(Notice::Held(lead)))
            }
            // The first reading that is ahead, or another jump.
            _ => {
                self.doubted = Some((monotonic, lead));
                (expected, Some(Notice::Ahead(lead)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600;

    /// Checks a table of readings of both clocks, in seconds: for each the time that is used, and the notice.
    fn check(table: &[((u64, u64), u64, Option<Notice>)]) {
        let mut steps = Steps::default();
        for (row, ((wall, monotonic), expected, notice)) in table.iter().enumerate() {
            let step = steps.step(Timestamp::from_millis(wall * 1_000), Duration::from_secs(*monotonic));
            assert_eq!(step, (Timestamp::from_millis(expected * 1_000), *notice), "row {row}");
        }
    }

    fn ahead(seconds: u64) -> Option<Notice> {
        Some(Notice::Ahead(Duration::from_secs(seconds)))
    }

    fn held(seconds: u64) -> Option<Notice> {
        Some(Notice::Held(Duration::from_secs(seconds)))
    }

    #[test]
    fn a_wall_clock_that_goes_as_the_monotonic_one_is_used() {
        check(&[
            ((1_000, 5), 1_000, None),
            ((1_010, 15), 1_010, None),
            // After a long time without a reading.
            ((1_010 + HOUR, 15 + HOUR), 1_010 + HOUR, None),
            // A little faster, and up to a minute ahead.
            ((1_072 + HOUR, 17 + HOUR), 1_072 + HOUR, None),
            ((1_132 + HOUR, 17 + HOUR), 1_132 + HOUR, None),
            // Set back: the caller keeps time from going back.
            ((500, 18 + HOUR), 500, None),
            ((501, 19 + HOUR), 501, None),
        ]);
    }

    #[test]
    fn a_wall_clock_that_jumps_ahead_is_used_when_it_has_held_for_a_minute() {
        check(&[
            ((1_000, 0), 1_000, None),
            ((1_071 + HOUR, 10), 1_010, ahead(61 + HOUR)),
            ((1_072 + HOUR, 11), 1_011, None),
            ((1_130 + HOUR, 69), 1_069, None),
            ((1_131 + HOUR, 70), 1_131 + HOUR, held(61 + HOUR)),
            ((1_132 + HOUR, 71), 1_132 + HOUR, None),
        ]);
    }

    #[test]
    fn a_wall_clock_that_comes_back_in_time_was_never_used() {
        check(&[
            ((1_000, 0), 1_000, None),
            ((9_000, 10), 1_010, ahead(7_990)),
            ((1_020, 20), 1_020, Some(Notice::Back)),
            // The next jump has to hold by itself.
            ((9_060, 70), 1_070, ahead(7_990)),
            ((9_070, 80), 1_080, None),
        ]);
    }

    #[test]
    fn a_wall_clock_that_jumps_while_it_is_doubted_has_to_hold_again() {
        check(&[
            ((1_000, 0), 1_000, None),
            ((2_000, 0), 1_000, ahead(1_000)),
            ((9_059, 59), 1_059, ahead(8_000)),
            ((9_060, 60), 1_060, None),
            ((9_118, 118), 1_118, None),
            ((9_119, 119), 9_119, held(8_000)),
        ]);
    }
}
