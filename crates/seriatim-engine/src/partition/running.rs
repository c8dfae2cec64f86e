//! What a partition's task shares with its flusher, its recovery and all readers.

use std::sync::Arc;

use seriatim_env::Env;
use seriatim_sequencer::{Busy, Committed, Derived, Numbers, ReadError, Recovery};
use seriatim_storage::{Log, LogError, ReadLimit};
use seriatim_types::{Partition, PartitionOffset, Timestamp, WorkspaceId};
use tokio::sync::watch;

use super::sweep::Sweeper;
use crate::command::apply::Derivation;
use crate::command::event_clock::EventClock;
use crate::derive::{DerivedPartition, Values, recovery};
use crate::engine::options::Options;
use crate::metrics::PartitionMetrics;
use crate::operate::fence::Fence;
use crate::read::follow::Watchers;

/// A partition that runs, without its queue and its sequencer. Only the partition's task has those.
#[derive(Debug)]
pub(crate) struct RunningPartition {
    pub(crate) env: Env,
    pub(crate) log: Log,
    pub(crate) partition: Partition,
    pub(crate) derivation: Arc<Derivation>,
    pub(crate) options: Options,
    /// Everything that is derived from the partition's log.
    pub(crate) derived: Arc<DerivedPartition<Derivation>>,
    /// The followers of each workspace.
    pub(crate) watchers: Watchers,
    pub(crate) metrics: PartitionMetrics,
    pub(crate) fence: Arc<Fence>,
    pub(crate) clock: Arc<EventClock>,
    pub(crate) sweeper: Sweeper,
}

impl RunningPartition {
    /// The time of the event before `next`, from the log; zero if there is none.
    pub(super) async fn time_before(&self, next: PartitionOffset) -> Result<Timestamp, LogError> {
        let Some(last) = PartitionOffset::new(next.get() - 1) else { return Ok(Timestamp::from_millis(0)) };
        let read = self.log.read(self.partition, last, ReadLimit::entries(1)).await?;
        let entry = read.iter().next();
        let missing =
            || LogError::Corrupt(format!("event {last} of partition {} is missing", self.partition));
        entry.map(|(_, entry)| entry.time()).ok_or_else(missing)
    }
}

impl Derived for RunningPartition {
    type Values = Values;

    async fn read(self: Arc<Self>, workspaces: Vec<WorkspaceId>) -> Vec<Result<Option<Numbers>, ReadError>> {
        self.derived.read_numbers(&workspaces).await
    }

    fn publish(&self, committed: &Committed<'_>, values: Values) {
        self.derived.publish(committed, values);
        self.watchers.wake(committed.numbers().map(|(workspace, _)| workspace));
    }

    fn backlog(&self) -> Option<Busy> {
        self.derived.backlog()
    }

    fn subscribe(&self) -> watch::Receiver<()> {
        self.derived.changes.subscribe()
    }

    fn recover(self: Arc<Self>, recovery: Recovery) {
        let recovering = recovery::start(self.derived.clone(), recovery);
        let env = self.env.clone();
        drop(env.spawn(async move {
            recovering.await;
            self.watchers.wake_all();
        }));
    }
}
