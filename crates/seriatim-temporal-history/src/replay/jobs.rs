//! From events to jobs: what Temporal's core sends to the code.

use seriatim_workflow::{
    ActivityResolution, ChildResolution, ChildStartResolution, Failure, FailureInfo, Job, Payload, Start,
};

use super::operations::Operations;
use crate::event::{EventKind, HistoryEvent, LocalActivityMarker, Marker};
use crate::failure::retry_state_of;
use crate::read::seed_of;
use crate::tasks::Task;

impl Operations<'_> {
    /// The jobs of a task in the order of the core: the start, patches, the random seed, signals and updates, all others.
    pub(super) fn jobs(&self, task: &Task<'_>) -> Vec<Job> {
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

    /// The job that an event becomes; `None` if the code gets no job for it, or has not asked for the operation.
    pub(super) fn job(&self, event: &HistoryEvent) -> Option<Job> {
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
}

/// The place of a job among those of its task.
fn rank(job: &Job) -> u8 {
    match job {
        Job::Start(_) => 0,
        Job::Patch { .. } => 1,
        Job::RandomSeed { .. } => 2,
        Job::Signal { .. } | Job::Update { .. } => 3,
        _ => 4,
    }
}

/// How a local activity ended, by its mark.
pub(super) fn local_end(marker: &LocalActivityMarker) -> ActivityResolution {
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
