//! How runs end, and how others go on where they ended.

use seriatim_engine::{RunRow, RunStatus};
use seriatim_env::Env;
use seriatim_types::WorkspaceId;
use seriatim_workflow::{Command, ContinueAsNew, Failure, FailureInfo, ParentClosePolicy, Start, Time};

use crate::attempt::to_time;
use crate::entry::{Begins, Ended, Next};
use crate::workflow::pending::Pending;
use crate::workflow::{OpenRun, run_id};

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
        owes: false,
    }
}

/// The row of a run that goes on where another has ended.
pub(crate) fn row_of(next: &Next) -> RunRow {
    row(next.run, &next.start, next.start.start_time)
}

/// When a run has to be over, and those that go on where it ends by `of_all`.
pub(crate) fn deadline(of_all: Option<Time>, start: &Start) -> Option<Time> {
    let of_run = start.run_timeout.map(|timeout| start.start_time.after(timeout));
    of_run.into_iter().chain(of_all).min()
}

/// Whether a run that ends like this has still to tell others something.
fn owes(pending: &Pending) -> bool {
    let messages = !pending.signals.is_empty() || !pending.cancels.is_empty();
    messages
        || pending.children.values().any(|child| {
            let is_let_go = child.options.parent_close_policy == ParentClosePolicy::Abandon;
            child.run_id.is_none() || !is_let_go || child.cancelled.is_some()
        })
}

fn closed(open: &OpenRun, status: RunStatus, time: Time) -> RunRow {
    RunRow { status, ended: Some(millis(time)), to: Some(0), owes: owes(&open.pending), ..open.row.clone() }
}

/// A run is ended from outside, without being asked.
pub(crate) fn terminated(reason: &str, env: &Env) -> Ended {
    let failure = Failure::new(reason, FailureInfo::Terminated);
    Ended { status: RunStatus::Terminated, failure, time: to_time(env.now()) }
}

/// The host ends a run.
pub(crate) fn by_host(open: &OpenRun, ended: &Ended) -> Ending {
    Ending { row: closed(open, ended.status, ended.time), next: None }
}

/// A run has ended with a command.
pub(crate) fn of(workspace: WorkspaceId, open: &OpenRun, end: &Command, time: Time, env: &Env) -> Ending {
    let (status, next) = match end {
        Command::Fail { failure } => (RunStatus::Failed, retry(workspace, open, failure, time, env)),
        Command::Cancelled => (RunStatus::Cancelled, None),
        Command::ContinueAsNew { options } => {
            (RunStatus::ContinuedAsNew, Some(continued(workspace, open, options, time, env)))
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

fn continued(workspace: WorkspaceId, open: &OpenRun, options: &ContinueAsNew, time: Time, env: &Env) -> Next {
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
        random_seed: env.random(),
        start_time: time,
        attempt: 1,
        last_failure: None,
        rules: Start::RULES,
        ..(**before).clone()
    };
    next(open, time, start)
}

/// The run that tries again what this one failed to do, if its policy says so.
fn retry(workspace: WorkspaceId, open: &OpenRun, failure: &Failure, time: Time, env: &Env) -> Option<Next> {
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
        random_seed: env.random(),
        start_time: at,
        last_failure: Some(failure.clone()),
        rules: Start::RULES,
        ..(**before).clone()
    };
    Some(next(open, at, start))
}
