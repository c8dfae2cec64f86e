//! One run in memory.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context as TaskContext, Poll, Waker};

use seriatim_types::panic_text;

use super::matcher::Matcher;
use super::sched::{Blocked, Current, Ready, TaskId};
use super::state::{SharedRun, State};
use super::table::PendingOperation;
use super::task::{NewTask, TaskFuture, TaskWaker};
use crate::context::Context;
use crate::{
    Activation, ActivationFailure, Branch, CallSite, Command, Completion, Difference, Exit, Failure,
    ForeignWait, Job, LogLine, Recorded, Registry, Warning,
};

/// What happens when code and history differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// The activation fails, at the first difference.
    #[default]
    Fail,
    /// The difference is noted, and the run continues: see [`Instance::differences`].
    Warn,
}

/// Where operations get their numbers from.
#[derive(Debug, Clone)]
pub enum Numbering {
    /// An operation whose path is recorded takes its recorded number; any other takes one above all that are recorded.
    /// For hosts that keep our commands.
    ByLineage(Recorded),
    /// Operations are numbered as they are issued, and the host compares them. For Temporal.
    ByCallOrder,
}

/// How a run is held in memory.
#[derive(Debug, Clone)]
pub struct InstanceOptions {
    /// Where operations get their numbers from.
    pub numbering: Numbering,
    /// What happens when code and history differ.
    pub policy: Policy,
}

impl Default for InstanceOptions {
    /// A new run of a host that keeps our commands.
    fn default() -> Self {
        Self { numbering: Numbering::ByLineage(Recorded::none()), policy: Policy::Fail }
    }
}

/// So many polls in one activation mean that a task wakes itself without end.
const POLLS_MAX: u64 = 1_000_000;
/// Each job may cost this many polls more.
const POLLS_PER_JOB: u64 = 64;

struct Task {
    future: TaskFuture,
    waker: Waker,
    handle: Arc<TaskWaker>,
}

/// A view of a run for another thread than the one that activates it. Made by [`Instance::watch`].
#[derive(Clone)]
pub struct Watch(Arc<SharedRun>);

impl Watch {
    /// The branch that was polled last, and where in the code the last operation of the activation was issued. It may be
    /// out of date: the run continues meanwhile.
    #[must_use]
    pub fn last(&self) -> (Option<String>, Option<CallSite>) {
        let state = self.0.lock();
        let task = self.0.polled.load(Ordering::Relaxed) as usize;
        let branch = state.wakers.get(task).and_then(std::sync::Weak::upgrade);
        let site = state.sites.iter().rev().find_map(|site| *site);
        (branch.map(|waker| waker.branch.to_string()), site.map(Into::into))
    }
}

/// One run in memory: its tasks, what is pending, and who waits for what.
///
/// Between activations it can be sent to another thread. Dropping it drops the run's futures; the run itself is in its
/// history, and can be rebuilt by giving a new instance the recorded commands and the same activations.
///
/// ```
/// use seriatim_workflow::{Activation, Command, Exit, Instance, Job, Payload, Registry, Start, Time};
///
/// let registry = Registry::new().workflow("greet", |_ctx, name: String| async move {
///     Ok::<_, Exit>(format!("hello, {name}"))
/// });
/// let start = Start::new("greet", "greet-1", vec![Payload::json("world")?]);
/// let mut instance = Instance::new(registry.into(), Default::default());
/// let completion = instance.activate(Activation::new("run-1", Time::default(), vec![Job::Start(start.into())]));
/// let result = Payload::json("hello, world")?;
/// assert_eq!(completion.outcome?, [Command::Complete { result: Some(result) }]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Instance {
    registry: Arc<Registry>,
    pub(super) shared: Arc<SharedRun>,
    tasks: Vec<Option<Task>>,
    /// Tasks that were polled and are blocked, and did not wait for anything of the run after their last poll.
    suspects: Vec<TaskId>,
    polls: u64,
    is_started: bool,
    poison: Option<String>,
}

