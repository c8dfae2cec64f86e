//! What is in memory on top of the tables.
//!
//! ```text
//!   newest                                     oldest
//! [ gathered runs | runs that are being ingested | tables )
//! ```
//!
//! A run is pushed in front, moves from gathered to being ingested with all others, and leaves when the tables have it. Each
//! of these is one step under one lock, and so is taking the moment that a reader reads: runs and tables of a moment belong
//! together, and hold every write exactly as long as it is not overwritten.

use std::sync::Arc;
use std::time::Duration;

use seriatim_env::Instant;
use seriatim_storage::StoreError;
use seriatim_types::sync::{Mutex, MutexGuard};

use super::run::Run;
use super::tables::Tables;

/// How long what failed waits until it is tried again without being asked for.
const RETRY_AFTER: Duration = Duration::from_secs(2);

/// The store at one moment. Nothing in it changes.
#[derive(Debug)]
pub(super) struct Moment {
    /// Newest first.
    pub(super) runs: Vec<Arc<Run>>,
    pub(super) tables: Arc<Tables>,
}

/// How much is gathered, and for how long.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Bytes from which on gathered runs are ingested.
    pub(super) gather_bytes: usize,
    /// Bytes in memory from which on writers wait.
    pub(super) memory_bytes: usize,
    /// How long a run is gathered at most.
    pub(super) gather_time: Duration,
}

#[derive(Debug)]
pub(super) struct Layers {
    limits: Limits,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// `None`: closed.
    moment: Option<Arc<Moment>>,
    /// How many of the runs are gathered; the others are being ingested.
    gathered: usize,
    gathered_bytes: usize,
    ingesting_bytes: usize,
    /// When the oldest gathered run came.
    since: Option<Instant>,
    /// When an ingestion that failed is tried again.
    retry_at: Option<Instant>,
    /// Writes that have returned, and those of them that are durable.
    written: u64,
    durable: u64,
    /// Whether a task takes care of what is gathered.
    has_keeper: bool,
    /// No more writes.
    closing: bool,
}

/// What became of a run.
#[derive(Debug)]
pub(super) enum Pushed {
    /// It can be read. `number`: which write it was.
    Done { number: u64, keeper: Keeper },
    /// Too much is in memory.
    Full(Run),
}

/// What the task that takes care of gathered runs needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keeper {
    /// There is none: start it.
    Start,
    /// There is more to do than it knows.
    Wake,
    Leave,
}

/// What that task has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    Now,
    In(Duration),
    /// Nothing. It ends.
    Never,
}

/// Runs that are being ingested.
#[derive(Debug)]
pub(super) struct Taken {
    /// Newest first.
    pub(super) runs: Vec<Arc<Run>>,
    /// The last write in them.
    pub(super) number: u64,
}

