//! What an open run waits for: pure, folded from its turns.

use std::collections::BTreeMap;
use std::sync::Arc;

use seriatim_workflow::{
    ActivityOptions, ActivityResolution, CancellationType, ChildOptions, ChildStartResolution, Command,
    Execution, Failure, Job, Kind, LocalActivityOptions, Path, Payload, SignalTarget, Time,
};

use crate::entry::{Attempted, Retry, Turn};
use crate::size;

/// A timer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Timer {
    pub(crate) path: Path,
    pub(crate) started: Time,
    pub(crate) due: Time,
}

/// An activity, and how far it has come.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ActivityTask {
    pub(crate) path: Path,
    pub(crate) activity_type: String,
    /// None, if it is large and its event is written: then it is kept elsewhere, or read from there.
    pub(crate) input: Option<Vec<Payload>>,
    /// The event that has scheduled it; 0 if it is not written.
    pub(crate) event: u64,
    pub(crate) options: ActivityOptions,
    pub(crate) is_local: bool,
    pub(crate) scheduled: Time,
    /// The attempt that runs or comes next, from 1.
    pub(crate) attempt: u32,
    /// When it is due.
    pub(crate) at: Time,
    pub(crate) last_failure: Option<Failure>,
    pub(crate) details: Vec<Payload>,
    /// The attempt that is known to have begun; 0 if none is.
    pub(crate) begun: u32,
    pub(crate) is_cancelled: bool,
}

impl ActivityTask {
    /// Takes the input out, if it is large and can be read from the log again.
    pub(crate) fn take_large_input(&mut self) -> Option<Vec<Payload>> {
        let bytes = self.input.as_deref().map_or(0, size::payload_bytes);
        if self.event > 0 && size::is_large_input(bytes) { self.input.take() } else { None }
    }
}

/// A child workflow.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Child {
    pub(crate) path: Path,
    pub(crate) workflow_type: String,
    pub(crate) input: Vec<Payload>,
    pub(crate) options: ChildOptions,
    pub(crate) scheduled: Time,
    /// Its first run, once it has begun.
    pub(crate) run_id: Option<String>,
    /// Why it was asked to stop.
    pub(crate) cancelled: Option<String>,
    /// The run has asked it to stop and does not wait for it: its result is not needed.
    pub(crate) ignores_result: bool,
}

/// A message to another workflow.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Message {
    pub(crate) path: Path,
    pub(crate) scheduled: Time,
    pub(crate) contents: MessageContents,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum MessageContents {
    Signal { target: SignalTarget, name: String, input: Vec<Payload> },
    Cancel { target: Execution, reason: String },
}

/// The operations of an open run that have had no answer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pending {
    pub(crate) timers: BTreeMap<u32, Timer>,
    pub(crate) activities: BTreeMap<u32, Arc<ActivityTask>>,
    pub(crate) local_activities: BTreeMap<u32, Arc<ActivityTask>>,
    pub(crate) children: BTreeMap<u32, Arc<Child>>,
    pub(crate) signals: BTreeMap<u32, Arc<Message>>,
    pub(crate) cancels: BTreeMap<u32, Arc<Message>>,
    /// Answers of activities that are durable, and that the run's code has not reacted to, by their numbers.
    pub(crate) arrived: BTreeMap<u32, Job>,
    /// Signals and requests to stop that are durable, and go with the run's first activation.
    pub(crate) early: Vec<Job>,
}

impl Pending {
    /// Whether a job can be applied: its operation is pending, or it is not an answer.
    pub(crate) fn admits(&self, job: &Job) -> bool {
        match job {
            Job::FireTimer { seq } => self.timers.contains_key(&seq.get()),
            Job::ResolveActivity { seq, .. } => self.activities.contains_key(&seq.get()),
            Job::ResolveLocalActivity { seq, .. } => self.local_activities.contains_key(&seq.get()),
            Job::ResolveChildStart { seq, .. } => {
                self.children.get(&seq.get()).is_some_and(|child| child.run_id.is_none())
            }
            Job::ResolveChild { seq, .. } => self.children.contains_key(&seq.get()),
            Job::ResolveExternalSignal { seq, .. } => self.signals.contains_key(&seq.get()),
            Job::ResolveExternalCancel { seq, .. } => self.cancels.contains_key(&seq.get()),
            _ => true,
        }
    }

