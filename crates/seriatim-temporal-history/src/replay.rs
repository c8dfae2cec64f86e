//! Temporal's histories replayed on our code.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::Location;
use std::sync::Arc;

use seriatim_workflow::{
    Activation, ActivationFailure, ActivityResolution, CancellationType, ChildResolution,
    ChildStartResolution, Command, CommandKind, CommandRecord, CommandSeq, Difference, DifferenceKind,
    Failure, FailureInfo, Field, Headers, InputDigest, Instance, InstanceOptions, Job, Kind, Numbering,
    Payload, Policy, Registry, Report, Start,
};

use crate::TemporalHistory;
use crate::event::{AcceptedUpdate, EventKind, HistoryEvent, LocalActivityMarker, Marker};
use crate::failure::retry_state_of;
use crate::read::seed_of;
use crate::tasks::{Task, tasks};

/// Replays a history of Temporal's on the registered code.
///
/// The code is told what Temporal's core would tell it, workflow task by workflow task, and what it asks for is compared
/// with the events behind the task, in order: by kind, name, input, duration and target. (The core itself compares kind,
/// id and type.) A task that was not answered is not replayed.
#[must_use]
pub fn replay_temporal(registry: &Arc<Registry>, history: &TemporalHistory, policy: Policy) -> Report {
    let start = history.start();
    let report = Report {
        workflow_type: start.workflow_type.clone(),
        run_id: history.run_id.clone(),
        activations: 0,
        commands: 0,
        differences: Vec::new(),
        failure: None,
    };
    let options = InstanceOptions { numbering: Numbering::ByCallOrder, policy };
    let instance = Instance::new(Arc::clone(registry), options);
    let (operations, updates) = (BTreeMap::new(), BTreeMap::new());
    let mut replay = Replay {
        history,
        start,
        policy,
        instance,
        report,
        operations,
        updates,
        update_ids: BTreeMap::new(),
        local: Local::default(),
        task: 0,
    };
    for task in tasks(&history.events) {
        replay.task += 1;
        if let Err(failure) = replay.run(&task) {
            replay.report.failure = Some(failure);
            break;
        }
        if policy == Policy::Fail && !replay.report.differences.is_empty() {
            break;
        }
    }
    replay.report
}

/// The operation that an event stands for: its kind and number in our code.
type Operation = (CommandKind, u32);

/// What the code has asked for, ready to be compared.
struct Issued {
    record: CommandRecord,
    site: Option<&'static Location<'static>>,
}

struct Replay<'a> {
    history: &'a TemporalHistory,
    start: Start,
    policy: Policy,
    instance: Instance,
    report: Report,
    /// By the event that began it.
    operations: BTreeMap<i64, Operation>,
    /// The conversation of each accepted update, by its event.
    updates: BTreeMap<i64, String>,
    /// The same, by the update's own id.
    update_ids: BTreeMap<String, String>,
    local: Local,
    task: u32,
}

/// Local activities that have not ended.
#[derive(Default)]
struct Local {
    pending: Vec<PendingLocal>,
    /// Those that were cancelled and not waited for: their marks are still to come.
    cancelled: BTreeSet<u32>,
}

struct PendingLocal {
    seq: u32,
    name: String,
    /// It is asked to stop, and what it says to that is waited for.
    waits: bool,
}

impl Local {
    /// The pending local activity that a mark belongs to: by number, or, in histories of other SDKs, the oldest.
    fn take(&mut self, marker: &LocalActivityMarker) -> Option<PendingLocal> {
        if self.cancelled.remove(&marker.seq) {
            return None;
        }
        let same = self.pending.iter().position(|local| local.seq == marker.seq);
        let at = same.or_else(|| (!self.pending.is_empty()).then_some(0))?;
        Some(self.pending.remove(at))
    }

    /// Cancels one. The core marks it at once if it is not waited for: then its name is returned.
    fn cancel(&mut self, seq: u32) -> Option<String> {
        let at = self.pending.iter().position(|local| local.seq == seq && !local.waits)?;
        self.cancelled.insert(seq);
        Some(self.pending.remove(at).name)
    }
}

