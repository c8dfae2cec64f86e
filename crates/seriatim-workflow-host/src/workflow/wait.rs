//! What the index says about a run that only waits: pure. Such a run is not read when a host starts.

use std::time::Duration;

use seriatim_workflow::Time;

use super::pending::Pending;
use super::{OpenRun, ending};
use crate::application::{Wait, Waiting};
use crate::entry::Next;

/// A shorter wait is not noted: it would cost a row of the index, and is over when the host starts.
const NOTED_MIN: Duration = Duration::from_secs(60);
/// A run with more timers than this is read: each event would have to check all of them.
const TIMERS_MAX: usize = 1_000;
/// Nothing is due.
const NEVER: u64 = u64::MAX;

/// When the open run has something to do next, in milliseconds, if it has nothing under way but timers.
fn next_of(open: &OpenRun) -> Option<u64> {
    let Pending { timers, activities, local_activities, children, signals, cancels, .. } = &open.pending;
    let is_quiet = activities.is_empty()
        && local_activities.is_empty()
        && children.is_empty()
        && signals.is_empty()
        && cancels.is_empty()
        && timers.len() <= TIMERS_MAX;
    let first = timers.values().map(|timer| timer.due);
    let first = first.chain(open.due).chain(ending::deadline(open.begins.deadline, &open.start)).min();
    is_quiet.then(|| first.map_or(NEVER, millis))
}

fn millis(time: Time) -> u64 {
    time.as_micros() / 1_000
}

/// What an event has to say about the wait of the open run, as it is once the event is written.
pub(crate) fn change(open: &OpenRun, now: Time) -> Option<Wait> {
    noted(open.wait, open.row.run, next_of(open), millis(now))
}

/// The same, for an event that ends the open run.
pub(crate) fn change_at_end(open: &OpenRun, next: Option<&Next>, now: Time) -> Option<Wait> {
    let due =
        |next: &Next| ending::deadline(next.begins.deadline, &next.start).into_iter().chain([next.at]).min();
    let due = next.and_then(due).map(millis);
    noted(open.wait, next.map_or(0, |next| next.run), due, millis(now))
}

/// `noted` is what the index says; none: it is not known.
fn noted(noted: Option<Wait>, run: u64, next: Option<u64>, now: u64) -> Option<Wait> {
    let soon = now.saturating_add(NOTED_MIN.as_millis().try_into().unwrap_or(NEVER));
    let next = next.filter(|next| *next >= soon);
    match (noted, next) {
        (Some(Wait::Over), None) => None,
        (_, None) => Some(Wait::Over),
        // A run that is read too early only costs the read.
        (Some(Wait::Begins(waiting)), Some(next))
            if waiting.run == run && (soon..=next).contains(&waiting.until.unwrap_or(NEVER)) =>
        {
            None
        }
        (_, Some(next)) => {
            Some(Wait::Begins(Waiting { run, until: Some(next).filter(|next| *next < NEVER) }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_noted_when_it_is_long_and_changed_only_where_it_has_to_be() {
        const MINUTE: u64 = 60_000;
        let begins = |run, until| Some(Wait::Begins(Waiting { run, until }));
        let over = Some(Wait::Over);
        let now = 5 * MINUTE;
        for (kept, next, expected) in [
            (over, None, None),
            (over, Some(now + MINUTE - 1), None),
            (over, Some(now + MINUTE), begins(1, Some(now + MINUTE))),
            (over, Some(NEVER), begins(1, None)),
            // Unknown: it is said either way.
            (None, None, over),
            (None, Some(NEVER), begins(1, None)),
            // Something is under way.
            (begins(1, None), None, over),
            // The same again, or later: the note stays.
            (begins(1, Some(now + MINUTE)), Some(now + MINUTE), None),
            (begins(1, Some(now + MINUTE)), Some(now + 9 * MINUTE), None),
            (begins(1, Some(now + MINUTE)), Some(NEVER), None),
            (begins(1, None), Some(NEVER), None),
            // Earlier than noted, or the note is about the past, or about another run.
            (begins(1, Some(now + 2 * MINUTE)), Some(now + MINUTE), begins(1, Some(now + MINUTE))),
            (begins(1, None), Some(now + MINUTE), begins(1, Some(now + MINUTE))),
            (begins(1, Some(now)), Some(now + MINUTE), begins(1, Some(now + MINUTE))),
            (begins(7, None), Some(NEVER), begins(1, None)),
        ] {
            assert_eq!(noted(kept, 1, next, now), expected, "{kept:?} {next:?}");
        }
    }
}
