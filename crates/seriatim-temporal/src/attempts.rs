//! The activities of a worker: attempts are begun, heartbeats sent, cancellations passed on, results reported.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use seriatim_activity::{Activities, ActivityContext, ActivityInfo};
use seriatim_env::{Env, Shutdown};
use seriatim_types::sync::{Mutex, MutexGuard};
use seriatim_workflow::{Failure, Payload, SIDE_EFFECT_ACTIVITY, Time, list_names};
use temporalio_common::protos::coresdk::activity_result::{
    self, ActivityExecutionResult, activity_execution_result::Status,
};
use temporalio_common::protos::coresdk::activity_task::{
    ActivityCancelReason, ActivityTask, Cancel, Start, activity_task::Variant,
};
use temporalio_common::protos::coresdk::{ActivityHeartbeat, ActivityTaskCompletion};
use temporalio_common::protos::temporal::api::failure::v1::Failure as WireFailure;
use temporalio_sdk_core::{PollError, Worker as Core};
use tokio_util::task::TaskTracker;

use crate::failure::write_failure;
use crate::payload::{read_headers, read_payloads, write_payload, write_payloads};
use crate::untranslatable::Untranslatable;
use crate::wire::{read_enum, read_time};

/// How long an attempt has to end after it was asked to because the worker stops. Then it is handed back.
pub(crate) const HAND_BACK_AFTER: Duration = Duration::from_secs(2);

/// The attempts of a worker.
pub(crate) struct Attempts {
    pub(crate) env: Env,
    pub(crate) core: Arc<Core>,
    pub(crate) activities: Activities,
    /// The worker stops: attempts have the grace to end.
    pub(crate) stopping: Shutdown,
    pub(crate) grace: Duration,
    /// Everything that is under way.
    pub(crate) tasks: TaskTracker,
    pub(crate) under_way: UnderWay,
}

/// The attempts that can be asked to stop, by task token.
#[derive(Default)]
pub(crate) struct UnderWay(Mutex<HashMap<Vec<u8>, Stop>>);

impl UnderWay {
    fn lock(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Stop>> {
        self.0.lock()
    }
}

/// Asks one attempt to stop.
#[derive(Clone, Default)]
struct Stop {
    token: Shutdown,
    reason: Arc<OnceLock<ActivityCancelReason>>,
}

impl Stop {
    /// Asks for it. The first reason counts.
    fn ask(&self, reason: ActivityCancelReason) {
        let _ = self.reason.set(reason);
        self.token.cancel();
    }
}

impl Attempts {
    /// Asks for activities, remote and local alike, until there are no more.
    pub(crate) async fn poll(self: Arc<Self>) -> Result<(), PollError> {
        let mut first_error = None;
        loop {
            let task = match self.core.poll_activity_task().await {
                Ok(task) => task,
                Err(PollError::ShutDown) => return first_error.map_or(Ok(()), Err),
                Err(error) => {
                    self.stopping.cancel();
                    self.core.initiate_shutdown();
                    first_error.get_or_insert(error);
                    continue;
                }
            };
            self.take(task);
        }
    }

    fn take(self: &Arc<Self>, task: ActivityTask) {
        match task.variant {
            Some(Variant::Start(start)) => {
                let stop = Stop::default();
                self.under_way.lock().insert(task.task_token.clone(), stop.clone());
                let attempts = Arc::clone(self);
                let attempt = async move { attempts.run(task.task_token, start, stop).await };
                self.env.spawn(self.tasks.track_future(attempt));
            }
            Some(Variant::Cancel(cancel)) => self.cancel(&task.task_token, &cancel),
            None => tracing::error!("the core has sent an activity task that says nothing"),
        }
    }

    fn cancel(&self, token: &[u8], cancel: &Cancel) {
        // One that has just ended is not there any more.
        let Some(stop) = self.under_way.lock().get(token).cloned() else { return };
        let reason = read_enum("reason to cancel an activity", cancel.reason);
        let reason = reason.unwrap_or_else(|wrong: Untranslatable| {
            tracing::warn!(%wrong, "an activity is cancelled for an unknown reason");
            ActivityCancelReason::Cancelled
        });
        stop.ask(reason);
    }

    async fn run(self: Arc<Self>, token: Vec<u8>, start: Start, stop: Stop) {
        let is_local = start.is_local;
        let ended = self.attempt(&token, start, &stop).await;
        self.under_way.lock().remove(&token);
        if is_local && ended.is_err() && stop.reason.get() == Some(&ActivityCancelReason::WorkerShutdown) {
            // If it were reported, the core would begin the next attempt. So the workflow task stays open, and when its time is
            // over another worker runs it with all of its local activities.
            return;
        }
        let status = status(ended, stop.reason.get().copied());
        let result = Some(ActivityExecutionResult { status: Some(status) });
        let completion = ActivityTaskCompletion { task_token: token, result };
        if let Err(error) = self.core.complete_activity_task(completion).await {
            tracing::error!(%error, "the core does not take an activity's result");
        }
    }

