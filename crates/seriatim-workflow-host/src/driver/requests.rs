//! What is asked from outside: starts, ends, questions.

use std::time::Duration;

use seriatim_engine::{RunRow, RunStatus, Wait};
use seriatim_storage::Digest;
use seriatim_workflow::{Activation, Command, Job, Kind, Payload, QueryAnswer};

use super::Driver;
use super::inbox::{is_early, protocol_id};
use super::start::{keep_start, written_before};
use super::writing::Writing;
use crate::attempt::to_time;
use crate::workflow::ending;
use crate::entry::{Attempted, Ended, Entry, Retry};
use crate::error::HostError;
use crate::load::read_entry;
use crate::size;
use crate::workflow::{
    Answering, Key, Looked, OpenRun, Reply, StartAs, Starting, State, Told, UnderWay, Written, outcome,
};

impl Driver {
    /// Whether something was sent before under the same key: then it is answered.
    pub(super) async fn repeated(&self, key: &Key) -> Result<Option<Entry>, HostError> {
        let found = self.inner.engine.workflows().sent_with(self.workflow.workspace, &key.key).await?;
        let Some(event) = found else { return Ok(None) };
        let same = event.event.idempotency.as_ref();
        if same.is_some_and(|same| same.request != Digest::of(key.identity.as_bytes())) {
            return Err(HostError::KeyReused(key.key.clone()));
        }
        Ok(Some(read_entry(&event)?.unwrap_or_default()))
    }

    /// Something that was told with a key.
    pub(super) async fn keyed(&mut self, told: Told) {
        let Some(key) = told.key.clone() else { return };
        match self.repeated(&key).await {
            Err(error) => told.answer.refuse(error),
            Ok(Some(entry)) => match told.answer {
                Answering::Written(reply) => {
                    drop(reply.send(Ok(written_before(&entry))));
                }
                Answering::Update(reply) => self.outcome_again(&entry, protocol_id(&told.job), reply).await,
            },
            Ok(None) => {
                let (refused, is_due) = {
                    let state = self.workflow.lock();
                    (self.refuses_told(&state, &told), state.is_before_begin())
                };
                match refused {
                    Some(error) => told.answer.refuse(error),
                    None if is_due && !is_early(&told.job) => {
                        let told = Told { key: Some(key), ..told };
                        self.workflow.lock().hold_back(Box::new(told));
                    }
                    None if is_due => {
                        self.arrived(vec![told.job], vec![(None, told.answer)], Some(key)).await;
                    }
                    None => {
                        let told_to = vec![(protocol_id(&told.job), told.answer)];
                        self.advance(vec![told.job], told_to, Some(key)).await;
                    }
                }
            }
        }
    }

    /// Why the open run cannot be told this.
    fn refuses_told(&self, state: &State, told: &Told) -> Option<HostError> {
        let open = state.known.as_ref().and_then(|known| known.open.as_ref());
        let fits = open.is_some_and(|open| told.run.is_none_or(|run| run == open.row.run));
        match &state.stuck {
            _ if !fits => Some(self.not_running(state)),
            Some(reason) => Some(self.stuck_error(state, reason)),
            None if !state.is_before_begin() => None,
            None if is_early(&told.job) => self.no_room(state, &told.job, 0),
            None => self.not_begun(state, Some(self.inner.options.update_wait)),
        }
    }

    /// Somebody asks again for the outcome of an update.
    pub(super) async fn outcome_again(&self, entry: &Entry, id: Option<String>, reply: Reply<Payload>) {
        let id = id.unwrap_or_default();
        let row = self.inner.row(self.workflow.workspace, Some(entry.run)).await;
        let turns = match row {
            Ok(Some(row)) => self.inner.read_turns(self.workflow.workspace, &row).await,
            Ok(None) => Ok(Vec::new()),
            Err(error) => Err(error),
        };
        let turns = match turns {
            Ok(turns) => turns,
            Err(error) => return drop(reply.send(Err(error.into()))),
        };
        let found = turns.into_iter().flat_map(|turn| turn.commands).find_map(|command| match command {
            Command::UpdateCompleted { protocol_id, outcome } if protocol_id == id => Some(outcome),
            _ => None,
        });
        let mut state = self.workflow.lock();
        let is_open = state
            .known
            .as_ref()
            .and_then(|known| known.open.as_ref())
            .is_some_and(|open| open.row.run == entry.run);
        match found {
            Some(found) => drop(reply.send(outcome(found))),
            None if is_open => drop(state.updates.insert(id, reply)),
            None => {
                let error = self.not_running(&state);
                drop(reply.send(Err(error)));
            }
        }
    }

