//! The task that does what waits for one workflow, one thing after the other.
//!
//! ```text
//! inbox ──► jobs ──► activate ──► [ local activities ──► activate ]* ──► write ──► carry out, answer
//!                       │                                                  │
//!                       └── the code does not get on: stuck                └── not written: forget, read the log again
//! ```
//!
//! Only one driver is at work for a workflow, so that the workspace's log has one writer. What an activation changes in
//! memory counts when it is written; when it is not, everything is forgotten and read from the log.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use seriatim_engine::{Advance, RunRow, RunStatus, SubmitError};
use seriatim_storage::Digest;
use seriatim_types::ErrorKind;
use seriatim_workflow::{
    Activation, ActivationFailure, Command, Instance, InstanceOptions, Job, Payload, QueryAnswer,
};

use crate::attempt::to_time;
use crate::clock::Alarm;
use crate::ending::{self, Ending};
use crate::entry::{Ended, Entry, Retry, Turn};
use crate::error::HostError;
use crate::inner::Inner;
use crate::load::read_entry;
use crate::workflow::{
    Answering, Item, Key, Known, OpenRun, Reply, Starting, State, Told, Workflow, Written, outcome,
};

pub(crate) struct Driver {
    pub(crate) inner: Arc<Inner>,
    pub(crate) workflow: Arc<Workflow>,
    /// The open run's code, with its number. Nobody else has it; the lock lets the task go from thread to thread.
    instance: Mutex<Option<(u64, Instance)>>,
}

/// What is done next.
enum Step {
    Start(Box<Starting>),
    Jobs { jobs: Vec<Job>, told: Vec<(Option<String>, Answering)>, key: Option<Key> },
    Keyed(Box<Told>),
    Retries(Vec<Retry>),
    End { ended: Ended, key: Option<Key>, reply: Option<Reply<Written>> },
    Begin,
    Delivered(u64),
    Query { job: Job, reply: Reply<Payload> },
    Look { reply: Reply<Vec<seriatim_workflow::Blocked>> },
}

/// What is to be written, and who hears of it.
#[derive(Default)]
struct Writing {
    entry: Entry,
    key: Option<Key>,
    started: Option<Reply<Written>>,
    told: Vec<(Option<String>, Answering)>,
}

impl Writing {
    fn refuse(self, error: &HostError) {
        if let Some(reply) = self.started {
            let _ = reply.send(Err(error.clone()));
        }
        self.told.into_iter().for_each(|(_, answering)| answering.refuse(error.clone()));
    }

    fn is_awaited(&self) -> bool {
        self.started.is_some() || !self.told.is_empty()
    }
}

impl Driver {
    pub(crate) fn new(inner: Arc<Inner>, workflow: Arc<Workflow>) -> Self {
        Self { inner, workflow, instance: Mutex::new(None) }
    }