impl Replay<'_> {
    fn run(&mut self, task: &Task<'_>) -> Result<(), ActivationFailure> {
        refuse_nexus(task)?;
        let mut issued = Vec::new();
        let jobs = self.jobs(task);
        if !jobs.is_empty() {
            self.activate(task, jobs, &mut issued)?;
        }
        // Local activities end within the task: their marks are among its commands.
        for event in &task.commands {
            if let EventKind::Marker(Marker::LocalActivity(marker)) = &event.kind
                && let Some(PendingLocal { seq, name, .. }) = self.local.take(marker)
            {
                push_mark(&mut issued, &name, None);
                let seq = CommandSeq::new(seq);
                self.activate(
                    task,
                    vec![Job::ResolveLocalActivity { seq, resolution: local_end(marker) }],
                    &mut issued,
                )?;
            }
        }
        self.compare(task, issued);
        Ok(())
    }

    fn activate(
        &mut self,
        task: &Task<'_>,
        jobs: Vec<Job>,
        issued: &mut Vec<Issued>,
    ) -> Result<(), ActivationFailure> {
        let mut activation = Activation::new(&self.history.run_id, task.time, jobs).replaying(true);
        activation.history_length = u32::try_from(task.started).unwrap_or(u32::MAX);
        self.report.activations += 1;
        let commands = self.instance.activate(activation).outcome?;
        let sites = self.instance.locations();
        let mut unsent = Vec::new();
        for (command, site) in commands.iter().zip(sites) {
            match command {
                Command::ScheduleLocalActivity { seq, activity_type, options, .. } => {
                    let (seq, name) = (seq.get(), activity_type.clone());
                    let waits = options.cancellation_type == CancellationType::WaitCompleted;
                    self.local.pending.push(PendingLocal { seq, name, waits });
                }
                Command::CancelLocalActivity { seq, .. } => {
                    if let Some(name) = self.local.cancel(seq.get()) {
                        push_mark(issued, &name, site);
                    }
                }
                Command::CancelSignal { .. } => drop(take_begun(issued, command)),
                // What begins and ends within one task never reaches the server; the core says at once that it is over.
                Command::CancelTimer { .. }
                | Command::CancelActivity { .. }
                | Command::CancelChild { .. }
                    if take_begun(issued, command).is_some() =>
                {
                    unsent.extend(unsent_end(command));
                }
                // What has ended before the code cancels it is not cancelled: the core says nothing to the server.
                Command::CancelTimer { .. }
                | Command::CancelActivity { .. }
                | Command::CancelChild { .. }
                    if self.is_over(task, command) => {}
                _ if command.kind().is_recorded() => {
                    issued.push(Issued { record: self.record_of(command), site });
                }
                _ => {}
            }
        }
        if unsent.is_empty() { Ok(()) } else { self.activate(task, unsent, issued) }
    }

    /// Whether what the command cancels has ended in the same task, and the history does not have the cancellation.
    fn is_over(&self, task: &Task<'_>, cancel: &Command) -> bool {
        let ended = |event: &&HistoryEvent| self.job(event).and_then(|job| job.answers()) == cancel.seq();
        if !task.happened.iter().any(ended) {
            return false;
        }
        let cancel = self.record_of(cancel);
        !task.commands.iter().any(|event| {
            let recorded = self.record_of_event(event);
            recorded.command == cancel.command && recorded.name == cancel.name
        })
    }

    /// What the core tells the code at the beginning of a task: start, patches, seed, signals and updates, the rest.
    fn jobs(&self, task: &Task<'_>) -> Vec<Job> {
        let mut jobs = Vec::new();
        for event in &task.commands {
            match &event.kind {
                EventKind::Marker(Marker::Patch { id, .. }) => jobs.push((1, Job::Patch { id: id.clone() })),
                EventKind::UpdateAccepted(accepted) => {
                    let request = self.request_of(accepted);
                    jobs.push((
                        3,
                        Job::Update {
                            id: request.update_id.clone(),
                            protocol_id: accepted.protocol_id.clone(),
                            name: request.name.clone(),
                            input: request.input.clone(),
                            headers: request.headers.clone(),
                            identity: request.identity.clone(),
                            run_validator: false,
                        },
                    ));
                }
                _ => {}
            }
        }
        let updates = jobs.len();
        for event in &task.happened {
            jobs.extend(self.job(event).map(|job| (rank(&job), job)));
        }
        // Signals come before updates that were accepted in the same task.
        jobs.rotate_left(updates);
        jobs.sort_by_key(|(rank, _)| *rank);
        jobs.into_iter().map(|(_, job)| job).collect()
    }

    /// What was asked for. After a reset it is in the event by which the server admitted the update again.
    fn request_of<'b>(&'b self, accepted: &'b AcceptedUpdate) -> &'b AcceptedUpdate {
        if !accepted.name.is_empty() {
            return accepted;
        }
        let admitted = self.history.events.iter().filter_map(|event| match &event.kind {
            EventKind::UpdateAdmitted(update) => Some(&**update),
            _ => None,
        });
        let mut same = admitted.filter(|update| update.update_id == accepted.protocol_id);
        same.next().unwrap_or(accepted)
    }

    fn job(&self, event: &HistoryEvent) -> Option<Job> {
        Some(match &event.kind {
            EventKind::Started(start) => {
                Job::Start(Box::new(Start { start_time: event.time, ..(**start).clone() }))
            }
            EventKind::TaskFailed { new_run_id } if !new_run_id.is_empty() => {
                Job::RandomSeed { seed: seed_of(new_run_id) }
            }
            EventKind::Signalled { name, input, headers, identity } => Job::Signal {
                name: name.clone(),
                input: input.clone(),
                headers: headers.clone(),
                identity: identity.clone(),
            },
            EventKind::CancelRequested { reason } => Job::Cancel { reason: reason.clone() },
            EventKind::TimerFired { started } => Job::FireTimer { seq: self.seq(*started)? },
            EventKind::ActivityCompleted { scheduled, result } => {
                let resolution = ActivityResolution::Completed { result: result.first().cloned() };
                Job::ResolveActivity { seq: self.seq(*scheduled)?, resolution }
            }
            EventKind::ActivityFailed { scheduled, failure, retry_state }
            | EventKind::ActivityTimedOut { scheduled, failure, retry_state } => {
                let failure = self.activity_failure(*scheduled, failure, *retry_state);
                Job::ResolveActivity {
                    seq: self.seq(*scheduled)?,
                    resolution: ActivityResolution::Failed { failure },
                }
            }
            EventKind::ActivityCancelled { scheduled, details } => {
                let failure = cancelled(details);
                Job::ResolveActivity {
                    seq: self.seq(*scheduled)?,
                    resolution: ActivityResolution::Cancelled { failure },
                }
            }
            EventKind::ExternalSignalFailed { initiated, cause } => {
                Job::ResolveExternalSignal { seq: self.seq(*initiated)?, failure: Some(undelivered(*cause)) }
            }
            EventKind::ExternalSignalDelivered { initiated } => {
                Job::ResolveExternalSignal { seq: self.seq(*initiated)?, failure: None }
            }
            EventKind::ExternalCancelFailed { initiated, cause } if !self.is_child_cancel(*initiated) => {
                Job::ResolveExternalCancel { seq: self.seq(*initiated)?, failure: Some(undelivered(*cause)) }
            }
            EventKind::ExternalCancelDelivered { initiated } if !self.is_child_cancel(*initiated) => {
                Job::ResolveExternalCancel { seq: self.seq(*initiated)?, failure: None }
            }
            EventKind::ChildStartFailed { initiated, cause } => {
                let (workflow_id, workflow_type) = (String::new(), String::new());
                let resolution = ChildStartResolution::Failed { cause: *cause, workflow_id, workflow_type };
                Job::ResolveChildStart { seq: self.seq(*initiated)?, resolution }
            }
            EventKind::ChildStarted { initiated, run_id } => {
                let resolution = ChildStartResolution::Started { run_id: run_id.clone() };
                Job::ResolveChildStart { seq: self.seq(*initiated)?, resolution }
            }
            EventKind::ChildCompleted { initiated, result } => {
                let resolution = ChildResolution::Completed { result: result.first().cloned() };
                Job::ResolveChild { seq: self.seq(*initiated)?, resolution }
            }
            EventKind::ChildFailed { initiated, failure } => {
                let resolution = ChildResolution::Failed { failure: (**failure).clone() };
                Job::ResolveChild { seq: self.seq(*initiated)?, resolution }
            }
            EventKind::ChildCancelled { initiated, details } => {
                let resolution = ChildResolution::Cancelled { failure: cancelled(details) };
                Job::ResolveChild { seq: self.seq(*initiated)?, resolution }
            }
            _ => return None,
        })
    }

    /// Our number of the operation that this event began; none if the code has not asked for it.
    fn seq<K>(&self, event: i64) -> Option<CommandSeq<K>> {
        self.operations.get(&event).map(|(_, seq)| CommandSeq::new(*seq))
    }

    fn is_child_cancel(&self, initiated: i64) -> bool {
        matches!(self.operations.get(&initiated), Some((CommandKind::CancelChild, _)))
    }

    fn activity_failure(&self, scheduled: i64, cause: &Failure, retry_state: usize) -> Failure {
        let event = usize::try_from(scheduled - 1).ok().and_then(|at| self.history.events.get(at));
        let (activity_type, activity_id) = match event.map(|event| &event.kind) {
            Some(EventKind::ActivityScheduled { activity_type, activity_id, .. }) => {
                (activity_type.clone(), activity_id.clone())
            }
            _ => Default::default(),
        };
        let info = FailureInfo::Activity {
            activity_type,
            activity_id,
            identity: String::new(),
            retry_state: retry_state_of(retry_state),
            scheduled_event_id: scheduled,
            started_event_id: 0,
        };
        Failure::new("Activity task failed", info).caused_by(cause.clone())
    }

    /// Compares what the code asks for with the events behind the task.
    fn compare(&mut self, task: &Task<'_>, issued: Vec<Issued>) {
        let events = self.expected(task, &issued);
        self.report.commands += events.len();
        let mut issued = issued.into_iter();
        for event in events {
            let expected = self.record_of_event(event);
            let Some(Issued { record: actual, site }) = issued.next() else {
                self.differs(event.id, DifferenceKind::Missing, Some(expected), None, None);
                continue;
            };
            if let (EventKind::UpdateAccepted(update), true) =
                (&event.kind, actual.command == expected.command)
            {
                self.updates.insert(event.id, update.protocol_id.clone());
                let update_id = self.request_of(update).update_id.clone();
                self.update_ids.insert(update_id, update.protocol_id.clone());
            }
            if actual.command == expected.command {
                let seq = actual.seq.map_or(0, |(_, seq)| seq);
                self.operations.insert(event.id, (actual.command, seq));
            }
            let fields: Vec<Field> = expected.fields_that_differ(&actual);
            if !fields.is_empty() {
                let kind = DifferenceKind::Altered { fields };
                self.differs(event.id, kind, Some(expected), Some(actual), site);
            }
        }
        // The answer to a task is the event after its start.
        let last = task.commands.last().map_or(task.started + 1, |event| event.id);
        for Issued { record, site } in issued {
            self.differs(last, DifferenceKind::Inserted, None, Some(record), site);
        }
    }

    /// The events that the code has to ask for. What the core adds by itself is left out, and so is the mark of a patch
    /// whose old code is gone, if the code no longer mentions it.
    fn expected<'e>(&self, task: &Task<'e>, issued: &[Issued]) -> Vec<&'e HistoryEvent> {
        let is_mentioned = |id: &str| {
            issued
                .iter()
                .any(|issued| issued.record.command == CommandKind::SetPatch && issued.record.name == id)
        };
        let events = task.commands.iter().copied();
        let events = events.filter(|event| match &event.kind {
            EventKind::SearchAttributesUpserted { attributes } => {
                !attributes.contains_key("TemporalChangeVersion")
            }
            EventKind::Marker(Marker::Patch { id, deprecated: true }) => is_mentioned(id),
            _ => true,
        });
        events.collect()
    }

    fn differs(
        &mut self,
        event: i64,
        kind: DifferenceKind,
        expected: Option<CommandRecord>,
        actual: Option<CommandRecord>,
        site: Option<&'static Location<'static>>,
    ) {
        if self.policy == Policy::Warn || self.report.differences.is_empty() {
            let difference = Difference::new(self.task, kind, expected, actual, site);
            self.report.differences.push(Difference { event: Some(event), ..difference });
        }
    }

    /// What is compared of a command, as an event would have it.
    fn record_of(&self, command: &Command) -> CommandRecord {
        let mut record = CommandRecord::of(command);
        match command {
            Command::ScheduleActivity { .. } if record.target.is_empty() => {
                record.target.clone_from(&self.start.task_queue);
            }
            Command::CancelTimer { .. } | Command::CancelActivity { .. } | Command::CancelChild { .. } => {
                record.name = record.seq.map(|(_, seq)| seq.to_string()).unwrap_or_default();
            }
            Command::ContinueAsNew { .. } if record.name.is_empty() => {
                record.name.clone_from(&self.start.workflow_type);
            }
            Command::SetPatch { .. } => record.target.clear(),
            _ => {}
        }
        record
    }

    /// What is compared of an event that the run asked for.
    fn record_of_event(&self, event: &HistoryEvent) -> CommandRecord {
        let number = |of: &i64| self.operations.get(of).map(|(_, seq)| seq.to_string()).unwrap_or_default();
        match &event.kind {
            EventKind::ActivityScheduled { activity_type, task_queue, input, .. } => CommandRecord {
                target: task_queue.clone(),
                ..given(CommandKind::ScheduleActivity, activity_type, input)
            },
            EventKind::ActivityCancelRequested { scheduled } => {
                record(CommandKind::CancelActivity, &number(scheduled))
            }
            EventKind::TimerStarted { duration, .. } => {
                CommandRecord { duration: Some(*duration), ..record(CommandKind::StartTimer, "") }
            }
            EventKind::TimerCancelled { started } => record(CommandKind::CancelTimer, &number(started)),
            EventKind::Marker(Marker::LocalActivity(marker)) => {
                record(CommandKind::ScheduleLocalActivity, &marker.activity_type)
            }
            EventKind::Marker(Marker::Patch { id, .. }) => record(CommandKind::SetPatch, id),
            EventKind::Marker(Marker::Other { name, .. }) => record(CommandKind::RecordSideEffect, name),
            EventKind::ExternalCancelInitiated { child_only: true, target, .. } => {
                record(CommandKind::CancelChild, &self.child_number(&target.workflow_id))
            }
            EventKind::ExternalCancelInitiated { target, .. } => CommandRecord {
                target: format!("{}/{}", target.workflow_id, target.run_id),
                ..record(CommandKind::CancelExternal, "")
            },
            EventKind::ExternalSignalInitiated { target, name, input, child_only } => CommandRecord {
                target: match child_only {
                    true => format!("child {}", target.workflow_id),
                    false => format!("{}/{}", target.workflow_id, target.run_id),
                },
                ..given(CommandKind::SignalExternal, name, input)
            },
            EventKind::ChildInitiated { workflow_id, workflow_type, input } => CommandRecord {
                target: workflow_id.clone(),
                ..given(CommandKind::StartChild, workflow_type, input)
            },
            EventKind::SearchAttributesUpserted { attributes } => {
                named(CommandKind::UpsertSearchAttributes, attributes)
            }
            EventKind::MemoModified { memo } => named(CommandKind::ModifyMemo, memo),
            EventKind::UpdateAccepted(update) => record(CommandKind::UpdateAccepted, &update.protocol_id),
            EventKind::UpdateCompleted { accepted, outcome, update_id } => {
                // Not every server says which event accepted it.
                let name = self.updates.get(accepted).or_else(|| self.update_ids.get(update_id));
                let name = name.cloned().unwrap_or_default();
                match outcome {
                    Ok(result) => given(CommandKind::UpdateCompleted, &name, result),
                    Err(failure) => CommandRecord {
                        target: failure.message.clone(),
                        ..record(CommandKind::UpdateCompleted, &name)
                    },
                }
            }
            EventKind::Completed { result } => given(CommandKind::Complete, "", result),
            EventKind::Failed { failure } => record(CommandKind::Fail, &failure.message),
            EventKind::ContinuedAsNew { workflow_type, input } => {
                given(CommandKind::ContinueAsNew, workflow_type, input)
            }
            _ => record(CommandKind::Cancelled, ""),
        }
    }

    /// Our number of the child with this id.
    fn child_number(&self, workflow_id: &str) -> String {
        let child = self.history.events.iter().rev().find(|event| {
            matches!(&event.kind, EventKind::ChildInitiated { workflow_id: id, .. } if id == workflow_id)
        });
        let operation = child.and_then(|event| self.operations.get(&event.id));
        operation.map(|(_, seq)| seq.to_string()).unwrap_or_default()
    }
}