    /// Starts a run.
    pub(super) async fn start(&mut self, starting: Starting) {
        // The start that made the workflow's name may come after another one that found it: only before the first run is
        // there no key to look for.
        let is_first = {
            let state = self.workflow.lock();
            let known = state.known.as_ref();
            starting.is_fresh && known.is_none_or(|known| known.newest.is_none() && known.open.is_none())
        };
        if !is_first && let Some(key) = &starting.how.key {
            match self.repeated(key).await {
                Err(error) => return drop(starting.reply.send(Err(error))),
                Ok(Some(entry)) => return drop(starting.reply.send(Ok(written_before(&entry)))),
                Ok(None) => {}
            }
        }
        let Some(starting) = self.signal_open(starting) else { return };
        if let Some(error) = self.refuses(&starting).await {
            return drop(starting.reply.send(Err(error)));
        }
        let run = match self.next_run().await {
            Ok(run) => run,
            Err(error) => return drop(starting.reply.send(Err(error.into()))),
        };
        let Starting { mut start, begins, how, reply, .. } = starting;
        let StartAs { reuse, key, due, signal } = how;
        let now = to_time(self.inner.env.now());
        let due = due.filter(|due| *due > now);
        let time = due.unwrap_or(now);
        (start.start_time, start.first_run_id) = (time, self.workflow.run_id(run));
        let row = ending::row(run, &start, time);
        let job = Job::Start(start.clone());
        {
            let mut state = self.workflow.lock();
            let Some(known) = &mut state.known else { return };
            let (begins, (start, input_bytes)) = (begins.clone(), size::slim(*start));
            let pending = crate::workflow::pending::Pending::default();
            known.open = Some(OpenRun {
                row,
                start,
                input_bytes,
                begins,
                pending,
                bytes: 0,
                turns: 0,
                time,
                due,
                wait: Some(Wait::Over),
            });
        }
        let entry = Entry { run, begins: Some(begins), ..Entry::default() };
        let writing = Writing { entry, key, started: Some(reply), reuse, ..Writing::default() };
        let jobs = std::iter::once(job).chain(signal).collect();
        if due.is_some() {
            return self.start_later(writing, jobs).await;
        }
        match self.activate(jobs).await {
            Ok(turn) => self.conclude(turn, writing).await,
            Err((error, jobs)) => self.remain(writing, error, jobs).await,
        }
    }

    /// The first activation of a run that was to be started has failed. The run exists all the same, stuck: it can be
    /// looked at, retried and terminated.
    pub(super) async fn remain(&mut self, mut writing: Writing, error: HostError, jobs: Vec<Job>) {
        self.drop_instance();
        let reason = match error {
            HostError::Stuck { reason, .. } => reason,
            error => {
                self.workflow.lock().forget();
                return writing.refuse(&error);
            }
        };
        let turns = std::mem::take(&mut writing.entry.turns);
        keep_start(&mut writing.entry, turns.into_iter().flat_map(|turn| turn.jobs).chain(jobs));
        {
            let mut state = self.workflow.lock();
            let Some(open) = state.known.as_mut().and_then(|known| known.open.as_mut()) else { return };
            (open.pending, open.turns, open.due) = (Default::default(), 0, Some(open.start.start_time));
        }
        let run = writing.entry.run;
        self.write(writing, None).await;
        let mut state = self.workflow.lock();
        let open = state.known.as_ref().and_then(|known| known.open.as_ref());
        if open.is_some_and(|open| open.row.run == run && open.row.from > 0) {
            tracing::warn!(workspace = %self.workflow.workspace, run, %reason, "a run is stuck at its start");
            state.stuck = Some(reason);
            self.inner.metrics.stuck.increment(1.0);
        }
        // What the failed activation has begun is not so.
        state.forget();
    }

    /// A stuck run is tried again: everything is read anew, and what it could not react to is told again.
    pub(super) async fn unstick(&mut self, reply: Reply<Written>) {
        let was_stuck = {
            let mut state = self.workflow.lock();
            let was_stuck = state.stuck.take().is_some();
            if was_stuck {
                self.inner.metrics.stuck.decrement(1.0);
                state.forget();
                // Alarms that rang and messages that were answered meanwhile are repeated; activities are not.
                state.under_way.retain(|(kind, _), under_way| match (kind, under_way) {
                    (Kind::Activity, _) => true,
                    (_, UnderWay::Task(token)) => {
                        token.cancel();
                        false
                    }
                    (_, UnderWay::Timer(_)) => false,
                });
            }
            was_stuck
        };
        self.drop_instance();
        while !self.load().await {
            if self.inner.stop.is_cancelled() {
                return;
            }
            self.pause().await;
        }
        let answer = match self.newest() {
            Ok((row, turns, true)) => {
                let built = if turns == 0 { Ok(()) } else { self.instance(&row, turns).await.map(drop) };
                match built {
                    Ok(()) => Ok(Written { run: row.run, repeated: !was_stuck, begins: false }),
                    Err(error) => {
                        let writing = Writing::default();
                        self.fail(&error, writing, Vec::new());
                        Err(error)
                    }
                }
            }
            Ok((_, _, false)) => Err(self.not_running(&self.workflow.lock())),
            Err(error) => Err(error),
        };
        let _ = reply.send(answer);
    }