impl Layers {
    pub(super) fn new(tables: Tables, limits: Limits) -> Self {
        let moment = Moment { runs: Vec::new(), tables: Arc::new(tables) };
        let state = State {
            moment: Some(Arc::new(moment)),
            gathered: 0,
            gathered_bytes: 0,
            ingesting_bytes: 0,
            since: None,
            retry_at: None,
            written: 0,
            durable: 0,
            has_keeper: false,
            closing: false,
        };
        Self { limits, state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The store as it is.
    pub(super) fn moment(&self) -> Result<Arc<Moment>, StoreError> {
        self.lock().moment.clone().ok_or(StoreError::Closed)
    }

    pub(super) fn written(&self) -> u64 {
        self.lock().written
    }

    pub(super) fn durable(&self) -> u64 {
        self.lock().durable
    }

    /// Whether writers have to wait.
    pub(super) fn is_full(&self) -> bool {
        self.lock().bytes() >= self.limits.memory_bytes
    }

    /// Puts a run on top of all others.
    pub(super) fn push(&self, run: Run, now: Instant) -> Result<Pushed, StoreError> {
        let mut state = self.lock();
        let moment = state.moment.clone().filter(|_| !state.closing).ok_or(StoreError::Closed)?;
        if state.bytes() >= self.limits.memory_bytes {
            return Ok(Pushed::Full(run));
        }
        let before = state.gathered_bytes;
        let (mut top, mut rest) = (run, &moment.runs[..]);
        while state.gathered > 0
            && let Some((older, others)) = rest.split_first()
            && let Some(merged) = older.merged_with(&top)
        {
            state.gathered -= 1;
            state.gathered_bytes -= older.bytes();
            (top, rest) = (merged, others);
        }
        state.gathered += 1;
        state.gathered_bytes += top.bytes();
        let runs = std::iter::once(Arc::new(top)).chain(rest.iter().cloned()).collect();
        state.moment = Some(Arc::new(Moment { runs, tables: moment.tables.clone() }));
        state.since.get_or_insert(now);
        state.written += 1;
        let crossed = before < self.limits.gather_bytes && state.gathered_bytes >= self.limits.gather_bytes;
        let keeper = if !state.has_keeper {
            Keeper::Start
        } else if crossed {
            Keeper::Wake
        } else {
            Keeper::Leave
        };
        state.has_keeper = true;
        Ok(Pushed::Done { number: state.written, keeper })
    }

    /// Begins to ingest all that is gathered. One ingestion at a time.
    pub(super) fn take(&self) -> Option<Taken> {
        let mut state = self.lock();
        let moment = state.moment.clone().filter(|moment| !moment.runs.is_empty())?;
        state.ingesting_bytes += std::mem::take(&mut state.gathered_bytes);
        state.gathered = 0;
        state.since = None;
        Some(Taken { runs: moment.runs.clone(), number: state.written })
    }

    /// The tables have what was taken.
    pub(super) fn settle(&self, taken: &Taken, tables: Tables) {
        let mut state = self.lock();
        state.ingesting_bytes = 0;
        state.retry_at = None;
        state.durable = taken.number;
        let Some(moment) = state.moment.clone() else { return };
        let runs = moment.runs[..state.gathered].to_vec();
        state.moment = Some(Arc::new(Moment { runs, tables: newer(&moment.tables, tables) }));
    }

    /// What was taken is not known to be in tables. It is gathered again.
    pub(super) fn put_back(&self, now: Instant) -> Keeper {
        let mut state = self.lock();
        state.gathered_bytes += std::mem::take(&mut state.ingesting_bytes);
        state.gathered = state.moment.as_ref().map_or(0, |moment| moment.runs.len());
        state.since = Some(now);
        state.retry_at = Some(now + RETRY_AFTER);
        let keeper = if state.has_keeper { Keeper::Wake } else { Keeper::Start };
        state.has_keeper = true;
        keeper
    }

    /// The tables have changed, and not what they hold.
    pub(super) fn publish(&self, tables: Tables) {
        let mut state = self.lock();
        let Some(moment) = state.moment.clone() else { return };
        let runs = moment.runs.clone();
        state.moment = Some(Arc::new(Moment { runs, tables: newer(&moment.tables, tables) }));
    }

    /// What the keeper has to do. After [`Due::Never`] there is none.
    pub(super) fn due(&self, now: Instant) -> Due {
        let mut state = self.lock();
        let full = state.gathered_bytes >= self.limits.gather_bytes;
        let at = match (state.since, state.retry_at) {
            (None, _) => None,
            (Some(_), Some(retry_at)) => Some(retry_at),
            (Some(_), None) if full => Some(now),
            (Some(since), None) => since.checked_add(self.limits.gather_time),
        };
        match at {
            _ if state.closing || state.moment.is_none() => state.dismiss_keeper(),
            None => state.dismiss_keeper(),
            Some(at) if at <= now => Due::Now,
            Some(at) => Due::In(at - now),
        }
    }

    /// Refuses writes from now on.
    pub(super) fn close_writes(&self) {
        self.lock().closing = true;
    }

    /// Refuses everything from now on.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closing = true;
        state.moment = None;
    }
}

impl State {
    fn bytes(&self) -> usize {
        self.gathered_bytes + self.ingesting_bytes
    }

    fn dismiss_keeper(&mut self) -> Due {
        self.has_keeper = false;
        Due::Never
    }
}

/// The later of two versions. An ingestion and a compaction may come to publish theirs in the other order.
fn newer(present: &Arc<Tables>, next: Tables) -> Arc<Tables> {
    if next.is_after(present) { Arc::new(next) } else { present.clone() }
}

#[cfg(test)]
mod tests {
    use lsm_tree::Cache;
    use seriatim_env::Env;
    use seriatim_storage::{Batch, Key};

    use super::super::tree::SortedTree;
    use super::*;

    #[test]
    fn what_comes_during_an_ingestion_is_not_durable_by_it() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Arc::new(Cache::with_capacity_bytes(0));
        let tree = SortedTree::open(directory.path(), &cache).unwrap();
        let limits =
            Limits { gather_bytes: 1 << 20, memory_bytes: 2 << 20, gather_time: Duration::from_secs(60) };
        let layers = Layers::new(tree.tables().unwrap(), limits);
        let env = Env::real();
        let push = |key: &[u8]| {
            let mut batch = Batch::new();
            batch.put(Key::new(b"p", key), b"value");
            layers.push(Run::new(batch), env.instant()).unwrap()
        };
        push(b"before");
        let taken = layers.take().unwrap();
        push(b"meanwhile");
        layers.settle(&taken, tree.tables().unwrap());
        assert_eq!((layers.written(), layers.durable()), (2, 1));
        assert_eq!(layers.moment().unwrap().runs.len(), 1);
        assert_eq!(layers.take().map(|taken| taken.number), Some(2));
    }
}
