//! Second part of the step: what commands need is read before their turn, while the last group is at the log.

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

/// What was read for commands, and why the first of them can never be staged, if it wants too much.
type ReadValues = (Fetched, Option<SubmitError>);

/// A load under way.
pub(super) type Loading = Task<(Vec<Submission>, Loaded, Result<ReadValues, StoreError>)>;

impl PartitionTask {
    /// Has at least one command ready to be staged, unless none can be.
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

    /// Finds out what has to be read for the waiting commands. Those that need nothing can be staged at once; for the
    /// others a task reads.
    pub(super) fn start_loading(&mut self) {
        if self.waiting.is_empty() || self.loading.is_some() {
            return;
        }
        // What did not fit the last group keeps what was read for it.
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

    /// Takes commands back that are being loaded.
    pub(super) async fn give_up_loading(&mut self) {
        let Some(loading) = self.loading.take() else { return };
        // An error is a panic of the load, which has taken its commands with it.
        if let Ok((commands, ..)) = loading.await {
            self.waiting.extend(commands);
        }
    }
}

/// Reads what commands want, within bounds; the first of them gets all that it wants, so that one can always be staged. It
/// is refused if it wants more than may follow from a command.
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
            // What was read for it serves nothing else.
            return Ok((fetched, Some(refused)));
        }
        fetched.extend(rest);
    }
    Ok((fetched, None))
}