    /// Why a run may not be started now; one that has to make way for it is ended first.
    pub(super) async fn refuses(&mut self, starting: &Starting) -> Option<HostError> {
        use seriatim_workflow::IdReusePolicy as Reuse;
        let (open, newest) = {
            let state = self.workflow.lock();
            let known = state.known.as_ref()?;
            (known.open.as_ref().map(|open| open.row.clone()), known.newest.clone())
        };
        if let Some(row) = open {
            if starting.how.reuse != Reuse::TerminateIfRunning {
                return Some(HostError::Running { id: row.id, run_id: self.workflow.run_id(row.run) });
            }
            self.end(ending::terminated("another run takes its place", &self.inner.env), None, None).await;
            let gone = self.workflow.lock().known.as_ref().is_some_and(|known| known.open.is_none());
            return (!gone).then(|| HostError::Busy("the run before could not be ended".to_owned()));
        }
        let newest = newest?;
        let refused = match starting.how.reuse {
            Reuse::AllowDuplicate | Reuse::TerminateIfRunning => false,
            Reuse::AllowDuplicateFailedOnly => newest.status == RunStatus::Completed,
            Reuse::RejectDuplicate => true,
        };
        refused.then(|| HostError::Used(newest.id))
    }

    /// The first activation of a run that goes on where another has ended.
    pub(super) async fn begin(&mut self) {
        let start = {
            let state = self.workflow.lock();
            let open = state.known.as_ref().and_then(|known| known.open.as_ref());
            open.map(|open| {
                (open.row.clone(), open.start.clone(), open.input_bytes, open.pending.early.clone())
            })
        };
        let Some((row, start, input_bytes, early)) = start else { return };
        self.drop_instance();
        let start = if size::is_slim(input_bytes) {
            self.inner.read_start(self.workflow.workspace, &row).await
        } else {
            Ok((*start).clone())
        };
        let start = match start {
            Ok(start) => start,
            Err(error) => {
                self.workflow.lock().release();
                return self.not_written(error, Writing::default()).await;
            }
        };
        let mut jobs = vec![Job::Start(Box::new(start))];
        jobs.extend(early);
        let (mut told, mut key) = (Vec::new(), None);
        for update in self.take_held_back() {
            told.push((protocol_id(&update.job), update.answer));
            jobs.push(update.job);
            key = update.key;
        }
        self.advance(jobs, told, key).await;
    }

    /// Ends the open run from outside.
    pub(super) async fn end(&mut self, ended: Ended, key: Option<Key>, reply: Option<Reply<Written>>) {
        if let Some(key) = &key {
            match self.repeated(key).await {
                Ok(None) => {}
                Ok(Some(entry)) => {
                    reply.map(|reply| reply.send(Ok(written_before(&entry))));
                    return;
                }
                Err(error) => {
                    reply.map(|reply| reply.send(Err(error)));
                    return;
                }
            }
        }
        let ending = {
            let state = self.workflow.lock();
            let open = state.known.as_ref().and_then(|known| known.open.as_ref());
            match open {
                Some(open) => Ok(ending::by_host(open, &ended)),
                None => Err(self.not_running(&state)),
            }
        };
        let ending = match ending {
            Ok(ending) => ending,
            Err(error) => {
                reply.map(|reply| reply.send(Err(error)));
                return;
            }
        };
        let entry = Entry { run: ending.row.run, ended: Some(ended), ..Entry::default() };
        let told = reply.map(|reply| (None, Answering::Written(reply))).into_iter().collect();
        self.write(Writing { entry, key, told, ..Writing::default() }, Some(ending)).await;
    }

    /// Notes that attempts have failed and others follow.
    pub(super) async fn retry(&mut self, retries: Vec<Retry>) {
        let run = self.open().map_or(0, |(row, ..)| row.run);
        let entry = Entry { run, retries, ..Entry::default() };
        self.write(Writing { entry, ..Writing::default() }, None).await;
    }

    /// Notes that attempts have begun, or given a sign of life.
    pub(super) async fn attempted(&mut self, attempts: Vec<Attempted>, replies: Vec<Reply<Written>>) {
        let run = self.open().map_or(0, |(row, ..)| row.run);
        let entry = Entry { run, attempts, ..Entry::default() };
        let told = replies.into_iter().map(|reply| (None, Answering::Written(reply))).collect();
        self.write(Writing { entry, told, ..Writing::default() }, None).await;
    }

