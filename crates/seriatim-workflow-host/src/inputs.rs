//! Inputs of activities that are pending: the large ones are kept up to a number of bytes, and read from the log beyond it.

use std::collections::HashMap;
use std::sync::Arc;

use seriatim_engine::{Engine, SubmitError};
use seriatim_storage::LogError;
use seriatim_types::{WorkspaceId, WorkspaceOffset};
use seriatim_workflow::{Command, Payload};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};

use crate::application::NAME;
use crate::histories::read_entry;
use crate::size;

/// A large input that is kept in memory until its activity has ended.
#[derive(Debug)]
pub(crate) struct KeptInput {
    pub(crate) input: Vec<Payload>,
    /// Its bytes, of those that all pending inputs may have.
    _bytes: OwnedSemaphorePermit,
}

/// The inputs that one event has, which was read last. Bounded by the size of an event.
#[derive(Debug)]
pub(crate) struct LastInputs {
    workspace: WorkspaceId,
    event: u64,
    inputs: HashMap<u32, Vec<Payload>>,
}

impl LastInputs {
    fn find(&self, workspace: WorkspaceId, event: u64, seq: u32) -> Option<Vec<Payload>> {
        let is_this = (self.workspace, self.event) == (workspace, event);
        self.inputs.get(&seq).filter(|_| is_this).cloned()
    }
}

/// The inputs of all pending activities.
#[derive(Debug)]
pub(crate) struct Inputs {
    engine: Engine,
    bytes_max: usize,
    /// One permit for each byte that may be kept.
    bytes: Arc<Semaphore>,
    last: Mutex<Option<LastInputs>>,
}

impl Inputs {
    pub(crate) fn new(engine: Engine, bytes_max: usize) -> Self {
        let bytes_max = bytes_max.min(Semaphore::MAX_PERMITS);
        Self { engine, bytes_max, bytes: Arc::new(Semaphore::new(bytes_max)), last: Mutex::default() }
    }

    /// Keeps a large input, if there is room.
    pub(crate) fn keep(&self, input: Vec<Payload>) -> Option<KeptInput> {
        let bytes = u32::try_from(size::payload_bytes(&input)).ok()?;
        let room = self.bytes.clone().try_acquire_many_owned(bytes).ok()?;
        Some(KeptInput { input, _bytes: room })
    }

    /// Bytes of large inputs that are kept.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.bytes_max - self.bytes.available_permits()
    }

    /// The input of an activity, by the event that has scheduled it.
    pub(crate) async fn read(
        &self,
        workspace: WorkspaceId,
        run: u64,
        event: u64,
        seq: u32,
    ) -> Result<Vec<Payload>, SubmitError> {
        // One at a time, so that activities that one event has scheduled, and that are due together, read it once.
        let mut last = self.last.lock().await;
        if let Some(found) = last.as_ref().and_then(|last| last.find(workspace, event, seq)) {
            return Ok(found);
        }
        let from = WorkspaceOffset::new(event).unwrap_or(WorkspaceOffset::FIRST);
        let events = self.engine.events(NAME, workspace, from, 1).await?;
        let entry = events.first().map(read_entry).transpose()?.flatten().filter(|entry| entry.run == run);
        let commands = entry.into_iter().flat_map(|entry| entry.turns).flat_map(|turn| turn.commands);
        let inputs = commands.filter_map(|command| match command {
            Command::ScheduleActivity { seq, input, .. } => Some((seq.get(), input)),
            _ => None,
        });
        let read = last.insert(LastInputs { workspace, event, inputs: inputs.collect() });
        read.find(workspace, event, seq).ok_or_else(|| {
            let text = format!("event {event} of workflow {workspace} does not schedule activity {seq}");
            LogError::Corrupt(text).into()
        })
    }
}
