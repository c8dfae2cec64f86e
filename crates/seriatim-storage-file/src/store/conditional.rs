//! Conditional writes: compare, write, sync, with one sync for all that wait.
//!
//! Whoever finds nobody at work takes everything that is pending, compares and writes it one by one, syncs once and
//! answers all. Those who come meanwhile are the next group.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use seriatim_storage::StoreError;
use tokio::sync::{Mutex as AsyncMutex, oneshot};

use super::engine::{Commit, Engine};
use super::shared::Shared;
use super::{error, value};

/// What one group writes at most, in bytes, unless a single value is larger: well inside a memtable.
const GROUP_BYTES_MAX: usize = 4 << 20;

type Answer = Result<bool, StoreError>;

/// A compare-and-set under way.
pub(super) struct Request {
    pub(super) physical: Vec<u8>,
    pub(super) expected: Option<Vec<u8>>,
    pub(super) value: Option<Vec<u8>>,
}

/// Requests that wait, and the right to work on them.
#[derive(Default)]
pub(super) struct Conditional {
    pending: Mutex<VecDeque<(Request, oneshot::Sender<Answer>)>>,
    leader: Arc<AsyncMutex<()>>,
}

impl Conditional {
    fn pending(&self) -> MutexGuard<'_, VecDeque<(Request, oneshot::Sender<Answer>)>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next request whose caller still waits, as long as the group has room.
    fn next(&self, group_bytes: usize) -> Option<(Request, oneshot::Sender<Answer>)> {
        let mut pending = self.pending();
        while let Some((request, answer)) = pending.pop_front() {
            if answer.is_closed() {
                continue;
            }
            if group_bytes > 0 && group_bytes + request.bytes() > GROUP_BYTES_MAX {
                pending.push_front((request, answer));
                return None;
            }
            return Some((request, answer));
        }
        None
    }
}

impl Request {
    fn bytes(&self) -> usize {
        self.physical.len() + self.value.as_ref().map_or(0, Vec::len) + 1
    }
}

/// Has a request done, by this task or by one that is at work already. A request whose caller goes away before its
/// group begins is not done.
pub(super) async fn compare_and_set(shared: &Arc<Shared>, request: Request) -> Answer {
    shared.check_space()?;
    let (answer, mut answered) = oneshot::channel();
    shared.conditional.pending().push_back((request, answer));
    loop {
        let leader = shared.conditional.leader.clone().lock_owned().await;
        if let Ok(answer) = answered.try_recv() {
            return answer;
        }
        let mut turn = shared.turn().await?;
        let work = {
            let shared = shared.clone();
            move |engine: &Engine| {
                let group = turn.with(engine, |engine| Ok(write_group(&shared, engine)))?;
                drop(turn);
                answer_group(engine, group);
                drop(leader);
                Ok(())
            }
        };
        shared.blocking(work).await?;
    }
}

struct Group {
    /// The last commit of the group; `None` if it wrote nothing.
    commit: Option<Commit>,
    answers: Vec<(oneshot::Sender<Answer>, Answer)>,
}

fn write_group(shared: &Shared, engine: &Engine) -> Group {
    let mut group = Group { commit: None, answers: Vec::new() };
    let mut bytes = 0;
    while let Some((request, answer)) = shared.conditional.next(bytes) {
        bytes += request.bytes();
        let done = compare_and_write(engine, &request);
        let outcome = done.map(|(swapped, commit)| {
            group.commit = commit.or(group.commit);
            swapped
        });
        group.answers.push((answer, outcome));
        // The rest waits for a turn of its own: the engine's own wait for its workers has no end.
        if engine.is_behind() {
            break;
        }
    }
    group
}

/// Syncs, then answers. Also a comparison that failed waits for the sync: what it saw may be of this group.
fn answer_group(engine: &Engine, group: Group) {
    let synced = group.commit.map_or(Ok(()), |commit| engine.sync(commit));
    for (answer, outcome) in group.answers {
        let outcome = outcome.and_then(|swapped| synced.clone().map(|()| swapped));
        // Nobody waits any more: then nobody is told.
        let _ = answer.send(outcome);
    }
}

fn compare_and_write(engine: &Engine, request: &Request) -> Result<(bool, Option<Commit>), StoreError> {
    let bytes = engine.pairs.get(&request.physical).map_err(|error| error::of_read(&error))?;
    let stored = bytes.as_deref().map(value::decode).transpose()?;
    if stored != request.expected.as_deref() {
        return Ok((false, None));
    }
    let mut batch = engine.batch(1);
    match &request.value {
        Some(value) => batch.insert(&engine.pairs, &request.physical[..], value::encode(value)),
        None if stored.is_some() => batch.remove(&engine.pairs, &request.physical[..]),
        None => return Ok((true, None)),
    }
    engine.commit(batch).map(|commit| (true, Some(commit)))
}
