//! The alarm clock of a host: what is due, in order.

use std::collections::BTreeMap;
use std::time::Duration;

use seriatim_env::Env;
use seriatim_types::WorkspaceId;
use seriatim_types::sync::{Mutex, MutexGuard};
use seriatim_workflow::Time;
use tokio::sync::Notify;

use crate::attempt::to_time;

/// What is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Alarm {
    /// A timer of the run.
    Timer(u32),
    /// The run has to be over.
    Deadline,
    /// The run's first activation.
    Begin,
    /// The run was not read yet, and something of it is due.
    Wake,
}

/// When, of which workflow's run, what.
type Due = (Time, WorkspaceId, u64, Alarm);

/// One entry per pending timer of all open runs: some hundred bytes each.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    alarms: Mutex<BTreeMap<Due, ()>>,
    /// There is an earlier alarm than the one that is waited for.
    earlier: Notify,
}

/// A clock that was set back must not keep alarms from ringing.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

impl Clock {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Due, ()>> {
        self.alarms.lock()
    }

    pub(crate) fn set(&self, at: Time, workspace: WorkspaceId, run: u64, alarm: Alarm) {
        let due = (at, workspace, run, alarm);
        let mut alarms = self.lock();
        alarms.insert(due, ());
        if alarms.first_key_value().is_some_and(|(first, ())| *first == due) {
            self.earlier.notify_one();
        }
    }

    pub(crate) fn unset(&self, at: Time, workspace: WorkspaceId, run: u64, alarm: Alarm) {
        self.lock().remove(&(at, workspace, run, alarm));
    }

    /// Takes the alarms that are due, up to a number.
    fn take(&self, now: Time, limit: usize) -> Vec<Due> {
        let mut alarms = self.lock();
        let mut due = Vec::new();
        while due.len() < limit {
            match alarms.first_entry() {
                Some(first) if first.key().0 <= now => due.push(first.remove_entry().0),
                _ => break,
            }
        }
        due
    }

    fn first(&self) -> Option<Time> {
        self.lock().first_key_value().map(|((at, ..), ())| *at)
    }

    /// Hands out what is due. It does not end.
    pub(crate) async fn run(&self, env: &Env, ring: impl Fn(WorkspaceId, u64, Alarm)) {
        loop {
            let now = to_time(env.now());
            for (_, workspace, run, alarm) in self.take(now, 1_000) {
                ring(workspace, run, alarm);
            }
            match self.first() {
                Some(at) if at <= now => tokio::task::yield_now().await,
                Some(at) => {
                    let wait = at.since(now).min(LOOK_AGAIN);
                    // Both ways out mean the same: it is time to look.
                    let _ = env.timeout(wait, self.earlier.notified()).await;
                }
                None => self.earlier.notified().await,
            }
        }
    }
}
