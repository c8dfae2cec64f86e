//! Compares, writes and syncs, with one sync for all waiting requests.
//!
//! A task that finds no other task at work takes all pending requests, compares and writes them one by one, syncs once and
//! answers all. Requests that arrive meanwhile are the next group.

use std::collections::VecDeque;
use std::sync::Arc;

use seriatim_storage::{StoreError, StoreKey};
use seriatim_types::sync::{Mutex, MutexGuard};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard, oneshot};

use super::{Database, LazyDatabase};

/// The most bytes that one group writes, unless a single value is larger: about one memtable.
const GROUP_BYTES_MAX: usize = 4 << 20;

type Answer = Result<bool, StoreError>;

/// A compare-and-set in progress.
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

/// Waiting requests, and the lock of the task that works on them.
#[derive(Default)]
pub(super) struct Pending {
    requests: Mutex<VecDeque<(Request, oneshot::Sender<Answer>)>>,
    leader: Arc<AsyncMutex<()>>,
}

impl Pending {
    fn requests(&self) -> MutexGuard<'_, VecDeque<(Request, oneshot::Sender<Answer>)>> {
        self.requests.lock()
    }

    /// Waits until no other task works on a group.
    pub(super) async fn lead(&self) -> OwnedMutexGuard<()> {
        self.leader.clone().lock_owned().await
    }

    /// The next request whose caller still waits, if the group has room for it.
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

/// Runs a request, in this task or in the one that is at work. A request whose caller is dropped before its group begins is
/// not run.
pub(super) async fn compare_and_set(lazy: &Arc<LazyDatabase>, request: Request) -> Answer {
    lazy.check_space()?;
    let (answer, mut answered) = oneshot::channel();
    lazy.pending.requests().push_back((request, answer));
    loop {
        let leader = lazy.pending.lead().await;
        if let Ok(answer) = answered.try_recv() {
            return answer;
        }
        let (own, database) = (lazy.clone(), lazy.database().await?);
        let work = move || {
            if !work(&own, &database) {
                own.forget(&database);
            }
            // If this is the last reference, the database is closed before it is opened again.
            drop(database);
            drop(leader);
        };
        lazy.env.blocking(work).await;
    }
}

/// Works on one group. Returns whether the database can still be used.
fn work(lazy: &LazyDatabase, database: &Database) -> bool {
    let (mut answers, mut bytes) = (Vec::new(), 0);
    let mut failed = false;
    while !failed && let Some((request, answer)) = lazy.pending.next(bytes) {
        bytes += request.bytes();
        let done = compare_and_write(database, &request);
        failed = done.is_err();
        answers.push((answer, done));
    }
    // A comparison that failed also waits for the sync: the value that it found may have been written by this group.
    let synced = database.sync();
    let tidy = synced.clone().and_then(|()| database.tidy());
    if let Err(error) = &tidy {
        tracing::warn!(%error, "a write to the cells failed; their database is opened again with the next use");
    }
    for (answer, done) in answers {
        // The caller may no longer wait.
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
