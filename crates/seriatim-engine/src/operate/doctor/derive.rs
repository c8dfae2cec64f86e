//! Derives everything again from a partition's log, into the scratch store.

use std::sync::Arc;

use seriatim_env::Env;
use seriatim_sequencer::{Numbers, ReadError};
use seriatim_storage::{Durability, Log, Store, StoreError};
use seriatim_types::sync::Mutex;
use seriatim_types::{Partition, PartitionOffset, WorkspaceId};

use super::{DoctorError, Progress, Report, Telling};
use crate::command::apply::Derivation;
use crate::derive::{
    Bodies, Chunk, Fetched, Fetching, Limits, Overlay, Replay, ReplayError, Splits, Target,
    read_missing_numbers,
};

/// The examination of one partition.
pub(super) struct Examination<'a> {
    pub(super) env: &'a Env,
    pub(super) log: &'a Log,
    pub(super) store: &'a Store,
    pub(super) scratch: &'a Store,
    pub(super) partition: Partition,
    pub(super) derivation: &'a Derivation,
    /// Everything before this offset is in the scratch store.
    pub(super) at: PartitionOffset,
    /// Always empty: derived values are written directly to the scratch store.
    overlay: Mutex<Overlay>,
    /// Which values the scratch store has in parts.
    splits: Splits,
    /// Whether the storage is fenced, so that evidence of lost events may be removed.
    pub(super) fenced: bool,
    /// Whether the store's values cannot be used, and are no evidence of anything.
    pub(super) useless: bool,
}

impl<'a> Examination<'a> {
    pub(super) fn new(
        env: &'a Env,
        (log, store): (&'a Log, &'a Store),
        scratch: &'a Store,
        partition: Partition,
        derivation: &'a Derivation,
    ) -> Self {
        let overlay = Mutex::new(Overlay::new(Limits::default(), Arc::default()));
        let (at, splits) = (PartitionOffset::FIRST, Splits::default());
        Self {
            env,
            log,
            store,
            scratch,
            partition,
            derivation,
            at,
            overlay,
            splits,
            fenced: false,
            useless: false,
        }
    }

    /// Begins where a survey has ended. The survey may have found that the log has lost events.
    pub(super) fn continues_after_a_survey(&mut self, at: PartitionOffset, fenced: bool) {
        (self.at, self.fenced) = (at, fenced);
    }

    pub(super) async fn tail(&self) -> Result<PartitionOffset, DoctorError> {
        Ok(self.log.tail(self.partition).await?)
    }

    /// Derives up to an offset.
    pub(super) async fn derive(
        &mut self,
        to: PartitionOffset,
        report: &mut Report,
        tell: Telling<'_>,
    ) -> Result<(), DoctorError> {
        let Self { env, log, partition, derivation, at, .. } = *self;
        // Ignored numbers are not reported here: the engine logs them when it recovers.
        let mut replay = Replay::new(env, log, partition, derivation, Bodies::Compared, at);
        let result = replay.run(to, &mut Deriving { examination: self, to, report, tell }).await;
        self.at = replay.at;
        result?;
        if self.at < to {
            let reason = format!("the event is missing, although the log ends at {to}");
            return Err(DoctorError::Damaged { offset: self.at, reason });
        }
        Ok(())
    }
}

/// Fills the scratch store from the log.
struct Deriving<'a> {
    examination: &'a Examination<'a>,
    to: PartitionOffset,
    report: &'a mut Report,
    tell: Telling<'a>,
}

impl Target for Deriving<'_> {
    type Error = DoctorError;

    fn overlay(&self) -> &Mutex<Overlay> {
        &self.examination.overlay
    }

    async fn make_room(&mut self) -> Result<(), DoctorError> {
        Ok(())
    }

    async fn read_numbers(&mut self, workspaces: &[WorkspaceId]) -> Vec<Result<Option<Numbers>, ReadError>> {
        let Examination { scratch, partition, derivation, .. } = *self.examination;
        let (definition, unknown) = (derivation.schema.sequences(), vec![None; workspaces.len()]);
        read_missing_numbers(scratch, partition, definition, workspaces, unknown).await
    }

    async fn fetch(&mut self, fetching: Fetching, bytes_max: usize) -> Result<Fetched, StoreError> {
        let Examination { scratch, splits, .. } = self.examination;
        let found = splits.get_within(scratch, fetching.keys(), bytes_max).await?;
        Ok(fetching.finish(found))
    }

    /// Writes to the scratch store what follows from a chunk.
    async fn keep(&mut self, chunk: Chunk<'_>) -> Result<(), DoctorError> {
        let Examination { scratch, partition, derivation, splits, .. } = self.examination;
        let mut collected = splits.collect();
        for (key, value) in &chunk.values {
            collected.put(key, value);
        }
        let numbers = chunk.numbers.iter().map(|(workspace, numbers)| (workspace, *numbers));
        collected.put_numbers(*partition, derivation.schema.sequences(), numbers);
        scratch.write(collected.take_all(), Durability::Buffered).await?;
        splits.settle(collected.changed);
        self.report.checked.events += chunk.events as u64;
        let behind = |offset: PartitionOffset| offset.get() - PartitionOffset::FIRST.get();
        let (done, total, compared) = (behind(chunk.next), behind(self.to), self.report.checked.values());
        (self.tell)(Progress { partition: *partition, done, total, compared });
        Ok(())
    }
}

impl From<ReplayError> for DoctorError {
    fn from(error: ReplayError) -> Self {
        match error {
            ReplayError::Log(error) => Self::Log(error),
            ReplayError::Store(error) => Self::Store(error),
            ReplayError::Event { at, fault } => Self::Damaged { offset: at, reason: fault.to_string() },
            ReplayError::BadNumbers { .. } | ReplayError::Folded { .. } => {
                Self::Store(StoreError::Corrupt(format!("the scratch store: {error}")))
            }
        }
    }
}
