//! The task that processes the inbox of one workflow, one item after another.
//!
//! ```text
//! inbox ──► jobs ──► activate ──► [ local activities ──► activate ]* ──► write ──► carry out, answer
//!                       │                                                  │
//!                       └── the code cannot continue: stuck                └── not written: forget, read the log again
//! ```
//!
//! There is at most one driver for each workflow, so that the workspace's log has one writer. What follows from what is decided in
//! [`workflow`](crate::workflow), without a clock and without I/O; the driver does what takes time, and carries out the
//! effects. What an activation changes in memory counts when it is written; when it is not, everything is forgotten and
//! read from the log.
//!
//! [`Session`] reads and writes the log, [`Turns`] activates the run's code, [`Driver`] processes the items.

mod code;
mod session;
mod turns;

use std::sync::Arc;

use seriatim_workflow::{Activation, Command, IdReusePolicy, Job, Payload, QueryAnswer};

use crate::application::{RunRow, RunStatus, Wait};
use crate::entry::Entry;
use crate::error::HostError;
use crate::inner::Inner;
use crate::size;
use crate::workflow::ending::{self, terminated};
use crate::workflow::item::{Responders, is_early, protocol_id};
use crate::workflow::writing::Writing;
use crate::workflow::{
    CodeStatus, Key, OpenRun, Presence, Reply, Request, Responder, StartAs, Starting, State, Work, Workflow,
    Written, outcome, step,
};
use session::Session;
use turns::Turns;

pub(crate) struct Driver {
    turns: Turns,
}

impl Driver {
    pub(crate) fn new(inner: Arc<Inner>, workflow: Arc<Workflow>) -> Self {
        Self { turns: Turns { session: Session::new(inner, workflow) } }
    }

    fn session(&mut self) -> &mut Session {
        &mut self.turns.session
    }

    fn inner(&self) -> &Arc<Inner> {
        &self.turns.session.inner
    }

    fn workflow(&self) -> &Arc<Workflow> {
        &self.turns.session.workflow
    }

    /// Processes the inbox until it is empty.
    pub(crate) async fn run(mut self) {
        let inner = self.inner().clone();
        let Ok(mut permit) = inner.active.acquire().await else { return };
        loop {
            if std::mem::take(&mut self.session().pauses) {
                // Without the permit: drivers of other workflows continue meanwhile.
                drop(permit);
                self.session().pause().await;
                let Ok(again) = inner.active.acquire().await else { return };
                permit = again;
            }
            if self.workflow().home.is_over() {
                return self.leave();
            }
            if !self.session().load().await {
                continue;
            }
            let Some(work) = self.next() else { return };
            self.work(work).await;
        }
    }

    /// The partition has left, or the host stops.
    fn leave(&mut self) {
        let workflow = self.workflow().clone();
        self.session().code.discard();
        if workflow.home.has_left() {
            return self.inner().dismiss(&workflow);
        }
        let items = workflow.lock().drain();
        items.into_iter().for_each(|item| item.refuse(HostError::Closed));
    }

    /// The next work; `None`: the inbox is empty, and the driver ends.
    fn next(&mut self) -> Option<Work> {
        loop {
            let workflow = self.workflow().clone();
            let mut state = workflow.lock();
            let Some(item) = state.inbox.pop() else {
                self.park(&mut state);
                return None;
            };
            drop(state);
            let step = self.session().change(|state, facts, effects| step::step(state, item, facts, effects));
            if step.is_some() {
                return step;
            }
        }
    }

    /// Ends the driver. The state is locked, so an item that is put into the inbox after this starts a new driver.
    fn park(&mut self, state: &mut State) {
        state.presence = Presence::Idle;
        if !state.is_before_begin() {
            state.jobs_limit = None;
        }
        match state.lifecycle.run() {
            // The input counts twice: the code holds what it has read from it.
            Some(open) => {
                let (home, bytes) = (self.workflow().home.clone(), 2 * open.input_bytes + open.bytes);
                self.session().code.keep(&home, open.row.run, bytes);
            }
            None => {
                state.presence = Presence::Removed;
                self.inner().table.remove(self.workflow());
                self.session().code.discard();
            }
        }
    }

