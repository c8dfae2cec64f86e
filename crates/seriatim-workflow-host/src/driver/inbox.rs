//! What is done next: taken out of a workflow's inbox.

use std::collections::HashSet;

use seriatim_workflow::{Job, Payload};

use super::Driver;
use crate::entry::{Attempted, Ended, Retry};
use crate::error::HostError;
use crate::size;
use crate::workflow::{Answering, Item, Key, Looked, Reply, Starting, State, Told, Written};

/// Attempts that one event notes. Bounds it: each may have a heartbeat's details.
const ATTEMPTS_MAX: usize = 64;

/// What is done next.
pub(super) enum Step {
    Start(Box<Starting>),
    Jobs {
        jobs: Vec<Job>,
        told: Vec<(Option<String>, Answering)>,
        key: Option<Key>,
    },
    Keyed(Box<Told>),
    Retries(Vec<Retry>),
    Attempts {
        attempts: Vec<Attempted>,
        replies: Vec<Reply<Written>>,
    },
    /// Kept, since the run's code cannot react to it now.
    Arrived {
        jobs: Vec<Job>,
        told: Vec<(Option<String>, Answering)>,
    },
    Unstick {
        reply: Reply<Written>,
    },
    End {
        ended: Ended,
        key: Option<Key>,
        reply: Option<Reply<Written>>,
    },
    Begin,
    Delivered(u64),
    Forget {
        runs: Vec<u64>,
        reply: Reply<Written>,
    },
    Query {
        job: Job,
        reply: Reply<Payload>,
    },
    Look {
        reply: Reply<Looked>,
    },
}

impl Driver {
    /// Takes out of the inbox what is done next; nothing: the driver ends.
    pub(super) fn next(&mut self) -> Option<Step> {
        let workflow = self.workflow.clone();
        let mut state = workflow.lock();
        loop {
            let Some(item) = state.inbox.pop_front() else {
                self.park(&mut state);
                return None;
            };
            state.asked -= usize::from(item.is_asked());
            if let Some(step) = self.step(&mut state, item) {
                return Some(step);
            }
        }
    }

    /// Ends, with the state as it is: the run's code is kept if it may be needed again.
    pub(super) fn park(&mut self, state: &mut State) {
        state.is_driven = false;
        if !state.is_before_begin() {
            state.jobs_limit = None;
        }
        let open = state.known.as_ref().and_then(|known| known.open.as_ref());
        // Its code has read the input: it is there twice.
        let open = open.map(|open| (open.row.run, 2 * open.input_bytes + open.bytes));
        match (self.held().take(), open) {
            (Some((run, instance)), Some((open, bytes))) if run == open => {
                let dropped = self.inner.instances().put(self.workflow.workspace, run, instance, bytes);
                dropped.into_iter().for_each(|instance| self.inner.discard(instance));
            }
            (_, None) => {
                state.is_removed = true;
                self.inner.remove(self.workflow.workspace);
            }
            _ => {}
        }
    }

