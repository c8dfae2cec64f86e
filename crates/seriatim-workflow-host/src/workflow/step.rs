//! What an item of the inbox leads to: pure.
//!
//! ```text
//! step(state, item) ──► effects, which are carried out at once
//!                  └──► work, if the item leads to some: the driver does it before the next step
//! ```

use std::collections::HashSet;

use seriatim_workflow::{AnswerPhase, Job, Kind};

use super::effect::{Effect, Effects, Work};
use super::item::{Item, Request, Responder, Responders, StartAs, Starting, is_early, protocol_id};
use super::state::{Facts, State};
use crate::error::HostError;
use crate::size;

/// Attempts that one event notes. Bounds it: each may have a heartbeat's details.
const ATTEMPTS_MAX: usize = 64;

/// One step: what an item of the inbox leads to.
///
/// An item that is about another run than the open one is dropped, or refused if someone waits for it. An item that needs no
/// I/O changes the state here. All others become [`Work`], and the driver does it before it takes the next item; so the
/// state does not change between the decision and the work, except by the work itself.
pub(crate) fn step(state: &mut State, item: Item, facts: &Facts<'_>, effects: &mut Effects) -> Option<Work> {
    let run = state.run();
    let is_current = |of: u64| run == Some(of);
    match item {
        Item::Start(starting) => Some(Work::Start(starting)),
        Item::Request(request) if request.key.is_some() => Some(Work::Keyed(request)),
        Item::Request(_) | Item::Answer { .. } => gather(state, item, facts, effects),
        Item::Retry { run, .. } if !is_current(run) => None,
        Item::Retry { retry, is_kept: true, .. } => Some(Work::Retries(vec![*retry])),
        Item::Retry { retry, .. } => {
            state.lifecycle.run_mut().into_iter().for_each(|open| open.pending.retry(&retry));
            None
        }
        Item::Attempted { run, .. } | Item::End { run: Some(run), .. } if !is_current(run) => {
            effects.push(Effect::Refuse(item, state.not_running(facts)));
            None
        }
        Item::Attempted { run, attempted, reply } => {
            // Attempts that directly follow it in the inbox are written with it, in one event.
            let (mut attempts, mut replies) = (vec![attempted], Vec::from_iter(reply));
            while attempts.len() < ATTEMPTS_MAX
                && matches!(state.inbox.front(), Some(Item::Attempted { run: of, .. }) if *of == run)
                && let Some(Item::Attempted { attempted, reply, .. }) = state.inbox.pop()
            {
                attempts.push(attempted);
                replies.extend(reply);
            }
            Some(Work::Attempts { attempts, replies })
        }
        Item::End { ended, key, reply, .. } => Some(Work::End { ended: *ended, key, reply }),
        Item::Begin { run } => {
            let is_due = is_current(run) && state.is_before_begin();
            (is_due && state.lifecycle.stuck().is_none()).then_some(Work::Begin)
        }
        Item::Delivered { run } => Some(Work::Delivered(run)),
        Item::Forget { runs, reply } => Some(Work::Forget { runs, reply }),
        Item::Query { job, reply } => Some(Work::Query { job, reply }),
        Item::Inspect { reply } => Some(Work::Inspect { reply }),
        Item::RetryStuck { reply } => Some(Work::RetryStuck { reply }),
        Item::Wake => None,
        Item::Reread { is_in_doubt } => {
            effects.push(Effect::DiscardCode);
            state.forget(effects);
            if is_in_doubt {
                state.lifecycle.mark_in_doubt();
            }
            Some(Work::Reread)
        }
    }
}

/// What has happened to the open run, for one event.
#[derive(Default)]
struct Gathered {
    /// For the run's code.
    jobs: Vec<Job>,
    responders: Responders,
    /// Kept, since the code cannot react to it now.
    arrived: Vec<Job>,
    early: Responders,
    bytes: usize,
    seen: HashSet<(Kind, u32, AnswerPhase)>,
}

/// Collects answers, and requests without a key, from the front of the inbox into one activation: as many as one event may
/// have. Fewer events mean fewer syncs, and the code sees all of them at the same time.
fn gather(state: &mut State, first: Item, facts: &Facts<'_>, effects: &mut Effects) -> Option<Work> {
    let limit = state.jobs_limit.unwrap_or(facts.options.jobs_max).max(1);
    let mut gathered = Gathered::default();
    let mut next = Some(first);
    while let Some(item) = next.take() {
        match item {
            Item::Answer { run, job, generation } => gathered.answer(state, run, job, generation),
            Item::Request(request) => gathered.request(state, request, facts, effects),
            other => {
                state.inbox.push_front(other);
                break;
            }
        }
        let bytes = match state.inbox.front() {
            Some(Item::Answer { job, .. }) => Some(size::job_bytes(job)),
            Some(Item::Request(request)) if request.key.is_none() => Some(size::job_bytes(&request.job)),
            _ => None,
        };
        let taken = gathered.jobs.len() + gathered.arrived.len();
        let fits = |bytes: usize| taken == 0 || gathered.bytes + bytes <= facts.options.jobs_bytes_max;
        if bytes.is_some_and(fits) && taken < limit {
            next = state.inbox.pop();
        }
    }
    let Gathered { jobs, responders, arrived, early, .. } = gathered;
    if !arrived.is_empty() {
        return Some(Work::Arrived { jobs: arrived, responders: early });
    }
    (!jobs.is_empty()).then_some(Work::Activate { jobs, responders })
}

