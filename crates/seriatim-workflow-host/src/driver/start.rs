//! Starts that are more than a first activation: with a signal, with a delay, and once more.

use seriatim_workflow::Job;

use super::Driver;
use super::inbox::is_early;
use super::writing::Writing;
use crate::entry::Entry;
use crate::workflow::{Answering, Item, StartAs, Starting, Told, Written};

/// What the request that wrote this event is answered when it is repeated.
pub(super) fn written_before(entry: &Entry) -> Written {
    Written { run: entry.run, repeated: true, begins: entry.begins.is_some() }
}

/// Puts the start of a run whose first activation is still to come into its event, and what goes with it.
pub(super) fn keep_start(entry: &mut Entry, jobs: impl IntoIterator<Item = Job>) {
    for job in jobs {
        match job {
            Job::Start(start) => entry.start = Some(start),
            early if is_early(&early) => entry.arrived.push(early),
            _ => {}
        }
    }
}

/// The start that was to be written, to be tried once more. A time that has passed is at once.
pub(super) fn start_again(writing: &mut Writing) -> Option<Item> {
    let reply = writing.started.take()?;
    let entry = &mut writing.entry;
    let turns = std::mem::take(&mut entry.turns);
    keep_start(entry, turns.into_iter().flat_map(|turn| turn.jobs));
    let start = entry.start.take()?;
    let begins = entry.begins.clone().unwrap_or_default();
    let signal = std::mem::take(&mut entry.arrived).into_iter().next();
    let due = Some(start.start_time);
    let how = StartAs { reuse: writing.reuse, key: writing.key.clone(), due, signal };
    Some(Item::Start(Box::new(Starting { start, begins, how, is_fresh: false, reply })))
}

impl Driver {
    /// Tells the open run the signal of a start, if there are both. Otherwise the start is returned.
    pub(super) fn signal_open(&self, starting: Starting) -> Option<Starting> {
        let mut state = self.workflow.lock();
        let is_open = state.known.as_ref().is_some_and(|known| known.open.is_some());
        if !is_open || starting.how.signal.is_none() {
            return Some(starting);
        }
        let Starting { how: StartAs { key, signal, .. }, reply, .. } = starting;
        if let Some(job) = signal {
            // Next, so that nothing comes between: the run cannot end before.
            let told = Told { job, run: None, key, answer: Answering::Written(reply) };
            state.asked += 1;
            state.inbox.push_front(Item::Tell(Box::new(told)));
        }
        None
    }

    /// Writes a run whose first activation is due later.
    pub(super) async fn start_later(&mut self, mut writing: Writing, jobs: Vec<Job>) {
        let run = writing.entry.run;
        keep_start(&mut writing.entry, jobs);
        self.write(writing, None).await;
        let mut state = self.workflow.lock();
        let open = state.known.as_ref().and_then(|known| known.open.as_ref());
        if open.is_some_and(|open| open.row.run == run && open.row.from > 0) {
            self.resume_open(&mut state);
        }
    }
}