    pub(super) fn step(&mut self, state: &mut State, item: Item) -> Option<Step> {
        let open = state.known.as_ref().and_then(|known| known.open.as_ref());
        let run = open.map(|open| open.row.run);
        let is_current = |asked: u64| run == Some(asked);
        match item {
            Item::Start(starting) => Some(Step::Start(starting)),
            Item::Tell(told) if told.key.is_some() => Some(Step::Keyed(told)),
            Item::Tell(_) | Item::Answer { .. } => self.gather(state, item),
            Item::Retry { run, .. } if !is_current(run) => None,
            Item::Retry { retry, is_kept: true, .. } => Some(Step::Retries(vec![*retry])),
            Item::Retry { retry, .. } => {
                let open = state.known.as_mut().and_then(|known| known.open.as_mut());
                open.into_iter().for_each(|open| open.pending.retry(&retry));
                None
            }
            Item::Attempted { run, .. } if !is_current(run) => {
                item.refuse(self.not_running(state));
                None
            }
            Item::Attempted { run, attempted, reply } => {
                // Those that follow are written with it.
                let (mut attempts, mut replies) = (vec![attempted], Vec::from_iter(reply));
                while attempts.len() < ATTEMPTS_MAX
                    && matches!(state.inbox.front(), Some(Item::Attempted { run: of, .. }) if *of == run)
                    && let Some(Item::Attempted { attempted, reply, .. }) = state.inbox.pop_front()
                {
                    attempts.push(attempted);
                    replies.extend(reply);
                }
                Some(Step::Attempts { attempts, replies })
            }
            Item::End { run: Some(asked), reply, .. } if !is_current(asked) => {
                let error = self.not_running(state);
                reply.map(|reply| reply.send(Err(error)));
                None
            }
            Item::End { ended, key, reply, .. } => Some(Step::End { ended: *ended, key, reply }),
            Item::Begin { run } => {
                let is_due = is_current(run) && open.is_some_and(|open| open.due.is_some());
                (is_due && state.stuck.is_none()).then_some(Step::Begin)
            }
            Item::Delivered { run } => Some(Step::Delivered(run)),
            Item::Forget { runs, reply } => Some(Step::Forget { runs, reply }),
            Item::Query { job, reply } => Some(Step::Query { job, reply }),
            Item::Look { reply } => Some(Step::Look { reply }),
            Item::Unstick { reply } => Some(Step::Unstick { reply }),
            Item::Wake => None,
        }
    }

