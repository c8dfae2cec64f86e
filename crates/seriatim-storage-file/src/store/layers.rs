//! The layers of the store: runs in memory on top of the tables.
//!
//! ```text
//!   newest                                     oldest
//! [ gathered runs | runs that are being ingested | tables )
//! ```
//!
//! A new run is added in front. All gathered runs begin to be ingested together, and are removed when the tables have them.
//! Each of these is one step under one lock, and so is reading the current snapshot. So the runs and tables of a snapshot
//! belong together and have every write that is not overwritten.

use std::sync::Arc;
use std::time::Duration;

use seriatim_env::Instant;
use seriatim_storage::StoreError;
use seriatim_types::sync::{Mutex, MutexGuard};

use super::run::Run;
use super::tables::Tables;

/// How long a failed ingestion waits until it is tried again in the background.
const RETRY_AFTER: Duration = Duration::from_secs(2);

/// One state of the store. It does not change.
#[derive(Debug)]
pub(super) struct Snapshot {
    /// Newest first.
    pub(super) runs: Vec<Arc<Run>>,
    pub(super) tables: Arc<Tables>,
}

/// How much is gathered, and for how long.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// How many bytes of gathered runs start an ingestion.
    pub(super) gather_bytes: usize,
    /// How many bytes in memory make writers wait.
    pub(super) memory_bytes: usize,
    /// The longest time that a run is gathered.
    pub(super) gather_time: Duration,
}

#[derive(Debug)]
pub(super) struct Layers {
    limits: Limits,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// `None` when the store is closed.
    snapshot: Option<Arc<Snapshot>>,
    /// How many of the runs are gathered. The others are being ingested.
    gathered: usize,
    gathered_bytes: usize,
    ingesting_bytes: usize,
    /// When the oldest gathered run was written.
    since: Option<Instant>,
    /// When a failed ingestion is tried again.
    retry_at: Option<Instant>,
    /// How many writes have returned, and how many of them are durable.
    written: u64,
    durable: u64,
    /// Whether a task runs that ingests gathered runs.
    has_ingest_task: bool,
    /// Writes are refused.
    closing: bool,
}

/// The result of adding a run.
#[derive(Debug)]
pub(super) enum PushOutcome {
    /// The run can be read. `number` is the number of this write.
    Done { number: u64, need: IngestTaskNeed },
    /// Too much is in memory. The run is returned.
    Full(Run),
}

/// What the task that ingests gathered runs needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IngestTaskNeed {
    /// There is no task: start it.
    Start,
    /// The task has to check its deadline again: wake it.
    Wake,
    Nothing,
}

/// When the next ingestion is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextIngestion {
    Now,
    In(Duration),
    /// There is nothing to ingest. The task ends.
    Never,
}

/// Runs that are being ingested.
#[derive(Debug)]
pub(super) struct RunsToIngest {
    /// Newest first.
    pub(super) runs: Vec<Arc<Run>>,
    /// The number of the last write in them.
    pub(super) number: u64,
}

