//! The alarms of a host: everything that is due at a time, in order.

use std::collections::BTreeSet;
use std::time::Duration;

use seriatim_env::Env;
use seriatim_types::WorkspaceId;
use seriatim_types::sync::{Mutex, MutexGuard};
use seriatim_workflow::Time;
use tokio::sync::Notify;

use crate::attempt::to_time;
use crate::homes::Home;

/// What is due at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Alarm {
    /// A timer of the run.
    Timer(u32),
    /// The run's timeout.
    Deadline,
    /// The run's first activation.
    Begin,
    /// Something of a run is due whose history is not in memory.
    Wake,
}

/// When it is due, the workflow, the run, and what is due.
type Due = (Time, WorkspaceId, u64, Alarm);

/// A queue of alarms, the earliest first. One entry for each pending timer of all open runs: about a hundred bytes each.
#[derive(Debug, Default)]
pub(crate) struct Alarms {
    queue: Mutex<BTreeSet<Due>>,
    /// Notified when an alarm is set that is earlier than all others.
    earlier: Notify,
}

/// The clock is read at least this often: if it was set back, the time until the first alarm is not what it was.
const RECHECK_INTERVAL: Duration = Duration::from_secs(60);

impl Alarms {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<Due>> {
        self.queue.lock()
    }

    /// Sets an alarm, unless the partition of its workflow has left.
    pub(crate) fn set(&self, at: Time, workspace: WorkspaceId, run: u64, alarm: Alarm, home: &Home) {
        let due = (at, workspace, run, alarm);
        let mut queue = self.lock();
        // Checked under the lock: what is set before the partition leaves is removed by `remove_partition`.
        if home.has_left() {
            return;
        }
        queue.insert(due);
        if queue.first() == Some(&due) {
            self.earlier.notify_one();
        }
    }

    pub(crate) fn unset(&self, at: Time, workspace: WorkspaceId, run: u64, alarm: Alarm) {
        self.lock().remove(&(at, workspace, run, alarm));
    }

    /// Removes the alarms of the workflows of a partition.
    pub(crate) fn remove_partition(&self, is_of: impl Fn(WorkspaceId) -> bool) {
        self.lock().retain(|(_, workspace, ..)| !is_of(*workspace));
    }

    /// How many are set.
    pub(crate) fn count(&self) -> usize {
        self.lock().len()
    }

    /// Takes the alarms that are due out of the queue, up to a number.
    fn take(&self, now: Time, limit: usize) -> Vec<Due> {
        let mut queue = self.lock();
        let mut due = Vec::new();
        while due.len() < limit && queue.first().is_some_and(|(at, ..)| *at <= now) {
            due.extend(queue.pop_first());
        }
        due
    }

    fn first(&self) -> Option<Time> {
        self.lock().first().map(|(at, ..)| *at)
    }

    /// Calls `ring` for each alarm when it is due. It does not end.
    pub(crate) async fn run(&self, env: &Env, ring: impl Fn(WorkspaceId, u64, Alarm)) {
        loop {
            let now = to_time(env.now());
            for (_, workspace, run, alarm) in self.take(now, 1_000) {
                ring(workspace, run, alarm);
            }
            match self.first() {
                Some(at) if at <= now => tokio::task::yield_now().await,
                Some(at) => {
                    let wait = at.since(now).min(RECHECK_INTERVAL);
                    // After the time and after the notification the loop does the same: it takes what is due.
                    let _ = env.timeout(wait, self.earlier.notified()).await;
                }
                None => self.earlier.notified().await,
            }
        }
    }
}