impl Gathered {
    fn answer(&mut self, state: &State, run: u64, job: Job, generation: u64) {
        let Some(open) = state.lifecycle.run().filter(|open| open.due.is_none() && open.row.run == run)
        else {
            return;
        };
        let is_new = job.answer().is_none_or(|operation| self.seen.insert(operation));
        let is_late = matches!(job, Job::ResolveLocalActivity { .. }) && generation != state.generation;
        if !is_new || is_late || !open.pending.admits(&job) {
            return;
        }
        if state.lifecycle.stuck().is_none() {
            self.bytes += size::job_bytes(&job);
            self.jobs.push(job);
        } else if let Job::ResolveActivity { seq, .. } = &job
            && !open.pending.arrived.contains_key(&seq.get())
        {
            // The code cannot react to it now. The answer is written, so that the activity is not run again.
            self.bytes += size::job_bytes(&job);
            self.arrived.push(job);
        }
    }

    fn request(
        &mut self,
        state: &mut State,
        request: Box<Request>,
        facts: &Facts<'_>,
        effects: &mut Effects,
    ) {
        match refusal(state, &request, self.bytes, facts) {
            Some(error) => effects.push(Effect::RefuseRequest(request.responder, error)),
            None if !state.is_before_begin() => {
                self.bytes += size::job_bytes(&request.job);
                self.responders.push((protocol_id(&request.job), request.responder));
                self.jobs.push(request.job);
            }
            None if is_early(&request.job) => {
                self.bytes += size::job_bytes(&request.job);
                self.early.push((None, request.responder));
                self.arrived.push(request.job);
            }
            None => state.inbox.hold_back(request),
        }
    }
}

/// Why the open run cannot get a request. `about_to_be` is how many bytes of others are about to be kept with it for the
/// first activation.
pub(crate) fn refusal(
    state: &State,
    request: &Request,
    about_to_be: usize,
    facts: &Facts<'_>,
) -> Option<HostError> {
    let open = state.lifecycle.run();
    let fits = open.is_some_and(|open| request.run.is_none_or(|run| run == open.row.run));
    if !fits {
        return Some(state.not_running(facts));
    }
    if let Some(stuck) = state.stuck_error(facts) {
        return Some(stuck);
    }
    if !state.is_before_begin() {
        return None;
    }
    if is_early(&request.job) {
        return no_room(state, &request.job, about_to_be, facts);
    }
    state.not_begun(facts, Some(facts.options.update_wait))
}

/// Why a signal cannot be kept for the run's first activation: what is kept, and is about to be, comes with it in one
/// event. A request to stop is always kept.
fn no_room(state: &State, job: &Job, about_to_be: usize, facts: &Facts<'_>) -> Option<HostError> {
    let open = state.lifecycle.run()?;
    let kept = about_to_be + open.pending.early.iter().map(size::job_bytes).sum::<usize>();
    let fits = kept == 0 || kept + size::job_bytes(job) <= facts.options.jobs_bytes_max;
    if fits || matches!(job, Job::Cancel { .. }) {
        return None;
    }
    let text = format!("signals of {kept} bytes wait for the run's first activation, and no more fit");
    Some(HostError::Busy(text))
}

/// Sends the open run the signal of a start, if there are both. Otherwise the start is returned.
pub(crate) fn signal_open(state: &mut State, starting: Starting) -> Option<Starting> {
    if state.run().is_none() || starting.how.signal.is_none() {
        return Some(starting);
    }
    let Starting { how: StartAs { key, signal, .. }, reply, .. } = starting;
    // Next, so that nothing comes between: the run cannot end before.
    let responder = Responder::Written(reply);
    let request = signal.map(|job| Request { job, run: None, key, responder });
    request.into_iter().for_each(|request| state.inbox.push_front(Item::Request(Box::new(request))));
    None
}

/// Takes the answers of local activities out of the inbox, up to so many bytes.
pub(crate) fn local_answers(state: &mut State, limit: usize) -> Vec<Job> {
    let State { inbox, lifecycle, generation, .. } = state;
    let Some(open) = lifecycle.run() else { return Vec::new() };
    let is_awaited = |job: &Job, of: u64| of == *generation && open.pending.admits(job);
    let mut bytes = 0;
    // One that is not waited for any more is taken out too, and dropped.
    let taken = inbox.extract(|item| match item {
        Item::Answer { job: job @ Job::ResolveLocalActivity { .. }, generation: of, .. } => {
            bytes += if is_awaited(job, *of) { size::job_bytes(job) } else { 0 };
            bytes <= limit || !is_awaited(job, *of)
        }
        _ => false,
    });
    let awaited = taken.into_iter().filter_map(|item| match item {
        Item::Answer { job, generation: of, .. } if is_awaited(&job, of) => Some(job),
        _ => None,
    });
    awaited.collect()
}