fn rank(job: &Job) -> u8 {
    match job {
        Job::Start(_) => 0,
        Job::Patch { .. } => 1,
        Job::RandomSeed { .. } => 2,
        Job::Signal { .. } | Job::Update { .. } => 3,
        _ => 4,
    }
}

/// The mark of a local activity goes before the end of the run, also where the code has ended without waiting for it.
fn push_mark(issued: &mut Vec<Issued>, name: &str, site: Option<&'static Location<'static>>) {
    let mark = Issued { record: record(CommandKind::ScheduleLocalActivity, name), site };
    let end = issued.iter().position(|issued| issued.record.command.ends_the_run());
    issued.insert(end.unwrap_or(issued.len()), mark);
}

/// Nexus operations are not known here: a history with one is not replayed as if it had none.
fn refuse_nexus(task: &Task<'_>) -> Result<(), ActivationFailure> {
    let nexus = task.happened.iter().chain(&task.commands).find_map(|event| match &event.kind {
        EventKind::Nexus { name, .. } => Some((event.id, *name)),
        _ => None,
    });
    let Some((id, name)) = nexus else { return Ok(()) };
    let reason = format!("event {id} is {name}: Nexus operations are not supported here");
    Err(ActivationFailure::Protocol { reason })
}

/// Takes back the command that began what this one ends, if it was issued in the same task.
fn take_begun(issued: &mut Vec<Issued>, cancel: &Command) -> Option<Issued> {
    let begins = match cancel.seq()?.0 {
        Kind::Timer => CommandKind::StartTimer,
        Kind::Activity => CommandKind::ScheduleActivity,
        Kind::ChildWorkflow => CommandKind::StartChild,
        _ => CommandKind::SignalExternal,
    };
    let at = issued.iter().position(|i| i.record.command == begins && i.record.seq == cancel.seq())?;
    Some(issued.remove(at))
}