impl Instance {
    /// An instance that waits for the run's first activation.
    #[must_use]
    pub fn new(registry: Arc<Registry>, options: InstanceOptions) -> Self {
        let (matcher, is_by_lineage) = match options.numbering {
            Numbering::ByLineage(recorded) => ((!recorded.is_empty()).then(|| Matcher::new(recorded)), true),
            Numbering::ByCallOrder => (None, false),
        };
        let state = State::new(matcher, is_by_lineage, options.policy);
        Self {
            registry,
            shared: SharedRun::new(state),
            tasks: Vec::new(),
            suspects: Vec::new(),
            polls: 0,
            is_started: false,
            poison: None,
        }
    }

    /// Where the lines go that the run's code [logs](Context::log). Without this they are dropped. `sink` is called while
    /// the code runs, so it must not wait.
    ///
    /// ```
    /// # use seriatim_workflow::{Context, Exit, Instance, InstanceOptions, LogLevel, Registry};
    /// # let registry = Registry::new().workflow("greet", |ctx: Context, name: String| async move {
    /// #     ctx.log(LogLevel::Info, format_args!("{name} is greeted"));
    /// #     Ok::<_, Exit>(())
    /// # });
    /// let instance = Instance::new(registry.into(), InstanceOptions::default())
    ///     .log_to(|line| eprintln!("{} {}: {}", line.workflow_id, line.branch, line.message));
    /// ```
    #[must_use]
    pub fn log_to(self, sink: impl Fn(&LogLine) + Send + Sync + 'static) -> Self {
        self.shared.lock().log = Some(Arc::new(sink));
        self
    }

    /// Applies an activation's jobs in order, then lets the run's code continue until all of it waits again.
    ///
    /// There is exactly one completion, whatever the code does; a panic of workflow code ends in it too. After a failed
    /// one the instance answers all further activations with [`ActivationFailure::Poisoned`].
    pub fn activate(&mut self, activation: Activation) -> Completion {
        let run_id = activation.run_id.clone();
        let shared = Arc::clone(&self.shared);
        let _current = Current::enter(&shared.sched);
        let outcome = match &self.poison {
            Some(_) if is_eviction(&activation) => Ok(Vec::new()),
            Some(first) => Err(ActivationFailure::Poisoned { first: first.clone() }),
            // `run` catches panics where it knows the branch. All others are caught here: no panic leaves an activation.
            None => caught(|| self.run(activation))
                .unwrap_or_else(|message| Err(panicked(&Branch::main(), message))),
        };
        if let Err(failure) = &outcome
            && self.poison.is_none()
        {
            self.poison = Some(failure.to_string());
            self.clear();
        }
        Completion { run_id, outcome }
    }

    /// What each branch that is not finished waits for.
    #[must_use]
    pub fn blocked(&self) -> Vec<Blocked> {
        let tasks = self.tasks.iter().flatten().map(|task| (task.handle.task, task.handle.branch.clone()));
        let branches: BTreeMap<TaskId, Branch> = tasks.collect();
        self.shared.sched.lock().blocked(&branches)
    }

    /// The operations that have had no response.
    #[must_use]
    pub fn pending(&self) -> Vec<PendingOperation> {
        self.shared.lock().pending()
    }

    /// The differences between code and history that have shown so far.
    #[must_use]
    pub fn differences(&self) -> Vec<Difference> {
        self.shared.lock().differences.clone()
    }

