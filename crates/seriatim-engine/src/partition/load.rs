//! Second part of the step: read what commands need before they are executed, while the log writes the previous group.

use seriatim_env::Task;
use seriatim_sequencer::{Busy, LoadError, Loaded, Pin};
use seriatim_storage::StoreError;

use super::RunningPartition;
use super::message::Submission;
use super::task::PartitionTask;
use crate::derive::{Fetched, Fetching};
use crate::error::SubmitError;
use crate::limits::{COMMAND_DERIVED_BYTES_MAX, LOAD_BYTES_MAX};

/// Commands whose workspaces are loaded, with what was read for them.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) commands: Vec<(Submission, Pin)>,
    pub(super) fetched: Fetched,
}

/// What was read for commands. An error if the first command reads more than is allowed, so that it can never be staged.
type ReadValues = (Fetched, Option<SubmitError>);

/// A load in progress.
pub(super) type Loading = Task<(Vec<Submission>, Loaded, Result<ReadValues, StoreError>)>;

impl PartitionTask {
    /// Loads until at least one command can be staged, or until no command is left. If the store cannot be read, the commands
    /// of that load are refused. An error means that the load panicked: the partition stops.
    pub(super) async fn load(&mut self) -> Result<(), SubmitError> {
        loop {
            if let Some(loading) = self.loading.take() {
                let loaded = loading.await;
                let (commands, loaded, read) = loaded.map_err(|error| self.defect(&error.to_string()))?;
                match read {
                    Ok(read) => self.admit(commands, loaded, read),
                    Err(error) => {
                        for submission in commands {
                            submission.answer(Err(SubmitError::Store(error.clone())));
                        }
                    }
                }
            }
            self.start_loading();
            if self.loading.is_none() || !self.batch.commands.is_empty() {
                return Ok(());
            }
        }
    }

    /// Starts to read what the waiting commands need, in a task. If they need nothing from the store, they can be staged at once
    /// and no task is started.
    pub(super) fn start_loading(&mut self) {
        if self.waiting.is_empty() || self.loading.is_some() {
            return;
        }
        // Commands that did not fit the previous group keep their values. Those values count here.
        if !self.batch.commands.is_empty() && self.batch.fetched.bytes() >= LOAD_BYTES_MAX {
            return;
        }
        let prepared = self.waiting.iter().map(|command| &command.prepared);
        let wanted: Vec<_> = prepared.map(|prepared| (prepared.kind, prepared.workspace)).collect();
        let Ok(loading) = self.sequencer.loading(&wanted) else { return };
        let commands = std::mem::take(&mut self.waiting);
        let reads = commands.iter().flat_map(|command| &command.prepared.reads);
        let fetching = Fetching::begin(&self.shared.derived.overlay, reads);
        let loading = if fetching.is_empty() {
            match loading.complete() {
                Ok(loaded) => return self.admit(commands, loaded, ReadValues::default()),
                Err(loading) => loading,
            }
        } else {
            loading
        };
        let shared = self.shared.clone();
        let load = async move {
            let loaded = loading.read().await;
            let read = load_values(&shared, fetching, &commands).await;
            (commands, loaded, read)
        };
        self.loading = Some(self.shared.env.spawn(load));
    }

    fn admit(&mut self, commands: Vec<Submission>, loaded: Loaded, (fetched, mut refused): ReadValues) {
        for (submission, pin) in commands.into_iter().zip(self.sequencer.admit(loaded)) {
            if let Some(error) = refused.take() {
                self.shared.metrics.refused.increment(1);
                submission.answer(Err(error));
                continue;
            }
            match pin {
                Ok(pin) => self.batch.commands.push((submission, pin)),
                Err(LoadError::Busy(Busy::Recovering)) => self.waiting.push(submission),
                Err(error) => submission.answer(Err(SubmitError::Load(error))),
            }
        }
        self.batch.fetched.extend(fetched);
    }

    /// Waits for the load in progress and returns its commands to the waiting ones.
    pub(super) async fn give_up_loading(&mut self) {
        let Some(loading) = self.loading.take() else { return };
        // An error is a panic of the load. Its commands were dropped with it, and their callers receive `InDoubt`.
        if let Ok((commands, ..)) = loading.await {
            self.waiting.extend(commands);
        }
    }
}

/// Reads the values that commands need, up to a limit in bytes. The first command always gets all its values, so that at least
/// one command can be staged. If the first command alone exceeds the limit of one command, it is refused.
async fn load_values(
    shared: &RunningPartition,
    fetching: Fetching,
    commands: &[Submission],
) -> Result<ReadValues, StoreError> {
    let (mut fetched, is_all) = shared.derived.read_fetching_within(fetching, LOAD_BYTES_MAX).await?;
    if !is_all && let Some(first) = commands.first() {
        let left = first.prepared.reads.iter().filter(|key| !fetched.has_asked(key));
        let left = Fetching::begin(&shared.derived.overlay, left);
        let (rest, is_all) = shared.derived.read_fetching_within(left, COMMAND_DERIVED_BYTES_MAX).await?;
        if !is_all {
            let (what, max) = ("what the command reads".to_owned(), COMMAND_DERIVED_BYTES_MAX);
            let refused = SubmitError::TooLarge { what, max, found: rest.bytes() };
            // Its values are dropped: no other command needs them.
            return Ok((fetched, Some(refused)));
        }
        fetched.extend(rest);
    }
    Ok((fetched, None))
}