    async fn work(&mut self, work: Work) {
        let run = self.workflow().lock().run().unwrap_or(0);
        match work {
            Work::Start(starting) => self.start(*starting).await,
            Work::Activate { jobs, responders } => self.turns.advance(jobs, responders, None).await,
            Work::Keyed(request) => self.keyed(*request).await,
            Work::Retries(retries) => {
                self.session().write(Writing::of(Entry { run, retries, ..Entry::default() })).await;
            }
            Work::Attempts { attempts, replies } => {
                let responders = replies.into_iter().map(|reply| (None, Responder::Written(reply))).collect();
                let writing = Writing::of(Entry { run, attempts, ..Entry::default() });
                self.session().write(Writing { responders, ..writing }).await;
            }
            Work::Arrived { jobs, responders } => self.arrived(jobs, responders, None).await,
            Work::RetryStuck { reply } => self.retry_stuck(reply).await,
            Work::End { ended, key, reply } => {
                let responder = reply.map(Responder::Written);
                let Some(responder) = self.unless_sent(key.as_ref(), responder).await else { return };
                let responders = responder.map(|responder| (None, responder)).into_iter().collect();
                self.turns.end(ended, key, responders).await;
            }
            Work::Begin => self.begin().await,
            Work::Reread => {}
            Work::Delivered(run) => {
                let entry = Entry { run, delivered: true, ..Entry::default() };
                self.session().write(Writing::of(entry)).await;
            }
            Work::Forget { runs, reply } => self.forget_runs(runs, reply).await,
            Work::Query { job, reply } => drop(reply.send(self.query(job).await)),
            Work::Inspect { reply } => drop(reply.send(self.inspect().await)),
        }
    }

    /// Looks up the key in the log. If it was used before, the responder gets the answer of that time, and `None` is returned.
    async fn unless_sent(
        &self,
        key: Option<&Key>,
        responder: Option<Responder>,
    ) -> Option<Option<Responder>> {
        let Some(key) = key else { return Some(responder) };
        match self.inner().histories.sent_with(self.workflow().workspace, key).await {
            Ok(None) => return Some(responder),
            Ok(Some(entry)) => match responder {
                Some(Responder::Written(reply)) => {
                    let begins = entry.begins.is_some();
                    drop(reply.send(Ok(Written { run: entry.run, repeated: true, begins })));
                }
                Some(Responder::Update(reply)) => self.outcome_again(entry.run, &key.key, reply).await,
                None => {}
            },
            Err(error) => responder.into_iter().for_each(|responder| responder.refuse(error.clone())),
        }
        None
    }

    /// A request that has a key.
    async fn keyed(&mut self, request: Request) {
        let Request { job, run, key, responder } = request;
        let Some(Some(responder)) = self.unless_sent(key.as_ref(), Some(responder)).await else { return };
        let request = Request { job, run, key, responder };
        let (refusal, is_before_begin) = {
            let (facts, state) = (self.turns.session.facts(), self.workflow().lock());
            (step::refusal(&state, &request, 0, &facts), state.is_before_begin())
        };
        match refusal {
            Some(error) => request.responder.refuse(error),
            None if is_before_begin && !is_early(&request.job) => {
                self.workflow().lock().inbox.hold_back(Box::new(request));
            }
            None if is_before_begin => {
                self.arrived(vec![request.job], vec![(None, request.responder)], request.key).await;
            }
            None => {
                let responders = vec![(protocol_id(&request.job), request.responder)];
                self.turns.advance(vec![request.job], responders, request.key).await;
            }
        }
    }