/// What the core tells about an operation that was cancelled before it was sent.
fn unsent_end(cancel: &Command) -> Option<Job> {
    let failure = Failure::cancelled("cancelled before it was scheduled");
    Some(match cancel {
        Command::CancelActivity { seq, .. } => {
            Job::ResolveActivity { seq: *seq, resolution: ActivityResolution::Cancelled { failure } }
        }
        Command::CancelChild { seq, .. } => {
            Job::ResolveChildStart { seq: *seq, resolution: ChildStartResolution::Cancelled { failure } }
        }
        _ => return None,
    })
}

fn local_end(marker: &LocalActivityMarker) -> ActivityResolution {
    match (&marker.failure, marker.backoff) {
        (Some(_), Some(delay)) => ActivityResolution::Backoff {
            attempt: marker.attempt + 1,
            delay,
            original_schedule_time: marker.original_schedule_time,
        },
        (Some(failure), None) if failure.is_cancelled() => {
            ActivityResolution::Cancelled { failure: failure.clone() }
        }
        (Some(failure), None) => ActivityResolution::Failed { failure: failure.clone() },
        (None, _) => ActivityResolution::Completed { result: marker.result.clone() },
    }
}

fn record(command: CommandKind, name: &str) -> CommandRecord {
    CommandRecord {
        command,
        seq: None,
        path: None,
        name: name.to_owned(),
        digest: InputDigest::NONE,
        input: Vec::new(),
        duration: None,
        target: String::new(),
        value: None,
    }
}

/// A record with arguments or a result.
fn given(command: CommandKind, name: &str, input: &[Payload]) -> CommandRecord {
    CommandRecord { digest: InputDigest::of(input), input: input.to_vec(), ..record(command, name) }
}

fn named(command: CommandKind, values: &Headers) -> CommandRecord {
    let target = values.keys().map(String::as_str).collect::<Vec<_>>().join(",");
    CommandRecord { target, ..given(command, "", &values.values().cloned().collect::<Vec<_>>()) }
}

fn cancelled(details: &[Payload]) -> Failure {
    Failure::new("cancelled", FailureInfo::Cancelled { details: details.to_vec() })
}

fn undelivered(cause: usize) -> Failure {
    let message = match cause {
        1 => "the workflow does not exist or has ended",
        2 => "the namespace does not exist",
        3 => "the workflow has had too many signals",
        _ => "the message was not delivered",
    };
    Failure::application("ExternalWorkflow", message)
}