    /// What is wrong with the run and does not stop it: the newest sixteen.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        self.shared.lock().warnings.iter().cloned().collect()
    }

    /// How many warnings there have been, over all activations.
    #[must_use]
    pub fn warned(&self) -> u64 {
        self.shared.lock().warned
    }

    /// A view of the run for another thread: where its code is while an activation takes too long.
    #[must_use]
    pub fn watch(&self) -> Watch {
        Watch(Arc::clone(&self.shared))
    }

    /// Where in the code the commands of the last completion were issued; `None` for a command that the runtime issued.
    #[must_use]
    pub fn call_sites(&self) -> Vec<Option<CallSite>> {
        self.shared.lock().sites.iter().map(|site| site.map(Into::into)).collect()
    }

    /// The same, as the compiler knows the places.
    #[must_use]
    pub fn locations(&self) -> Vec<Option<&'static Location<'static>>> {
        self.shared.lock().sites.clone()
    }

    /// Whether the run has ended: its last command was given.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.shared.lock().has_ended
    }

    /// How often tasks have been polled, over all activations: a measure of work that does not depend on the machine.
    #[must_use]
    pub const fn polls(&self) -> u64 {
        self.polls
    }

    fn run(&mut self, activation: Activation) -> Result<Vec<Command>, ActivationFailure> {
        if is_eviction(&activation) {
            self.poison = Some("it was evicted".to_owned());
            self.clear();
            return Ok(Vec::new());
        }
        if let Some(foreign) = self.shared.sched.lock().foreign.take() {
            return Err(foreign.into());
        }
        let limit = self.polls + POLLS_MAX + activation.jobs.len() as u64 * POLLS_PER_JOB;
        let is_query =
            !activation.jobs.is_empty() && activation.jobs.iter().all(|j| matches!(j, Job::Query { .. }));
        let queries = self.apply(activation)?;
        if !is_query {
            self.drive(limit)?;
        }
        self.answer(queries);
        let mut state = self.shared.lock();
        if !is_query && state.fault.is_none() {
            let missing = state.matcher.as_mut().map(Matcher::finish).unwrap_or_default();
            missing.into_iter().for_each(|difference| state.differs(difference));
        }
        let commands = std::mem::take(&mut state.commands);
        state.fault.clone().map_or(Ok(commands), Err)
    }

    /// Applies all jobs, in order. Returns the queries among them.
    fn apply(&mut self, activation: Activation) -> Result<Vec<Job>, ActivationFailure> {
        let mut queries = Vec::new();
        let mut start = None;
        {
            let mut state = self.shared.lock();
            state.run_id = activation.run_id;
            state.time = activation.time;
            state.is_replaying = activation.is_replaying;
            state.history_length = activation.history_length;
            let is_suggested = activation.continue_as_new_suggested;
            if is_suggested && !std::mem::replace(&mut state.continue_as_new_suggested, is_suggested) {
                let activations = activation.history_length;
                state.warn(Warning::LongHistory { activations });
            }
            state.sites.clear();
            for job in activation.jobs {
                match job {
                    Job::Query { .. } => queries.push(job),
                    Job::Evict { .. } => {
                        return Err(protocol("an eviction comes alone, and this one came with other jobs"));
                    }
                    // What arrives when the run is over has no receiver.
                    _ if state.has_ended => {}
                    Job::Start(_) if self.is_started || start.is_some() => {
                        return Err(protocol(
                            "the run was started before: a start is the first job of the first activation",
                        ));
                    }
                    Job::Start(job) => {
                        state.apply(Job::Start(job))?;
                        start = Some(Arc::clone(&state.start));
                    }
                    other => {
                        let turn = match &other {
                            Job::Update { .. } => Some(Ready::Update),
                            Job::Signal { name, .. } if state.signal_handlers.contains_key(name) => {
                                Some(Ready::Signal(name.clone()))
                            }
                            _ => None,
                        };
                        if let Some(turn) = turn {
                            self.shared.sched.lock().ready.push_back(turn);
                        }
                        state.apply(other)?;
                    }
                }
            }
        }
        match start {
            Some(start) => self.start(&start.workflow_type)?,
            None if !self.is_started => {
                return Err(protocol("the run has not been started: its first activation has no start"));
            }
            None => {}
        }
        Ok(queries)
    }

    fn start(&mut self, workflow_type: &str) -> Result<(), ActivationFailure> {
        let code = self.registry.find(workflow_type)?;
        self.is_started = true;
        let context = Context::main(&self.shared);
        let start = Arc::clone(&self.shared.lock().start);
        let shared = Arc::clone(&self.shared);
        // The user's code may run before it returns its future, and reading the input is the user's code too.
        let future = caught(|| code(context, start.input.clone()))
            .map_err(|message| panicked(&Branch::main(), message))?;
        let main = async move {
            let exit = future.await;
            let mut state = shared.lock();
            let command = end_of_run(exit, state.is_cancel_requested);
            state.push(command, None);
        };
        self.shared.spawn(Branch::main(), Box::pin(main));
        Ok(())
    }

    /// Runs the code until every branch waits for a job of a later activation, or the run has ended.
    ///
    /// The order is fixed, because replay has to repeat it: ready tasks first, in the order in which they became ready; then
    /// updates that found no handler before; then conditions on the workflow's state, of which the first that holds wakes its
    /// task, and all begins again. When nothing moves any more, updates without a handler are refused.
    ///
    /// At the end, a branch that waits for something that is not the run's (a socket, a lock of another thread) would wait
    /// forever, or until something wakes it that replay does not repeat. So it is reported as a failure.
    fn drive(&mut self, limit: u64) -> Result<(), ActivationFailure> {
        self.suspects.clear();
        let in_turn = self.is_update_in_turn();
        loop {
            if !in_turn {
                self.hand_out_updates()?;
            }
            self.run_ready(limit)?;
            // Nearly always there is nothing more to check: one lock shows that.
            let (has_ended, is_all) = {
                let state = self.shared.lock();
                (state.has_ended, state.waiting_updates.is_empty() && state.conditions.is_empty())
            };
            if has_ended {
                self.end_tasks();
                return Ok(());
            }
            if is_all {
                break;
            }
            let has_updates = if in_turn { self.requeue_updates() } else { self.has_updates() };
            if !has_updates && !self.wake_by_condition()? {
                self.refuse_updates();
                break;
            }
        }
        let sched = self.shared.sched.lock();
        if let Some(foreign) = &sched.foreign {
            return Err(foreign.clone().into());
        }
        for task in &self.suspects {
            if let Some(Some(task)) = self.tasks.get(*task as usize)
                && !sched.is_waiting(task.handle.task)
            {
                return Err(ForeignWait::Blocked { branch: task.handle.branch.to_string() }.into());
            }
        }
        Ok(())
    }

    fn run_ready(&mut self, limit: u64) -> Result<(), ActivationFailure> {
        loop {
            {
                let state = self.shared.lock();
                if let Some(fault) = &state.fault {
                    return Err(fault.clone());
                }
                if state.has_ended {
                    return Ok(());
                }
            }
            if !self.install_spawned() {
                continue;
            }
            let Some(ready) = self.shared.sched.lock().ready.pop_front() else { return Ok(()) };
            let task = match ready {
                Ready::Task(task) => task,
                Ready::Update => {
                    self.take_update()?;
                    continue;
                }
                Ready::Signal(name) => {
                    self.take_signal(&name)?;
                    continue;
                }
            };
            self.poll(task)?;
            if self.polls > limit {
                let branch =
                    self.tasks.get(task as usize).and_then(Option::as_ref).map(|task| &task.handle.branch);
                let branch = branch.map_or_else(|| "that has ended".to_owned(), ToString::to_string);
                return Err(ForeignWait::Spinning { branch, polls: POLLS_MAX }.into());
            }
        }
    }

    /// Adds new tasks, and drops those that were aborted. Returns whether none was aborted: the destructor of an aborted task
    /// may have made new tasks.
    pub(super) fn install_spawned(&mut self) -> bool {
        let (spawned, aborted) = {
            let mut state = self.shared.lock();
            (std::mem::take(&mut state.spawned), std::mem::take(&mut state.aborted))
        };
        spawned.into_iter().for_each(|task| self.install(task));
        let was_quiet = aborted.is_empty();
        aborted.into_iter().for_each(|task| self.remove(task));
        was_quiet
    }

    fn install(&mut self, task: NewTask) {
        let index = task.waker.task as usize;
        if self.tasks.len() <= index {
            self.tasks.resize_with(index + 1, || None);
        }
        let waker = Waker::from(Arc::clone(&task.waker));
        self.tasks[index] = Some(Task { future: task.future, waker, handle: task.waker });
    }

    pub(super) fn poll(&mut self, id: TaskId) -> Result<(), ActivationFailure> {
        let Some(Some(task)) = self.tasks.get_mut(id as usize) else { return Ok(()) };
        task.handle.polled();
        Current::poll(id);
        self.shared.polled.store(id, Ordering::Relaxed);
        self.polls += 1;
        let mut cx = TaskContext::from_waker(&task.waker);
        let polled = caught(|| task.future.as_mut().poll(&mut cx));
        match polled {
            Ok(Poll::Pending) => {
                if !task.handle.is_queued() && !self.shared.sched.lock().is_waiting(id) {
                    self.suspects.push(id);
                }
                Ok(())
            }
            Ok(Poll::Ready(())) => {
                self.remove(id);
                Ok(())
            }
            Err(message) => Err(panicked(&task.handle.branch, message)),
        }
    }

    /// Drops a task. A panic in a destructor of workflow code stays here.
    fn remove(&mut self, id: TaskId) {
        if let Some(task) = self.tasks.get_mut(id as usize).and_then(Option::take) {
            task.handle.done();
            drop_caught(task);
            self.shared.lock().free_tasks.push(id);
        }
    }

    /// Wakes the first task whose condition holds. Returns whether there was one.
    fn wake_by_condition(&mut self) -> Result<bool, ActivationFailure> {
        let mut from = 0;
        loop {
            let next = {
                let mut state = self.shared.lock();
                let next = state.conditions.range_mut(from..).next();
                next.map(|(id, condition)| (*id, condition.holds.take()))
            };
            let Some((id, holds)) = next else { return Ok(false) };
            from = id + 1;
            let Some(mut holds) = holds else { continue };
            let looked = caught(&mut holds);
            let mut state = self.shared.lock();
            if looked == Ok(true)
                && let Some(condition) = state.conditions.remove(&id)
            {
                drop(state);
                condition.slot.set(());
                drop_caught(holds);
                return Ok(true);
            }
            // Unless it was forgotten meanwhile.
            let holds = match state.conditions.get_mut(&id) {
                Some(condition) => condition.holds.replace(holds),
                None => Some(holds),
            };
            drop(state);
            drop_caught(holds);
            looked.map_err(|message| ActivationFailure::Panicked {
                branch: "of a condition".to_owned(),
                message,
            })?;
        }
    }

    /// The run is over: its other branches end where they are.
    fn end_tasks(&mut self) {
        let tasks = std::mem::take(&mut self.tasks);
        for task in tasks.into_iter().flatten() {
            task.handle.done();
            drop_caught(task);
        }
        let spawned = {
            let mut state = self.shared.lock();
            state.timers.clear();
            state.activities.clear();
            state.local_activities.clear();
            state.children.clear();
            state.external_signals.clear();
            state.external_cancels.clear();
            state.aborted.clear();
            (std::mem::take(&mut state.spawned), std::mem::take(&mut state.conditions))
        };
        drop_caught(spawned);
        self.shared.sched.lock().ready.clear();
    }

    /// Drops everything of the run. Handlers hold contexts, which hold the run: this breaks the cycle.
    fn clear(&mut self) {
        self.end_tasks();
        let handlers = {
            let mut state = self.shared.lock();
            let signals = std::mem::take(&mut state.signal_handlers);
            (std::mem::take(&mut state.queries), std::mem::take(&mut state.updates), signals)
        };
        drop_caught(handlers);
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let shared = Arc::clone(&self.shared);
        let _current = Current::enter(&shared.sched);
        self.clear();
    }
}

