//! What a workflow's log says: how its runs stand, and the turns of one of them.

use std::sync::Arc;

use seriatim_engine::{Placed, RunRow, RunStatus, SubmitError, Workflows};
use seriatim_storage::LogError;
use seriatim_types::{WorkspaceId, WorkspaceOffset};
use seriatim_workflow::{
    Activation, ActivationFailure, Instance, InstanceOptions, Job, Numbering, Recorded, Start,
};

use crate::entry::{Begins, Entry, Turn};
use crate::inner::Inner;
use crate::logged::logged;
use crate::workflow::pending::Pending;
use crate::size;
use crate::workflow::{Known, OpenRun, run_id};

/// What an event says; none if it is not a host's.
pub(crate) fn read_entry(event: &Placed) -> Result<Option<Entry>, SubmitError> {
    let Some(body) = Workflows::body(event) else { return Ok(None) };
    Entry::from_body(body).map(Some).map_err(|error| {
        let place = &event.place;
        let (offset, workspace) = (place.workspace_offset, place.workspace);
        LogError::Corrupt(format!("event {offset} of workflow {workspace} cannot be read: {error}")).into()
    })
}

/// A run as its events tell it, one after the other.
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
            (self.start, self.begins) = (Some(size::slim(*next.start)), next.begins);
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
            self.start = Some(size::slim(*start));
        }
        for turn in entry.turns {
            if let Some(Job::Start(start)) = turn.jobs.first() {
                self.start = Some(size::slim((**start).clone()));
            }
            self.bytes += size::turn_weight(&turn);
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

impl Inner {
    /// The newest run of a workflow, or one with a number.
    pub(crate) async fn row(
        &self,
        workspace: WorkspaceId,
        run: Option<u64>,
    ) -> Result<Option<RunRow>, SubmitError> {
        let before = run.map(|run| run + 1);
        let rows = self.engine.workflows().runs(workspace, before, 1).await?;
        Ok(rows.into_iter().next().filter(|row| run.is_none_or(|run| row.run == run)))
    }

    /// What the log says of a workflow.
    pub(crate) async fn read_known(&self, workspace: WorkspaceId) -> Result<Known, SubmitError> {
        loop {
            let newest = self.row(workspace, None).await?;
            let known = self.read_events(workspace, newest.clone()).await?;
            // Row and events are two reads: an event that was in doubt may have come into the log between them.
            if self.row(workspace, None).await? == newest {
                return Ok(known);
            }
        }
    }

    /// What the events say that follow from where the newest run begins.
    async fn read_events(
        &self,
        workspace: WorkspaceId,
        newest: Option<RunRow>,
    ) -> Result<Known, SubmitError> {
        let open = newest.as_ref().filter(|row| row.status == RunStatus::Running);
        let Some(open) = open else {
            let offset = self.engine.workflows().last_offset(workspace).await?;
            return Ok(Known { offset, newest, ..Known::default() });
        };
        // Many that are read at once would hold a page of events each.
        let _permit = self.reading.acquire().await;
        let from = WorkspaceOffset::new(open.from).unwrap_or(WorkspaceOffset::FIRST);
        let mut fold = Fold::new(open.clone());
        let mut offset = 0;
        let mut events = self.engine.workflows().events(workspace, from);
        loop {
            let page = events.next().await?;
            if page.is_empty() {
                break;
            }
            self.metrics.loaded_events.increment(page.len() as u64);
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
        Ok(Known { offset, newest, open: Some(open) })
    }

    /// How a run begins, by its first event, with its input.
    pub(crate) async fn read_start(
        &self,
        workspace: WorkspaceId,
        row: &RunRow,
    ) -> Result<Start, SubmitError> {
        let from = WorkspaceOffset::new(row.from).unwrap_or(WorkspaceOffset::FIRST);
        let events = self.engine.events("workflows", workspace, from, 1).await?;
        let entry = match events.first() {
            Some(event) => read_entry(event)?.unwrap_or_default(),
            None => Entry::default(),
        };
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
    pub(crate) async fn read_turns(
        &self,
        workspace: WorkspaceId,
        row: &RunRow,
    ) -> Result<Vec<Turn>, SubmitError> {
        let Some(from) = WorkspaceOffset::new(row.from) else { return Ok(Vec::new()) };
        let mut events = self.engine.workflows().events(workspace, from);
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

    /// Builds a run anew from its turns. An error says why its code cannot continue.
    pub(crate) async fn replay(
        &self,
        workspace: WorkspaceId,
        run: u64,
        turns: Vec<Turn>,
    ) -> Result<Instance, String> {
        let (registry, policy) = (self.registry.clone(), self.options.policy);
        let replayed = self.threads.run(&self.env, move |progress| {
            let mut recorded = Recorded::none();
            turns.iter().for_each(|turn| recorded.push(&turn.commands));
            let numbering = Numbering::ByLineage(recorded);
            let mut instance = Instance::new(registry, InstanceOptions { numbering, policy }).log_to(logged);
            for (place, turn) in turns.into_iter().enumerate() {
                let activation = Activation {
                    run_id: run_id(workspace, run),
                    time: turn.time,
                    is_replaying: true,
                    history_length: u32::try_from(place).unwrap_or(u32::MAX),
                    continue_as_new_suggested: turn.suggested,
                    jobs: turn.jobs,
                };
                progress.step(|| instance.watch());
                instance.activate(activation).outcome?;
            }
            Ok::<_, ActivationFailure>(instance)
        });
        let instance = replayed.await?.map_err(|failure| failure.to_string())?;
        self.metrics.replays.increment(1);
        Ok(instance)
    }
}
