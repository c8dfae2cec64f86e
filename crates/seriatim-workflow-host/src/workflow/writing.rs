//! An event that is to be written, and who waits for it.

use seriatim_workflow::{Command, IdReusePolicy, Job, Payload};

use super::ending::{self, Ending};
use super::item::{Item, Key, Reply, Request, Responders, StartAs, Starting, Written, is_early};
use super::state::{Facts, State};
use super::wait;
use crate::application::{Advance, RunStatus, Wait};
use crate::entry::{Entry, Turn};
use crate::error::HostError;

#[derive(Debug, Default)]
pub(crate) struct Writing {
    pub(crate) entry: Entry,
    pub(crate) key: Option<Key>,
    pub(crate) started: Option<Reply<Written>>,
    /// Of a start: its policy for an id that was used before.
    pub(crate) reuse: IdReusePolicy,
    pub(crate) responders: Responders,
    /// How the run ends with it.
    pub(crate) ending: Option<Ending>,
    /// How the wait of the open run changes.
    pub(crate) wait: Option<Wait>,
    /// Runs that leave the index.
    pub(crate) forgets: Vec<u64>,
}

impl Writing {
    /// An event that no caller waits for.
    pub(crate) fn of(entry: Entry) -> Self {
        Self { entry, ..Self::default() }
    }

    pub(crate) fn refuse(self, error: &HostError) {
        if let Some(reply) = self.started {
            let _ = reply.send(Err(error.clone()));
        }
        self.responders.into_iter().for_each(|(_, responder)| responder.refuse(error.clone()));
    }

    /// Whether a caller waits for it.
    pub(crate) fn is_awaited(&self) -> bool {
        self.started.is_some() || !self.responders.is_empty()
    }

    /// What the engine is asked to write. None if the state has to be read first.
    pub(crate) fn advance(
        &mut self,
        state: &State,
        facts: &Facts<'_>,
    ) -> Option<Result<Advance, serde_json::Error>> {
        let (tail, run) = (state.lifecycle.tail()?, state.lifecycle.run());
        self.wait = run.and_then(|open| match &self.ending {
            Some(ending) => wait::change_at_end(open, ending.next.as_ref(), facts.now),
            None => wait::change(open, facts.now),
        });
        let mut advance = Advance {
            expected_offset: Some(tail.offset),
            wait: self.wait,
            forgets: self.forgets.clone(),
            delivered: self.entry.delivered.then_some(self.entry.run),
            ..Advance::default()
        };
        if self.entry.begins.is_some() {
            advance.was = tail.newest.as_ref().map(|row| row.status);
            advance.draw.push(self.entry.run);
            advance.rows.extend(run.map(|open| open.row.clone()));
        }
        if !self.forgets.is_empty() {
            let newest = tail.newest.as_ref().filter(|row| self.forgets.contains(&row.run));
            advance.was = newest.map(|row| row.status);
        }
        if let Some(ending) = &self.ending {
            if advance.rows.is_empty() {
                advance.was = Some(RunStatus::Running);
            }
            advance.rows = vec![ending.row.clone()];
            if let Some(next) = &ending.next {
                advance.draw.push(next.run);
                advance.rows.push(ending::row_of(next));
                self.entry.next = Some(next.clone());
            }
        }
        if let Some(Key { key, identity }) = self.key.clone() {
            (advance.idempotency_key, advance.identity) = (Some(key), identity);
        }
        Some(self.entry.to_body().map(|body| Advance { body, ..advance }))
    }

    /// How many jobs the next activation takes if this event is too large; none, if it cannot be made smaller.
    pub(crate) fn smaller(&self) -> Option<usize> {
        let jobs = &self.entry.turns.first().filter(|_| self.entry.begins.is_none())?.jobs;
        match jobs.first() {
            // Signals that were kept for the first activation belong to it; only updates can be left for later.
            Some(Job::Start(_)) => (!self.responders.is_empty()).then_some(self.responders.len() / 2 + 1),
            _ => (jobs.len() > 1).then_some(jobs.len() / 2),
        }
    }

    /// The outcome of an update, if this event has it.
    pub(crate) fn outcome(&self, id: &str) -> Option<Result<Payload, HostError>> {
        completed(&self.entry).find(|(of, _)| *of == id).map(|(_, outcome)| outcome)
    }