fn is_eviction(activation: &Activation) -> bool {
    matches!(activation.jobs[..], [Job::Evict { .. }])
}

fn protocol(reason: &str) -> ActivationFailure {
    ActivationFailure::Protocol { reason: reason.to_owned() }
}

fn end_of_run(exit: Result<crate::Payload, Exit>, is_cancel_requested: bool) -> Command {
    match exit {
        Ok(result) => Command::Complete { result: Some(result) },
        Err(Exit::ContinueAsNew(options)) => Command::ContinueAsNew { options },
        Err(Exit::Cancelled) if is_cancel_requested => Command::Cancelled,
        Err(Exit::Cancelled) => {
            Command::Fail { failure: Failure::cancelled("the workflow's code was cancelled by itself") }
        }
        Err(Exit::Failed(failure)) if is_cancel_requested && failure.is_cancelled() => Command::Cancelled,
        Err(Exit::Failed(failure)) => Command::Fail { failure },
    }
}

pub(super) fn panicked(branch: &Branch, message: String) -> ActivationFailure {
    ActivationFailure::Panicked { branch: branch.to_string(), message }
}

/// Runs the user's code. A panic is caught, and returned as its message.
pub(super) fn caught<T>(code: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(code)).map_err(|panic| {
        let message = panic_text(&*panic).to_owned();
        drop_caught(panic);
        message
    })
}

/// Drops a value whose destructor may be the user's code. The payload of a panic may panic again when it is dropped: that
/// second payload is leaked.
fn drop_caught<T>(value: T) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(value)))
        && let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic)))
    {
        std::mem::forget(again);
    }
}