    fn held(&mut self) -> &mut Option<(u64, Instance)> {
        self.instance.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    fn drop_instance(&mut self) {
        *self.held() = None;
    }

    /// Does what waits, until nothing does.
    pub(crate) async fn run(mut self) {
        let inner = self.inner.clone();
        let Ok(_permit) = inner.active.acquire().await else { return };
        loop {
            if inner.stop.is_cancelled() {
                self.stop();
                return;
            }
            if !self.load().await {
                continue;
            }
            let Some(step) = self.next() else { return };
            match step {
                Step::Start(starting) => self.start(*starting).await,
                Step::Jobs { jobs, told, key } => self.advance(jobs, told, key).await,
                Step::Keyed(told) => self.keyed(*told).await,
                Step::Retries(retries) => self.retry(retries).await,
                Step::End { ended, key, reply } => self.end(ended, key, reply).await,
                Step::Begin => self.begin().await,
                Step::Delivered(run) => self.delivered(run).await,
                Step::Query { job, reply } => self.query(job, reply).await,
                Step::Look { reply } => self.look(reply).await,
            }
        }
    }

    /// The host is closing.
    fn stop(&mut self) {
        let items: Vec<Item> = {
            let mut state = self.workflow.lock();
            (state.is_driven, state.asked) = (false, 0);
            state.updates.clear();
            state.inbox.drain(..).collect()
        };
        items.into_iter().for_each(|item| item.refuse(HostError::Closed));
    }

    /// Reads what the log says, if it is not known. Says whether it is.
    async fn load(&mut self) -> bool {
        if self.workflow.lock().known.is_some() {
            return true;
        }
        let fresh = {
            let state = self.workflow.lock();
            matches!(state.inbox.front(), Some(Item::Start(starting)) if starting.is_fresh)
        };
        let known =
            if fresh { Ok(Known::default()) } else { self.inner.read_known(self.workflow.workspace).await };
        match known {
            Ok(known) => {
                self.workflow.lock().known = Some(known);
                self.resume();
                // What was written and not acknowledged may have ended a run.
                self.workflow.ended.notify_waiters();
                true
            }
            Err(error) => {
                let asked: Vec<Item> = {
                    let mut state = self.workflow.lock();
                    state.asked = 0;
                    let (asked, rest): (Vec<Item>, Vec<Item>) =
                        state.inbox.drain(..).partition(Item::is_asked);
                    state.inbox = rest.into();
                    asked
                };
                asked.into_iter().for_each(|item| item.refuse(error.clone().into()));
                tracing::warn!(workspace = %self.workflow.workspace, %error, "a workflow cannot be read; it is tried again");
                self.pause().await;
                false
            }
        }
    }

    async fn pause(&self) {
        let pause = self.inner.env.sleep(self.inner.env.jitter(self.inner.options.retry));
        self.inner.stop.run_until_cancelled(pause).await;
    }

    /// Takes out of the inbox what is done next; nothing: the driver ends.
    fn next(&mut self) -> Option<Step> {
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
    fn park(&mut self, state: &mut State) {
        state.is_driven = false;
        let open = state.known.as_ref().and_then(|known| known.open.as_ref()).map(|open| open.row.run);
        match (self.held().take(), open) {
            (Some((run, instance)), Some(open)) if run == open => {
                let dropped = self.inner.instances().put(self.workflow.workspace, run, instance);
                drop(dropped);
            }
            (_, None) => {
                state.is_removed = true;
                self.inner.remove(self.workflow.workspace);
            }
            _ => {}
        }
    }

    fn step(&mut self, state: &mut State, item: Item) -> Option<Step> {
        let open = state.known.as_ref().and_then(|known| known.open.as_ref());
        let run = open.map(|open| open.row.run);
        let is_current = |asked: u64| run == Some(asked);
        match item {
            Item::Start(starting) => Some(Step::Start(starting)),
            Item::Tell(told) if told.key.is_some() => Some(Step::Keyed(told)),
            Item::Tell(_) | Item::Answer { .. } => self.gather(state, item),
            Item::Retry { run, retry } => is_current(run).then(|| Step::Retries(vec![*retry])),
            Item::End { run: Some(asked), reply, .. } if !is_current(asked) => {
                let error = self.not_running(state);
                reply.map(|reply| reply.send(Err(error)));
                None
            }
            Item::End { ended, key, reply, .. } => Some(Step::End { ended: *ended, key, reply }),
            Item::Begin { run } => {
                (is_current(run) && open.is_some_and(|open| open.due.is_some())).then_some(Step::Begin)
            }
            Item::Delivered { run } => Some(Step::Delivered(run)),
            Item::Query { job, reply } => Some(Step::Query { job, reply }),
            Item::Look { reply } => Some(Step::Look { reply }),
            Item::Wake => None,
        }
    }

    /// Puts what has happened to the run into one activation: answers, and what was told without a key.
    fn gather(&mut self, state: &mut State, first: Item) -> Option<Step> {
        let (mut jobs, mut told, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
        let mut item = Some(first);
        let limit = self.inner.options.jobs_max.max(1);
        while let Some(present) = item.take() {
            let open = state.known.as_ref().and_then(|known| known.open.as_ref());
            let begun = open.filter(|open| open.due.is_none());
            match present {
                Item::Answer { run, job, generation } => {
                    let is_new = seen.insert(answered(&job));
                    let is_late =
                        matches!(job, Job::ResolveLocalActivity { .. }) && generation != state.generation;
                    let fits = begun.is_some_and(|open| open.row.run == run && open.pending.admits(&job));
                    if is_new && !is_late && fits && state.stuck.is_none() {
                        jobs.push(job);
                    }
                }
                Item::Tell(tell) => {
                    let fits = open.is_some_and(|open| tell.run.is_none_or(|run| run == open.row.run));
                    match (&state.stuck, fits, begun) {
                        (Some(reason), true, _) => tell.answer.refuse(self.stuck_error(state, reason)),
                        (None, true, Some(_)) => {
                            told.push((protocol_id(&tell.job), tell.answer));
                            jobs.push(tell.job);
                        }
                        (None, true, None) => {
                            let text = "the run's first activation is not due yet".to_owned();
                            tell.answer.refuse(HostError::Busy(text));
                        }
                        (_, false, _) => tell.answer.refuse(self.not_running(state)),
                    }
                }
                other => {
                    state.asked += usize::from(other.is_asked());
                    state.inbox.push_front(other);
                    break;
                }
            }
            let more = matches!(state.inbox.front(), Some(Item::Answer { .. }))
                || matches!(state.inbox.front(), Some(Item::Tell(tell)) if tell.key.is_none());
            if more && jobs.len() < limit {
                item = state.inbox.pop_front();
                state.asked -= usize::from(item.as_ref().is_some_and(Item::is_asked));
            }
        }
        (!jobs.is_empty()).then_some(Step::Jobs { jobs, told, key: None })
    }

    fn not_running(&self, state: &State) -> HostError {
        match state.known.as_ref().and_then(|known| known.newest.as_ref()) {
            Some(row) => HostError::NotRunning { id: row.id.clone(), status: row.status.to_string() },
            None => HostError::UnknownWorkflow(self.workflow.workspace.to_string()),
        }
    }

    fn stuck_error(&self, state: &State, reason: &str) -> HostError {
        let row = state.known.as_ref().and_then(|known| known.newest.as_ref());
        let id = row.map_or_else(|| self.workflow.workspace.to_string(), |row| row.id.clone());
        HostError::Stuck { id, reason: reason.to_owned() }
    }

    /// Whether something was sent before under the same key: then it is answered.
    async fn repeated(&self, key: &Key) -> Result<Option<Entry>, HostError> {
        let found = self.inner.engine.workflows().sent_with(self.workflow.workspace, &key.key).await?;
        let Some(event) = found else { return Ok(None) };
        let same = event.event.idempotency.as_ref();
        if same.is_some_and(|same| same.request != Digest::of(key.identity.as_bytes())) {
            return Err(HostError::KeyReused(key.key.clone()));
        }
        Ok(Some(read_entry(&event)?.unwrap_or_default()))
    }

    /// Something that was told with a key.
    async fn keyed(&mut self, told: Told) {
        let Some(key) = told.key else { return };
        match self.repeated(&key).await {
            Err(error) => told.answer.refuse(error),
            Ok(Some(entry)) => match told.answer {
                Answering::Written(reply) => {
                    drop(reply.send(Ok(Written { run: entry.run, repeated: true })));
                }
                Answering::Update(reply) => self.outcome_again(&entry, protocol_id(&told.job), reply).await,
            },
            Ok(None) => {
                let refused = {
                    let state = self.workflow.lock();
                    let open = state.known.as_ref().and_then(|known| known.open.as_ref());
                    let fits = open.is_some_and(|open| told.run.is_none_or(|run| run == open.row.run));
                    match &state.stuck {
                        _ if !fits => Some(self.not_running(&state)),
                        Some(reason) => Some(self.stuck_error(&state, reason)),
                        None if open.is_some_and(|open| open.due.is_some()) => {
                            Some(HostError::Busy("the run's first activation is not due yet".to_owned()))
                        }
                        None => None,
                    }
                };
                match refused {
                    Some(error) => told.answer.refuse(error),
                    None => {
                        let told_to = vec![(protocol_id(&told.job), told.answer)];
                        self.advance(vec![told.job], told_to, Some(key)).await;
                    }
                }
            }
        }
    }

    /// Somebody asks again for the outcome of an update.
    async fn outcome_again(&self, entry: &Entry, id: Option<String>, reply: Reply<Payload>) {
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

    /// The open run's code, from memory or rebuilt.
    async fn instance(&mut self, row: &RunRow, turns: u32) -> Result<&mut Instance, HostError> {
        if self.held().as_ref().is_none_or(|(run, _)| *run != row.run) {
            let workspace = self.workflow.workspace;
            let cached = self.inner.instances().take(workspace, row.run);
            let instance = match cached {
                Some(instance) => instance,
                None if turns == 0 => self.new_instance(),
                None => {
                    let turns = self.inner.read_turns(workspace, row).await?;
                    let replayed = self.inner.replay(workspace, row.run, turns);
                    replayed.map_err(|failure| HostError::Stuck {
                        id: row.id.clone(),
                        reason: failure.to_string(),
                    })?
                }
            };
            *self.held() = Some((row.run, instance));
        }
        let instance = self.held().as_mut().map(|(_, instance)| instance);
        instance.ok_or(HostError::Closed)
    }

    fn new_instance(&self) -> Instance {
        let options = InstanceOptions { policy: self.inner.options.policy, ..InstanceOptions::default() };
        Instance::new(self.inner.registry.clone(), options)
    }

    /// The open run: its row, how many turns it has had, and what its clock showed last.
    fn open(&self) -> Option<(RunRow, u32, seriatim_workflow::Time)> {
        let state = self.workflow.lock();
        let open = state.known.as_ref()?.open.as_ref()?;
        Some((open.row.clone(), open.turns, open.time))
    }

    /// Tells the open run's code what has happened.
    async fn activate(&mut self, jobs: Vec<Job>) -> Result<Turn, HostError> {
        let (row, turns, last) = self.open().ok_or(HostError::Closed)?;
        let time = to_time(self.inner.env.now()).max(last);
        let run_id = self.workflow.run_id(row.run);
        let instance = self.instance(&row, turns).await?;
        let activation =
            Activation { run_id, time, is_replaying: false, history_length: turns, jobs: jobs.clone() };
        let outcome = instance.activate(activation).outcome;
        self.inner.metrics.activations.increment(1);
        match outcome {
            Ok(commands) => Ok(Turn { time, jobs, commands }),
            Err(ActivationFailure::UnknownWorkflow { workflow_type, known }) => {
                Err(HostError::UnknownType { workflow_type, known })
            }
            Err(failure) => Err(HostError::Stuck { id: row.id, reason: failure.to_string() }),
        }
    }

    /// Takes a turn in, as if it were written.
    fn apply(&self, turn: &Turn) {
        let mut state = self.workflow.lock();
        if let Some(open) = state.known.as_mut().and_then(|known| known.open.as_mut()) {
            open.pending.apply(turn);
            (open.turns, open.time, open.due) = (open.turns + 1, turn.time, None);
        }
    }

    /// One activation, and what comes of it.
    async fn advance(&mut self, jobs: Vec<Job>, told: Vec<(Option<String>, Answering)>, key: Option<Key>) {
        let Some((row, turns, time)) = self.open() else { return };
        let entry = Entry { run: row.run, ..Entry::default() };
        let mut writing = Writing { entry, key, told, ..Writing::default() };
        let built = self.instance(&row, turns).await.map(drop);
        if let Err(HostError::Engine(error)) = built {
            // What has happened is not lost: it is told again.
            writing.entry.turns.push(Turn { time, jobs, commands: Vec::new() });
            return self.not_written(error, writing).await;
        }
        let turn = match built {
            Ok(()) => self.activate(jobs).await,
            Err(error) => Err(error),
        };
        match turn {
            Ok(turn) => self.conclude(turn, writing).await,
            Err(error) => self.fail(error, writing),
        }
    }

    /// The run's code does not get on.
    fn fail(&mut self, error: HostError, writing: Writing) {
        self.drop_instance();
        if let HostError::Engine(_) = &error {
            writing.refuse(&error);
            return;
        }
        let reason = match &error {
            HostError::Stuck { reason, .. } => reason.clone(),
            other => other.to_string(),
        };
        tracing::warn!(workspace = %self.workflow.workspace, run = writing.entry.run, %reason, "a run is stuck");
        let mut state = self.workflow.lock();
        if state.stuck.replace(reason).is_none() {
            self.inner.metrics.stuck.increment(1.0);
        }
        // What the failed activation has changed in memory is not so.
        state.forget();
        drop(state);
        writing.refuse(&error);
    }

    /// Writes what an activation came to, once its quick local activities have ended.
    async fn conclude(&mut self, turn: Turn, mut writing: Writing) {
        let turn = reject(turn, &mut writing.told);
        if turn.jobs.is_empty() && turn.commands.is_empty() {
            return;
        }
        self.apply(&turn);
        writing.entry.turns.push(turn);
        if let Err(error) = self.hold(&mut writing.entry).await {
            self.fail(error, writing);
            return;
        }
        let ending = match self.ending(&writing.entry).await {
            Ok(ending) => ending,
            Err(error) => return self.not_written(error, writing).await,
        };
        self.write(writing, ending).await;
    }

    /// How the run ends with these turns, if it does.
    async fn ending(&self, entry: &Entry) -> Result<Option<Ending>, SubmitError> {
        let Some(turn) = entry.turns.last() else { return Ok(None) };
        let Some(end) = turn.end() else { return Ok(None) };
        let ending = {
            let state = self.workflow.lock();
            let open = state.known.as_ref().and_then(|known| known.open.as_ref());
            open.map(|open| ending::of(self.workflow.workspace, open, end, turn.time, &self.inner.env))
        };
        let Some(mut ending) = ending else { return Ok(None) };
        if let Some(next) = &mut ending.next {
            next.run = self.next_run().await?;
            ending.row.next = Some(next.run);
        }
        Ok(Some(ending))
    }

    async fn next_run(&self) -> Result<u64, SubmitError> {
        let offset = self.workflow.lock().known.as_ref().map_or(0, |known| known.offset);
        if offset == 0 {
            // Not written yet: the first run has the first number, and the one behind it the second.
            return Ok(if self.open().is_some() { 2 } else { 1 });
        }
        let next = self.inner.engine.workflows().next_run(self.workflow.workspace).await?;
        let begins_now = self.open().is_some_and(|(row, ..)| row.run == next);
        Ok(if begins_now { next + 1 } else { next })
    }

    /// Waits for local activities that end soon, so that they are written together with what they were asked for by.
    async fn hold(&mut self, entry: &mut Entry) -> Result<(), HostError> {
        let until = self.inner.env.instant() + self.inner.options.local_activity_hold;
        loop {
            let Some(turn) = entry.turns.last() else { return Ok(()) };
            self.begin_local(turn);
            let holds = {
                let state = self.workflow.lock();
                let open = state.known.as_ref().and_then(|known| known.open.as_ref());
                turn.end().is_none() && open.is_some_and(|open| !open.pending.local_activities.is_empty())
            };
            if !holds {
                return Ok(());
            }
            let jobs = self.local_answers();
            if jobs.is_empty() {
                let left = until.saturating_duration_since(self.inner.env.instant());
                let arrived = self.inner.env.timeout(left, self.workflow.arrived.notified()).await;
                if arrived.is_err() || self.inner.stop.is_cancelled() {
                    return Ok(());
                }
                continue;
            }
            let turn = self.activate(jobs).await?;
            self.apply(&turn);
            entry.turns.push(turn);
        }
    }

    /// Takes the answers of local activities out of the inbox.
    fn local_answers(&self) -> Vec<Job> {
        let mut state = self.workflow.lock();
        let (generation, mut jobs) = (state.generation, Vec::new());
        let items = std::mem::take(&mut state.inbox);
        for item in items {
            match item {
                Item::Answer { job: job @ Job::ResolveLocalActivity { .. }, generation: of, .. } => {
                    let open = state.known.as_ref().and_then(|known| known.open.as_ref());
                    if of == generation && open.is_some_and(|open| open.pending.admits(&job)) {
                        jobs.push(job);
                    }
                }
                other => state.inbox.push_back(other),
            }
        }
        jobs
    }

    /// Writes an event: then what it says is so, is carried out, and is answered.
    async fn write(&mut self, mut writing: Writing, ending: Option<Ending>) {
        let (workspace, entry) = (self.workflow.workspace, &mut writing.entry);
        let mut rows = Vec::new();
        let mut advance = Advance::default();
        {
            let state = self.workflow.lock();
            let Some(known) = &state.known else { return };
            advance.expected_offset = Some(known.offset);
            if entry.begins.is_some() {
                advance.was = known.newest.as_ref().map(|row| row.status);
                advance.draw.push(entry.run);
                rows.extend(known.open.as_ref().map(|open| open.row.clone()));
            }
        }
        if let Some(ending) = &ending {
            if rows.is_empty() {
                advance.was = Some(RunStatus::Running);
            }
            rows.clear();
            rows.push(ending.row.clone());
            if let Some(next) = &ending.next {
                advance.draw.push(next.run);
                rows.push(ending::row_of(next));
                entry.next = Some(next.clone());
            }
        }
        advance.rows.clone_from(&rows);
        advance.settles = entry.delivered.then_some(entry.run);
        if let Some(Key { key, identity }) = writing.key.clone() {
            (advance.idempotency_key, advance.identity) = (Some(key), identity);
        }
        advance.body = match serde_json::to_value(&*entry) {
            Ok(body) => body,
            Err(error) => {
                let error = HostError::Invalid(format!("what has happened cannot be written: {error}"));
                return self.fail(error, writing);
            }
        };
        match self.inner.engine.workflows().advance(workspace, advance).await {
            Ok(answer) if !answer.repeated => {
                self.written(writing, ending, answer.workspace_offset.get());
            }
            // Somebody else has written it: the log knows.
            Ok(answer) => {
                let found = answer.workspace_offset.get();
                let moved = SubmitError::Moved { workspace, expected: 0, found };
                self.not_written(moved, writing).await;
            }
            Err(SubmitError::Conflict(_)) => {
                // The numbers of a restored copy skip with its next event: let that be an event that needs none.
                let settled = self.inner.engine.workflows().settle(workspace).await;
                let error = match settled {
                    Ok(answer) => {
                        let found = answer.workspace_offset.get();
                        SubmitError::Moved { workspace, expected: found - 1, found }
                    }
                    Err(error) => error,
                };
                self.not_written(error, writing).await;
            }
            Err(error) => self.not_written(error, writing).await,
        }
    }

    /// The engine has not written it, or nobody knows: everything is read again, and what the world has answered is
    /// told again.
    async fn not_written(&mut self, error: SubmitError, mut writing: Writing) {
        let kind = error.kind();
        let again = matches!(
            kind,
            ErrorKind::Busy
                | ErrorKind::Unavailable
                | ErrorKind::InDoubt
                | ErrorKind::Fenced
                | ErrorKind::Conflict
        );
        if !again && kind != ErrorKind::Closed {
            let error = HostError::Engine(error);
            tracing::warn!(workspace = %self.workflow.workspace, %error, "an event was refused");
            self.drop_instance();
            let mut state = self.workflow.lock();
            state.forget();
            if !writing.is_awaited() {
                state.stuck = Some(error.to_string());
                self.inner.metrics.stuck.increment(1.0);
            }
            drop(state);
            writing.refuse(&error);
            return;
        }
        self.drop_instance();
        {
            let mut state = self.workflow.lock();
            state.forget();
            let run = writing.entry.run;
            let jobs = writing.entry.turns.first().map_or(&[][..], |turn| &turn.jobs);
            for job in jobs.iter().rev().filter(|job| answered(job).is_some()) {
                if !matches!(job, Job::ResolveLocalActivity { .. }) {
                    state.inbox.push_front(Item::Answer { run, job: job.clone(), generation: 0 });
                }
            }
            if kind == ErrorKind::Conflict {
                // Nobody has asked for a certain offset: what was told is told again.
                again_asked(&mut state, &mut writing);
            }
            if writing.entry.delivered {
                state.inbox.push_front(Item::Delivered { run });
            }
            if let Some(ended) = writing.entry.ended.clone().filter(|_| !writing.is_awaited()) {
                state.inbox.push_front(Item::End {
                    run: Some(run),
                    ended: Box::new(ended),
                    key: None,
                    reply: None,
                });
            }
        }
        writing.refuse(&error.into());
        if kind != ErrorKind::Conflict {
            self.pause().await;
        }
    }

    /// It is durable.
    fn written(&mut self, writing: Writing, ending: Option<Ending>, offset: u64) {
        let Writing { entry, started, told, .. } = writing;
        let run = entry.run;
        {
            let workflow = self.workflow.clone();
            let mut state = workflow.lock();
            let Some(known) = &mut state.known else { return };
            known.offset = offset;
            if let Some(open) = known.open.as_mut().filter(|_| entry.begins.is_some()) {
                open.row.from = offset;
                known.newest = Some(open.row.clone());
                self.inner.metrics.started.increment(1);
            }
            entry.retries.iter().for_each(|retry| {
                if let Some(open) = &mut known.open {
                    open.pending.retry(retry);
                }
            });
            for turn in &entry.turns {
                self.carry_out(&mut state, turn, ending.is_some());
            }
            if entry.begins.is_some() && ending.is_none() {
                self.set_deadline(&mut state);
            }
            let answers = entry.turns.iter().flat_map(|turn| &turn.commands);
            for command in answers {
                if let Command::UpdateCompleted { protocol_id, outcome: ended } = command
                    && let Some(reply) = state.updates.remove(protocol_id)
                {
                    let _ = reply.send(outcome(ended.clone()));
                }
            }
            for (id, answering) in told {
                match answering {
                    Answering::Written(reply) => drop(reply.send(Ok(Written { run, repeated: false }))),
                    Answering::Update(reply) => {
                        let id = id.unwrap_or_default();
                        match completed(&entry, &id) {
                            Some(ended) => drop(reply.send(ended)),
                            None => drop(state.updates.insert(id, reply)),
                        }
                    }
                }
            }
            if let Some(reply) = started {
                let _ = reply.send(Ok(Written { run, repeated: false }));
            }
            if let Some(ending) = ending {
                self.ended(&mut state, ending, offset);
            }
        }
    }

    /// The open run has ended.
    fn ended(&mut self, state: &mut State, ending: Ending, offset: u64) {
        let workspace = self.workflow.workspace;
        self.drop_instance();
        if state.stuck.take().is_some() {
            self.inner.metrics.stuck.decrement(1.0);
        }
        let timers = state.drop_under_way();
        let updates: Vec<_> = state.updates.drain().collect();
        let Some(known) = &mut state.known else { return };
        let Some(open) = known.open.take() else { return };
        let run = open.row.run;
        for (seq, due) in timers {
            self.inner.clock.unset(due, workspace, run, Alarm::Timer(seq));
        }
        if let Some(deadline) = ending::deadline(&open) {
            self.inner.clock.unset(deadline, workspace, run, Alarm::Deadline);
        }
        let mut row = ending.row;
        row.from = if row.from == 0 { offset } else { row.from };
        row.to = Some(offset);
        if row.owes {
            self.inner.pay_from(workspace, row.clone(), open.pending);
        }
        known.newest = Some(row);
        if let Some(next) = ending.next {
            let mut row = ending::row_of(&next);
            row.from = offset;
            known.newest = Some(row.clone());
            let (start, begins) = (Arc::from(next.start), next.begins);
            let pending = crate::pending::Pending::default();
            known.open =
                Some(OpenRun { row, start, begins, pending, turns: 0, time: next.at, due: Some(next.at) });
            self.resume_open(state);
        }
        let error = self.not_running(state);
        updates.into_iter().for_each(|(_, reply)| drop(reply.send(Err(error.clone()))));
        self.inner.metrics.ended.increment(1);
        self.workflow.ended.notify_waiters();
    }

    /// Starts a run.
    async fn start(&mut self, starting: Starting) {
        if !starting.is_fresh
            && let Some(key) = &starting.key
        {
            match self.repeated(key).await {
                Err(error) => return drop(starting.reply.send(Err(error))),
                Ok(Some(entry)) => {
                    return drop(starting.reply.send(Ok(Written { run: entry.run, repeated: true })));
                }
                Ok(None) => {}
            }
        }
        if let Some(error) = self.refuses(&starting).await {
            return drop(starting.reply.send(Err(error)));
        }
        let run = match self.next_run().await {
            Ok(run) => run,
            Err(error) => return drop(starting.reply.send(Err(error.into()))),
        };
        let Starting { mut start, begins, key, reply, .. } = starting;
        let now = to_time(self.inner.env.now());
        let run_id = self.workflow.run_id(run);
        (start.start_time, start.first_run_id) = (now, run_id);
        let row = ending::row(run, &start, now);
        let job = Job::Start(start.clone());
        {
            let mut state = self.workflow.lock();
            let Some(known) = &mut state.known else { return };
            let (begins, start) = (begins.clone(), Arc::from(start));
            let pending = crate::pending::Pending::default();
            known.open = Some(OpenRun { row, start, begins, pending, turns: 0, time: now, due: None });
        }
        let entry = Entry { run, begins: Some(begins), ..Entry::default() };
        let writing = Writing { entry, key, started: Some(reply), ..Writing::default() };
        match self.activate(vec![job]).await {
            Ok(turn) => self.conclude(turn, writing).await,
            Err(error) => {
                // Nothing was written, so there is no run to be stuck.
                self.drop_instance();
                self.workflow.lock().forget();
                writing.refuse(&error);
            }
        }
    }

    /// Why a run may not be started now; one that has to make way for it is ended first.
    async fn refuses(&mut self, starting: &Starting) -> Option<HostError> {
        use seriatim_workflow::IdReusePolicy as Reuse;
        let (open, newest) = {
            let state = self.workflow.lock();
            let known = state.known.as_ref()?;
            (known.open.as_ref().map(|open| open.row.clone()), known.newest.clone())
        };
        if let Some(row) = open {
            if starting.reuse != Reuse::TerminateIfRunning {
                return Some(HostError::Running { id: row.id, run_id: self.workflow.run_id(row.run) });
            }
            self.end(ending::terminated("another run takes its place", &self.inner.env), None, None).await;
            let gone = self.workflow.lock().known.as_ref().is_some_and(|known| known.open.is_none());
            return (!gone).then(|| HostError::Busy("the run before could not be ended".to_owned()));
        }
        let newest = newest?;
        let refused = match starting.reuse {
            Reuse::AllowDuplicate | Reuse::TerminateIfRunning => false,
            Reuse::AllowDuplicateFailedOnly => newest.status == RunStatus::Completed,
            Reuse::RejectDuplicate => true,
        };
        refused.then(|| HostError::Used(newest.id))
    }

    /// The first activation of a run that goes on where another has ended.
    async fn begin(&mut self) {
        let start = {
            let state = self.workflow.lock();
            let open = state.known.as_ref().and_then(|known| known.open.as_ref());
            open.map(|open| open.start.clone())
        };
        let Some(start) = start else { return };
        self.drop_instance();
        self.advance(vec![Job::Start(Box::new((*start).clone()))], Vec::new(), None).await;
    }

    /// Ends the open run from outside.
    async fn end(&mut self, ended: Ended, key: Option<Key>, reply: Option<Reply<Written>>) {
        if let Some(key) = &key {
            match self.repeated(key).await {
                Ok(None) => {}
                Ok(Some(entry)) => {
                    reply.map(|reply| reply.send(Ok(Written { run: entry.run, repeated: true })));
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
    async fn retry(&mut self, retries: Vec<Retry>) {
        let run = self.open().map_or(0, |(row, ..)| row.run);
        let entry = Entry { run, retries, ..Entry::default() };
        self.write(Writing { entry, ..Writing::default() }, None).await;
    }

    /// Notes that a run that has ended has told others what it had to.
    async fn delivered(&mut self, run: u64) {
        let entry = Entry { run, delivered: true, ..Entry::default() };
        self.write(Writing { entry, ..Writing::default() }, None).await;
    }

    /// The newest run, open or not, with the number of its turns.
    fn newest(&self) -> Result<(RunRow, u32, bool), HostError> {
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
    async fn query(&mut self, job: Job, reply: Reply<Payload>) {
        let answer = self.ask(job).await;
        let _ = reply.send(answer);
    }

    async fn ask(&mut self, job: Job) -> Result<Payload, HostError> {
        let (row, turns, is_open) = self.newest()?;
        let run_id = self.workflow.run_id(row.run);
        let time = self.open().map_or_else(|| to_time(self.inner.env.now()), |(.., time)| time);
        let instance = self.instance(&row, turns).await?;
        let activation =
            Activation { run_id, time, is_replaying: false, history_length: turns, jobs: vec![job] };
        let answered = instance.activate(activation).outcome;
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
            Some(QueryAnswer::Failed { failure }) => Err(HostError::Query(failure)),
            None => Err(HostError::Invalid("the run's code gave no answer".to_owned())),
        }
    }

    /// Says what the open run's branches wait for.
    async fn look(&mut self, reply: Reply<Vec<seriatim_workflow::Blocked>>) {
        let looked = match self.newest() {
            Ok((row, turns, true)) => self.instance(&row, turns).await.map(|instance| instance.blocked()),
            Ok((_, _, false)) => Ok(Vec::new()),
            Err(error) => Err(error),
        };
        let _ = reply.send(looked);
    }
}

/// Puts back what was asked from outside.
fn again_asked(state: &mut State, writing: &mut Writing) {
    let Some(turn) = writing.entry.turns.first() else { return };
    let (run, key) = (writing.entry.run, &writing.key);
    let mut items = Vec::new();
    if let (Some(reply), Some(Job::Start(start))) = (writing.started.take(), turn.jobs.first()) {
        let begins = writing.entry.begins.clone().unwrap_or_default();
        let (start, key, reuse) = (start.clone(), key.clone(), Default::default());
        items.push(Item::Start(Box::new(Starting { start, begins, reuse, key, is_fresh: false, reply })));
    }
    let asked = turn.jobs.iter().filter(|job| answered(job).is_none() && !matches!(job, Job::Start(_)));
    for (job, (_, answer)) in asked.zip(std::mem::take(&mut writing.told)) {
        let mut job = job.clone();
        if let Job::Update { run_validator, .. } = &mut job {
            *run_validator = true;
        }
        items.push(Item::Tell(Box::new(Told { job, run: Some(run), key: key.clone(), answer })));
    }
    state.asked += items.len();
    items.into_iter().rev().for_each(|item| state.inbox.push_front(item));
}

/// Which operation a job answers.
fn answered(job: &Job) -> Option<(u8, u32)> {
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

fn protocol_id(job: &Job) -> Option<String> {
    match job {
        Job::Update { protocol_id, .. } => Some(protocol_id.clone()),
        _ => None,
    }
}

/// The outcome of an update, if these turns have it.
fn completed(entry: &Entry, id: &str) -> Option<Result<Payload, HostError>> {
    let mut commands = entry.turns.iter().flat_map(|turn| &turn.commands);
    commands.find_map(|command| match command {
        Command::UpdateCompleted { protocol_id, outcome: ended } if protocol_id == id => {
            Some(outcome(ended.clone()))
        }
        _ => None,
    })
}

/// Leaves refused updates out of a turn, and tells who sent them. On replay what is left was accepted.
fn reject(mut turn: Turn, told: &mut Vec<(Option<String>, Answering)>) -> Turn {
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
        let found = told.iter().position(|(told, _)| told.as_deref() == Some(&id));
        if let Some(place) = found {
            told.swap_remove(place).1.refuse(HostError::Rejected(failure));
        }
    }
    turn
}