    async fn attempt(&self, token: &[u8], start: Start, stop: &Stop) -> Result<Payload, Failure> {
        let is_local = start.is_local;
        let (info, input, left) = read(start)?;
        if info.activity_type == SIDE_EFFECT_ACTIVITY {
            return Ok(input.into_iter().next().unwrap_or_else(Payload::null));
        }
        if !self.activities.contains(&info.activity_type) {
            return Err(self.unknown(&info.activity_type));
        }
        let (core, token) = (Arc::downgrade(&self.core), token.to_vec());
        let heartbeat = move |details: Vec<Payload>| {
            // A local activity sends no heartbeats: its worker knows that it runs.
            if let Some(core) = core.upgrade().filter(|_| !is_local) {
                let (task_token, details) = (token.clone(), write_payloads(details));
                core.record_activity_heartbeat(ActivityHeartbeat { task_token, details });
            }
        };
        let context = ActivityContext::new(info, self.env.clone(), stop.token.clone(), left, heartbeat);
        let mut attempt = self.activities.attempt(context, input);
        if let Some(ended) = self.stopping.run_until_cancelled(&mut attempt).await {
            return ended;
        }
        if let Ok(ended) = self.env.timeout(self.grace, &mut attempt).await {
            return ended;
        }
        // The core itself asks remote activities to stop, but not local ones.
        stop.ask(ActivityCancelReason::WorkerShutdown);
        let late =
            |_| Err(Failure::application("WorkerShutdown", "it did not end in time when the worker stopped"));
        self.env.timeout(HAND_BACK_AFTER, attempt).await.unwrap_or_else(late)
    }

    /// Another worker of the queue, or a newer version of this one, may have it: the attempt may be retried.
    fn unknown(&self, name: &str) -> Failure {
        let known = list_names(self.activities.names());
        let message = format!("no activity {name:?} is registered at this worker; known: {known}");
        Failure::application("UnknownActivity", message)
    }
}

/// What an attempt is about, its input, and what the attempts before it left.
type Begun = (ActivityInfo, Vec<Payload>, Vec<Payload>);

fn read(start: Start) -> Result<Begun, Failure> {
    read_start(start).map_err(|wrong| Failure::non_retryable("Untranslatable", wrong.to_string()))
}

fn read_start(start: Start) -> Result<Begun, Untranslatable> {
    let run = start.workflow_execution.unwrap_or_default();
    let info = ActivityInfo {
        workflow_id: run.workflow_id,
        run_id: run.run_id,
        activity_id: start.activity_id,
        activity_type: start.activity_type,
        attempt: start.attempt,
        scheduled: start.scheduled_time.as_ref().map_or(Ok(Time::default()), read_time)?,
        headers: read_headers(start.header_fields)?,
    };
    Ok((info, read_payloads(start.input)?, read_payloads(start.heartbeat_details)?))
}

/// Translates how an attempt has ended. Only one that was asked to stop can have been cancelled; one that
/// stopped because of the worker, or because someone has paused it, is retried.
fn status(ended: Result<Payload, Failure>, asked: Option<ActivityCancelReason>) -> Status {
    use ActivityCancelReason as Reason;
    let failure = match ended {
        Ok(result) => {
            let result = Some(write_payload(result));
            return Status::Completed(activity_result::Success { result });
        }
        Err(failure) => failure,
    };
    let again = match asked {
        Some(_) | None if !failure.is_cancelled() => return failed(failure),
        None => return failed(failure),
        Some(Reason::Cancelled | Reason::NotFound | Reason::TimedOut) => {
            let failure = Some(write(failure));
            return Status::Cancelled(activity_result::Cancellation { failure });
        }
        Some(Reason::WorkerShutdown) => {
            ("WorkerShutdown", "the worker stopped before the activity had ended")
        }
        Some(Reason::Paused) => ("ActivityPaused", "the activity was paused"),
        Some(Reason::Reset) => ("ActivityReset", "the activity was reset"),
    };
    failed(Failure::application(again.0, again.1).caused_by(failure))
}

fn failed(failure: Failure) -> Status {
    Status::Failed(activity_result::Failure { failure: Some(write(failure)), ..Default::default() })
}

fn write(failure: Failure) -> WireFailure {
    let message = failure.message.clone();
    write_failure(failure).unwrap_or_else(|wrong| WireFailure {
        message: format!("{message} (and its details cannot be written: {wrong})"),
        ..WireFailure::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_asked_to_stop_can_have_been_cancelled() {
        use ActivityCancelReason as Reason;
        let cancelled = || Err(Failure::cancelled("stopped"));
        let broke = || Err(Failure::application("Broke", "it broke"));
        for (ended, asked, expected) in [
            (Ok(Payload::null()), None, "completed"),
            (Ok(Payload::null()), Some(Reason::Cancelled), "completed"),
            (broke(), None, "failed"),
            (broke(), Some(Reason::Cancelled), "failed"),
            (cancelled(), None, "failed"),
            (cancelled(), Some(Reason::Cancelled), "cancelled"),
            (cancelled(), Some(Reason::NotFound), "cancelled"),
            (cancelled(), Some(Reason::TimedOut), "cancelled"),
            (cancelled(), Some(Reason::WorkerShutdown), "failed"),
            (cancelled(), Some(Reason::Paused), "failed"),
            (cancelled(), Some(Reason::Reset), "failed"),
        ] {
            let name = format!("{ended:?} when asked {asked:?}");
            let status = match status(ended, asked) {
                Status::Completed(_) => "completed",
                Status::Failed(_) => "failed",
                Status::Cancelled(_) => "cancelled",
                Status::WillCompleteAsync(_) => "later",
            };
            assert_eq!(status, expected, "{name}");
        }
    }

    #[test]
    fn what_a_stopping_worker_hands_back_is_tried_again() {
        let Status::Failed(failed) =
            status(Err(Failure::cancelled("stopped")), Some(ActivityCancelReason::WorkerShutdown))
        else {
            panic!("it was not handed back")
        };
        let failure = crate::failure::read_failure(failed.failure.unwrap()).unwrap();
        assert!(matches!(
            &*failure.info,
            seriatim_workflow::FailureInfo::Application { non_retryable: false, .. }
        ));
        assert!(failure.to_string().contains("the worker stopped"), "{failure}");
    }
}
