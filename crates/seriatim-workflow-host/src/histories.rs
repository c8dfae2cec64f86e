//! What the logs of workflows say: their runs, and the turns of one of them.

use std::sync::Arc;

use metrics::Counter;
use seriatim_engine::{Engine, Placed, SubmitError};
use seriatim_storage::{Digest, LogError};
use seriatim_types::{WorkspaceId, WorkspaceOffset};
use seriatim_workflow::{Job, Start};
use tokio::sync::Semaphore;

use crate::application::{NAME, RunRow, RunStatus, Workflows};
use crate::entry::{Begins, Entry, Turn};
use crate::error::HostError;
use crate::size;
use crate::workflow::ending::Outcome;
use crate::workflow::pending::Pending;
use crate::workflow::{Key, Loaded, OpenRun, Tail};

/// Histories that are read at once to know what open runs wait for. Bounds memory: each holds a page of events, of up to
/// some MiB.
const READ_AT_ONCE: usize = 32;

/// What an event says; none if it is not a host's.
pub(crate) fn read_entry(event: &Placed) -> Result<Option<Entry>, SubmitError> {
    let Some(body) = Workflows::body(event) else { return Ok(None) };
    Entry::from_body(body).map(Some).map_err(|error| {
        let place = &event.place;
        let (offset, workspace) = (place.workspace_offset, place.workspace);
        LogError::Corrupt(format!("event {offset} of workflow {workspace} cannot be read: {error}")).into()
    })
}

/// A run, folded from its events, one after another.
struct Fold {
    row: RunRow,
    start: Option<(Arc<Start>, usize)>,
    bytes: usize,
    begins: Begins,
    pending: Pending,
    turns: u32,
    time: seriatim_workflow::Time,
    due: Option<seriatim_workflow::Time>,
}

impl Fold {
    fn new(row: RunRow) -> Self {
        Self {
            row,
            start: None,
            bytes: 0,
            begins: Begins::default(),
            pending: Pending::default(),
            turns: 0,
            time: seriatim_workflow::Time::default(),
            due: None,
        }
    }

    fn take(&mut self, entry: Entry, event: u64) {
        if let Some(next) = entry.next.filter(|next| next.run == self.row.run) {
            (self.start, self.begins) = (Some(size::without_large_input(*next.start)), next.begins);
            (self.due, self.time) = (Some(next.at), next.at);
            return;
        }
        if entry.run != self.row.run {
            return;
        }
        if let Some(begins) = entry.begins {
            self.begins = begins;
        }
        if let Some(start) = entry.start {
            (self.due, self.time) = (Some(start.start_time), start.start_time);
            self.start = Some(size::without_large_input(*start));
        }
        for turn in entry.turns {
            if let Some(Job::Start(start)) = turn.jobs.first() {
                self.start = Some(size::without_large_input((**start).clone()));
            }
            self.bytes += size::turn_bytes(&turn);
            self.due = None;
            self.pending.apply(&turn);
            self.pending.written(&turn, event);
            self.pending.drop_inputs(&turn);
            self.turns += 1;
            self.time = turn.time;
        }
        entry.retries.iter().for_each(|retry| self.pending.retry(retry));
        entry.attempts.iter().for_each(|attempted| self.pending.attempted(attempted));
        entry.arrived.iter().for_each(|job| self.pending.arrive(job));
    }
}

/// Reads the logs of workflows.
#[derive(Debug)]
pub(crate) struct Histories {
    engine: Engine,
    /// Held while the history of an open run is read to know what it waits for.
    reading: Semaphore,
    /// Counts the events that are read so.
    loaded_events: Counter,
}

impl Histories {
    pub(crate) fn new(engine: Engine, loaded_events: Counter) -> Self {
        Self { engine, reading: Semaphore::new(READ_AT_ONCE), loaded_events }
    }

    /// The newest run of a workflow, or one with a number.
    pub(crate) async fn row(
        &self,
        workspace: WorkspaceId,
        run: Option<u64>,
    ) -> Result<Option<RunRow>, SubmitError> {
        let before = run.map(|run| run + 1);
        let rows = Workflows::new(&self.engine).runs(workspace, before, 1).await?;
        Ok(rows.into_iter().next().filter(|row| run.is_none_or(|run| row.run == run)))
    }

    /// What the log says of a workflow.
    pub(crate) async fn load(&self, workspace: WorkspaceId) -> Result<Loaded, SubmitError> {
        loop {
            let newest = self.row(workspace, None).await?;
            let loaded = self.load_events(workspace, newest.clone()).await?;
            // The row and the events are two reads: an event that was in doubt may be written between them.
            if self.row(workspace, None).await? == newest {
                return Ok(loaded);
            }
        }
    }