    /// Puts what has happened to the run into one activation: answers, and what was told without a key.
    pub(super) fn gather(&mut self, state: &mut State, first: Item) -> Option<Step> {
        let (mut jobs, mut told, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
        let mut item = Some(first);
        let options = &self.inner.options;
        let limit = state.jobs_limit.unwrap_or(options.jobs_max).max(1);
        let (mut bytes, mut arrived, mut early) = (0, Vec::new(), Vec::new());
        while let Some(present) = item.take() {
            let open = state.known.as_ref().and_then(|known| known.open.as_ref());
            let begun = open.filter(|open| open.due.is_none());
            match present {
                Item::Answer { run, job, generation } => {
                    let is_new = seen.insert(answered(&job));
                    let is_late =
                        matches!(job, Job::ResolveLocalActivity { .. }) && generation != state.generation;
                    let fits = begun.is_some_and(|open| open.row.run == run && open.pending.admits(&job));
                    if is_new && !is_late && fits {
                        let is_known =
                            |seq: u32| open.is_some_and(|open| open.pending.arrived.contains_key(&seq));
                        match &job {
                            _ if state.stuck.is_none() => {
                                bytes += size::weight(&job);
                                jobs.push(job);
                            }
                            // The code cannot react to it, and it must not be done again.
                            Job::ResolveActivity { seq, .. } if !is_known(seq.get()) => {
                                bytes += size::weight(&job);
                                arrived.push(job);
                            }
                            _ => {}
                        }
                    }
                }
                Item::Tell(tell) => {
                    let fits = open.is_some_and(|open| tell.run.is_none_or(|run| run == open.row.run));
                    match (&state.stuck, fits, begun) {
                        (Some(reason), true, _) => tell.answer.refuse(self.stuck_error(state, reason)),
                        (None, true, Some(_)) => {
                            bytes += size::weight(&tell.job);
                            told.push((protocol_id(&tell.job), tell.answer));
                            jobs.push(tell.job);
                        }
                        (None, true, None) if is_early(&tell.job) => {
                            match self.no_room(state, &tell.job, bytes) {
                                Some(busy) => tell.answer.refuse(busy),
                                None => {
                                    bytes += size::weight(&tell.job);
                                    arrived.push(tell.job);
                                    early.push((None, tell.answer));
                                }
                            }
                        }
                        (None, true, None) => match self.not_begun(state, Some(options.update_wait)) {
                            Some(later) => tell.answer.refuse(later),
                            None => state.hold_back(tell),
                        },
                        (_, false, _) => tell.answer.refuse(self.not_running(state)),
                    }
                }
                other => {
                    state.asked += usize::from(other.is_asked());
                    state.inbox.push_front(other);
                    break;
                }
            }
            let next = match state.inbox.front() {
                Some(Item::Answer { job, .. }) => Some(size::weight(job)),
                Some(Item::Tell(tell)) if tell.key.is_none() => Some(size::weight(&tell.job)),
                _ => None,
            };
            let taken = jobs.len() + arrived.len();
            let fits = |next: usize| taken == 0 || bytes + next <= options.jobs_bytes_max;
            if next.is_some_and(fits) && taken < limit {
                item = state.inbox.pop_front();
                state.asked -= usize::from(item.as_ref().is_some_and(Item::is_asked));
            }
        }
        if !arrived.is_empty() {
            return Some(Step::Arrived { jobs: arrived, told: early });
        }
        (!jobs.is_empty()).then_some(Step::Jobs { jobs, told, key: None })
    }

    /// Why a signal cannot be kept for the run's first activation: what is kept, and is about to be, comes with it in one
    /// event. A request to stop is always kept.
    pub(super) fn no_room(&self, state: &State, job: &Job, about_to_be: usize) -> Option<HostError> {
        let open = state.known.as_ref().and_then(|known| known.open.as_ref())?;
        let kept = about_to_be + open.pending.early.iter().map(size::weight).sum::<usize>();
        let fits = kept == 0 || kept + size::weight(job) <= self.inner.options.jobs_bytes_max;
        if fits || matches!(job, Job::Cancel { .. }) {
            return None;
        }
        let text = format!("signals of {kept} bytes wait for the run's first activation, and no more fit");
        Some(HostError::Busy(text))
    }

    /// Takes out the updates that the run's first activation gets: as many as one event has room for, and the last of them may
    /// have a key. The others are told in the activations that follow.
    pub(super) fn take_held_back(&self) -> Vec<Told> {
        let options = &self.inner.options;
        let mut state = self.workflow.lock();
        let limit = state.jobs_limit.unwrap_or(options.jobs_max).saturating_sub(1);
        let (mut taken, mut bytes, mut is_keyed) = (Vec::new(), 0, false);
        while !is_keyed
            && taken.len() < limit
            && let Some(told) = state.held_back.pop_front()
        {
            if told.answer.is_closed() {
                state.asked -= 1;
                continue;
            }
            bytes += size::weight(&told.job);
            is_keyed = told.key.is_some();
            if bytes > options.jobs_bytes_max && !taken.is_empty() {
                state.held_back.push_front(told);
                break;
            }
            state.asked -= 1;
            taken.push(*told);
        }
        state.release();
        taken
    }
}

/// Whether it can be kept for the first activation of a run that has had none: no answer to it is waited for.
pub(super) const fn is_early(job: &Job) -> bool {
    matches!(job, Job::Signal { .. } | Job::Cancel { .. })
}

/// Which operation a job answers.
pub(super) fn answered(job: &Job) -> Option<(u8, u32)> {
    Some(match job {
        Job::FireTimer { seq } => (0, seq.get()),
        Job::ResolveActivity { seq, .. } => (1, seq.get()),
        Job::ResolveLocalActivity { seq, .. } => (2, seq.get()),
        Job::ResolveChildStart { seq, .. } => (3, seq.get()),
        Job::ResolveChild { seq, .. } => (4, seq.get()),
        Job::ResolveExternalSignal { seq, .. } => (5, seq.get()),
        Job::ResolveExternalCancel { seq, .. } => (6, seq.get()),
        _ => return None,
    })
}

pub(super) fn protocol_id(job: &Job) -> Option<String> {
    match job {
        Job::Update { protocol_id, .. } => Some(protocol_id.clone()),
        _ => None,
    }
}