    /// Keeps what the run's code cannot react to now.
    pub(super) async fn arrived(
        &mut self,
        arrived: Vec<Job>,
        told: Vec<(Option<String>, Answering)>,
        key: Option<Key>,
    ) {
        let run = self.open().map_or(0, |(row, ..)| row.run);
        let entry = Entry { run, arrived, ..Entry::default() };
        self.write(Writing { entry, told, key, ..Writing::default() }, None).await;
    }

    /// Notes that a run that has ended has told others what it had to.
    pub(super) async fn delivered(&mut self, run: u64) {
        let entry = Entry { run, delivered: true, ..Entry::default() };
        self.write(Writing { entry, ..Writing::default() }, None).await;
    }

    /// Runs that have ended leave the index.
    pub(super) async fn forget_runs(&mut self, forgets: Vec<u64>, reply: Reply<Written>) {
        let open = self.open().map(|(row, ..)| row.run);
        let forgets: Vec<u64> = forgets.into_iter().filter(|run| Some(*run) != open).collect();
        let Some(run) = forgets.first().copied() else {
            return drop(reply.send(Ok(Written { run: 0, repeated: true, begins: false })));
        };
        let (entry, told) = (Entry { run, ..Entry::default() }, vec![(None, Answering::Written(reply))]);
        self.write(Writing { entry, forgets, told, ..Writing::default() }, None).await;
    }

    /// The newest run, open or not, with the number of its turns.
    pub(super) fn newest(&self) -> Result<(RunRow, u32, bool), HostError> {
        let state = self.workflow.lock();
        let known = state.known.as_ref().ok_or(HostError::Closed)?;
        match (&known.open, &known.newest) {
            (Some(open), _) => {
                if let Some(reason) = &state.stuck {
                    return Err(self.stuck_error(&state, reason));
                }
                Ok((open.row.clone(), open.turns, true))
            }
            (None, Some(row)) => Ok((row.clone(), u32::MAX, false)),
            (None, None) => Err(self.not_running(&state)),
        }
    }

    /// Asks the newest run's code. Nothing is written.
    pub(super) async fn query(&mut self, job: Job, reply: Reply<Payload>) {
        let answer = self.ask(job).await;
        let _ = reply.send(answer);
    }

    pub(super) async fn ask(&mut self, job: Job) -> Result<Payload, HostError> {
        let (row, turns, is_open) = self.newest()?;
        if let Some(error) = self.not_begun(&self.workflow.lock(), None) {
            return Err(error);
        }
        let run_id = self.workflow.run_id(row.run);
        let time = self.open().map_or_else(|| to_time(self.inner.env.now()), |(.., time)| time);
        self.instance(&row, turns).await?;
        let activation = Activation { history_length: turns, ..Activation::new(run_id, time, vec![job]) };
        let (instance, answered) = self.run_code(&row, activation).await?;
        *self.held() = Some((row.run, instance));
        if !is_open || answered.is_err() {
            self.drop_instance();
        }
        let commands =
            answered.map_err(|failure| HostError::Stuck { id: row.id, reason: failure.to_string() })?;
        let answer = commands.into_iter().find_map(|command| match command {
            Command::QueryAnswer { answer, .. } => Some(answer),
            _ => None,
        });
        match answer {
            Some(QueryAnswer::Answered { result }) => Ok(result),
            Some(QueryAnswer::Failed { failure }) => Err(HostError::Query(failure.into())),
            None => Err(HostError::Invalid("the run's code gave no answer".to_owned())),
        }
    }

    /// Why nothing can be asked of a run whose first activation is still to come, unless that is waited for.
    pub(super) fn not_begun(&self, state: &State, wait: Option<Duration>) -> Option<HostError> {
        let open = state.known.as_ref().and_then(|known| known.open.as_ref())?;
        let left = open.due?.as_micros().saturating_sub(to_time(self.inner.env.now()).as_micros());
        let is_waited_for = wait.is_some_and(|wait| Duration::from_micros(left) <= wait);
        let error = HostError::NotBegun { id: open.row.id.clone(), seconds: left.div_ceil(1_000_000) };
        (!is_waited_for).then_some(error)
    }

    /// Says what the open run's branches wait for.
    pub(super) async fn look(&mut self, reply: Reply<Looked>) {
        let looked = match self.newest() {
            Ok((row, turns, true)) => self
                .instance(&row, turns)
                .await
                .map(|instance| Looked { blocked: instance.blocked(), warnings: instance.warnings() }),
            Ok((_, _, false)) => Ok(Looked::default()),
            Err(error) => Err(error),
        };
        let _ = reply.send(looked);
    }
}