impl Layers {
    pub(super) fn new(tables: Tables, limits: Limits) -> Self {
        let snapshot = Snapshot { runs: Vec::new(), tables: Arc::new(tables) };
        let state = State {
            snapshot: Some(Arc::new(snapshot)),
            gathered: 0,
            gathered_bytes: 0,
            ingesting_bytes: 0,
            since: None,
            retry_at: None,
            written: 0,
            durable: 0,
            has_ingest_task: false,
            closing: false,
        };
        Self { limits, state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The current snapshot.
    pub(super) fn snapshot(&self) -> Result<Arc<Snapshot>, StoreError> {
        self.lock().snapshot.clone().ok_or(StoreError::Closed)
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
    pub(super) fn push(&self, run: Run, now: Instant) -> Result<PushOutcome, StoreError> {
        let mut state = self.lock();
        let snapshot = state.snapshot.clone().filter(|_| !state.closing).ok_or(StoreError::Closed)?;
        if state.bytes() >= self.limits.memory_bytes {
            return Ok(PushOutcome::Full(run));
        }
        let before = state.gathered_bytes;
        let (mut top, mut rest) = (run, &snapshot.runs[..]);
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
        state.snapshot = Some(Arc::new(Snapshot { runs, tables: snapshot.tables.clone() }));
        state.since.get_or_insert(now);
        state.written += 1;
        let crossed = before < self.limits.gather_bytes && state.gathered_bytes >= self.limits.gather_bytes;
        let need = if !state.has_ingest_task {
            IngestTaskNeed::Start
        } else if crossed {
            IngestTaskNeed::Wake
        } else {
            IngestTaskNeed::Nothing
        };
        state.has_ingest_task = true;
        Ok(PushOutcome::Done { number: state.written, need })
    }

    /// Begins to ingest all gathered runs. There is one ingestion at a time.
    pub(super) fn begin_ingestion(&self) -> Option<RunsToIngest> {
        let mut state = self.lock();
        let snapshot = state.snapshot.clone().filter(|snapshot| !snapshot.runs.is_empty())?;
        state.ingesting_bytes += std::mem::take(&mut state.gathered_bytes);
        state.gathered = 0;
        state.since = None;
        Some(RunsToIngest { runs: snapshot.runs.clone(), number: state.written })
    }

    /// Removes the ingested runs from memory: the tables have them.
    pub(super) fn finish_ingestion(&self, ingesting: &RunsToIngest, tables: Tables) {
        let mut state = self.lock();
        state.ingesting_bytes = 0;
        state.retry_at = None;
        state.durable = ingesting.number;
        let Some(snapshot) = state.snapshot.clone() else { return };
        let runs = snapshot.runs[..state.gathered].to_vec();
        state.snapshot = Some(Arc::new(Snapshot { runs, tables: newer(&snapshot.tables, tables) }));
    }

    /// The ingestion failed, and the tables may not have the runs. They are gathered again.
    pub(super) fn abort_ingestion(&self, now: Instant) -> IngestTaskNeed {
        let mut state = self.lock();
        state.gathered_bytes += std::mem::take(&mut state.ingesting_bytes);
        state.gathered = state.snapshot.as_ref().map_or(0, |snapshot| snapshot.runs.len());
        state.since = Some(now);
        state.retry_at = Some(now + RETRY_AFTER);
        let need = if state.has_ingest_task { IngestTaskNeed::Wake } else { IngestTaskNeed::Start };
        state.has_ingest_task = true;
        need
    }

    /// Installs new tables with the same content, after a compaction.
    pub(super) fn publish(&self, tables: Tables) {
        let mut state = self.lock();
        let Some(snapshot) = state.snapshot.clone() else { return };
        let runs = snapshot.runs.clone();
        state.snapshot = Some(Arc::new(Snapshot { runs, tables: newer(&snapshot.tables, tables) }));
    }

    /// When the next ingestion is due. After [`NextIngestion::Never`] the task ends.
    pub(super) fn due(&self, now: Instant) -> NextIngestion {
        let mut state = self.lock();
        let full = state.gathered_bytes >= self.limits.gather_bytes;
        let at = match (state.since, state.retry_at) {
            (None, _) => None,
            (Some(_), Some(retry_at)) => Some(retry_at),
            (Some(_), None) if full => Some(now),
            (Some(since), None) => since.checked_add(self.limits.gather_time),
        };
        match at {
            _ if state.closing || state.snapshot.is_none() => state.end_ingest_task(),
            None => state.end_ingest_task(),
            Some(at) if at <= now => NextIngestion::Now,
            Some(at) => NextIngestion::In(at - now),
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
        state.snapshot = None;
    }
}

impl State {
    fn bytes(&self) -> usize {
        self.gathered_bytes + self.ingesting_bytes
    }

    fn end_ingest_task(&mut self) -> NextIngestion {
        self.has_ingest_task = false;
        NextIngestion::Never
    }
}

/// The later of two versions. An ingestion and a compaction may install theirs in the other order.
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
    fn a_write_during_an_ingestion_is_not_made_durable_by_it() {
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
        let ingesting = layers.begin_ingestion().unwrap();
        push(b"meanwhile");
        layers.finish_ingestion(&ingesting, tree.tables().unwrap());
        assert_eq!((layers.written(), layers.durable()), (2, 1));
        assert_eq!(layers.snapshot().unwrap().runs.len(), 1);
        assert_eq!(layers.begin_ingestion().map(|ingesting| ingesting.number), Some(2));
    }
}