    /// Answers to operations, to be put back into the inbox, in order. Local activities are begun again.
    pub(crate) fn answers(&self) -> Vec<Item> {
        let run = self.entry.run;
        let jobs = self.entry.turns.first().map_or(&self.entry.arrived[..], |turn| &turn.jobs);
        let answers = jobs
            .iter()
            .filter(|job| job.answer().is_some() && !matches!(job, Job::ResolveLocalActivity { .. }));
        answers.map(|job| Item::Answer { run, job: job.clone(), generation: 0 }).collect()
    }

    /// The requests of callers, to be put back into the inbox, in order.
    pub(crate) fn take_requests(&mut self) -> Vec<Item> {
        let run = self.entry.run;
        let mut items = Vec::from_iter(self.take_start());
        let Some(turn) = self.entry.turns.first() else { return items };
        let requested =
            turn.jobs.iter().filter(|job| job.answer().is_none() && !matches!(job, Job::Start(_)));
        let (requested, mut requests) = (requested.collect::<Vec<&Job>>(), Vec::new());
        // Jobs that were kept for the first activation are before the requests, and have no responder here. If there is a
        // key, it belongs to the last request.
        let (responders, mut key) = (std::mem::take(&mut self.responders), self.key.clone());
        for (job, (_, responder)) in requested.into_iter().rev().zip(responders.into_iter().rev()) {
            let mut job = job.clone();
            if let Job::Update { run_validator, .. } = &mut job {
                *run_validator = true;
            }
            let request = Request { job, run: Some(run), key: key.take(), responder };
            requests.push(Item::Request(Box::new(request)));
        }
        items.extend(requests.into_iter().rev());
        items
    }

    /// The start that was to be written, to be tried once more. If its time has passed, the run begins at once.
    fn take_start(&mut self) -> Option<Item> {
        let reply = self.started.take()?;
        let turns = std::mem::take(&mut self.entry.turns);
        self.keep_start(turns.into_iter().flat_map(|turn| turn.jobs));
        let start = self.entry.start.take()?;
        let begins = self.entry.begins.clone().unwrap_or_default();
        let signal = std::mem::take(&mut self.entry.arrived).into_iter().next();
        let due = Some(start.start_time);
        let how = StartAs { reuse: self.reuse, key: self.key.clone(), due, signal };
        Some(Item::Start(Box::new(Starting { start, begins, how, is_fresh: false, reply })))
    }

    /// Keeps the start of a run in its event, and the signals for its first activation, which is due later.
    pub(crate) fn keep_start(&mut self, jobs: impl IntoIterator<Item = Job>) {
        for job in jobs {
            match job {
                Job::Start(start) => self.entry.start = Some(start),
                early if is_early(&early) => self.entry.arrived.push(early),
                _ => {}
            }
        }
    }

    /// Removes refused updates from a turn, and answers their senders. So on replay every update was accepted.
    pub(crate) fn reject_updates(&mut self, mut turn: Turn) -> Turn {
        let mut rejected = Vec::new();
        turn.commands.retain(|command| match command {
            Command::UpdateRejected { protocol_id, failure } => {
                rejected.push((protocol_id.clone(), failure.clone()));
                false
            }
            _ => true,
        });
        turn.jobs.retain_mut(|job| match job {
            Job::Update { protocol_id, run_validator, .. } => {
                *run_validator = false;
                !rejected.iter().any(|(id, _)| id == protocol_id)
            }
            _ => true,
        });
        for (id, failure) in rejected {
            // Nothing of it is written, so its key stays unused.
            self.key = self.key.take().filter(|key| key.key != id);
            let found = self.responders.iter().position(|(of, _)| of.as_deref() == Some(&id));
            if let Some(place) = found {
                self.responders.remove(place).1.refuse(HostError::Rejected(failure.into()));
            }
        }
        turn
    }
}

/// The updates that have their outcome in an event.
pub(crate) fn completed(entry: &Entry) -> impl Iterator<Item = (&str, Result<Payload, HostError>)> {
    let commands = entry.turns.iter().flat_map(|turn| &turn.commands);
    commands.filter_map(|command| match command {
        Command::UpdateCompleted { protocol_id, outcome } => {
            Some((protocol_id.as_str(), super::outcome(outcome.clone())))
        }
        _ => None,
    })
}
