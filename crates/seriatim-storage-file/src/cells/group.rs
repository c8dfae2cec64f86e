//! Compare, write, sync, with one sync for all that wait.
//!
//! Whoever finds nobody at work takes everything that is pending, compares and writes it one by one, syncs once and
//! answers all. Those who come meanwhile are the next group.

use std::collections::VecDeque;
use std::sync::Arc;

use seriatim_storage::{StoreError, StoreKey};
use seriatim_types::sync::{Mutex, MutexGuard};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard, oneshot};

use super::{Database, Shared};

/// What one group writes at most, in bytes, unless a single value is larger: about a memtable.
const GROUP_BYTES_MAX: usize = 4 << 20;

type Answer = Result<bool, StoreError>;

/// A compare-and-set under way.
pub(super) struct Request {
    pub(super) physical: StoreKey,
    pub(super) expected: Option<Vec<u8>>,
    pub(super) value: Option<Vec<u8>>,
}

impl Request {
    fn bytes(&self) -> usize {
        self.physical.size() + self.value.as_ref().map_or(0, Vec::len) + 1
    }
}

/// Requests that wait, and the right to work on them.
#[derive(Default)]
pub(super) struct Pending {
    requests: Mutex<VecDeque<(Request, oneshot::Sender<Answer>)>>,
    leader: Arc<AsyncMutex<()>>,
}

impl Pending {
    fn requests(&self) -> MutexGuard<'_, VecDeque<(Request, oneshot::Sender<Answer>)>> {
        self.requests.lock()
    }

    /// Waits until nobody is at work.
    pub(super) async fn lead(&self) -> OwnedMutexGuard<()> {
        self.leader.clone().lock_owned().await
    }

    /// The next request whose caller still waits, as long as the group has room.
    fn next(&self, group_bytes: usize) -> Option<(Request, oneshot::Sender<Answer>)> {
        let mut requests = self.requests();
        while let Some((request, answer)) = requests.pop_front() {
            if answer.is_closed() {
                continue;
            }
            if group_bytes > 0 && group_bytes + request.bytes() > GROUP_BYTES_MAX {
                requests.push_front((request, answer));
                return None;
            }
            return Some((request, answer));
        }
        None
    }
}

/// Has a request done, by this task or by one that is at work already. A request whose caller goes away before its
/// group begins is not done.
pub(super) async fn compare_and_set(shared: &Arc<Shared>, request: Request) -> Answer {
    shared.check_space()?;
    let (answer, mut answered) = oneshot::channel();
    shared.pending.requests().push_back((request, answer));
    loop {
        let leader = shared.pending.lead().await;
        if let Ok(answer) = answered.try_recv() {
            return answer;
        }
        let (own, database) = (shared.clone(), shared.database().await?);
        let work = move || {
            if !work(&own, &database) {
                own.forget(&database);
            }
            // It is closed, if this was the last that holds it, before anyone opens it again.
            drop(database);
            drop(leader);
        };
        shared.env.blocking(work).await;
    }
}

/// Works on one group. Says whether the database may be used further.
fn work(shared: &Shared, database: &Database) -> bool {
    let (mut answers, mut bytes) = (Vec::new(), 0);
    let mut failed = false;
    while !failed && let Some((request, answer)) = shared.pending.next(bytes) {
        bytes += request.bytes();
        let done = compare_and_write(database, &request);
        failed = done.is_err();
        answers.push((answer, done));
    }
    // Also a comparison that failed waits for the sync: what it saw may be of this group.
    let synced = database.sync();
    let tidy = synced.clone().and_then(|()| database.tidy());
    if let Err(error) = &tidy {
        tracing::warn!(%error, "the cells are opened again with their next use");
    }
    for (answer, done) in answers {
        // If no one waits any more, no one is told.
        let _ = answer.send(done.and_then(|swapped| synced.clone().map(|()| swapped)));
    }
    !failed && tidy.is_ok()
}

fn compare_and_write(database: &Database, request: &Request) -> Answer {
    let physical = request.physical.as_bytes();
    let stored = database.get(physical)?;
    if stored.as_deref() != request.expected.as_deref() {
        return Ok(false);
    }
    if stored.is_some() || request.value.is_some() {
        database.write(std::iter::once((physical, request.value.as_deref())))?;
    }
    Ok(true)
}
