//! How runs end, and how others continue them: pure.

use serde::{Deserialize, Serialize};
use seriatim_types::WorkspaceId;
use seriatim_workflow::{
    Command, ContinueAsNew, Failure, FailureInfo, ParentClosePolicy, Payload, Start, Time,
};

use super::pending::Pending;
use super::{OpenRun, run_id};
use crate::application::{RunRow, RunStatus};
use crate::entry::{Begins, Ended, Entry, Next};

/// How a run has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    Completed(Option<Payload>),
    Failed(Failure),
    Cancelled,
}

impl Outcome {
    /// How the run of an event ends with it, if it does.
    pub(crate) fn of(entry: &Entry) -> Option<Self> {
        if let Some(Ended { failure, .. }) = &entry.ended {
            return Some(Self::Failed(failure.clone()));
        }
        let mut commands = entry.turns.iter().flat_map(|turn| &turn.commands);
        commands.find(|command| command.kind().ends_the_run()).map(|end| match end {
            Command::Fail { failure } => Self::Failed(failure.clone()),
            Command::Cancelled => Self::Cancelled,
            Command::Complete { result } => Self::Completed(result.clone()),
            _ => Self::Completed(None),
        })
    }
}

/// What is written when a run ends.
#[derive(Debug)]
pub(crate) struct Ending {
    pub(crate) row: RunRow,
    /// Its number is not known yet.
    pub(crate) next: Option<Next>,
}

fn millis(time: Time) -> u64 {
    time.as_micros() / 1_000
}

/// The row of a run that begins.
pub(crate) fn row(run: u64, start: &Start, now: Time) -> RunRow {
    RunRow {
        run,
        id: start.workflow_id.clone(),
        workflow_type: start.workflow_type.clone(),
        status: RunStatus::Running,
        started: millis(now),
        ended: None,
        from: 0,
        to: None,
        next: None,
        has_undelivered: false,
    }
}

/// The row of a run that continues another one.
pub(crate) fn row_of(next: &Next) -> RunRow {
    row(next.run, &next.start, next.start.start_time)
}

/// When a run times out. `of_all` is the deadline of the run and those that continue it.
pub(crate) fn deadline(of_all: Option<Time>, start: &Start) -> Option<Time> {
    let of_run = start.run_timeout.map(|timeout| start.start_time.after(timeout));
    of_run.into_iter().chain(of_all).min()
}

/// Whether a run that ends like this has messages to others that are not delivered.
fn has_undelivered(pending: &Pending) -> bool {
    let messages = !pending.signals.is_empty() || !pending.cancels.is_empty();
    messages
        || pending.children.values().any(|child| {
            let is_let_go = child.options.parent_close_policy == ParentClosePolicy::Abandon;
            child.run_id.is_none() || !is_let_go || child.cancelled.is_some()
        })
}

fn closed(open: &OpenRun, status: RunStatus, time: Time) -> RunRow {
    let has_undelivered = has_undelivered(&open.pending);
    RunRow { status, ended: Some(millis(time)), to: Some(0), has_undelivered, ..open.row.clone() }
}

/// A run is ended from outside, and its code is not asked.
pub(crate) fn terminated(reason: &str, time: Time) -> Ended {
    let failure = Failure::new(reason, FailureInfo::Terminated);
    Ended { status: RunStatus::Terminated, failure, time }
}

/// The host ends a run.
pub(crate) fn by_host(open: &OpenRun, ended: &Ended) -> Ending {
    Ending { row: closed(open, ended.status, ended.time), next: None }
}

/// A run has ended with a command. A run that continues it draws its random seed.
pub(crate) fn of(
    workspace: WorkspaceId,
    open: &OpenRun,
    end: &Command,
    time: Time,
    seed: impl FnOnce() -> u64,
) -> Ending {
    let (status, next) = match end {
        Command::Fail { failure } => (RunStatus::Failed, retry(workspace, open, failure, time, seed)),
        Command::Cancelled => (RunStatus::Cancelled, None),
        Command::ContinueAsNew { options } => {
            (RunStatus::ContinuedAsNew, Some(continued(workspace, open, options, time, seed())))
        }
        _ => (RunStatus::Completed, None),
    };
    Ending { row: closed(open, status, time), next }
}

fn next(open: &OpenRun, at: Time, start: Start) -> Next {
    let Begins { parent, deadline } = open.begins.clone();
    // Its number is drawn when it is written.
    Next { run: 0, at, start: Box::new(start), begins: Begins { parent, deadline } }
}

fn continued(workspace: WorkspaceId, open: &OpenRun, options: &ContinueAsNew, time: Time, seed: u64) -> Next {
    let before = &open.start;
    let or_same = |text: &String, same: &String| if text.is_empty() { same.clone() } else { text.clone() };
    let start = Start {
        workflow_type: or_same(&options.workflow_type, &before.workflow_type),
        task_queue: or_same(&options.task_queue, &before.task_queue),
        input: options.input.clone(),
        headers: if options.headers.is_empty() { before.headers.clone() } else { options.headers.clone() },
        memo: if options.memo.is_empty() { before.memo.clone() } else { options.memo.clone() },
        run_timeout: options.run_timeout.or(before.run_timeout),
        retry_policy: options.retry_policy.clone().or_else(|| before.retry_policy.clone()),
        continued_from: Some(run_id(workspace, open.row.run)),
        random_seed: seed,
        start_time: time,
        attempt: 1,
        last_failure: None,
        rules: Start::RULES,
        ..(**before).clone()
    };
    next(open, time, start)
}

/// The run that retries this one, if its policy says so.
fn retry(
    workspace: WorkspaceId,
    open: &OpenRun,
    failure: &Failure,
    time: Time,
    seed: impl FnOnce() -> u64,
) -> Option<Next> {
    let before = &open.start;
    let policy = before.retry_policy.as_ref()?;
    let mut delay = policy.delay_before(before.attempt.saturating_add(1))?;
    if let FailureInfo::Application { error_type, non_retryable, next_retry_delay, .. } = &*failure.info {
        if *non_retryable || policy.non_retryable_error_types.contains(error_type) {
            return None;
        }
        delay = next_retry_delay.unwrap_or(delay);
    }
    let at = time.after(delay);
    if open.begins.deadline.is_some_and(|deadline| at >= deadline) {
        return None;
    }
    let start = Start {
        attempt: before.attempt + 1,
        continued_from: Some(run_id(workspace, open.row.run)),
        random_seed: seed(),
        start_time: at,
        last_failure: Some(failure.clone()),
        rules: Start::RULES,
        ..(**before).clone()
    };
    Some(next(open, at, start))
}