    /// Answers a repeated update: with its outcome if there is one, otherwise when there is one.
    async fn outcome_again(&self, run: u64, id: &str, reply: Reply<Payload>) {
        let (histories, workspace) = (&self.inner().histories, self.workflow().workspace);
        let turns = match histories.row(workspace, Some(run)).await {
            Ok(Some(row)) => histories.turns(workspace, &row).await,
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
        let (facts, mut state) = (self.turns.session.facts(), self.workflow().lock());
        match found {
            Some(found) => drop(reply.send(outcome(found))),
            None if state.run() == Some(run) => drop(state.updates.insert(id.to_owned(), reply)),
            None => drop(reply.send(Err(state.not_running(&facts)))),
        }
    }

    /// Starts a run.
    async fn start(&mut self, mut starting: Starting) {
        // The start that created the name is not always the first to get here: another start may have found the name
        // meanwhile. So the key is looked up unless this start created the name and the workflow has no run yet.
        let is_first = {
            let state = self.workflow().lock();
            starting.is_fresh && state.lifecycle.newest().is_none() && state.run().is_none()
        };
        if !is_first {
            let responder = Some(Responder::Written(starting.reply));
            let unsent = self.unless_sent(starting.how.key.as_ref(), responder).await;
            let Some(Some(Responder::Written(reply))) = unsent else { return };
            starting.reply = reply;
        }
        let Some(starting) = step::signal_open(&mut self.workflow().lock(), starting) else { return };
        if let Some(error) = self.refuse_or_terminate(starting.how.reuse).await {
            return drop(starting.reply.send(Err(error)));
        }
        let run = match self.turns.next_run().await {
            Ok(run) => run,
            Err(error) => return drop(starting.reply.send(Err(error.into()))),
        };
        let Starting { mut start, begins, how, reply, .. } = starting;
        let StartAs { reuse, key, due, signal } = how;
        let now = self.inner().now();
        let due = due.filter(|due| *due > now);
        let time = due.unwrap_or(now);
        (start.start_time, start.first_run_id) = (time, self.workflow().run_id(run));
        let row = ending::row(run, &start, time);
        let job = Job::Start(start.clone());
        let open = OpenRun::new(row, *start, begins.clone(), time);
        self.workflow().lock().lifecycle.open(OpenRun { due, wait: Some(Wait::Over), ..open });
        let entry = Entry { run, begins: Some(begins), ..Entry::default() };
        let writing = Writing { key, started: Some(reply), reuse, ..Writing::of(entry) };
        let jobs = std::iter::once(job).chain(signal).collect();
        match due {
            Some(_) => self.turns.start_later(writing, jobs).await,
            None => self.turns.start(jobs, writing).await,
        }
    }

    /// Why a run may not be started now. An open run that the policy terminates is ended first.
    async fn refuse_or_terminate(&mut self, reuse: IdReusePolicy) -> Option<HostError> {
        let (open, newest) = {
            let state = self.workflow().lock();
            (state.lifecycle.run().map(|open| open.row.clone()), state.lifecycle.newest().cloned())
        };
        if let Some(row) = open {
            if reuse != IdReusePolicy::TerminateIfRunning {
                return Some(HostError::Running { id: row.id, run_id: self.workflow().run_id(row.run) });
            }
            let ended = terminated("another run takes its place", self.inner().now());
            self.turns.end(ended, None, Vec::new()).await;
            let state = self.workflow().lock();
            let is_gone = !state.lifecycle.is_unread() && state.run().is_none();
            return (!is_gone).then(|| HostError::Busy("the run before could not be ended".to_owned()));
        }
        let newest = newest?;
        let is_refused = match reuse {
            IdReusePolicy::AllowDuplicate | IdReusePolicy::TerminateIfRunning => false,
            IdReusePolicy::AllowDuplicateFailedOnly => newest.status == RunStatus::Completed,
            IdReusePolicy::RejectDuplicate => true,
        };
        is_refused.then(|| HostError::Used(newest.id))
    }

    /// The first activation of a run that continues another one, or that was started with a delay.
    async fn begin(&mut self) {
        let found =
            self.workflow().lock().lifecycle.run().map(|open| {
                (open.row.clone(), open.start.clone(), open.input_bytes, open.pending.early.clone())
            });
        let Some((row, start, input_bytes, early)) = found else { return };
        self.session().code.discard();
        let start = if size::is_large_input(input_bytes) {
            self.inner().histories.start(self.workflow().workspace, &row).await
        } else {
            Ok((*start).clone())
        };
        let start = match start {
            Ok(start) => start,
            Err(error) => {
                self.workflow().lock().inbox.release();
                return self.session().not_written(error, Writing::default());
            }
        };
        let mut jobs = vec![Job::Start(Box::new(start))];
        jobs.extend(early);
        let requests = {
            let (options, mut state) = (&self.inner().options, self.workflow().lock());
            let limit = state.jobs_limit.unwrap_or(options.jobs_max).saturating_sub(1);
            state.inbox.take_held_back(limit, options.jobs_bytes_max)
        };
        let (mut responders, mut key) = (Vec::new(), None);
        for update in requests {
            responders.push((protocol_id(&update.job), update.responder));
            jobs.push(update.job);
            key = update.key;
        }
        self.turns.advance(jobs, responders, key).await;
    }

    /// Writes jobs that the run's code cannot react to now.
    async fn arrived(&mut self, arrived: Vec<Job>, responders: Responders, key: Option<Key>) {
        let run = self.workflow().lock().run().unwrap_or(0);
        let entry = Entry { run, arrived, ..Entry::default() };
        self.session().write(Writing { responders, key, ..Writing::of(entry) }).await;
    }

    /// Runs that have ended leave the index.
    async fn forget_runs(&mut self, mut forgets: Vec<u64>, reply: Reply<Written>) {
        let open = self.workflow().lock().run();
        forgets.retain(|run| Some(*run) != open);
        let Some(run) = forgets.first().copied() else {
            return drop(reply.send(Ok(Written { run: 0, repeated: true, begins: false })));
        };
        let responders = vec![(None, Responder::Written(reply))];
        let entry = Entry { run, ..Entry::default() };
        self.session().write(Writing { forgets, responders, ..Writing::of(entry) }).await;
    }

    /// Retries a stuck run: its log is read again, and the jobs that its code could not react to go back into the inbox.
    async fn retry_stuck(&mut self, reply: Reply<Written>) {
        let was_stuck = self.session().change(|state, _, effects| state.clear_stuck(effects));
        self.session().code.discard();
        while !self.session().load().await {
            if self.workflow().home.is_over() {
                let error = self.workflow().home.refusal();
                return drop(reply.send(Err(error)));
            }
            self.session().pause().await;
        }
        let answer = match self.newest_run() {
            Ok((row, turns, true)) => {
                let built =
                    if turns == 0 { Ok(()) } else { self.session().code.of(&row, turns).await.map(drop) };
                built.map(|()| Written { run: row.run, repeated: !was_stuck, begins: false })
            }
            Ok((_, _, false)) => Err(self.workflow().lock().not_running(&self.turns.session.facts())),
            Err(error) => return drop(reply.send(Err(error))),
        };
        if let Err(error) = &answer
            && self.workflow().lock().run().is_some()
        {
            self.session().mark_stuck(error, Writing::default(), Vec::new());
        }
        drop(reply.send(answer));
    }

    fn newest_run(&self) -> Result<(RunRow, u32, bool), HostError> {
        self.workflow().lock().newest_run(&self.turns.session.facts())
    }

    /// Asks the newest run's code. Nothing is written.
    async fn query(&mut self, job: Job) -> Result<Payload, HostError> {
        let (row, turns, is_open) = self.newest_run()?;
        if let Some(error) = self.workflow().lock().not_begun(&self.turns.session.facts(), None) {
            return Err(error);
        }
        let time = self.turns.open().map_or_else(|| self.inner().now(), |(.., time)| time);
        let run_id = self.workflow().run_id(row.run);
        let activation = Activation { history_length: turns, ..Activation::new(run_id, time, vec![job]) };
        let code = &mut self.session().code;
        code.of(&row, turns).await?;
        let answered = code.run(&row, activation).await?;
        if !is_open || answered.is_err() {
            code.discard();
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

    /// Says what the open run's branches wait for.
    async fn inspect(&mut self) -> Result<CodeStatus, HostError> {
        let (row, turns, is_open) = self.newest_run()?;
        if !is_open {
            return Ok(CodeStatus::default());
        }
        let instance = self.session().code.of(&row, turns).await?;
        Ok(CodeStatus { blocked: instance.blocked(), warnings: instance.warnings() })
    }
}