    /// What the events say that follow from where the newest run begins.
    async fn load_events(
        &self,
        workspace: WorkspaceId,
        newest: Option<RunRow>,
    ) -> Result<Loaded, SubmitError> {
        let open = newest.as_ref().filter(|row| row.status == RunStatus::Running);
        let Some(open) = open else {
            let offset = Workflows::new(&self.engine).last_offset(workspace).await?;
            return Ok(Loaded { tail: Tail { offset, newest }, open: None });
        };
        // Each read holds a page of events: this bounds how many run at once.
        let _permit = self.reading.acquire().await;
        let from = WorkspaceOffset::new(open.from).unwrap_or(WorkspaceOffset::FIRST);
        let mut fold = Fold::new(open.clone());
        let mut offset = 0;
        let mut events = Workflows::new(&self.engine).events(workspace, from);
        loop {
            let page = events.next().await?;
            if page.is_empty() {
                break;
            }
            self.loaded_events.increment(page.len() as u64);
            for event in page {
                offset = event.place.workspace_offset.get();
                if let Some(entry) = read_entry(&event)? {
                    fold.take(entry, offset);
                }
            }
        }
        let Some((start, input_bytes)) = fold.start else {
            let (run, from) = (fold.row.run, fold.row.from);
            let text = format!("run {run} of workflow {workspace} does not begin at event {from}");
            return Err(LogError::Corrupt(text).into());
        };
        let Fold { row, begins, pending, turns, time, due, bytes, .. } = fold;
        let wait = None;
        let open = OpenRun { row, start, input_bytes, begins, pending, bytes, turns, time, due, wait };
        Ok(Loaded { tail: Tail { offset, newest }, open: Some(Box::new(open)) })
    }

    /// How a run begins, by its first event, with its input.
    pub(crate) async fn start(&self, workspace: WorkspaceId, row: &RunRow) -> Result<Start, SubmitError> {
        let entry = self.first_event(workspace, row).await?;
        let next = entry.next.filter(|next| next.run == row.run).map(|next| next.start);
        let job = entry.turns.into_iter().flat_map(|turn| turn.jobs).find_map(|job| match job {
            Job::Start(start) => Some(start),
            _ => None,
        });
        let start = next.or(entry.start).or(job);
        start.map(|start| *start).ok_or_else(|| {
            let (run, from) = (row.run, row.from);
            LogError::Corrupt(format!("run {run} of workflow {workspace} does not begin at event {from}"))
                .into()
        })
    }

    /// The turns of a run, from its first event on.
    pub(crate) async fn turns(&self, workspace: WorkspaceId, row: &RunRow) -> Result<Vec<Turn>, SubmitError> {
        let Some(from) = WorkspaceOffset::new(row.from) else { return Ok(Vec::new()) };
        let mut events = Workflows::new(&self.engine).events(workspace, from);
        let mut turns = Vec::new();
        loop {
            let page = events.next().await?;
            if page.is_empty() {
                return Ok(turns);
            }
            for event in page {
                if row.to.is_some_and(|to| event.place.workspace_offset.get() > to) {
                    return Ok(turns);
                }
                if let Some(entry) = read_entry(&event)?.filter(|entry| entry.run == row.run) {
                    turns.extend(entry.turns);
                }
            }
        }
    }

    /// The first event of a run.
    async fn first_event(&self, workspace: WorkspaceId, row: &RunRow) -> Result<Entry, SubmitError> {
        let from = WorkspaceOffset::new(row.from).unwrap_or(WorkspaceOffset::FIRST);
        let events = self.engine.events(NAME, workspace, from, 1).await?;
        Ok(events.first().map(read_entry).transpose()?.flatten().unwrap_or_default())
    }

    /// What a run was begun with, by its first event.
    pub(crate) async fn begins(&self, workspace: WorkspaceId, row: &RunRow) -> Result<Begins, SubmitError> {
        let entry = self.first_event(workspace, row).await?;
        let next = entry.next.filter(|next| next.run == row.run).map(|next| next.begins);
        Ok(next.or(entry.begins).unwrap_or_default())
    }

    /// The last of the runs that continue this one.
    pub(crate) async fn last_of(
        &self,
        workspace: WorkspaceId,
        run: u64,
    ) -> Result<Option<RunRow>, SubmitError> {
        let mut row = self.row(workspace, Some(run)).await?;
        while let Some(next) = row.as_ref().and_then(|row| row.next) {
            row = self.row(workspace, Some(next)).await?;
        }
        Ok(row)
    }

    /// How a run has ended, by its last event.
    pub(crate) async fn outcome(
        &self,
        workspace: WorkspaceId,
        row: &RunRow,
    ) -> Result<Option<Outcome>, SubmitError> {
        let Some(to) = row.to.and_then(WorkspaceOffset::new) else { return Ok(None) };
        let events = self.engine.events(NAME, workspace, to, 1).await?;
        let Some(event) = events.first() else { return Ok(None) };
        Ok(read_entry(event)?.as_ref().and_then(Outcome::of))
    }

    /// The event that was written with a key, if there is one.
    ///
    /// # Errors
    ///
    /// [`HostError::KeyReused`] if the key was used for another request.
    pub(crate) async fn sent_with(
        &self,
        workspace: WorkspaceId,
        key: &Key,
    ) -> Result<Option<Entry>, HostError> {
        let found = Workflows::new(&self.engine).sent_with(workspace, &key.key).await?;
        let Some(event) = found else { return Ok(None) };
        let same = event.event.idempotency.as_ref();
        if same.is_some_and(|same| same.request != Digest::of(key.identity.as_bytes())) {
            return Err(HostError::KeyReused(key.key.clone()));
        }
        Ok(Some(read_entry(&event)?.unwrap_or_default()))
    }
}
