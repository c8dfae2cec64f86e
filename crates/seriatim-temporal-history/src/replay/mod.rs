//! Temporal's histories replayed on our code.
//!
//! ```text
//! history ──► tasks ──► jobs ──► the code ──► commands ──► records ─┐
//!                │                                                  ├─► compare
//!                └────► events that the code has asked for ► records┘
//! ```

mod jobs;
mod operations;
mod records;

use std::collections::BTreeSet;
use std::panic::Location;
use std::sync::Arc;

use seriatim_workflow::{
    Activation, ActivationFailure, ActivityResolution, CancellationType, ChildStartResolution, Command,
    CommandKind, CommandRecord, CommandSeq, Difference, DifferenceKind, Failure, Field, Instance,
    InstanceOptions, Job, Kind, Numbering, Policy, Registry, Report, Start,
};

use crate::TemporalHistory;
use crate::event::{EventKind, HistoryEvent, LocalActivityMarker, Marker};
use crate::tasks::{Task, tasks};
use jobs::local_end;
use operations::Operations;
use records::record;

/// Replays a history of Temporal's on the registered code.
///
/// The code gets the jobs that Temporal's core would send, workflow task by workflow task. The commands that it issues are
/// compared with the events that follow the task, in order: by kind, name, input, duration and target. (The core itself
/// compares kind, id and type.) A task that was not completed is not replayed.
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
    let mut replay = Replay {
        operations: Operations::new(history),
        start,
        policy,
        instance,
        report,
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

/// A command that the code has issued, ready to be compared.
struct Issued {
    record: CommandRecord,
    site: Option<&'static Location<'static>>,
}

struct Replay<'a> {
    operations: Operations<'a>,
    start: Start,
    policy: Policy,
    instance: Instance,
    report: Report,
    local: Local,
    task: u32,
}

/// Local activities that have not ended.
#[derive(Default)]
struct Local {
    pending: Vec<PendingLocal>,
    /// Those that were cancelled and are not waited for: their marks follow later in the history.
    cancelled: BTreeSet<u32>,
}

struct PendingLocal {
    seq: u32,
    name: String,
    /// Once it is cancelled, the run waits for its end.
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
        let jobs = self.operations.jobs(task);
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
        let mut activation =
            Activation::new(&self.operations.history.run_id, task.time, jobs).replaying(true);
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
                // What begins and is cancelled within one task never reaches the server; the core answers it at once.
                Command::CancelTimer { .. }
                | Command::CancelActivity { .. }
                | Command::CancelChild { .. }
                    if take_begun(issued, command).is_some() =>
                {
                    unsent.extend(unsent_end(command));
                }
                // What has ended before the code cancels it is not cancelled: the core sends nothing to the server.
                Command::CancelTimer { .. }
                | Command::CancelActivity { .. }
                | Command::CancelChild { .. }
                    if self.is_over(task, command) => {}
                _ if command.kind().is_recorded() => {
                    issued.push(Issued { record: records::of_command(&self.start, command), site });
                }
                _ => {}
            }
        }
        if unsent.is_empty() { Ok(()) } else { self.activate(task, unsent, issued) }
    }

    /// Whether what the command cancels has ended in the same task, and the history does not have the cancellation.
    fn is_over(&self, task: &Task<'_>, cancel: &Command) -> bool {
        let ended =
            |event: &&HistoryEvent| self.operations.job(event).and_then(|job| job.answers()) == cancel.seq();
        if !task.happened.iter().any(ended) {
            return false;
        }
        let cancel = records::of_command(&self.start, cancel);
        !task.commands.iter().any(|event| {
            let recorded = records::of_event(&self.operations, event);
            recorded.command == cancel.command && recorded.name == cancel.name
        })
    }

    /// Compares the commands of the code with the events that follow the task.
    fn compare(&mut self, task: &Task<'_>, issued: Vec<Issued>) {
        let events = self.expected(task, &issued);
        self.report.commands += events.len();
        let mut issued = issued.into_iter();
        for event in events {
            let expected = records::of_event(&self.operations, event);
            let Some(Issued { record: actual, site }) = issued.next() else {
                self.differs(event.id, DifferenceKind::Missing, Some(expected), None, None);
                continue;
            };
            if let (EventKind::UpdateAccepted(update), true) =
                (&event.kind, actual.command == expected.command)
            {
                self.operations.insert_update(event.id, update);
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
        // The completion of a task is the event after its start.
        let last = task.commands.last().map_or(task.started + 1, |event| event.id);
        for Issued { record, site } in issued {
            self.differs(last, DifferenceKind::Inserted, None, Some(record), site);
        }
    }

    /// The events that need a command of the code. What the core adds by itself is left out, and so is the mark of a patch
    /// that was deprecated, if the code no longer mentions it.
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
}

/// Adds the mark of a local activity: before the end of the run, also if the code has ended without waiting for it.
fn push_mark(issued: &mut Vec<Issued>, name: &str, site: Option<&'static Location<'static>>) {
    let mark = Issued { record: record(CommandKind::ScheduleLocalActivity, name), site };
    let end = issued.iter().position(|issued| issued.record.command.ends_the_run());
    issued.insert(end.unwrap_or(issued.len()), mark);
}

/// Nexus operations are not supported: a history with one is refused, and not replayed as if it had none.
fn refuse_nexus(task: &Task<'_>) -> Result<(), ActivationFailure> {
    let nexus = task.happened.iter().chain(&task.commands).find_map(|event| match &event.kind {
        EventKind::Nexus { name, .. } => Some((event.id, *name)),
        _ => None,
    });
    let Some((id, name)) = nexus else { return Ok(()) };
    let reason = format!("event {id} is {name}: Nexus operations are not supported here");
    Err(ActivationFailure::Protocol { reason })
}

/// Removes the command that began what this one cancels, if it was issued in the same task.
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

/// How the core answers an operation that was cancelled before it was sent.
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