    /// Applies a turn: answers end operations, commands begin new ones.
    pub(crate) fn apply(&mut self, turn: &Turn) {
        turn.jobs.iter().for_each(|job| self.resolve(job));
        turn.commands.iter().for_each(|command| self.begin(turn.time, command));
    }

    /// The event of a turn is written: activities that it has scheduled can be read there.
    pub(crate) fn written(&mut self, turn: &Turn, event: u64) {
        for command in &turn.commands {
            if let Command::ScheduleActivity { seq, .. } = command
                && let Some(task) = self.activities.get_mut(&seq.get())
            {
                Arc::make_mut(task).event = event;
            }
        }
    }

    /// Drops the large inputs of activities that can be read from the log.
    pub(crate) fn drop_inputs(&mut self, turn: &Turn) {
        for command in &turn.commands {
            if let Command::ScheduleActivity { seq, .. } = command
                && let Some(task) = self.activities.get_mut(&seq.get())
            {
                drop(Arc::make_mut(task).take_large_input());
            }
        }
    }

    /// An answer ends its operation.
    pub(crate) fn resolve(&mut self, job: &Job) {
        match job {
            Job::Start(_) => self.early.clear(),
            Job::FireTimer { seq } => drop(self.timers.remove(&seq.get())),
            Job::ResolveActivity { seq, resolution } => {
                debug_assert!(!matches!(resolution, ActivityResolution::Backoff { .. }));
                self.activities.remove(&seq.get());
                self.arrived.remove(&seq.get());
            }
            Job::ResolveLocalActivity { seq, .. } => drop(self.local_activities.remove(&seq.get())),
            Job::ResolveChildStart { seq, resolution: ChildStartResolution::Started { run_id } } => {
                if let Some(child) = self.children.get_mut(&seq.get()) {
                    let child = Arc::make_mut(child);
                    // It has begun, with its input.
                    (child.run_id, child.input) = (Some(run_id.clone()), Vec::new());
                }
            }
            Job::ResolveChildStart { seq, .. } | Job::ResolveChild { seq, .. } => {
                self.children.remove(&seq.get());
            }
            Job::ResolveExternalSignal { seq, .. } => drop(self.signals.remove(&seq.get())),
            Job::ResolveExternalCancel { seq, .. } => drop(self.cancels.remove(&seq.get())),
            _ => {}
        }
    }

    fn begin(&mut self, time: Time, command: &Command) {
        match command {
            Command::StartTimer { seq, lineage, duration } => {
                let timer = Timer { path: lineage.path.clone(), started: time, due: time.after(*duration) };
                self.timers.insert(seq.get(), timer);
            }
            Command::CancelTimer { seq, .. } => drop(self.timers.remove(&seq.get())),
            Command::ScheduleActivity { seq, lineage, activity_type, input, options } => {
                let task = activity(time, &lineage.path, activity_type, input, (**options).clone(), false);
                self.activities.insert(seq.get(), task);
            }
            Command::CancelActivity { seq, .. } => {
                cancel_activity(&mut self.activities, seq.get());
                if !self.activities.contains_key(&seq.get()) {
                    self.arrived.remove(&seq.get());
                }
            }
            Command::ScheduleLocalActivity { seq, lineage, activity_type, input, options } => {
                let options = as_activity(options);
                let task = activity(time, &lineage.path, activity_type, input, options, true);
                self.local_activities.insert(seq.get(), task);
            }
            Command::CancelLocalActivity { seq, .. } => {
                cancel_activity(&mut self.local_activities, seq.get());
            }
            Command::StartChild { seq, lineage, workflow_type, input, options } => {
                let child = Child {
                    path: lineage.path.clone(),
                    workflow_type: workflow_type.clone(),
                    input: input.clone(),
                    options: (**options).clone(),
                    scheduled: time,
                    run_id: None,
                    cancelled: None,
                    ignores_result: false,
                };
                self.children.insert(seq.get(), Arc::new(child));
            }
            Command::CancelChild { seq, reason, .. } => self.cancel_child(seq.get(), reason),
            Command::SignalExternal { seq, lineage, target, name, input, .. } => {
                let (target, name, input) = (target.clone(), name.clone(), input.clone());
                let contents = MessageContents::Signal { target, name, input };
                let message = Message { path: lineage.path.clone(), scheduled: time, contents };
                self.signals.insert(seq.get(), Arc::new(message));
            }
            // It may be in progress, and its answer is not waited for.
            Command::CancelSignal { seq, .. } => drop(self.signals.remove(&seq.get())),
            Command::CancelExternal { seq, lineage, target, reason } => {
                let contents = MessageContents::Cancel { target: target.clone(), reason: reason.clone() };
                let message = Message { path: lineage.path.clone(), scheduled: time, contents };
                self.cancels.insert(seq.get(), Arc::new(message));
            }
            _ => {}
        }
    }

    fn cancel_child(&mut self, seq: u32, reason: &str) {
        if let Some(child) = self.children.get_mut(&seq) {
            let child = Arc::make_mut(child);
            child.cancelled = Some(reason.to_owned());
            child.ignores_result = child.options.cancellation_type == CancellationType::TryCancel;
        }
    }

    /// A job is written that the run's code has not reacted to.
    pub(crate) fn arrive(&mut self, job: &Job) {
        match job {
            Job::ResolveActivity { seq, .. } => {
                if self.activities.contains_key(&seq.get()) {
                    self.arrived.insert(seq.get(), job.clone());
                }
            }
            early => self.early.push(early.clone()),
        }
    }

    /// An attempt has begun, or sent a heartbeat.
    pub(crate) fn attempted(&mut self, attempted: &Attempted) {
        if let Some(task) = self.activities.get_mut(&attempted.activity) {
            let task = Arc::make_mut(task);
            match &attempted.details {
                Some(details) => task.details.clone_from(details),
                None => task.begun = attempted.attempt,
            }
        }
    }

    /// An attempt has failed, and the next one waits.
    pub(crate) fn retry(&mut self, retry: &Retry) {
        if let Some(task) = self.activities.get_mut(&retry.activity) {
            let task = Arc::make_mut(task);
            (task.attempt, task.at) = (retry.attempt, retry.at);
            task.last_failure = Some(retry.failure.clone());
            task.details.clone_from(&retry.details);
        }
    }

    /// Kind and number of everything that is pending.
    pub(crate) fn operations(&self) -> impl Iterator<Item = (Kind, u32)> {
        let of = |kind: Kind| move |seq: &u32| (kind, *seq);
        let timers = self.timers.keys().map(of(Kind::Timer));
        let activities = self.activities.keys().map(of(Kind::Activity));
        let local = self.local_activities.keys().map(of(Kind::LocalActivity));
        let children = self.children.keys().map(of(Kind::ChildWorkflow));
        let signals = self.signals.keys().map(of(Kind::ExternalSignal));
        let cancels = self.cancels.keys().map(of(Kind::ExternalCancel));
        timers.chain(activities).chain(local).chain(children).chain(signals).chain(cancels)
    }
}

/// The run continues at once where the activity was asked to stop and not waited for: then its answer is not needed.
fn cancel_activity(activities: &mut BTreeMap<u32, Arc<ActivityTask>>, seq: u32) {
    let Some(task) = activities.get_mut(&seq) else { return };
    if task.options.cancellation_type == CancellationType::TryCancel {
        activities.remove(&seq);
    } else {
        Arc::make_mut(task).is_cancelled = true;
    }
}

fn activity(
    time: Time,
    path: &Path,
    activity_type: &str,
    input: &[Payload],
    options: ActivityOptions,
    is_local: bool,
) -> Arc<ActivityTask> {
    Arc::new(ActivityTask {
        path: path.clone(),
        activity_type: activity_type.to_owned(),
        input: Some(input.to_vec()),
        event: 0,
        options,
        is_local,
        scheduled: time,
        attempt: 1,
        at: time,
        last_failure: None,
        details: Vec::new(),
        begun: 0,
        is_cancelled: false,
    })
}

/// A local activity is carried out like any other; it is only written later.
fn as_activity(options: &LocalActivityOptions) -> ActivityOptions {
    ActivityOptions {
        activity_id: options.activity_id.clone(),
        headers: options.headers.clone(),
        schedule_to_close_timeout: options.schedule_to_close_timeout,
        schedule_to_start_timeout: options.schedule_to_start_timeout,
        start_to_close_timeout: options.start_to_close_timeout,
        retry_policy: options.retry_policy.clone(),
        cancellation_type: options.cancellation_type,
        ..ActivityOptions::default()
    }
}
